"""The guard of a session, which outlives whoever started it and whoever answers for it.

All of it is in a folder: the hook's script, the policy, the notes (`notes`). Hooks ask the process
that the script names; while there is none, or it is gone, they judge alone by that policy. So there
is no moment in which nobody holds the agent.
"""

import json
import os
import shutil
import subprocess

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_atomic
from bridle.guard.hooks.desk import Answer, Desk
from bridle.guard.hooks.hook_script import SECONDS, hook_command, hook_script
from bridle.guard.hooks.notes import append_note
from bridle.guard.hooks.service import (
    ANSWERS,
    GuardSession,
    JudgeService,
    alone_command,
    alone_settings,
    born,
)
from bridle.guard.hooks.settling import Settling
from bridle.guard.policy import Policy
from bridle.turns.guard_contract import NOTES, GuardAddress, GuardMechanism, HookShape, WireCall

_FIFO, _SCRIPT, _SETTINGS = "ask", "hook.sh", "alone.json"
_OUTSIDE = "/bridle-guard-canary"
"""A path that no policy lets an agent write; nothing is ever written there."""


class LastingHook:
    """What the guard offers an adapter for a session (`GuardHook`). It starts nothing: whoever
    drives the session answers its hooks (`HostedSession`).

    Contract: `begin` comes after the adapter's calls and before the agent is started. `close` is
    for a session that was not started, and may be called twice.
    """

    stdio = False
    lasting = True

    def __init__(self, folder: str, *, begun: bool = False) -> None:
        """`begun` says that the folder is one which has begun already: the guard of the next
        process of the same session."""
        self.folder = folder
        self.patience = SECONDS
        """Seconds that a hook waits for an answer before it refuses; set before `begin`."""
        self._commanded = begun

    @property
    def writable(self) -> tuple[str, ...]:
        """What a confined agent must be able to write so that its hooks can ask."""
        names = (_FIFO, NOTES) if self._commanded else ()
        return tuple(os.path.join(self.folder, name) for name in names)

    def command(self, shape: HookShape) -> str:
        """The command of a hook process; see `hook_script`."""
        if not self._commanded:
            self._commanded = True
            os.mkfifo(os.path.join(self.folder, _FIFO), 0o600)
            write_atomic(os.path.join(self.folder, NOTES), "")
        return hook_command(os.path.join(self.folder, _SCRIPT), shape)

    def address(self) -> GuardAddress:
        """There is none that lasts."""
        raise GuardRefused(
            "this agent asks over a connection, which does not outlive whoever answers",
            hint="use `bridle run`, or hold it with --sandbox and say --unguarded",
        )

    def begin(self, mechanism: GuardMechanism, policy: Policy) -> None:
        """Put the policy in force, and show that the hook keeps to it: `GuardRefused` if not."""
        if not self._commanded:
            raise GuardRefused(f"{mechanism.name}: the agent was given nothing to ask")
        settings = {
            **alone_settings(policy, mechanism.shape),
            "notes": os.path.join(self.folder, NOTES),
            "with_args": not mechanism.tells_refused,
            "patience": self.patience,
        }
        write_atomic(os.path.join(self.folder, _SETTINGS), json.dumps(settings))
        _write_script(self.folder, mechanism.shape, self.patience, pid=0, started="")
        self._canary(mechanism.shape, policy)
        write_atomic(os.path.join(self.folder, NOTES), "")

    def _canary(self, shape: HookShape, policy: Policy) -> None:
        payload = {
            shape.event: shape.asks[0],
            shape.tool: "Write",
            shape.input: {"file_path": _OUTSIDE, "content": ""},
            shape.cwd: policy.cwd or policy.worktree,
        }
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", self.command(shape)],
                input=json.dumps(payload).encode(),
                cwd=policy.cwd or policy.worktree,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                capture_output=True,
                timeout=2 * self.patience,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise GuardRefused(f"the guard's hook does not run: {problem}") from None
        with open(os.path.join(self.folder, NOTES), "rb") as file:
            noted = file.read()
        # A refusal that no judge wrote down is one of a hook that reached none.
        if not noted.strip() or done.stdout.strip() == shape.allowed().strip():
            raise GuardRefused("the guard's hook does not judge: a forbidden call was not refused")

    def close(self) -> None:
        """Remove the guard's files."""
        shutil.rmtree(self.folder, ignore_errors=True)


class HostedSession(GuardSession):
    """A session whose hooks this process answers, for as long as it drives the session.

    Contract: made with the folder of a session that has begun, raises `GuardRefused` when that is
    not whole. `open` once; `close` hands the hooks back to their own judgement and keeps the files.
    """

    def __init__(self, service: JudgeService, folder: str) -> None:
        super().__init__(service, folder, stdio=False)
        try:
            with open(os.path.join(folder, _SETTINGS), "rb") as file:
                settings = msgspec.json.decode(file.read(), type=_Settings)
        except (OSError, msgspec.MsgspecError) as problem:
            raise GuardRefused(f"the guard's policy cannot be read: {problem}") from None
        self.shape = settings.shape
        self.patience = settings.patience
        self._judge = Desk(settings.policy)
        self._notes = settings.notes
        self._with_args = settings.with_args

    def open(self) -> None:
        """Answer from now on."""
        self._service.listen(self)
        _write_script(self.folder, self.shape, self.patience, pid=os.getpid(), started=born())

    def judged(self, payload: bytes) -> Answer:
        """The answer to a payload."""
        return self._judge.answer(payload, self.shape)

    def settle(self, call: WireCall) -> None:
        """Judge a call whose agent waits on its wire, in a thread of its own. The verdict is
        written down, whatever happens: a refusal when there is none in time."""
        Settling(self, self._notes, call, with_args=self._with_args).start()

    def answer(self, payload: bytes) -> Answer:
        """The answer to a hook's payload, written down before the hook hears it."""
        answer = self.judged(payload)
        if answer.note is not None:
            append_note(self._notes, answer.note, with_args=self._with_args)
        return answer

    def close(self) -> None:
        """Answer no more."""
        if os.path.isdir(self.folder):
            _write_script(self.folder, self.shape, self.patience, pid=0, started="")
        self._service.forget(self)


class _Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a host needs of the file that hooks judge alone by."""

    policy: Policy
    shape: HookShape
    notes: str
    with_args: bool
    patience: int


def _write_script(folder: str, shape: HookShape, patience: int, *, pid: int, started: str) -> None:
    """The script of hooks that ask the process `pid`; 0 is nobody."""
    text = hook_script(
        shape,
        fifo=os.path.join(folder, _FIFO),
        answers=os.path.join(folder, ANSWERS),
        pid=pid,
        born=started,
        alone=alone_command(os.path.join(folder, _SETTINGS)),
        seconds=patience,
    )
    write_atomic(os.path.join(folder, _SCRIPT), text)
