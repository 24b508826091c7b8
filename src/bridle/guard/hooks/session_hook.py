"""What the guard offers an adapter for a session, whose agent outlives its driver.

Everything is in the guard's folder. Hooks ask the process that their script names; while there is
none, or it is gone, the fallback judge answers them by the policy in that folder. So the agent is
guarded at every moment.
"""

import os
import shutil
import subprocess

from bridle.core.errors import GuardRefused
from bridle.core.files import write_atomic
from bridle.guard.hooks.guard_folder import GuardFolder, ask_hook
from bridle.guard.hooks.hook_script import SECONDS
from bridle.guard.policy import Policy
from bridle.turns.guard_contract import GuardAddress, GuardMechanism, HookShape


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
            hint="use `bridle run`, or hold it with --sandbox and say --unguarded",
        )

    def begin(self, mechanism: GuardMechanism, policy: Policy) -> None:
        """Put the policy in force, and check that the hook obeys it; raises `GuardRefused` if it
        does not."""
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
