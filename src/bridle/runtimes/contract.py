"""What an adapter says about its agent: how its CLI is found, started, stopped, guarded and read.

`Adapter` holds what every adapter must say. What only some agents can do is in the abilities, which
an adapter takes as base classes: `Live`, `Terminal`, `Interactive`, `Guarded`, `History`. Callers
ask with `isinstance(adapter, Live)`. The registry refuses an adapter whose features promise an
ability that it does not have (`registration`).

An adapter starts nothing itself: `bridle.runtime` adds runs, sessions and deployment. Authors
import all of this from `bridle.adapter`.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec

from bridle.core.errors import GuardRefused, NotInstalled, NotSupported
from bridle.core.features import Features
from bridle.core.files import in_home
from bridle.core.handles import SessionHints
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import Availability, Ready, ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.dialects import Dialect, choose_dialect, oldest_supported
from bridle.runtimes.history import Spent
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.product import (
    Mode,
    RoutingFacts,
    Service,
    ServicePieces,
    ToolPieces,
    ToolTable,
)
from bridle.turns.guard_contract import GuardHook, GuardPieces, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Normalizer

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.retries import RetryReader
    from bridle.sandbox import SandboxNeeds


_Method = TypeVar("_Method", bound=Callable[..., Any])


def derived(method: _Method) -> _Method:
    """Mark a method that a base class derives for every adapter: it promises no ability."""
    setattr(method, "__derived__", True)  # noqa: B010 (functions have no such attribute for types)
    return method


def is_derived(method: object) -> bool:
    """Whether `derived` marks the method."""
    return getattr(method, "__derived__", False)


class ReadySettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a terminal counts as waiting for a prompt, as configured."""

    strategy: Literal["prompt", "warmup"]
    warmup: float
    retries: int


class AdapterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about one runtime."""

    binary: str | None = None
    """Overrides where the CLI is looked for: a path or a name on PATH."""
    options: dict[str, Any] = {}
    """The runtime's own settings (`runtime.adapters.<name>.options`; for Pi `runtime.pi`). Values
    from a file were checked against `options_type`."""
    ready: ReadySettings | None = None
    """Overrides when its terminal counts as waiting for a prompt."""


class Adapter(ABC):
    """What Bridle knows about one coding agent's CLI.

    Contract: cheap to make, keeps no state between calls, safe to use from several tasks. The
    abstract methods are what an adapter must define; the others have defaults that fit most agents.
    """

    # -- facts of the class ---------------------------------------------------------------------

    id: ClassVar[str]
    """Unique; the registry's key and the value of `--runtime`."""
    binary: ClassVar[str]
    """Name of the CLI's command."""
    instruction_path: ClassVar[str]
    """Instruction file, relative to the worktree."""
    dialects: ClassVar[Sequence[Dialect]]
    """What each range of versions accepts and prints, the oldest first."""
    stability: ClassVar[Literal["stable", "experimental"]] = "stable"
    install_hint: ClassVar[str] = ""
    """The command that installs the CLI."""
    key_variable: ClassVar[str] = ""
    """The variable that most users set to give it an API key or token."""
    tells_version: ClassVar[bool] = True
    """Whether the CLI answers `--version`."""
    hints: ClassVar[SessionHints] = SessionHints()
    """How it treats its conversation."""
    session_by_print: ClassVar[bool] = True
    """Whether a session can have one process for each turn. Its normalizer then needs only the
    plan's dialect, folders and native id."""
    options_type: ClassVar[type[msgspec.Struct] | None] = None
    """The type of `runtime.adapters.<name>.options` in a configuration; None if the adapter takes
    no settings. Keys, types and limits are checked with file and line."""
    provider_path: ClassVar[str] = "/v1"
    """The path of a provider's address that the CLI expects."""
    scripted_model: ClassVar[str] = "scripted"
    """The model that a one-shot call to a scripted model uses if it names none."""
    tools: ClassVar[ToolTable | None] = None
    """The names of its tools. An adapter that supports `allowed_tools` or `denied_tools` has a
    table and translates by it (`tool_names.native_tools`). Without one, names pass unchanged."""
    routing: ClassVar[RoutingFacts] = RoutingFacts()
    """The variables that route its CLI to a model service."""
    confines_itself: ClassVar[bool] = False
    """Whether it applies the option `sandbox` itself. Bridle confines every other runtime, and its
    `plan_run` never sees that option."""
    state_paths: ClassVar[tuple[str, ...]] = ()
    """Folders, relative to HOME, that its CLI must be able to write in a sandbox. The agent can
    write there too, so name no folder whose content the CLI obeys or runs."""
    worktree_hooks: ClassVar[str] = "it runs no hook that a file there could name"
    """Why a worktree cannot contain a guard; see `Guarded.guard_shape`."""

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        self.settings = settings or AdapterSettings()

    def use_binary(self, binary: str) -> None:
        """Use the CLI at `binary` (a path or a name on PATH) from now on, to prove a version that
        is not the installed one."""
        self.settings = msgspec.structs.replace(self.settings, binary=binary)

    # -- identity and availability --------------------------------------------------------------

    @abstractmethod
    def find(self) -> Installation | None:
        """The installed CLI, or None. Must be fast: every run calls it; see `installation`."""

    @abstractmethod
    def features_of(self, dialect: Dialect) -> Features:
        """What it can do in `dialect`."""

    @abstractmethod
    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a login or key exists, without reading any."""

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version` (the newest for None), whether that version was ever run, and a
        warning if not."""
        return choose_dialect(self.id, self.dialects, version)

    def refusal(self, version: str | None, mode: Mode = "run") -> NotSupported | None:
        """The error for a version that is too old to be started in `mode`; None for any other."""
        oldest = oldest_supported(self.mode_dialects(mode), version)
        if not oldest:
            return None
        way = f" with `{self.install_hint}`" if self.install_hint else ""
        return NotSupported(
            f"{self.id} {version} is too old: the oldest version that works is {oldest}",
            hint=f"install a newer one{way}",
            runtime=self.id,
            runtime_version=version or "",
        )

    def mode_dialects(self, mode: Mode) -> Sequence[Dialect]:
        """The rows for `mode`, the oldest first."""
        return self.dialects

    @property
    def features(self) -> Features:
        """What it can do, in the dialect of the installed version (the newest if none is)."""
        found = self.find()
        return self.features_of(self.dialect(found.version if found else None)[0])

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

    def is_available(self, env: Mapping[str, str] | None = None) -> Availability:
        """Whether it can be used here, with reasons and hints if it cannot. Starts at most the
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
        refused = self.refusal(found.version)
        if refused is not None:
            return Availability(
                runtime=self.id,
                available=False,
                binary=found.binary,
                version=found.version,
                reasons=(refused.message,),
                hints=(refused.hint,),
            )
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
            hints=(self.login_hint(),) if missing else (),
        )

    def login_hint(self) -> str:
        """What to do when no login is found."""
        return f"log in with its own CLI, or set {self.key_variable or 'its API key variable'}"

    def hidden_flags(self, dialect: Dialect) -> frozenset[str]:
        """Flags that the CLI takes in `dialect` but does not list in its help."""
        return frozenset()

    def command_words(self) -> list[str]:
        """The words that start its CLI; the name alone if it is not installed."""
        found = self.find()
        return list(found.command) if found else [self.settings.binary or self.binary]

    # -- one run --------------------------------------------------------------------------------

    @abstractmethod
    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start a run of `options` in the environment `env`.

        Contract: refuses before anything is started: `NotInstalled`, `UnsupportedOption`,
        `WrongUse`. May make folders, which the plan names in `private_dirs`.
        """

    @abstractmethod
    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""

    def noted_before(self, plan: RunPlan, resume: str) -> dict[str, Any]:
        """What the agent's files record about the conversation `resume` before the process of
        `plan` continues it, as JSON values. A normalizer that is made while the process runs finds
        it in `plan.noted`, so that it counts nothing twice."""
        return {}

    def asks_under(self, options: RunOptions) -> bool:
        """Whether it asks for permission with these options, in the drives of `Features.asks`."""
        return True

    def unasked(self, options: RunOptions) -> str:
        """What happens to tool calls that need permission in a run where nobody is asked, as a
        clause for the user; empty if the plan's warnings say it. A hint at `--permission bypass`
        is added, unless the clause names that."""
        return "its permission requests are refused"

    def retry_log(self) -> "RetryReader | None":
        """A reader of the CLI's standard error that finds repeated model calls; None if the CLI
        logs none."""
        return None

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """What its CLI, started as `spec`, must be able to write in a sandbox.

        The run's private folders and its scratch folder are writable anyway.
        """
        from bridle.sandbox import SandboxNeeds

        return SandboxNeeds(writable=tuple(in_home(path, spec.env) for path in self.state_paths))

    # -- commands for other programs ------------------------------------------------------------

    @abstractmethod
    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session. Working directory and environment are set
        on the terminal, never in the command."""

    @abstractmethod
    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call that prints its answer as plain text; no shell.

        `env` is the result of `build_env`: some CLIs take a provider's address by flag. The process
        gets no stdin. Raises `WrongUse` if the CLI has no such call.
        """

    @abstractmethod
    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the agent to `model`'s provider."""

    # -- a product that another program starts --------------------------------------------------

    def tool_table(self) -> ToolTable | None:
        """The names of its tools; see `tools`."""
        return self.tools

    def tool_pieces(self, options: RunOptions, folder: str, env: Mapping[str, str]) -> ToolPieces:
        """What switches the tools of `options`, which are in its own names, when the product speaks
        a protocol. The files will be in `folder`; `env` shows which settings are the user's. Empty
        if the product gets them in another way."""
        return ToolPieces()

    def routing_facts(self) -> RoutingFacts:
        """The variables that route its CLI to a model service; see `routing`."""
        return self.routing

    def service_pieces(self, service: Service) -> ServicePieces:
        """What routes the product to `service` when another program starts it, without touching the
        user's files."""
        return ServicePieces()

    def isolating_settings(
        self, env: Mapping[str, str], cwd: str, key: str | None
    ) -> dict[str, Any]:
        """Settings that keep the product, started by another program with `env` in `cwd`, on the
        model service that `env` routes to, whose key is in the variable `key`. Empty if its own
        settings cannot route it elsewhere."""
        return {}

    # -- worktree and terminal ------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """The files in `worktree` that may hold deployed instructions, the best first."""
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path),)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure. A runtime without a terminal interface is ready."""
        return Ready()

    def requires_beacon_verification(self) -> bool:
        """Whether the first prompt must be checked, and sent again if it was swallowed."""
        return True


class Live(Adapter):
    """An agent with a protocol for a conversation: the drive `rpc`."""

    @abstractmethod
    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start a process that takes many prompts, with `RunPlan.live` set and
        `keep_stdin` in its spec. `options.prompt` and its images are not used: every message comes
        by the wire.

        Contract: as `plan_run`. What the wire must know goes into `live`, not into the adapter.
        """

    @abstractmethod
    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a process that `plan_live` planned, now or before Bridle crashed."""

    def forgotten(self, facts: LiveFacts, messages: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these messages are missing in the conversation `facts.resume`, although the
        agent acknowledged them: an agent that is killed at that moment stores nothing. `facts` are
        of `plan_live`. Empty for an agent that does not keep the ids of messages."""
        return ()

    def remote_terminal(
        self, facts: LiveFacts, native_id: str, env: Mapping[str, str]
    ) -> ProcessSpec | None:
        """The agent's own terminal interface, for a person to start with the environment `env`,
        joined to a running process that `plan_live` planned; None if there is none."""
        return None


class Interactive(Adapter):
    """An agent with a terminal interface that a person can use."""

    @abstractmethod
    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """The plan of a run that a person drives at this terminal. Contract: as `plan_run`."""


class Terminal(Adapter):
    """An agent whose terminal interface Bridle drives in a pane: the drive `tmux`."""

    @abstractmethod
    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start its terminal interface in a pane, with `RunPlan.live` set.
        Prompts are typed into the pane; `options.prompt` is not used.

        Contract: as `plan_run`. `native_session_id` is set if Bridle can choose it.
        """

    @abstractmethod
    def tmux_wire(self, facts: LiveFacts, recorder: Recorder) -> "TranscriptWire":
        """The reader of the transcript that a session planned by `plan_tmux` writes."""

    @abstractmethod
    def transcript_path(self, facts: LiveFacts, pid: int | None = None) -> str | None:
        """The transcript of a session planned by `plan_tmux`; None while it is unknown, for some
        agents until the first prompt. `pid` is the process in the pane."""

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.drives.tmux.facts import TerminalFacts

        return TerminalFacts()

    def configured_terminal(self) -> "TerminalFacts":
        """`terminal_facts`, with the configuration's settings of readiness."""
        facts, ready = self.terminal_facts(), self.settings.ready
        if ready is None:
            return facts
        return msgspec.structs.replace(
            facts, ready=ready.strategy, warmup=ready.warmup, retries=ready.retries
        )

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """The plan of a terminal session whose own hooks report into the folder `plan.reports`
        (`bridle.drives.tmux.hook_reports`), in addition to the hooks of the user, the project and
        the guard.

        Contract: as `Guarded.guard_plan`, but never raises: without reports, the transcript still
        gives the evidence. An agent that reports says in `terminal_facts` what.
        """
        return plan


class Guarded(Adapter):
    """An agent that can be made to ask Bridle before each tool call."""

    @property
    def can_be_guarded(self) -> bool:
        """Whether this agent has the ability. Only an adapter to many agents (ACP) says no."""
        return True

    @abstractmethod
    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """`plan`, changed so that the agent asks before each tool call; `guard` names the
        mechanism.

        Contract: works on a plan for any drive; adds flags, variables and files in `hook.folder`,
        and changes nothing of the user's. Raises `GuardRefused` if the plan cannot be guarded:
        a version without hooks, or options that switch them off.
        """

    def guard_pieces(self, argv: Sequence[str], hook: GuardHook) -> GuardPieces:
        """What makes the product ask when another program starts it with `argv` (an adapter to a
        protocol); raises `GuardRefused` if that cannot be separated from its own command."""
        raise GuardRefused(f"{self.id} cannot be guarded through another program")

    def prove_guard(self, plan: RunPlan) -> str:
        """Prove, before the agent of a guarded session starts, that its guard will fire; returns
        the proof, empty if only the session can show it.

        For an agent whose guard proves itself only with the first prompt, but which can list its
        hooks. Raises `GuardRefused` if the guard is not among those that will run.
        """
        return ""

    def guard_shape(self) -> HookShape:
        """The shape of the hooks that `deploy_guard` puts into a worktree; raises `GuardRefused` if
        hooks in a worktree would not be reliable."""
        raise no_worktree_guard(self)

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """Put a hook that runs `command` into a worktree, for agents that are started there by
        hand; None removes it. Returns the file.

        Contract: may be repeated; everything else in the file stays. Bridle's entries are those
        whose command contains `mark`.
        """
        raise no_worktree_guard(self)


class History(Adapter):
    """An agent whose own transcripts Bridle can read."""

    @abstractmethod
    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """The usage that the transcript at `path` records; None if it is missing or unreadable."""

    @abstractmethod
    def transcript_dir(self, project: str) -> str | None:
        """The folder where the agent keeps the transcripts of `project`."""

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """What `parse_transcript` takes for the agent's own session `session_id`, which ran in
        `env`; None if there is none, or if its place is unknown."""
        return None

    def prompt_history(self, path: str) -> list[Spent]:
        """What each prompt in the transcript at `path` used, the oldest first; empty if the
        transcript does not say."""
        return []


def is_guardable(adapter: Adapter) -> bool:
    """Whether the agent can be made to ask before each tool call."""
    return isinstance(adapter, Guarded) and adapter.can_be_guarded


def as_guarded(adapter: Adapter) -> Guarded:
    """The adapter with its guard; raises `GuardRefused` if it has none."""
    if isinstance(adapter, Guarded):
        return adapter
    raise GuardRefused(
        f"{adapter.id} has no way to ask before a tool call",
        hint="confine it with --sandbox worktree instead, and pass --unguarded",
        runtime=adapter.id,
    )


def no_worktree_guard(adapter: Adapter) -> GuardRefused:
    """The refusal to put a guard into a worktree."""
    return GuardRefused(
        f"{adapter.id} takes no guard from a worktree: {adapter.worktree_hooks}",
        hint="start it with Bridle, which gives it the guard by other means",
        runtime=adapter.id,
    )


class HasAdapter(Protocol):
    """An object around an adapter: `bridle.AgentRuntime`, which a layer above this one defines."""

    @property
    def adapter(self) -> Adapter:
        """The adapter."""


def adapter_of(runtime: Adapter | HasAdapter) -> Adapter:
    """The adapter that a caller of the library means."""
    return runtime if isinstance(runtime, Adapter) else runtime.adapter
