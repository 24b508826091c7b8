"""What a runtime is: the contract every adapter fulfils, and what each then offers.

An adapter is a subclass of `AgentRuntime` in a folder of its own, registered by entry point
(`bridle.runtimes`). It says how its CLI is found, started and stopped, and how its wire is
translated (`contract`); it starts nothing itself. Runs and sessions of it are Bridle's doing, and
here. What an adapter's module needs besides can be imported from here too.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from bridle.core.events import AnyEvent
from bridle.core.handles import Message, SessionFilter, SessionHandle, StartOptions
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.runtimes.contract import AdapterSettings, RuntimeContract
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import agent_env, check_options, readable_file, working_dir

if TYPE_CHECKING:
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.drives.print_run import PermissionPolicy
    from bridle.sessions.service import Receipt
    from bridle.streaming import AsyncPermissionPolicy

__all__ = [
    "AdapterSettings",
    "AgentRuntime",
    "RunPlan",
    "agent_env",
    "check_options",
    "readable_file",
    "working_dir",
]

T = TypeVar("T")


class AgentRuntime(RuntimeContract):
    """The adapter to one coding agent, and the runs and sessions of it.

    Contract: as `RuntimeContract`; what is defined here is no adapter's business.
    """

    # -- runs -----------------------------------------------------------------------------------

    async def run_once(self, options: RunOptions) -> RunResult:
        """Run a prompt to its end."""
        from bridle.streaming import run_options

        return await run_options(self, options)

    async def run_streaming(
        self, options: RunOptions, on_event: Callable[[AnyEvent], Awaitable[None] | None]
    ) -> RunResult:
        """Run a prompt to its end, handing over each event as it happens."""
        from bridle.streaming import run_options

        return await run_options(self, options, on_event=on_event)

    def run_interactive(self, options: RunOptions) -> int:
        """Let a person drive the agent at this terminal; returns its exit status."""
        from bridle.runs import run_interactive

        return run_interactive(self, options)

    def connect(
        self,
        process: "RpcProcess",
        *,
        plan: RunPlan | None = None,
        options: RunOptions | None = None,
        permission: "PermissionPolicy | AsyncPermissionPolicy | None" = None,
        permission_timeout: float | None = None,
        on_event: Callable[[AnyEvent], object] | None = None,
    ) -> "RuntimeConnection":
        """A conversation with a process that speaks its protocol, over the process's own pipes.

        `plan` is that of `plan_live`, when the process was started by it; else what `plan_live`
        plans for `options` now is what the conversation is opened with. `permission` answers the
        agent's requests (all are refused without it); what an async one has not answered after
        `permission_timeout` seconds (300 unless told) is refused, and one that is not async must
        not wait. Raises what `plan_live` raises.
        """
        from bridle.runs import connection

        return connection(self, process, plan, options, permission, permission_timeout, on_event)

    # -- sessions -------------------------------------------------------------------------------
    #
    # By handles, for programs that come and go: the daemon drives these sessions. A program that
    # stays has more of `bridle.Session`.

    async def start(self, options: StartOptions) -> SessionHandle:
        """Start a session, wait until it is ready, and send it the initial prompt.

        Raises what `Session.start` raises, and `WrongUse` for a runtime that only this program
        knows: the daemon could not drive it.
        """
        return await _in_thread(lambda: self.start_sync(options))

    async def resume(self, handle: SessionHandle) -> SessionHandle:
        """Go on with a session that is over; raises `ResumeRefused`, and `WrongUse` while it
        lives."""
        return await _in_thread(lambda: self.resume_sync(handle))

    async def send_message(self, handle: SessionHandle, message: Message) -> "Receipt":
        """Give the agent of a session a message, and wait until it has it, or it waits for its
        turn, or the message's timeout has passed. Raises `WrongUse` for a way of delivery that the
        session does not have, `SessionOver`."""
        return await _in_thread(lambda: self.send_message_sync(handle, message))

    async def stop(self, handle: SessionHandle, reason: str = "stopped") -> None:
        """End a session and wait until its process is gone. No effect when it is over."""
        await _in_thread(lambda: self.stop_sync(handle, reason))

    async def is_ready(self, handle: SessionHandle) -> bool:
        """Whether the agent of a session waits for a prompt."""
        return await _in_thread(lambda: self.is_ready_sync(handle))

    async def detect_running(self, handle: SessionHandle) -> bool:
        """Whether the process of a session is there, by looking at it."""
        return await _in_thread(lambda: self.detect_running_sync(handle))

    async def list_sessions(self, filter: SessionFilter | None = None) -> list[SessionHandle]:
        """The sessions of this runtime, those of the project around the filter's `work_dir` (or
        the current one) and the user's own."""
        return await _in_thread(lambda: self.list_sessions_sync(filter))

    def start_sync(self, options: StartOptions) -> SessionHandle:
        """`start` without an event loop."""
        from bridle.sessions.handles import start

        return start(self, options)

    def resume_sync(self, handle: SessionHandle) -> SessionHandle:
        """`resume` without an event loop."""
        from bridle.sessions.handles import resume

        return resume(self, handle)

    def send_message_sync(self, handle: SessionHandle, message: Message) -> "Receipt":
        """`send_message` without an event loop."""
        from bridle.sessions.handles import send_message

        return send_message(self, handle, message)

    def stop_sync(self, handle: SessionHandle, reason: str = "stopped") -> None:
        """`stop` without an event loop."""
        from bridle.sessions.handles import stop

        stop(self, handle, reason)

    def is_ready_sync(self, handle: SessionHandle) -> bool:
        """`is_ready` without an event loop."""
        from bridle.sessions.handles import is_ready

        return is_ready(self, handle)

    def detect_running_sync(self, handle: SessionHandle) -> bool:
        """`detect_running` without an event loop."""
        from bridle.sessions.handles import detect_running

        return detect_running(self, handle)

    def list_sessions_sync(self, filter: SessionFilter | None = None) -> list[SessionHandle]:
        """`list_sessions` without an event loop."""
        from bridle.sessions.handles import list_sessions

        return list_sessions(self, filter or SessionFilter())


async def _in_thread(act: Callable[[], T]) -> T:
    """What `act` returns in a thread; a cancellation comes out when it has ended."""
    from anyio import CapacityLimiter, to_thread

    return await to_thread.run_sync(act, limiter=CapacityLimiter(1))
