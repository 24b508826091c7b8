"""The environment Cline runs in, and what a prompt brings along."""

import os
import shutil
from collections.abc import Mapping

from bridle.core.errors import WrongUse
from bridle.core.options import RunOptions
from bridle.runtimes.cline import settings
from bridle.runtimes.cline.dialects import ClineDialect
from bridle.runtimes.user_files import image_data


def base_env(options: RunOptions, env: Mapping[str, str], dialect: ClineDialect) -> dict[str, str]:
    """The user's environment with the work kept in the process, and the account asked for."""
    variable, value = dialect.local_backend
    base = {**env, variable: value}
    if options.account_dir is not None:
        folder = os.path.abspath(os.path.expanduser(options.account_dir))
        if not os.path.isdir(folder):
            raise WrongUse(f"no such account folder: {folder}", hint="log in there first")
        for name in ("CLINE_DATA_DIR", "CLINE_SESSION_DATA_DIR", settings.PROVIDERS[0]):
            base.pop(name, None)
        base["CLINE_DIR"] = folder
    return base


def image_words(paths: tuple[str, ...], folder: str) -> str:
    """What stands before a prompt to put images into it: Cline reads files that are mentioned.

    Copies under plain names: a path with a space in it cannot be mentioned.
    """
    words = []
    for number, path in enumerate(paths, 1):
        kind, _ = image_data(path, "cline")
        copy = os.path.join(folder, f"image-{number}.{kind.partition('/')[2]}")
        shutil.copyfile(os.path.expanduser(path), copy)
        words.append(f"@{copy}")
    return " ".join(words) + "\n\n" if words else ""
