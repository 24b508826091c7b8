"""What an adapter says of its agent: how its CLI is found, started, stopped, guarded and read.

`Adapter` in `base` adds what every runtime then offers, and is what adapters subclass.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec

from bridle.core.errors import GuardRefused, NotInstalled, UnsupportedOption
from bridle.core.features import Features
from bridle.core.handles import SessionHints
from bridle.core.options import (
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import Availability, ReadyState, TranscriptSummary
from bridle.process.spec import Normalizer, ProcessSpec
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import in_home
from bridle.runtimes.routing import RoutingFacts
from bridle.turns.guard_contract import GuardHook, GuardPieces, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.following import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.retries import RetryReader
    from bridle.runtimes.tool_names import ToolPieces, ToolTable
    from bridle.sandbox import SandboxNeeds


class ReadySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How it is known that a terminal waits, where the configuration says so."""

    strategy: Literal["prompt", "warmup"]
    warmup: float
    retries: int


class AdapterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about one runtime."""

    binary: str | None = None
    """Overrides where the CLI is looked for: a path or a name on PATH."""
    options: dict[str, Any] = {}
    """The runtime's own settings (`runtime.adapters.<name>.options`; for Pi `runtime.pi`), checked
    against `options_type` when they came from a file."""
    ready: ReadySettings | None = None
    """Overrides when its terminal is taken to wait for a prompt."""


class Adapter(ABC):
    """What Bridle knows of one coding agent's CLI.

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
    worktree_hooks: ClassVar[str] = "it runs no hook that a file there could name"
    """Why a worktree cannot bring a guard; see `guard_shape`."""
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
    options_type: ClassVar[type[msgspec.Struct] | None] = None
    """The shape of `runtime.adapters.<name>.options` in a configuration; None where the adapter
    takes no settings of its own. Its keys, types and limits are checked with file and line."""
    provider_path: ClassVar[str] = "/v1"
    """What the address of a provider ends with, after the host, for its CLI."""
    scripted_model: ClassVar[str] = "scripted"
    """The model of a one-shot call to a scripted model that names none, as its CLI needs it."""
    asking_sibling: ClassVar[str] = ""
    """The registered runtime that drives the same product by ACP, where `Features.asks` names
    `acp`: it plays the runs in which somebody answers permission requests."""
    tools: ClassVar["ToolTable | None"] = None
    """What its tools are called. An adapter that honours `allowed_tools` or `denied_tools` has a
    table and translates by it (`tool_names.native_tools`); without one, names go through as they
    are."""
    routing: ClassVar[RoutingFacts] = RoutingFacts()
    """What leads its CLI to a model service."""
    tells_version: ClassVar[bool] = True
    """Whether the CLI answers `--version`."""

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        self.settings = settings or AdapterSettings()

    def use_binary(self, binary: str) -> None:
        """Use the CLI at `binary` (a path or a name on PATH) from now on; for proofs on a version
        that is not the installed one."""
        self.settings = msgspec.structs.replace(self.settings, binary=binary)

    # -- identity and availability --------------------------------------------------------------

    def tool_table(self) -> "ToolTable | None":
        """What its tools are called; see `tools`."""
        return self.tools

    def tool_pieces(self, options: RunOptions, folder: str, env: Mapping[str, str]) -> "ToolPieces":
        """What switches the tools of `options`, which are in its own names, when the product speaks
        a protocol. `folder` is where the files will be, `env` tells which settings are the user's.
        Empty where that goes another way."""
        from bridle.runtimes.tool_names import ToolPieces

        return ToolPieces()

    def routing_facts(self) -> RoutingFacts:
        """What leads its CLI to a model service; see `routing`."""
        return self.routing

    def isolating_settings(
        self, env: Mapping[str, str], cwd: str, key: str | None
    ) -> dict[str, Any]:
        """Settings by which the product, started by another program with `env` in `cwd`, keeps to
        the model service that `env` leads to, whose key is in the variable `key`. Empty where its
        own settings cannot lead it elsewhere."""
        return {}

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

    def command_words(self) -> list[str]:
        """The words that start its CLI; the name alone when it is not installed."""
        found = self.find()
        return list(found.command) if found else [self.settings.binary or self.binary]

    @abstractmethod
    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session; working directory and environment are set
        on the terminal, never in the command."""

    @abstractmethod
    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout; no shell.

        `env` is what `build_env` gave: a CLI that takes the address of a provider by flag alone
        finds it there. The process gets no stdin. Raises `WrongUse` where there is no such call.
        """

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

    def asks_under(self, options: RunOptions) -> bool:
        """Whether it asks with these options, in the drives that `Features.asks` names."""
        return True

    def unasked(self, options: RunOptions) -> str:
        """What happens to tool calls that need permission in a run where nobody is asked, as a
        clause for the user; empty where the plan's own warnings say it. The user gets the hint at
        `--permission bypass` with it, unless the clause itself names that."""
        return "its permission requests are refused"

    # -- live conversations ---------------------------------------------------------------------

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start a process that takes many prompts (the drive `rpc`), with
        `RunPlan.live` set and `keep_stdin` in its spec. `options.prompt` and its images play no
        part: every message comes by the wire.

        Contract: as `plan_run`. What the wire must know goes into `live`, not into the adapter.
        """
        from bridle.runtimes.supporting import live_runtimes

        raise UnsupportedOption(
            self.id,
            "drive rpc",
            live_runtimes(self.id),
            reason="it has no protocol for a conversation",
        )

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a process that `plan_live` planned, now or before a crash of ours."""
        raise NotImplementedError(f"{self.id} has no live wire")

    def forgotten(self, facts: LiveFacts, messages: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these messages the conversation `facts.resume` does not hold, although the
        agent said that it took them: one that is killed right then writes nothing down. `facts`
        are of `plan_live`.

        Only who keeps the ids of messages can tell; others name none.
        """
        return ()

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
        from bridle.runtimes.supporting import terminal_runtimes

        raise UnsupportedOption(
            self.id,
            "drive tmux",
            terminal_runtimes(self.id),
            reason="it is not driven in a terminal",
        )

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

    def configured_terminal(self) -> "TerminalFacts":
        """`terminal_facts`, with what the configuration says of readiness."""
        facts, ready = self.terminal_facts(), self.settings.ready
        if ready is None:
            return facts
        return msgspec.structs.replace(
            facts, ready=ready.strategy, warmup=ready.warmup, retries=ready.retries
        )

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """The plan of a terminal session whose own hooks report into the folder `plan.reports`
        (`bridle.drives.tmux.reports`), beside those of the user, the project and the guard.

        Contract: as `guard_plan`, but never raises: without reports the transcript still tells. A
        runtime that reports says in its `terminal_facts` what.
        """
        return plan

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
            hint="hold it with --sandbox worktree instead, and say --unguarded",
            runtime=self.id,
        )

    def guard_pieces(self, argv: Sequence[str], hook: GuardHook) -> GuardPieces:
        """What makes the product ask when another program starts it with `argv` (an adapter to a
        protocol); raises `GuardRefused` where that cannot be said apart from its own command."""
        raise GuardRefused(f"{self.id} cannot be guarded by way of another program")

    @property
    def can_be_guarded(self) -> bool:
        """Whether there is a way to make it ask before a tool call (`guard_plan`)."""
        return type(self).guard_plan is not Adapter.guard_plan

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
            f"{self.id} takes no guard from a worktree: {self.worktree_hooks}",
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
        from bridle.runtimes.supporting import supporters

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


class HasAdapter(Protocol):
    """An object around an adapter: `bridle.AgentRuntime`, which a layer above this one defines."""

    @property
    def adapter(self) -> Adapter:
        """The adapter."""


def adapter_of(runtime: Adapter | HasAdapter) -> Adapter:
    """The adapter that a caller of the library means."""
    return runtime if isinstance(runtime, Adapter) else runtime.adapter
