"""Codex's own sandbox: which mode a run gets, and whether this machine can provide it."""

import os
import sys
from collections.abc import Mapping

from bridle.core.errors import GuardRefused, UnsupportedOption
from bridle.core.files import cached_text
from bridle.core.options import RunOptions
from bridle.runtimes.codex.dialects import CodexDialect
from bridle.runtimes.codex.install import private_folder
from bridle.runtimes.install import Installation

READ_ONLY = "read-only"
WORKSPACE_WRITE = "workspace-write"
FULL_ACCESS = "danger-full-access"

_SANDBOX_WORDS = ("bwrap", "bubblewrap", "namespace", "landlock", "seccomp")


def sandbox_mode(options: RunOptions) -> str:
    """The value of Codex's `-s` for `options`.

    `exec` never asks anybody: what its sandbox does not allow is refused. So `ask` may only read,
    unless the caller names a wider sandbox, and never runs without one.
    """
    bypass = options.permission_mode == "bypass"
    if options.sandbox == "commit" and not options.ignore_unsupported:
        raise UnsupportedOption(
            "codex",
            "sandbox=commit",
            [],
            reason="its sandbox opens the worktree or nothing",
            ignorable=True,
        )
    if options.sandbox == "off":
        if not bypass and not options.ignore_unsupported:
            raise UnsupportedOption(
                "codex",
                "sandbox=off with permission ask",
                [],
                reason="here Codex asks at most about what its sandbox does not allow, so nothing "
                "would hold it; give permission bypass with it",
                ignorable=True,
            )
        return FULL_ACCESS if bypass else READ_ONLY
    if options.sandbox in ("read-only", "commit"):
        return READ_ONLY
    if options.sandbox == "worktree" or bypass:
        return WORKSPACE_WRITE
    return READ_ONLY


def live_mode(options: RunOptions) -> tuple[str, str]:
    """Sandbox and approval policy of a conversation, which can ask.

    A yes of the person's lets a command leave the sandbox, so where the caller named a sandbox
    nothing is asked and it holds, as in `exec`. Else `ask` has everything asked that does more
    than read.
    """
    if options.permission_mode == "bypass" or options.sandbox not in (None, "off"):
        return sandbox_mode(options), "never"
    return (FULL_ACCESS if options.sandbox == "off" else WORKSPACE_WRITE), "untrusted"


def terminal_mode(options: RunOptions) -> tuple[str, str]:
    """Sandbox and approval policy of the terminal interface.

    There Codex asks only about what its sandbox does not allow. So `ask` gets a sandbox in which it
    can only read: every change of a file is asked about, or fails. A sandbox that the caller named
    holds and nothing is asked, as in `live_mode`.
    """
    asks = options.permission_mode == "ask" and options.sandbox is None
    return sandbox_mode(options), "on-request" if asks else "never"


UNASKED = "codex: nobody is asked before it changes files in its worktree"
"""The warning about a sandbox that was named where `ask` was meant to ask."""


def check_sandbox(found: Installation, dialect: CodexDialect, env: Mapping[str, str]) -> None:
    """Raise `GuardRefused` when Codex's sandbox cannot work on this machine.

    Without it every command of the agent fails while the run still ends "well". A machine that
    passed is remembered; one that did not is tried again each time.
    """
    if sys.platform != "linux":
        return
    complaint = ""

    def ask() -> str | None:
        nonlocal complaint
        complaint = _complaint(found, dialect, env)
        return None if complaint else "works"

    cached_text(_machine_key(found), ask)
    if complaint:
        raise GuardRefused(
            f"codex cannot build its sandbox here: {complaint}",
            hint="allow unprivileged user namespaces, or run with --sandbox off where the machine "
            "itself is the sandbox",
            runtime="codex",
        )


def _complaint(found: Installation, dialect: CodexDialect, env: Mapping[str, str]) -> str:
    """What the sandbox complains of; empty when it works or something else is wrong.

    Asked in an empty home, so that the user's is neither read nor written.
    """
    import shutil
    import subprocess

    home = private_folder(env, f"probe-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        os.makedirs(home, mode=0o700)
        done = subprocess.run(
            (*found.command, *dialect.sandbox_probe),
            env={**env, "CODEX_HOME": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    finally:
        shutil.rmtree(home, ignore_errors=True)
    text = (done.stderr + done.stdout).decode(errors="replace")
    if done.returncode == 0 or not any(word in text.lower() for word in _SANDBOX_WORDS):
        # What else may be wrong is better told by the run itself.
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if any(word in line.lower() for word in _SANDBOX_WORDS):
            return line[:300]
    return lines[-1][:300]


def _machine_key(found: Installation) -> str:
    """Changes when the binary, the boot, or the container around us does."""
    facts = ["codex-sandbox", os.path.realpath(found.binary), found.version or ""]
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            facts.append(file.read().strip())
        facts += [os.readlink("/proc/self/ns/user"), os.readlink("/proc/self/ns/mnt")]
    except OSError:
        pass
    return ":".join(facts)
