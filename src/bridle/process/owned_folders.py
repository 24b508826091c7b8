"""Folders that belong to one run, and what is left of them when the run was killed.

A run removes its folders at its end. So that they do not stay for ever when it has none (SIGKILL, a
power cut), a file beside each folder names the process that owns it, and the next run in the same
place removes those whose owner is gone. Folders of sessions have no such file: a session outlives
the process that made them, and its driver removes them.
"""

import contextlib
import os

from bridle.core.files import write_new
from bridle.process.process_tree import look

_SUFFIX = ".owner"
_LONGEST = 200
"""Bytes of an owner's file that are read."""


def claim_folders(folders: tuple[str, ...]) -> None:
    """Note that this process owns `folders`, after removing what dead owners left beside them."""
    if not folders:
        return
    for parent in {os.path.dirname(folder) for folder in folders}:
        sweep(parent)
    process = look(os.getpid())
    if process is None:
        return
    for folder in folders:
        # Without it the folder is only not swept; a run does not fail for that.
        with contextlib.suppress(OSError):
            write_new(folder + _SUFFIX, f"bridle {process.pid} {process.started}\n")


def remove_folders(folders: tuple[str, ...]) -> None:
    """Remove folders that were made for one run, with all in them. A hold on a repository
    (`core.git_hold`) is released first, and stays when it cannot be released in full."""
    if not folders:
        return
    # Costs more to import than the rest of a run's end, and most runs have no such folder.
    import shutil

    from bridle.core.git_hold import is_hold, release

    for folder in folders:
        if is_hold(folder):
            release(folder)
        if not is_hold(folder):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(folder + _SUFFIX)


def sweep(parent: str) -> None:
    """Remove the folders in `parent` whose owner is gone."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    left = [os.path.join(parent, name) for name in names if name.endswith(_SUFFIX)]
    remove_folders(tuple(path.removesuffix(_SUFFIX) for path in left if _is_orphan(path)))


def _is_orphan(path: str) -> bool:
    """Whether an owner's file is ours and the process that it names is gone."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return False
            word, pid, started = file.read(_LONGEST).split(maxsplit=2)
    except (OSError, ValueError):
        return False
    if word != "bridle" or not pid.isdigit():
        return False
    owner = look(int(pid))
    return owner is None or owner.started != started.strip()
