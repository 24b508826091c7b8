"""The files of one guard, in a private folder that a confined agent cannot write.

The folder holds the hook's script, the settings of the fallback judge, and, for a session, the
notes: each verdict is appended there before the hook gets it. A session outlives its driver, so the
driver reads the verdicts from that file, whether a host or the fallback judge gave them. Hooks ask
the process that their script names; while there is none, or it is gone, the fallback judge answers
them by the policy in the folder. So the agent of a session is guarded at every moment.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.core.files import write_atomic
from bridle.guard.hooks.hook_script import SECONDS, answer_path, hook_command, hook_script
from bridle.guard.policy import Policy
from bridle.turns.guard_contract import (
    NOTES,
    GuardAddress,
    GuardMechanism,
    HookNote,
    HookShape,
    current_note,
)

LONGEST_ARGS = 4096
"""Bytes of a call's arguments that are kept with its verdict; longer ones are left out."""
OUTSIDE = "/bridle-guard-canary"
"""A path that no policy allows an agent to write; nothing is ever written there."""
_PIECE = 1 << 20


class FallbackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the fallback judge reads (`fallback`), and a host that takes over a session."""

    paths: tuple[str, ...]
    """Folders that the fallback judge imports from."""
    policy: Policy
    shape: HookShape
    notes: str = ""
    """The file that verdicts are appended to; empty when nobody reads them."""
    with_args: bool = False
    """Whether the arguments of refused calls are kept with their verdicts."""
    patience: int = SECONDS


class GuardFolder:
    """The paths in a guard's folder, and how its files are written.

    Contract: `path` exists and is private. Files are replaced as a whole, because a hook may read
    them at any moment.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fifo = os.path.join(path, "ask")
        self.script = os.path.join(path, "hook.sh")
        self.settings = os.path.join(path, "fallback.json")
        self.notes = os.path.join(path, NOTES)

    def answer(self, pid: int, key: str) -> str:
        """Where the hook process `pid` looks for the answer to its question `key`."""
        return answer_path(self._answers, pid, key)

    @property
    def _answers(self) -> str:
        return os.path.join(self.path, "answer")

    def write_script(self, shape: HookShape, *, patience: int, hosted: bool) -> None:
        """Write the script of the hooks. They ask this process when it is `hosted` here; else the
        fallback judge answers each call."""
        text = hook_script(
            shape,
            fifo=self.fifo,
            answers=self._answers,
            pid=os.getpid() if hosted else 0,
            born=_start_time() if hosted else "",
            alone=_fallback_command(self.settings),
            seconds=patience,
        )
        write_atomic(self.script, text)

    def write_settings(
        self,
        policy: Policy,
        shape: HookShape,
        *,
        with_notes: bool = False,
        with_args: bool = False,
        patience: int = SECONDS,
    ) -> None:
        """Write the settings of the fallback judge."""
        source = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
        library = os.path.dirname(os.path.dirname(os.path.abspath(msgspec.__file__)))
        settings = FallbackSettings(
            paths=tuple(dict.fromkeys((source, library))),
            policy=policy,
            shape=shape,
            notes=self.notes if with_notes else "",
            with_args=with_args,
            patience=patience,
        )
        write_atomic(self.settings, json.dumps(msgspec.to_builtins(settings)))

    def read_settings(self) -> FallbackSettings:
        """The settings of the fallback judge. Raises `OSError` and `msgspec.MsgspecError`."""
        with open(self.settings, "rb") as file:
            return structs.decode(file.read(), FallbackSettings)

    def command(self, shape: HookShape) -> str:
        """The command of a hook process; see `hook_script`."""
        return hook_command(self.script, shape)


def ask_hook(
    command: str, shape: HookShape, cwd: str, env: Mapping[str, str], *, patience: int = SECONDS
) -> "subprocess.CompletedProcess[bytes]":
    """Run a hook's command on a write to `OUTSIDE`, which nobody makes. Raises `OSError`,
    `subprocess.TimeoutExpired`."""
    payload = {
        shape.event: shape.asks[0],
        shape.tool: "Write",
        shape.input: {"file_path": OUTSIDE, "content": ""},
        shape.cwd: cwd,
    }
    return subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(payload).encode(),
        cwd=cwd,
        env={"PATH": os.environ.get("PATH", os.defpath), **env},
        capture_output=True,
        timeout=2 * patience,
        check=False,
    )


def append_note(path: str, note: HookNote, *, with_args: bool) -> None:
    """Append a note as one line. Raises `OSError` when it cannot be written; the call must then be
    refused. Arguments are kept of refused calls only, and only `with_args`."""
    refused = note.verdict is not None and not note.verdict.allowed
    if not (with_args and refused and len(msgspec.json.encode(note.args)) <= LONGEST_ARGS):
        note = msgspec.structs.replace(note, args=None)
    line = msgspec.json.encode(note) + b"\n"
    # The file is never created here: if it is gone, nobody would read the verdict.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.write(handle, line) != len(line):
            raise OSError("the verdict could not be written")
    finally:
        os.close(handle)


def read_notes(path: str, start: int) -> list[tuple[HookNote, int]]:
    """The notes from byte `start` on, each with the byte where it ends. Lines that are not notes
    are skipped: an agent that escapes its guard can write there, but gains nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(_PIECE)
    except OSError:
        return []
    found = []
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        start += len(line)
        try:
            note = current_note(msgspec.json.decode(line))
            found.append((structs.convert(note, HookNote), start))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found


def _fallback_command(settings: str) -> list[str]:
    """The program that judges one call by the settings in a file; see `fallback`."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fallback.py")
    return [sys.executable, "-I", "-S", program, settings]


def _start_time() -> str:
    """When this process was started, as the kernel counts it; empty where it is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


class SessionHook:
    """The `GuardHook` of a session. It starts nothing: the driver of the session answers its hooks
    (`HookHost.take_session`).

    Contract: `begin` comes after the adapter's calls and before the agent is started. `close` is
    for a session that was not started, and may be called twice.
    """

    stdio = False
    lasting = True

    def __init__(self, folder: str, *, begun: bool = False) -> None:
        """`begun` says that `begin` was called for this folder before: this is the hook of the next
        process of the same session."""
        self.folder = folder
        self.files = GuardFolder(folder)
        self.patience = SECONDS
        """Seconds that a hook waits for an answer before it refuses; set before `begin`."""
        self._offered = begun

    @property
    def writable(self) -> tuple[str, ...]:
        """What a confined agent must be able to write so that its hooks can ask."""
        return (self.files.fifo, self.files.notes) if self._offered else ()

    def command(self, shape: HookShape) -> str:
        """The command of a hook process; see `hook_script`."""
        if not self._offered:
            self._offered = True
            os.mkfifo(self.files.fifo, 0o600)
            write_atomic(self.files.notes, "")
        return self.files.command(shape)

    def address(self) -> GuardAddress:
        """Raises `GuardRefused`: a connection does not outlive the process that answers it."""
        raise GuardRefused(
            "this agent asks over a connection, which does not outlive the process that answers",
            hint="use `bridle run`, or confine it with --sandbox and pass --unguarded",
        )

    def begin(self, mechanism: GuardMechanism, policy: Policy) -> None:
        """Apply the policy, and check that the hook obeys it; raises `GuardRefused` if it does
        not."""
        if not self._offered:
            raise GuardRefused(f"{mechanism.name}: the agent was given nothing to ask")
        self.files.write_settings(
            policy,
            mechanism.shape,
            with_notes=True,
            with_args=not mechanism.tells_refused,
            patience=self.patience,
        )
        self.files.write_script(mechanism.shape, patience=self.patience, hosted=False)
        self._check(mechanism.shape, policy.cwd or policy.worktree)
        write_atomic(self.files.notes, "")

    def _check(self, shape: HookShape, cwd: str) -> None:
        """Ask the hook about a forbidden call."""
        try:
            done = ask_hook(self.command(shape), shape, cwd, {}, patience=self.patience)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise GuardRefused(f"the guard's hook does not run: {problem}") from None
        with open(self.files.notes, "rb") as file:
            noted = file.read()
        # A hook that reached no judge refuses too, but then there is no note.
        if not noted.strip() or done.stdout.strip() == shape.allowed().strip():
            raise GuardRefused("the guard's hook does not judge: a forbidden call was not refused")

    def close(self) -> None:
        """Remove the guard's files."""
        shutil.rmtree(self.folder, ignore_errors=True)
