"""Starts a process under a sandbox policy."""

import json
import sys

import msgspec

from bridle.core.errors import GuardRefused
from bridle.process.process_tree import RUN_MOUNT
from bridle.process.spec import SESSION_MARK, ProcessSpec
from bridle.sandbox.policy import SandboxPolicy
from bridle.sandbox.preflight import LAUNCHER, Enforcement, preflight

WAYS_OUT = ("SSH_AUTH_SOCK", "TMUX", "TMUX_PANE", "DBUS_SESSION_BUS_ADDRESS")
"""Variables that lead to servers which would act unconfined. The sockets are closed anyway; without
the names programs do not even try."""

REFUSED = 126
REFUSAL_LINE = "bridle sandbox: "
"""Exit status of the launcher, and how its last line begins, when it could not confine itself."""


def refuse_if_impossible(can: Enforcement) -> None:
    """Raise `GuardRefused` when a machine that enforces only `can` cannot confine an agent."""
    if not can.holds_writes:
        raise GuardRefused(
            f"this machine cannot confine an agent: {'; '.join(can.gaps)}",
            hint="run with --sandbox off, or on Linux 6.2 or newer",
        )


def confine(
    spec: ProcessSpec, policy: SandboxPolicy, enforcement: Enforcement | None = None
) -> ProcessSpec:
    """`spec` started under `policy`, with everything this machine can enforce.

    The process keeps its pid: the launcher restricts itself and then becomes the agent. Raises
    `GuardRefused` when this machine cannot refuse writes at all.
    """
    can = enforcement or preflight()
    refuse_if_impossible(can)
    settings = {
        "writable": policy.writable,
        "files": policy.files,
        "protected": policy.protected,
        "own": policy.own,
        "views": policy.views,
        "mark": f"{RUN_MOUNT}{spec.env.get(SESSION_MARK, '')}",
        "hide": policy.hide,
        "mounts": can.mounts,
        "landlock": can.landlock,
        "seccomp": can.seccomp,
    }
    # Not msgspec: a path need not be Unicode text.
    argv = (sys.executable, "-I", "-S", LAUNCHER, json.dumps(settings), "--", *spec.argv)
    env = {name: value for name, value in spec.env.items() if name not in WAYS_OUT}
    return msgspec.structs.replace(spec, argv=argv, env=env)


def warnings_of(policy: SandboxPolicy, enforcement: Enforcement) -> tuple[str, ...]:
    """What stays open under `policy` on this machine, for the person who asked for it."""
    gaps = [*enforcement.gaps, *policy.notes]
    if policy.protected and not enforcement.mounts:
        gaps.append(f"no user namespaces: not protected: {', '.join(policy.protected)}")
    if policy.own and not enforcement.mounts:
        shared = ", ".join(path for _, path in policy.own)
        gaps.append(f"no user namespaces: shared with other sessions: {shared}")
    return tuple(f"sandbox: {gap}" for gap in gaps)
