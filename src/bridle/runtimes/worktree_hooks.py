"""The guard's files in a worktree, for agents that are started there by hand.

Contract of every function: it may be repeated and undone. Content by others is kept, or is an
error. Nothing is written through a link or into a file under version control. Bridle's own content
holds `mark`.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused, WrongUse
from bridle.core.files import write_atomic, write_private
from bridle.core.git import hide_from_status, is_tracked, show_in_status
from bridle.runtimes.options import with_hooks

_BEFORE, _WRITTEN = "settings-before", "settings-written"
"""In the guard's own folder: the settings as they were found, and as they were left."""


def put_plugin(worktree: str, name: str, code: str | None, mark: str) -> str:
    """Write Bridle's plugin as the file `name` of the worktree, or remove it (None). Returns its
    path.

    A copy is kept in the guard's folder, which is `mark`: by it a run recognises the plugin.
    """
    root, path = _checked(worktree, name)
    if os.path.lexists(path) and mark.encode() not in _bytes_of(path):
        raise WrongUse(f"{path} does not belong to the guard", hint="move it away")
    if code is None:
        if os.path.exists(path):
            os.unlink(path)
            _remove_empty(os.path.dirname(path), root)
        show_in_status(root, name)
        return path
    write_private(mark, os.path.basename(name), code)
    _replace(path, code.encode())
    hide_from_status(root, name)
    return path


def put_hooks(
    worktree: str,
    name: str,
    entries: dict[str, list[Any]] | None,
    mark: str,
    *,
    runtime: str,
    switched_off: Callable[[dict[str, Any]], bool],
) -> str:
    """Add `entries` to the `hooks` of the settings `name` of the worktree, or remove Bridle's
    (None). Returns the path of the settings. Raises `GuardRefused` where they switch all hooks
    off."""
    root, path = _checked(worktree, name)
    there = os.path.exists(path)
    settings = _settings(path) if there else {}
    if entries is not None and switched_off(settings):
        raise GuardRefused(
            f"{path} switches all hooks off", hint="switch them on there", runtime=runtime
        )
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise WrongUse(f"{path}: its hooks are not what {runtime} reads", hint="repair the file")
    ours = msgspec.json.encode(mark)[1:-1]
    kept = {
        event: [entry for entry in there if ours not in msgspec.json.encode(entry)]
        for event, there in hooks.items()
    }
    kept = {event: there for event, there in kept.items() if there}
    held = any(ours in msgspec.json.encode(entry) for each in hooks.values() for entry in each)
    if there and entries is not None and not held:
        # Nothing of Bridle's yet: undoing restores this, unless others change the file.
        write_private(mark, _BEFORE, _bytes_of(path))
    rest = {key: value for key, value in settings.items() if key != "hooks"}
    whole = with_hooks({**rest, "hooks": kept}, entries or {})
    if not whole["hooks"]:
        del whole["hooks"]
    if entries is None and there and _is_ours(path, mark):
        _replace(path, _bytes_of(os.path.join(mark, _BEFORE)))
    elif whole:
        text = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
        _replace(path, text)
        if entries is not None:
            write_private(mark, _WRITTEN, text)
    elif os.path.exists(path):
        # It contained only Bridle's content.
        os.unlink(path)
        _remove_empty(os.path.dirname(path), root)
    if entries is None:
        show_in_status(root, name)
    elif not settings:
        hide_from_status(root, name)
    return path


def _is_ours(path: str, folder: str) -> bool:
    """Whether the settings at `path` are as they were written, over a file that is kept."""
    try:
        written = _bytes_of(os.path.join(folder, _WRITTEN))
    except OSError:
        return False
    return _bytes_of(path) == written and os.path.exists(os.path.join(folder, _BEFORE))


def _checked(worktree: str, name: str) -> tuple[str, str]:
    root = os.path.realpath(worktree)
    path = os.path.join(root, name)
    if os.path.realpath(path) != path:
        raise WrongUse(f"{name} leads elsewhere by a symbolic link", hint="remove the link")
    if is_tracked(root, name):
        raise WrongUse(
            f"{name} is under version control", hint="start the agent with Bridle instead"
        )
    return root, path


def _settings(path: str) -> dict[str, Any]:
    try:
        return structs.decode(_bytes_of(path), dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"cannot read {path}: {problem}", hint="repair the file") from None


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _replace(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomic(path, data, mode=0o666, keep_mode=True)


def _remove_empty(folder: str, root: str) -> None:
    while folder != root and not os.listdir(folder):
        os.rmdir(folder)
        folder = os.path.dirname(folder)
