"""Edits of a configuration file that keep its comments and layout."""

import os
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from bridle.config.yaml_check import read_file, yaml_problem
from bridle.core.errors import ConfigError, WrongUse
from bridle.core.files import make_private_dir, write_atomic


def set_value(path: str, keys: tuple[str, ...], value: str) -> None:
    """Set the value at `keys` in the file at `path`, which is created when it is missing.

    Contract: the file is replaced in one step or not at all; a new file is readable by its owner
    alone, an existing one keeps its mode; a symbolic link stays one. Raises `ConfigError` when the
    file has mistakes, `WrongUse` when it cannot be written.
    """
    target = os.path.realpath(path)
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    old = _read(path, target)
    if old.strip():
        _, problems = read_file(path)
        if problems:
            raise ConfigError("\n".join(problems), hint="fix the file first")
    try:
        root = yaml.load(old)
    except YAMLError as problem:
        raise ConfigError(yaml_problem(path, problem)) from None
    if root is None:
        # Only comments, which ruamel would drop together with the missing document.
        root = CommentedMap()
        lead = old if old.endswith("\n") or not old else old + "\n"
    else:
        lead = ""
    _put(root, keys, value)
    text = StringIO()
    yaml.dump(root, text)
    _replace(path, target, lead + text.getvalue())


def _read(path: str, target: str) -> str:
    try:
        with open(target, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as problem:
        raise WrongUse(f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None


def _put(root: Any, keys: tuple[str, ...], value: str) -> None:
    for key in keys[:-1]:
        if not isinstance(root.get(key), dict):
            root[key] = CommentedMap()
        root = root[key]
    root[keys[-1]] = value


def _replace(path: str, target: str, text: str) -> None:
    try:
        make_private_dir(os.path.dirname(target))
        write_atomic(target, text, keep_mode=True, sync=True)
    except OSError as problem:
        raise WrongUse(f"cannot write {path}: {problem.strerror}") from None
