"""Finding Codex: the native binary behind npm's launcher, and the user's configuration home."""

import os
from collections.abc import Mapping

from bridle.core.errors import WrongUse
from bridle.core.files import run_dir
from bridle.core.options import RunOptions
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    npm_platform,
    package_version,
    remembered_version,
)

PACKAGE = "@openai/codex"
_TRIPLES = {
    "linux-x64": "x86_64-unknown-linux-musl",
    "linux-arm64": "aarch64-unknown-linux-musl",
    "darwin-x64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}


def find_codex(name: str) -> Installation | None:
    """The installed Codex, None when there is none.

    npm puts a script of Node's in front of the real program: it costs a tenth of a second and
    42 MB, and killing it leaves the program running. So the program itself is started, and the
    script only where the program cannot be found.
    """
    found = find_executable(name)
    if found is None:
        return None
    binary = native_binary(found) or found
    version = package_version(binary, PACKAGE) or package_version(found, PACKAGE)
    if version is None:
        version = remembered_version(binary, lambda: ask_version((binary,)))
    else:
        version = version.removesuffix(f"-{npm_platform()}")
    return Installation(binary=binary, version=version)


def native_binary(launcher: str) -> str | None:
    """The program that the npm launcher would start; None when `launcher` is no such launcher."""
    real = os.path.realpath(launcher)
    if not real.endswith(".js"):
        return None
    package = os.path.dirname(os.path.dirname(real))
    platform = npm_platform()
    homes = (
        os.path.join(os.path.dirname(package), f"codex-{platform}"),
        os.path.join(package, "node_modules", "@openai", f"codex-{platform}"),
        package,
    )
    for home in homes:
        for folder in ("bin", "codex"):
            candidate = os.path.join(home, "vendor", _TRIPLES[platform], folder, "codex")
            if os.access(candidate, os.X_OK):
                return candidate
    return None


def helper_dir(found: Installation, name: str) -> str | None:
    """The folder of helper programs called `name` beside the native binary, if there is one."""
    folder = os.path.join(os.path.dirname(os.path.dirname(found.binary)), name)
    return folder if name and os.path.isdir(folder) else None


def codex_home(env: Mapping[str, str]) -> str:
    """The configuration home that Codex uses in the environment `env`."""
    own = env.get("CODEX_HOME")
    return own or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".codex")


def chosen_home(options: RunOptions, env: Mapping[str, str]) -> str:
    """The configuration home of a run on the user's own account."""
    if options.account_dir is None:
        return codex_home(env)
    home = os.path.abspath(os.path.expanduser(options.account_dir))
    if not os.path.isdir(home):
        raise WrongUse(f"no such account folder: {home}", hint="log in there first")
    return home


def private_folder(env: Mapping[str, str], session_id: str) -> str:
    """Where a run keeps files of its own; not below a temp folder, which Codex warns of and
    which its sandbox leaves writable to the agent. Made by the caller, when it needs it."""
    return os.path.join(run_dir(env), f"codex-{session_id}")
