"""Turning a process into a confined one."""

import sys

import msgspec

from bridle.core.errors import GuardRefused
from bridle.drives.spec import ProcessSpec
from bridle.sandbox import launcher
from bridle.sandbox.policy import SandboxPolicy
from bridle.sandbox.preflight import Enforcement, preflight


def confine(
    spec: ProcessSpec, policy: SandboxPolicy, enforcement: Enforcement | None = None
) -> ProcessSpec:
    """`spec` started under `policy`, with everything this machine can enforce.

    The process keeps its pid: the launcher restricts itself and then becomes the agent. Raises
    `GuardRefused` when this machine cannot refuse writes at all.
    """
    can = enforcement or preflight()
    if not can.holds_writes:
        raise GuardRefused(
            f"this machine cannot confine an agent: {'; '.join(can.gaps)}",
            hint="run without --sandbox, or on Linux 6.2 or newer",
        )
    told = {
        "writable": policy.writable,
        "files": policy.files,
        "hide": policy.hide,
        "mounts": can.mounts,
        "landlock": can.landlock,
        "seccomp": can.seccomp,
    }
    text = msgspec.json.encode(told).decode()
    argv = (sys.executable, "-I", "-S", launcher.__file__, text, "--", *spec.argv)
    return msgspec.structs.replace(spec, argv=argv)
