"""Restricts itself, then becomes the agent. Run by path, standard library only.

    python -I -S launcher.py POLICY -- program arguments…

POLICY is JSON: {"writable": [dirs], "files": [files], "protected": [paths],
"own": [[dir, seen at]], "views": [[dir, seen at]], "hide": [dirs], "mark": text, "mounts": bool,
"landlock": bool, "seccomp": bool}.

If anything required cannot be enforced, it exits with status 126 and a line on stderr before the
program is started: missing confinement must never look like confinement.
"""

import ctypes
import json
import os
import select
import signal
import stat
import struct
import sys
import time
from typing import Any, NoReturn

REFUSED = 126

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_MOUNTING = (18, 19, 21, 27)
"""Capabilities to change root, trace processes, mount, and make devices."""
_SECCOMP_MODE_FILTER = 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
_MAKE = sum(1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MOUNT_SETATTR, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = 442, 0x8000, 1
_AT_FDCWD = -100


class Refusal(Exception):
    """A required restriction cannot be enforced here."""


def main(argv: list[str]) -> NoReturn:
    """Confine this process by the settings in `argv` and become the program."""
    try:
        split = argv.index("--")
        policy: dict[str, Any] = json.loads(argv[0])
        program = argv[split + 1 :]
        apply(policy)
        os.execvpe(program[0], program, os.environ)
    except Exception as problem:  # whatever went wrong, nothing may start unconfined
        sys.stderr.write(f"bridle sandbox: {type(problem).__name__}: {problem}\n")
        sys.exit(REFUSED)


def apply(policy: dict[str, Any]) -> None:
    """Enforce the policy on this process and everything it will start."""
    writable = [path for path in policy["writable"] if os.path.isdir(path)]
    files = [path for path in policy["files"] if os.path.exists(path)]
    if policy["mounts"]:
        make_read_only(policy, writable, files)
    _call(_libc.prctl, "no_new_privs", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if policy["landlock"]:
        if not policy["mounts"]:
            start_keeper()
        shared = [path for path in (_SHARED_MEMORY,) if os.path.isdir(path)]
        seen = [target for _, target in policy["own"]]
        restrict_writes([*writable, *seen, *shared], files)
    if policy["seccomp"]:
        close_doors()


# -- Landlock -------------------------------------------------------------------------------------


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 when it has none."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(0, int(version))


def restrict_writes(writable: list[str], files: list[str]) -> None:
    """Refuse every write except below `writable` and to `files`."""
    version = landlock_version()
    if version < 1:
        raise Refusal("this kernel has no Landlock")
    rights = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE
    file_rights = _WRITE_FILE
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
        file_rights |= _TRUNCATE
    scoped = _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if version >= 6 else 0
    attribute = struct.pack("=QQQ", rights, 0, scoped)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _syscall("create_ruleset", _CREATE_RULESET, attribute, ctypes.c_size_t(size), 0)
    try:
        for path in writable:
            _allow(ruleset, path, rights)
        for path in files:
            _allow(ruleset, path, file_rights)
        _syscall("restrict_self", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _WRITE_FILE | _TRUNCATE
        rule = struct.pack("=Qi", rights, fd)
        _syscall(f"add_rule {path}", _ADD_RULE, ruleset, 1, rule, 0)
    finally:
        os.close(fd)


# -- the keeper -----------------------------------------------------------------------------------

_PR_SET_NAME = 15
_SIGNAL_SCOPE = 6
"""The first Landlock version that keeps a process from signalling others outside its domain."""
KEEPER = "bridle-keeper"
"""The name by which the processes of a run are ended; see `process.process_tree`."""
_POLITE, _LONGEST = 1.0, 3.0
"""Seconds from SIGTERM to SIGKILL, and until the keeper gives up."""


class _Signalled(Exception):
    """The keeper must end everything, immediately if `now`."""

    def __init__(self, now: bool) -> None:
        self.now = now


def start_keeper() -> None:
    """Start a keeper process that ends what is left of the run when this one, the agent, is gone.

    A process can empty its environment, leave its group and lose its parents, but not its Landlock
    domain. The keeper is in a domain around the agent's: the kernel lets it signal the run's
    processes and no other, and none of them can signal the keeper. Does nothing on a kernel that
    does not restrict signals.
    """
    if landlock_version() < _SIGNAL_SCOPE:
        return
    parent, agent = os.getppid(), os.getpid()
    attribute = struct.pack("=QQQ", 0, 0, _SCOPE_SIGNAL)
    ruleset = _syscall("create_ruleset", _CREATE_RULESET, attribute, ctypes.c_size_t(24), 0)
    try:
        _syscall("restrict_self", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    if not _is_outside(parent):
        return
    gone = os.pidfd_open(agent)
    child = os.fork()
    if child == 0:
        # Forks twice, so that the agent has no child that it does not know about.
        if os.fork() == 0:
            try:
                _keep(gone, parent)
            finally:
                os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(gone)


def _is_outside(parent: int) -> bool:
    """Whether the kernel really keeps this process from signalling those outside."""
    for pid in (parent, 1):
        try:
            os.kill(pid, 0)
        except PermissionError:
            continue
        except ProcessLookupError:
            continue
        return False
    return True


def _keep(gone: int, parent: int) -> None:
    os.setsid()
    _libc.prctl(_PR_SET_NAME, KEEPER.encode(), 0, 0, 0)
    # A reader of the agent's output waits until the last process closes it.
    gone = os.dup2(gone, 3)
    os.closerange(4, 1 << 16)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    now = False
    try:
        signal.signal(signal.SIGTERM, _on_signal)
        signal.signal(signal.SIGQUIT, _on_signal)
        waiting = select.poll()
        waiting.register(gone, select.POLLIN)
        waiting.poll()
    except _Signalled as signalled:
        now = signalled.now
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    _end_all(parent, now)


def _on_signal(number: int, frame: object) -> NoReturn:
    raise _Signalled(number == signal.SIGQUIT)


def _end_all(parent: int, now: bool) -> None:
    """End every process of the run: by SIGTERM unless `now`, then by SIGKILL."""
    began = time.monotonic()
    if not now and not _signalled(parent, signal.SIGTERM):
        return
    while not now and time.monotonic() < began + _POLITE and _signalled(parent, 0):
        time.sleep(0.02)
    while time.monotonic() < began + _LONGEST and _signalled(parent, signal.SIGKILL):
        time.sleep(0.01)


def _signalled(parent: int, number: int) -> bool:
    """Signal all processes that the kernel lets this one signal: those of the run. Returns whether
    there were any."""
    if not _is_outside(parent):
        return False
    any_there = False
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            os.kill(int(name), number)
            with open(f"/proc/{name}/stat", "rb") as file:
                any_there |= file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
        except (OSError, IndexError):
            continue
    return any_there


# -- mount namespace ------------------------------------------------------------------------------


_SHARED_MEMORY = "/dev/shm"


def make_read_only(policy: dict[str, Any], writable: list[str], files: list[str]) -> None:
    """Show the whole file system read-only except `writable` and `files`.

    Inside those, `protected` stays read-only. Each folder of `views` is visible read-only at its
    second path, each folder of `own` is writable at its second path, and `hide` is empty. Shared
    memory is private, and so are terminals unless the process is attached to one.
    """
    uid, gid = os.getuid(), os.getgid()
    spaces = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWIPC
    _call(_libc.unshare, "new user, mount and IPC namespaces", spaces)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    # Devices accept writes on a read-only mount too, and the one that makes terminals fails when it
    # is a separate mount.
    opened = [*writable, *(path for path in files if not _is_device(path))]
    for path in opened:
        _mount(path, path, None, _MS_BIND | _MS_REC)
    _read_only("/", recursive=True)
    for path in opened:
        _read_only(path, recursive=True, undo=True)
    for source, target in policy["views"]:
        _mount(source, target, None, _MS_BIND)
        _read_only(target, recursive=False)
    for source, target in policy["own"]:
        _mount(source, target, None, _MS_BIND)
        _read_only(target, recursive=False, undo=True)
    for path in policy["protected"]:
        # A mount also pins the name: it cannot be removed, renamed or replaced.
        _mount(path, path, None, _MS_BIND | _MS_REC)
        _read_only(path, recursive=True)
    for folder in policy["hide"]:
        if os.path.isdir(folder):
            _mount("none", folder, "tmpfs", _MS_NOSUID | _MS_NODEV)
    if os.path.isdir(_SHARED_MEMORY):
        # The name of this mount is how processes of the run are found again, whatever they do to
        # their environment.
        _mount(policy["mark"], _SHARED_MEMORY, "tmpfs", _MS_NOSUID | _MS_NODEV)
        os.chmod(_SHARED_MEMORY, 0o1777)
    if not any(os.isatty(fd) for fd in range(3)) and os.path.isdir("/dev/pts"):
        _mount("devpts", "/dev/pts", "devpts", _MS_NOSUID, "newinstance,ptmxmode=0666,mode=0620")
    # A process that may mount could make everything writable again. The lower bound takes effect
    # at exec, for root too.
    for capability in _MOUNTING:
        _call(_libc.prctl, "drop a capability", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    # The working directory still points into the old, writable view.
    os.chdir(os.getcwd())


def _is_device(path: str) -> bool:
    """Whether `path` is a device, or the folder of terminals."""
    return path == "/dev/pts" or stat.S_ISCHR(os.stat(path).st_mode)


def _read_only(path: str, *, recursive: bool, undo: bool = False) -> None:
    attributes = struct.pack(
        "=QQQQ", 0 if undo else _MOUNT_ATTR_RDONLY, _MOUNT_ATTR_RDONLY if undo else 0, 0, 0
    )
    _syscall(
        f"mount_setattr {path}",
        _MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE if recursive else 0,
        attributes,
        ctypes.c_size_t(len(attributes)),
    )


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    _call(
        _libc.mount,
        f"mount {target}",
        os.fsencode(source) if source else None,
        os.fsencode(target),
        os.fsencode(kind) if kind else None,
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


# -- seccomp --------------------------------------------------------------------------------------

_ARCHES = {
    "x86_64": (0xC000003E, {"socket": 41, "socketpair": 53, "ioctl": 16, "prlimit64": 302}),
    "aarch64": (0xC00000B7, {"socket": 198, "socketpair": 199, "ioctl": 29, "prlimit64": 261}),
}
"""Audit architecture, and numbers of system calls that differ by it."""
_IO_URING_SETUP = 425
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LD, _AND, _JEQ, _JGE, _RET = 0x20, 0x54, 0x15, 0x35, 0x06
_X32_BIT = 0x40000000
_AF_UNIX, _SOCK_DGRAM, _SOCK_KIND = 1, 2, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_Step = tuple[int, int, int, int]


def _argument(number: int, high: bool = False) -> _Step:
    """Load one half of an argument of the system call; both machines are little-endian."""
    return (_LD, 0, 0, 16 + 8 * number + 4 * high)


def _when(number: int, *body: _Step) -> list[_Step]:
    """What to do at the system call `number`; `body` must end in a return."""
    return [(_JEQ, 0, len(body), number), *body]


def close_doors() -> None:
    """Refuse system calls that reach around the file system.

    These are new Unix sockets, datagram socket pairs (they send to any path), io_uring, system
    calls of a foreign architecture, limits of other processes, and input pushed into a terminal.
    """
    known = _ARCHES.get(os.uname().machine)
    if known is None:
        raise Refusal(f"no seccomp filter for {os.uname().machine}")
    audit_arch, numbers = known
    allow, refuse = (_RET, 0, 0, _ALLOW), (_RET, 0, 0, _ERRNO | _EPERM)
    no_family, missing = (_RET, 0, 0, _ERRNO | _EAFNOSUPPORT), (_RET, 0, 0, _ERRNO | _ENOSYS)
    program: list[_Step] = [
        (_LD, 0, 0, 4),
        (_JEQ, 1, 0, audit_arch),
        missing,
        (_LD, 0, 0, 0),
        (_JGE, 0, 1, _X32_BIT),
        missing,
        *_when(_IO_URING_SETUP, missing),
        *_when(numbers["socket"], _argument(0), (_JEQ, 0, 1, _AF_UNIX), no_family, allow),
        *_when(
            numbers["socketpair"],
            _argument(0),
            (_JEQ, 0, 4, _AF_UNIX),
            _argument(1),
            (_AND, 0, 0, _SOCK_KIND),
            (_JEQ, 0, 1, _SOCK_DGRAM),
            no_family,
            allow,
        ),
        *_when(
            numbers["prlimit64"],
            _argument(0),
            (_JEQ, 5, 0, 0),  # process 0 is the caller itself
            _argument(2),
            (_JEQ, 0, 2, 0),  # without new limits the call only reads
            _argument(2, high=True),
            (_JEQ, 1, 0, 0),
            refuse,
            allow,
        ),
        *_when(
            numbers["ioctl"],
            _argument(1),
            (_JEQ, 1, 0, _TIOCSTI),
            (_JEQ, 0, 1, _TIOCLINUX),
            refuse,
            allow,
        ),
        allow,
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HxxxxxxP", len(program), ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    _call(
        _libc.prctl,
        "seccomp",
        _PR_SET_SECCOMP,
        ctypes.c_ulong(_SECCOMP_MODE_FILTER),
        ctypes.c_void_p(ctypes.addressof(holder)),
        0,
        0,
    )


def _syscall(what: str, number: int, *arguments: Any) -> int:
    return _call(_libc.syscall, what, ctypes.c_long(number), *arguments)


def _call(function: Any, what: str, *arguments: Any) -> int:
    result = function(*arguments)
    if result < 0:
        raise Refusal(f"{what}: {os.strerror(ctypes.get_errno())}")
    return int(result)


if __name__ == "__main__":
    main(sys.argv[1:])
