"""OS confinement under the guard: the kernel refuses what judging a call cannot see.

An agent may read everything, and write only where its policy says. Three mechanisms, each used
where the kernel has it, all through Python's ctypes, with no compiled code and no extra program:

- a mount namespace in which everything else is read-only, which also stops changes of mode, owner
  and times outside;
- Landlock, which enforces the same limit without namespaces;
- a small seccomp filter that closes the ways around both: new Unix sockets (tmux, docker, ssh-agent
  would run commands unconfined on the agent's behalf) and io_uring.

`policy` says what may be written, `preflight` what this machine can enforce, `confine` turns a
process into a confined one.
"""

from bridle.sandbox.policy import SandboxNeeds, SandboxPolicy, cannot_hold, policy_for
from bridle.sandbox.preflight import Enforcement, preflight
from bridle.sandbox.process import confine, warnings_of

__all__ = [
    "Enforcement",
    "SandboxNeeds",
    "SandboxPolicy",
    "cannot_hold",
    "confine",
    "policy_for",
    "preflight",
    "warnings_of",
]
