"""`bridle config`: the values that apply here and their sources, mistakes, and a first file."""

import argparse
import os
import sys

from bridle.cli.output import one_line, write_json
from bridle.cli.parsing import Verbs
from bridle.core.errors import BridleError, ConfigError, WrongUse

TEMPLATE = """\
# Configuration of Bridle. Every key: docs/configuration.md; `bridle config check` finds mistakes.
# Remove the `#` in front of a key to set it; the values below are examples or defaults.

#runtime:
#  default: claude            # the agent for runs that do not name one
#  adapters:
#    codex:
#      model: fast            # model or alias for runs that do not name one
#    my-agent:                # your own runtime: any CLI, or any agent that speaks ACP
#      binary: ./bin/my-agent
#      protocol: acp

#providers:
#  gateway:
#    baseUrl: https://models.example.com
#    authTokenEnv: GATEWAY_KEY   # the name of a variable; keys do not belong in this file

#models:
#  fast: claude-haiku-4-5
#  big: gateway/some-model

#budgets:
#  runUsd: 2.0
#  runSeconds: 1800

#guards:
#  qualityGates: ["make test"]
#  allowCommands: []

#sessions:
#  permission: 300            # seconds until a request without an answer is refused
#  daemonIdle: 300

#hooks:
#  SessionStop: ["notify-send 'an agent is done'"]
"""
"""A commented file: keys have a `#` in front, explanations a `#` and a space."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `bridle config`."""
    verbs = Verbs(parser)
    show = verbs.add(
        "show",
        "show the values that apply here, and where each comes from",
        "bridle config show",
        "bridle config show runtime",
    )
    show.add_argument("key", metavar="KEY", nargs="?", help="only this key and those below it")
    show.add_argument("-c", "--cwd", metavar="D", help="the folder to look from (default: here)")
    check = verbs.add(
        "check",
        "find the mistakes in all files, with file and line",
        "bridle config check",
        description="Find the mistakes in all configuration files that apply here, each with file "
        "and line; exit 0 without mistakes, 2 with some.",
    )
    check.add_argument("-c", "--cwd", metavar="D", help="the folder to look from (default: here)")
    init = verbs.add(
        "init",
        "create a commented .bridle/config.yaml",
        "bridle config init",
        description="Create a commented configuration file, .bridle/config.yaml of this project. A "
        "folder with .bridle keeps its own sessions. An existing file is never changed.",
    )
    init.add_argument(
        "--user", action="store_true", help="create the user's own file instead of the project's"
    )


def execute(args: argparse.Namespace) -> int:
    """Show, check or create."""
    return {"show": _show, "check": _check, "init": _init}[args.verb](args)


def _show(args: argparse.Namespace) -> int:
    import msgspec

    from bridle.config import load_config
    from bridle.config.load import effective_settings

    settings = effective_settings(_folder(args))
    if args.key is not None:
        below = f"{args.key}."
        found = [each for each in settings if each.key == args.key or each.key.startswith(below)]
        if not found:
            from bridle.cli.parsing import unknown

            keys = [each.key for each in settings]
            raise unknown("key, or one that is not set", args.key, keys, "docs/configuration.md")
        settings = found
    if args.json:
        files = load_config(_folder(args)).files
        write_json({"files": files, "settings": settings})
        return 0
    width = max((len(each.key) for each in settings), default=0)
    for each in settings:
        value = each.value if isinstance(each.value, str) else None
        shown = value if value is not None else msgspec.json.encode(each.value).decode()
        source = each.source if each.line is None else f"{each.source}:{each.line}"
        sys.stdout.write(f"{each.key:<{width}}  {one_line(shown)}  ({source})\n")
    return 0


def _check(args: argparse.Namespace) -> int:
    from bridle.config import load_config
    from bridle.config.load import project_file, user_file
    from bridle.runtimes.registry import get_adapter

    folder = _folder(args)
    named = (project_file(folder or os.curdir), user_file(os.environ))
    files = [path for path in named if path is not None and os.path.lexists(path)]
    problems: list[str] = []
    try:
        get_adapter(None, load_config(folder))
    except BridleError as problem:
        problems = problem.message.split("\n")
        if not isinstance(problem, ConfigError):
            problems = [f"runtime.default: {problem.message}"]
    if args.json:
        write_json({"files": files, "problems": [_problem(each) for each in problems]})
    else:
        for each in problems:
            sys.stdout.write(f"{one_line(each)}\n")
        if not problems:
            what = ", ".join(files) or "there is no configuration file"
            sys.stdout.write(f"no mistakes: {what}\n")
    return 2 if problems else 0


def _problem(text: str) -> dict[str, str | int | None]:
    """The parts of a line `FILE:LINE: what`."""
    import re

    found = re.match(r"(?P<file>.+?):(?P<line>\d+): (?P<what>.*)", text)
    if found is None:
        return {"file": None, "line": None, "message": text}
    return {"file": found["file"], "line": int(found["line"]), "message": found["what"]}


def _init(args: argparse.Namespace) -> int:
    from bridle.config.load import new_project_file, user_file

    path = user_file(os.environ) if args.user else new_project_file(os.curdir)
    if os.path.lexists(path):
        raise WrongUse(f"{path} exists", hint="`bridle config show` shows what it says")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except OSError as problem:
        raise WrongUse(f"cannot write {path}: {problem.strerror}") from None
    if args.json:
        write_json({"file": path})
    else:
        sys.stdout.write(f"{path}\n")
    return 0


def _folder(args: argparse.Namespace) -> str | None:
    if args.cwd is not None and not os.path.isdir(args.cwd):
        raise WrongUse(f"no such directory: {args.cwd}")
    return str(args.cwd) if args.cwd is not None else None
