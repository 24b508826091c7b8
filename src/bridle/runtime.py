"""`AgentRuntime`: everything a program can do with one coding agent, as one object.

`get_runtime` returns it. It wraps the adapter, which describes the agent's CLI and starts nothing
itself (`bridle.adapter`), and adds runs, sessions and deployment.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from bridle.core.events import AnyEvent
from bridle.core.features import Features
from bridle.core.handles import Message, SessionFilter, SessionHandle, SessionHints, StartOptions
from bridle.core.options import HooksDef, OverlayContent, ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import Availability, ReadyState, RunResult, TranscriptSummary
from bridle.runtimes import registry
from bridle.runtimes.alternatives import as_live
from bridle.runtimes.contract import Adapter, History
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.plan import RunPlan

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.drives.print_run import PermissionPolicy
    from bridle.runs import AsyncPermissionPolicy
    from bridle.runtimes.deployment import Deployment
    from bridle.sessions.verbs import Receipt

T = TypeVar("T")


def get_runtime(name: str | None = None, config: "Config | None" = None) -> "AgentRuntime":
    """The runtime called `name`.

    Without a name, the environment decides (`BRIDLE_RUNTIME`), then the configuration, then the
    default `claude`. The configuration is `config`, or the one of the current folder when both
    arguments are missing. Raises `UnknownRuntime` for an unregistered name, `ConfigError`
    for an adapter that does not load or is refused. Never falls back to another runtime.
    """
    from bridle.config import load_config
    from bridle.config.environment import runtime_in

    if name is None and config is None:
        config = load_config()
    elif name is None and config is not None:
        name = runtime_in(os.environ, config.profiles, registry.available_runtimes(config))
    return AgentRuntime(registry.get_adapter(name, config))


def create_acp_runtime(
    *,
    id: str,
    binary: str,
    acp_flag: str | tuple[str, ...] = (),
    instruction_file: str = "AGENTS.md",
    install: str = "",
    asks: bool = False,
) -> "AgentRuntime":
    """A runtime for any agent that speaks the Agent Client Protocol.

    `acp_flag` makes the agent speak it (`--acp`, `acp`); give one word or several. Tool calls, text
    and permission requests arrive as with any other runtime. How the agent counts tokens is
    unknown, so its usage stays zero and its cost unknown. The model is chosen by the protocol,
    where the agent allows it. `asks` says that the agent asks for permission before every call
    that changes anything: only then can it be guarded, and a tool that runs without asking stops
    the agent.
    """
    adapter = registry.create_acp_adapter(
        id=id,
        binary=binary,
        acp_flag=acp_flag,
        instruction_file=instruction_file,
        install=install,
        asks=asks,
    )
    return AgentRuntime(adapter)


class AgentRuntime:
    """One coding agent: its facts, runs of it and sessions with it.

    Contract: cheap to make, keeps no state between calls, safe to use from several tasks. Every
    method that describes the agent asks `adapter`.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    def __repr__(self) -> str:
        return f"AgentRuntime({self.id!r})"

    # -- identity and availability --------------------------------------------------------------

    @property
    def id(self) -> str:
        """The name that the registry and `--runtime` know."""
        return self.adapter.id

    @property
    def binary(self) -> str:
        """The name of the CLI's command."""
        return self.adapter.binary

    @property
    def instruction_path(self) -> str:
        """The agent's instruction file, relative to the worktree."""
        return self.adapter.instruction_path

    @property
    def stability(self) -> Literal["stable", "experimental"]:
        """How well the adapter is proved."""
        return self.adapter.stability

    @property
    def hints(self) -> SessionHints:
        """How the agent treats its conversation."""
        return self.adapter.hints

    @property
    def features(self) -> Features:
        """What it can do, in the dialect of the installed version (the newest if none is)."""
        return self.adapter.features

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version`, whether that version was tested, and a warning if not."""
        return self.adapter.dialect(version)

    def is_available(self, env: Mapping[str, str] | None = None) -> Availability:
        """Whether it can be used here, with reasons and hints if it cannot. Starts at most the
        CLI's `--version`."""
        return self.adapter.is_available(env)

    # -- spawning -------------------------------------------------------------------------------

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session. Working directory and environment are set
        on the terminal, never in the command."""
        return self.adapter.build_spawn_command(options)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call that prints its answer as plain text; no shell.

        `env` is the result of `build_env`: some CLIs take a provider's address by flag. The process
        gets no stdin. Raises `WrongUse` if the CLI has no such call.
        """
        return self.adapter.build_print_command(prompt, model, env)

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the agent to `model`'s provider."""
        return self.adapter.build_env(model)

    # -- worktree -------------------------------------------------------------------------------

    def deploy_config(
        self, worktree: str, overlay: OverlayContent | None, hooks: HooksDef
    ) -> "Deployment":
        """Write instructions, and the guard of the agent that `hooks` names, into a worktree before
        that agent starts there.

        Returns the files, the instruction file first, and the reason if the runtime takes no guard
        from a worktree. Without an overlay only the guard is deployed. Existing files keep their
        content and stay in force, and new files do not show in `git status`. `withdraw_config`
        undoes it. Raises `WrongUse`, and changes nothing, if no instruction file can be written, or
        if the role or a quality gate is invalid.
        """
        from bridle.runtimes.deployment import deploy

        return deploy(self.adapter, worktree, overlay, hooks)

    def withdraw_config(self, worktree: str) -> list[str]:
        """Undo `deploy_config`: every file is restored to the byte. Returns the files that were
        changed or removed. Safe to call at any time, more than once."""
        from bridle.runtimes.deployment import withdraw

        return withdraw(self.adapter, worktree)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure. A runtime without a terminal interface is ready."""
        return self.adapter.detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """Whether the first prompt must be checked, and sent again if it was swallowed."""
        return self.adapter.requires_beacon_verification()

    # -- history --------------------------------------------------------------------------------

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """The usage that the transcript at `path` records; None if it is missing or unreadable."""
        adapter = self.adapter
        return adapter.parse_transcript(path) if isinstance(adapter, History) else None

    def transcript_dir(self, project: str) -> str | None:
        """The folder where the agent keeps the transcripts of `project`."""
        adapter = self.adapter
        return adapter.transcript_dir(project) if isinstance(adapter, History) else None

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The transcript of the agent's own session `session_id`, which ran in `env`; None if it
        does not exist or its location is unknown."""
        adapter = self.adapter
        return adapter.find_transcript(session_id, env) if isinstance(adapter, History) else None

    # -- runs -----------------------------------------------------------------------------------

    async def run_once(self, options: RunOptions) -> RunResult:
        """Run a prompt to its end."""
        from bridle.runs import run_options

        return await run_options(self.adapter, options)

    async def run_streaming(
        self, options: RunOptions, on_event: Callable[[AnyEvent], Awaitable[None] | None]
    ) -> RunResult:
        """Run a prompt to its end; `on_event` gets each event as it happens."""
        from bridle.runs import run_options

        return await run_options(self.adapter, options, on_event=on_event)

    def run_interactive(self, options: RunOptions) -> int:
        """Let a person drive the agent at this terminal; returns its exit status."""
        from bridle.runs import run_interactive

        return run_interactive(self.adapter, options)

    # -- live conversations ---------------------------------------------------------------------

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """How to start a process that `connect` can talk to; starts nothing.

        Every prompt is sent later, by the connection: `options.prompt` and its images are not used.
        Raises `NotInstalled`, `UnsupportedOption` (also for an agent without a protocol) and
        `WrongUse`.
        """
        return as_live(self.adapter).plan_live(options, env, session_id)

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
        """A conversation with a process that speaks the agent's protocol, over its own pipes.

        `plan` is the plan of `plan_live` that started the process; without it, `options` are
        planned now and the conversation is opened with that. `permission` answers the agent's
        requests; without it all are refused. A request that an async policy has not answered after
        `permission_timeout` seconds (default 300) is refused; a policy that is not async must not
        wait. Raises what `plan_live` raises.
        """
        from bridle.runs import connection

        return connection(
            self.adapter, process, plan, options, permission, permission_timeout, on_event
        )

    # -- sessions -------------------------------------------------------------------------------
    #
    # These take handles, for programs that do not keep running: the daemon drives the sessions. A
    # program that keeps running can do more with `bridle.Session`.

    async def start(self, options: StartOptions) -> SessionHandle:
        """Start a session, wait until it is ready, and send it the initial prompt.

        Raises what `Session.start` raises, and `WrongUse` for a runtime that only this program
        knows: the daemon could not drive it.
        """
        return await _in_thread(lambda: self.start_sync(options))

    async def resume(self, handle: SessionHandle) -> SessionHandle:
        """Continue a session that is over; raises `ResumeRefused`, and `WrongUse` while it is
        alive."""
        return await _in_thread(lambda: self.resume_sync(handle))

    async def send_message(self, handle: SessionHandle, message: Message) -> "Receipt":
        """Send the agent of a session a message.

        Returns when the agent has it, when it is queued, or when the message's timeout has passed.
        Raises `WrongUse` for a delivery that the session does not have, and `SessionOver`.
        """
        return await _in_thread(lambda: self.send_message_sync(handle, message))

    async def stop(self, handle: SessionHandle, reason: str = "stopped") -> None:
        """End a session and wait until its process is gone. No effect if it is over."""
        await _in_thread(lambda: self.stop_sync(handle, reason))

    async def is_ready(self, handle: SessionHandle) -> bool:
        """Whether the agent of a session waits for a prompt."""
        return await _in_thread(lambda: self.is_ready_sync(handle))

    async def detect_running(self, handle: SessionHandle) -> bool:
        """Whether a session's process exists; checks the process itself."""
        return await _in_thread(lambda: self.detect_running_sync(handle))

    async def list_sessions(self, filter: SessionFilter | None = None) -> list[SessionHandle]:
        """The sessions of this runtime: those of the project around the filter's `work_dir` (or the
        current one) and the user's own."""
        return await _in_thread(lambda: self.list_sessions_sync(filter))

    def start_sync(self, options: StartOptions) -> SessionHandle:
        """`start` without an event loop."""
        from bridle.sessions.handles import start

        return start(self.adapter, options)

    def resume_sync(self, handle: SessionHandle) -> SessionHandle:
        """`resume` without an event loop."""
        from bridle.sessions.handles import resume

        return resume(self.adapter, handle)

    def send_message_sync(self, handle: SessionHandle, message: Message) -> "Receipt":
        """`send_message` without an event loop."""
        from bridle.sessions.handles import send_message

        return send_message(self.adapter, handle, message)

    def stop_sync(self, handle: SessionHandle, reason: str = "stopped") -> None:
        """`stop` without an event loop."""
        from bridle.sessions.handles import stop

        stop(self.adapter, handle, reason)

    def is_ready_sync(self, handle: SessionHandle) -> bool:
        """`is_ready` without an event loop."""
        from bridle.sessions.handles import is_ready

        return is_ready(self.adapter, handle)

    def detect_running_sync(self, handle: SessionHandle) -> bool:
        """`detect_running` without an event loop."""
        from bridle.sessions.handles import detect_running

        return detect_running(self.adapter, handle)

    def list_sessions_sync(self, filter: SessionFilter | None = None) -> list[SessionHandle]:
        """`list_sessions` without an event loop."""
        from bridle.sessions.handles import list_sessions

        return list_sessions(self.adapter, filter or SessionFilter())


async def _in_thread(act: Callable[[], T]) -> T:
    """Run `act` in a thread; a cancellation is delivered after it has ended."""
    from anyio import CapacityLimiter, to_thread

    return await to_thread.run_sync(act, limiter=CapacityLimiter(1))
