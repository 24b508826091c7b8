"""What a runtime is: the contract every adapter fulfils, and the parts they all share.

An adapter is a subclass of `AgentRuntime` in a folder of its own, registered by entry point
(`bridle.runtimes`). It says how its CLI is found, started and stopped, and how its wire is
translated; it starts nothing itself.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec

from bridle.core.errors import (
    ConfigError,
    GuardRefused,
    NotInstalled,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.events import Event
from bridle.core.features import Features
from bridle.core.lifecycle import (
    Message,
    SessionFilter,
    SessionHandle,
    SessionHints,
    StartOptions,
)
from bridle.core.options import (
    HooksDef,
    OverlayContent,
    ResolvedModel,
    RunOptions,
    SpawnOptions,
    options_in_use,
)
from bridle.core.results import Availability, ReadyState, RunResult, TranscriptSummary
from bridle.drives.guarding import GuardHook, GuardMechanism, HookShape
from bridle.drives.live import LiveFacts, LiveWire
from bridle.drives.recorder import Recorder
from bridle.drives.spec import SESSION_MARK, Normalizer, ProcessSpec
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.installation import Installation

if TYPE_CHECKING:
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.drives.print_drive import PermissionPolicy
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.following import TranscriptWire
    from bridle.running import AsyncPermissionPolicy
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.retries import RetryReader
    from bridle.sandbox import SandboxNeeds
    from bridle.sessions.service import Receipt

T = TypeVar("T")


class AdapterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about one runtime."""

    binary: str | None = None
    """Overrides where the CLI is looked for: a path or a name on PATH."""
    mode: str | None = None
    options: dict[str, Any] = {}
    """The runtime's own section (`runtime.<name>` of the configuration), as it stands there."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is ready to start: everything was checked, nothing was started."""

    spec: ProcessSpec
    session_id: str
    installation: Installation
    dialect: Dialect
    secrets: tuple[str, ...] = ()
    """Values that must not appear in anything Bridle writes."""
    ignored_options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    private_dirs: tuple[str, ...] = ()
    """Folders made for this run alone; removed when it is over."""
    native_session_id: str | None = None
    """The id the agent will use, where Bridle can choose it."""
    live: LiveFacts | None = None
    """What the wire of a live conversation must know; None for a run of one prompt."""
    guard: GuardMechanism | None = None
    """How the agent asks before each tool call; None when it does not (`guard_plan`)."""
    noted: dict[str, Any] = {}
    """What `noted_before` told of the conversation to take up; empty where it was not asked."""
    writable_files: tuple[str, ...] = ()
    """Files beside the runtime's own that the agent must be able to write in a sandbox."""


class AgentRuntime(ABC):
    """The adapter to one coding agent.

    Contract: cheap to make, keeps no state between calls, safe to use from several tasks. The
    abstract methods are what an adapter must say; the others have defaults that fit most.
    """

    id: ClassVar[str]
    """Unique; the registry's key and the value of `--runtime`."""
    binary: ClassVar[str]
    """Name of the CLI's command."""
    instruction_path: ClassVar[str]
    """Instruction file, relative to the worktree."""
    stability: ClassVar[Literal["stable", "experimental"]] = "stable"
    install_hint: ClassVar[str] = ""
    """The command that installs the CLI."""
    confines_itself: ClassVar[bool] = False
    """Whether it honours the option `sandbox` by means of its own. Every other runtime is confined
    by Bridle, and its `plan_run` never sees that option."""
    state_paths: ClassVar[tuple[str, ...]] = ()
    """Folders, relative to HOME, that its CLI must be able to write in a sandbox. The agent can
    then write there too, so: no folder whose content the CLI obeys or runs."""
    hints: ClassVar[SessionHints] = SessionHints()
    """How it treats its conversation."""
    session_by_print: ClassVar[bool] = True
    """Whether a session can have a process for each turn: its normalizer needs no more of a plan
    than dialect, places and native id."""
    tells_version: ClassVar[bool] = True
    """Whether the CLI answers `--version`."""

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        self.settings = settings or AdapterSettings()

    def use_binary(self, binary: str) -> None:
        """Use the CLI at `binary` (a path or a name on PATH) from now on; for proofs on a version
        that is not the installed one."""
        self.settings = msgspec.structs.replace(self.settings, binary=binary)

    # -- identity and availability --------------------------------------------------------------

    @property
    def features(self) -> Features:
        """What it can do, in the dialect of the installed version (the newest when none is)."""
        found = self.find()
        return self.features_of(self.dialect(found.version if found else None)[0])

    @abstractmethod
    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""

    @abstractmethod
    def features_of(self, dialect: Dialect) -> Features:
        """What it can do in `dialect`."""

    @abstractmethod
    def find(self) -> Installation | None:
        """The installed CLI, None when there is none. Must not take long: see `installation`."""

    def hidden_flags(self, dialect: Dialect) -> frozenset[str]:
        """Flags that the CLI takes in `dialect` but leaves out of its help."""
        return frozenset()

    def installation(self) -> Installation:
        """The installed CLI; raises `NotInstalled` with the way to install it."""
        found = self.find()
        if found is None:
            wanted = self.settings.binary or self.binary
            raise NotInstalled(
                f"{self.id}: `{wanted}` was not found",
                hint=f"install it with `{self.install_hint}`" if self.install_hint else "",
                runtime=self.id,
            )
        return found

    @abstractmethod
    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a login or key is there, without reading any."""

    def is_available(self, env: Mapping[str, str] | None = None) -> Availability:
        """Whether it can be used here, with reasons and hints when it cannot. Starts at most the
        CLI's `--version`."""
        found = self.find()
        if found is None:
            return Availability(
                runtime=self.id,
                available=False,
                reasons=(f"`{self.settings.binary or self.binary}` was not found on PATH",),
                hints=(f"install it with `{self.install_hint}`",) if self.install_hint else (),
            )
        dialect, seen, warning = self.dialect(found.version)
        login = self.credentials(os.environ if env is None else env)
        missing = login == "missing"
        return Availability(
            runtime=self.id,
            available=not missing,
            binary=found.binary,
            version=found.version,
            dialect=dialect.name,
            version_seen=seen,
            credentials=login,
            reasons=(*((warning,) if warning else ()), *(("no login found",) if missing else ())),
            hints=("log in with its own CLI, or set its API key variable",) if missing else (),
        )

    # -- spawning -------------------------------------------------------------------------------

    @abstractmethod
    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session; working directory and environment are set
        on the terminal, never in the command."""

    @abstractmethod
    def build_print_command(self, prompt: str, model: str | None = None) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout; no shell."""

    @abstractmethod
    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the agent to `model`'s provider."""

    @abstractmethod
    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start a run of `options` in the environment `env`.

        Contract: refuses before anything is started: `NotInstalled`, `UnsupportedOption`,
        `WrongUse`. May make folders, which the plan then names in `private_dirs`.
        """

    @abstractmethod
    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""

    def noted_before(self, plan: RunPlan, resume: str) -> dict[str, Any]:
        """What the agent's files say of conversation `resume` before the process of `plan` goes on
        with it, as JSON values: a normalizer that is made while it runs gets it by `plan.noted`, to
        count nothing twice."""
        return {}

    # -- live conversations ---------------------------------------------------------------------

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start a process that takes many prompts (the drive `rpc`), with
        `RunPlan.live` set and `keep_stdin` in its spec. `options.prompt` and its images play no
        part: every message comes by the wire.

        Contract: as `plan_run`. What the wire must know goes into `live`, not into the adapter.
        """
        raise UnsupportedOption(
            self.id,
            "drive rpc",
            live_runtimes(self.id),
            reason="it has no protocol for a conversation",
        )

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a process that `plan_live` planned, now or before a crash of ours."""
        raise NotImplementedError(f"{self.id} has no live wire")

    def remote_terminal(
        self, facts: LiveFacts, native_id: str, env: Mapping[str, str]
    ) -> ProcessSpec | None:
        """The agent's own terminal interface, to be started by a person with the environment
        `env`, that joins a living process which `plan_live` planned; None where none can."""
        return None

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start its terminal interface in a pane (the drive `tmux`), with
        `RunPlan.live` set. The prompts come by the pane's input, `options.prompt` plays no part.

        Contract: as `plan_run`. `native_session_id` is set where Bridle can choose it.
        """
        raise UnsupportedOption(
            self.id,
            "drive tmux",
            terminal_runtimes(self.id),
            reason="it is not driven in a terminal",
        )

    def connect(
        self,
        process: "RpcProcess",
        *,
        plan: RunPlan | None = None,
        options: RunOptions | None = None,
        permission: "PermissionPolicy | AsyncPermissionPolicy | None" = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> "RuntimeConnection":
        """A conversation with a process that speaks its protocol, over the process's own pipes.

        `plan` is that of `plan_live`, when the process was started by it; else what `plan_live`
        plans for `options` now is what the conversation is opened with. `permission` answers the
        agent's requests (all are refused without it). Raises what `plan_live` raises.
        """
        from bridle.running import connection

        return connection(self, process, plan, options, permission, on_event)

    def tmux_wire(self, facts: LiveFacts, recorder: Recorder) -> "TranscriptWire":
        """The reader of the transcript that a session planned by `plan_tmux` writes."""
        raise NotImplementedError(f"{self.id} has no transcript that can be followed")

    def transcript_path(self, facts: LiveFacts, pid: int | None = None) -> str | None:
        """The transcript of a session planned by `plan_tmux`; None while it cannot be told, which
        for some runtimes is until the first prompt. `pid` is the process in the pane."""
        return None

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.drives.tmux.facts import TerminalFacts

        return TerminalFacts()

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """What its CLI, started as `spec`, must be able to write in a sandbox.

        The run's private folders and its scratch folder are writable anyway.
        """
        from bridle.sandbox import SandboxNeeds

        return SandboxNeeds(writable=tuple(in_home(path, spec.env) for path in self.state_paths))

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """`plan`, made to ask before each tool call, with the mechanism that does it (`guard`).

        Contract: works on a plan for any drive; adds flags, variables and files in `hook.folder`,
        and changes nothing of the user's. Raises `GuardRefused` when the plan cannot be guarded:
        a version without hooks, or options that switch them off.
        """
        raise GuardRefused(
            f"{self.id} has no way to ask before a tool call",
            hint="hold it with --sandbox instead, and say so with --unguarded",
            runtime=self.id,
        )

    def prove_guard(self, plan: RunPlan) -> str:
        """Show, before the agent of a guarded session is started, that its guard will fire; returns
        by what, empty when that shows later.

        For a runtime whose guard proves itself only with the first prompt, but which can list its
        hooks. Raises `GuardRefused` when the guard is not among those that will run.
        """
        return ""

    def guard_shape(self) -> HookShape:
        """The shape of the hooks that `deploy_guard` puts into a worktree; raises `GuardRefused`
        where a worktree cannot bring any that hold."""
        raise GuardRefused(
            f"{self.id} takes no guard from a worktree",
            hint="start it with Bridle, which gives it the guard by other means",
            runtime=self.id,
        )

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """Put a hook that runs `command` into a worktree, for agents that are started there by
        hand; with None take it out again. Returns the file.

        Contract: may be repeated; whatever else the file holds stays as it is. Our entries are
        those whose command holds `mark`.
        """
        raise GuardRefused(f"{self.id} takes no guard from a worktree", runtime=self.id)

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> ProcessSpec:
        """The process of a run that a person drives at the terminal."""
        raise UnsupportedOption(
            self.id,
            "interactive",
            supporters("interactive", self.id),
            reason="it has no terminal interface",
        )

    # -- worktree -------------------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """The files in `worktree` that deployed instructions may stand in, the best first."""
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path),)

    def deploy_config(
        self, worktree: str, overlay: OverlayContent | None, hooks: HooksDef
    ) -> list[str]:
        """Write instructions into a worktree before an agent starts there; returns the files.

        With no overlay only what guards the agent is deployed. What others wrote stays as it is
        and in force; see `instructions` for the rule. `withdraw_config` undoes it.
        """
        from bridle.runtimes.instructions import deploy

        if overlay is None:
            return []
        return [deploy(worktree, self.instruction_places(worktree), overlay.content)]

    def withdraw_config(self, worktree: str) -> list[str]:
        """Undo `deploy_config`: every file is what it was before, to the byte. Returns the files
        that were changed or removed. May be called at any time, also twice."""
        from bridle.runtimes.instructions import Place, withdraw

        # Which places there are depends on what is there; the first choice may be one no more.
        places = (*self.instruction_places(worktree), Place(self.instruction_path))
        return withdraw(worktree, places)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure. A runtime without a terminal interface is ready."""
        from bridle.core.results import Ready

        return Ready()

    def requires_beacon_verification(self) -> bool:
        """Whether the first prompt must be checked and sent again if it was swallowed."""
        return True

    # -- history --------------------------------------------------------------------------------

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What the transcript at `path` says was used; None when it is missing or unreadable."""
        return None

    def transcript_dir(self, project: str) -> str | None:
        """The folder where the agent keeps the transcripts of `project`."""
        return None

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """What `parse_transcript` takes for the agent's own session `session_id`, which ran in
        `env`; None when there is none, or where that is not known."""
        return None

    def retry_log(self) -> "RetryReader | None":
        """A reader of the CLI's standard error that finds model calls which are made again; None
        where it logs none."""
        return None

    # -- runs -----------------------------------------------------------------------------------

    async def run_once(self, options: RunOptions) -> RunResult:
        """Run a prompt to its end."""
        from bridle.running import run_options

        return await run_options(self, options)

    async def run_streaming(
        self, options: RunOptions, on_event: Callable[[Event], Awaitable[None] | None]
    ) -> RunResult:
        """Run a prompt to its end, handing over each event as it happens."""
        from bridle.running import run_options

        return await run_options(self, options, on_event=on_event)

    def run_interactive(self, options: RunOptions) -> int:
        """Let a person drive the agent at this terminal; returns its exit status."""
        from bridle.running import run_interactive

        return run_interactive(self, options)

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
        from bridle.sessions.offered import start

        return start(self, options)

    def resume_sync(self, handle: SessionHandle) -> SessionHandle:
        """`resume` without an event loop."""
        from bridle.sessions.offered import resume

        return resume(self, handle)

    def send_message_sync(self, handle: SessionHandle, message: Message) -> "Receipt":
        """`send_message` without an event loop."""
        from bridle.sessions.offered import send_message

        return send_message(self, handle, message)

    def stop_sync(self, handle: SessionHandle, reason: str = "stopped") -> None:
        """`stop` without an event loop."""
        from bridle.sessions.offered import stop

        stop(self, handle, reason)

    def is_ready_sync(self, handle: SessionHandle) -> bool:
        """`is_ready` without an event loop."""
        from bridle.sessions.offered import is_ready

        return is_ready(self, handle)

    def detect_running_sync(self, handle: SessionHandle) -> bool:
        """`detect_running` without an event loop."""
        from bridle.sessions.offered import detect_running

        return detect_running(self, handle)

    def list_sessions_sync(self, filter: SessionFilter | None = None) -> list[SessionHandle]:
        """`list_sessions` without an event loop."""
        from bridle.sessions.offered import list_sessions

        return list_sessions(self, filter or SessionFilter())


async def _in_thread(act: Callable[[], T]) -> T:
    """What `act` returns in a thread; a cancellation comes out when it has ended."""
    from anyio import CapacityLimiter, to_thread

    return await to_thread.run_sync(act, limiter=CapacityLimiter(1))


# -- parts that adapters use ----------------------------------------------------------------------


def check_options(
    runtime: AgentRuntime, options: RunOptions, features: Features
) -> tuple[str, ...]:
    """Names of the options that `runtime` cannot honour and the caller allowed to be ignored.

    Raises `UnsupportedOption` for the first one when the caller did not.
    """
    missing = tuple(name for name in options_in_use(options) if name not in features.options)
    if missing and not options.ignore_unsupported:
        raise UnsupportedOption(runtime.id, missing[0], supporters(missing[0], runtime.id))
    return missing


def live_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be driven by a protocol."""
    return _runtimes_with("rpc", besides)


def _runtimes_with(drive: str, besides: str) -> list[str]:
    return _runtimes_whose(lambda features: drive in features.drives, besides)


def _runtimes_whose(holds: Callable[[Features], bool], besides: str) -> list[str]:
    from bridle.runtimes.registry import available_runtimes, get_runtime

    names = []
    for name in available_runtimes():
        try:
            runtime = get_runtime(name)
        except ConfigError:
            continue
        if name != besides and holds(runtime.features_of(runtime.dialect(None)[0])):
            names.append(name)
    return names


def compacting_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be told to shorten their context."""
    return _runtimes_whose(lambda features: features.compaction, besides)


def forking_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can go on in a copy of a conversation."""
    return _runtimes_whose(lambda features: features.fork, besides)


def terminal_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be driven in a terminal."""
    return _runtimes_with("tmux", besides)


def supporters(option: str, besides: str) -> list[str]:
    """Names of the other runtimes that honour `option` (or `interactive`, which is a feature)."""
    from bridle.runtimes.registry import available_runtimes, get_runtime

    names = []
    for name in available_runtimes():
        if name == besides:
            continue
        try:
            runtime = get_runtime(name)
        except ConfigError:
            # A stranger's adapter that does not load must not hide the answer for the others.
            continue
        features = runtime.features_of(runtime.dialect(None)[0])
        if option in features.options or (option == "interactive" and features.interactive):
            names.append(name)
    return names


def agent_env(
    env: Mapping[str, str], options: RunOptions, session_id: str, cwd: str
) -> dict[str, str]:
    """The environment an agent is started in: the caller's, the canonical variables, the options'.

    Every process the agent starts inherits the session's mark, which is how none is left behind.
    """
    return {
        **env,
        SESSION_MARK: session_id,
        "BRIDLE_WORKTREE_PATH": cwd,
        **options.env,
    }


PROXY_VARIABLES = frozenset(
    name for word in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") for name in (word, word.lower())
)
"""Variables that would lead calls to a model on loopback astray."""


def refuse_system_prompts(runtime: AgentRuntime, options: RunOptions | SpawnOptions) -> None:
    """For a terminal interface without a flag for system prompts: none may be given."""
    if options.system_prompt or options.append_system_prompt or options.append_system_prompt_file:
        raise WrongUse(
            f"{runtime.id} takes no system prompt at the terminal",
            hint=f"deploy it as {runtime.instruction_path}",
        )


_XDG = {
    ".config": "XDG_CONFIG_HOME",
    ".cache": "XDG_CACHE_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
}


def in_home(path: str, env: Mapping[str, str]) -> str:
    """Where a path relative to HOME is under `env`, which may have moved the common folders."""
    for usual, variable in _XDG.items():
        if path.startswith(f"{usual}/") and os.path.isabs(env.get(variable, "")):
            return os.path.join(env[variable], path[len(usual) + 1 :])
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), path)


def working_dir(options: RunOptions) -> str:
    """The run's working directory, absolute; `WrongUse` when it is not there."""
    cwd = os.path.abspath(options.cwd or os.getcwd())
    if not os.path.isdir(cwd):
        raise WrongUse(f"no such directory: {cwd}", hint="give an existing folder with --cwd")
    return cwd


def readable_file(path: str, what: str) -> bytes:
    """The bytes of a file the caller named; `WrongUse` says why it cannot be read."""
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return file.read()
    except OSError as problem:
        raise WrongUse(f"cannot read {what} {path}: {problem.strerror}") from None
