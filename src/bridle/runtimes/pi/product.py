"""The adapter to Pi: how its CLI is found, asked, started and stopped."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from bridle.core.features import Features
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes import routing
from bridle.runtimes.contract import Guarded, History, Interactive, Live, Terminal
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    package_version,
    remembered_version,
)
from bridle.runtimes.pi import home
from bridle.runtimes.pi.choices import wanted_model
from bridle.runtimes.pi.dialects import (
    DIALECTS,
    KEY_VARIABLES,
    TOOLS,
    PiDialect,
    installed_dialect,
    pi_dialect,
)
from bridle.runtimes.pi.planning import plan
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.product import COMMON_OPTIONS
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds
    from bridle.turns.wire import LiveFacts, LiveWire

_PACKAGES = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")
_HONOURED = COMMON_OPTIONS | {
    "system_prompt",
    "max_turns",
    "allowed_tools",
    "denied_tools",
    "settings",
    "images",
    "budget_usd",
    "resume",
}


class PiRuntime(Live, Terminal, Interactive, Guarded, History):
    """The Pi coding agent (`pi`): a process for each prompt in its JSON mode, or one for many in
    its rpc mode."""

    id: ClassVar[str] = "pi"
    binary: ClassVar[str] = "pi"
    instruction_path: ClassVar[str] = "AGENTS.md"
    dialects = DIALECTS
    provider_path: ClassVar[str] = ""
    scripted_model: ClassVar[str] = "lab/scripted"
    install_hint: ClassVar[str] = "npm install -g @earendil-works/pi-coding-agent"
    key_variable: ClassVar[str] = KEY_VARIABLES["anthropic"][0]
    routing = routing.PI
    tools = TOOLS

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[PiDialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return pi_dialect(version)

    def features_of(self, dialect: Dialect) -> Features:
        """What Pi can do in `dialect`."""
        mcp = isinstance(dialect, PiDialect) and dialect.mcp
        return Features(
            options=_HONOURED | {"mcp_config"} if mcp else _HONOURED,
            interactive=True,
            streaming=True,
            thinking=True,
            message_usage=True,
            reports_cost=True,
            retries=True,
            resume=True,
            fork=True,
            steer=True,
            follow_up=True,
            abort=True,
            compaction=True,
            compact=True,
            drives=("print", "rpc", "tmux"),
            asks=("rpc", "tmux"),
            instruction_file=self.instruction_path,
        )

    def find(self) -> Installation | None:
        """The installed Pi. It is a script for Node: there is no native binary behind it."""
        binary = find_executable(self.settings.binary or self.binary)
        if binary is None:
            return None
        for package in _PACKAGES:
            version = package_version(binary, package)
            if version is not None:
                return Installation(binary=binary, version=version)
        version = remembered_version(binary, lambda: ask_version((binary,)))
        return Installation(binary=binary, version=version)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable is set or a login is saved, without reading any."""
        if any(env.get(name) for names in KEY_VARIABLES.values() for name in names):
            return "present"
        folder = home.agent_dir(env)
        try:
            if os.stat(os.path.join(folder, "auth.json")).st_size > len("{}\n"):
                return "present"
        except OSError:
            pass
        has_models = os.path.exists(os.path.join(folder, "models.json"))
        other_key = any(name.endswith("_API_KEY") and value for name, value in env.items())
        return "unknown" if has_models or other_key else "missing"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then make the private files that the run needs."""
        return plan(self, options, env, session_id, live=False)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """As a run, in Pi's rpc mode; every prompt comes by the wire."""
        options = msgspec.structs.replace(options, prompt="", images=())
        made = plan(self, options, env, session_id, live=True)
        names = {name: self.settings.options.get(name) for name in ("provider", "modelMap")}
        spec = msgspec.structs.replace(made.spec, stdin=None, keep_stdin=True)
        live = msgspec.structs.replace(made, spec=spec)
        fork = made.native_session_id is None and options.resume is not None
        own = {"model": wanted_model(options, self.settings.options), "names": names, "fork": fork}
        return live.conversing(self.id, resume=options.resume, own=own)

    def live_wire(self, facts: "LiveFacts", recorder: Recorder) -> "LiveWire":
        """The wire of a conversation in Pi's rpc mode."""
        from bridle.runtimes.pi.live import PiLiveWire

        return PiLiveWire(facts, recorder)

    def unasked(self, options: RunOptions) -> str:
        """In its JSON mode Pi asks nobody."""
        return "only tools that read run, all others are refused"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.pi.stream import PiNormalizer

        assert isinstance(plan.dialect, PiDialect)
        return PiNormalizer(
            recorder,
            settles=plan.dialect.settles,
            resumed=recorder.options.resume,
            fork=plan.native_session_id is None,
            requested_model=wanted_model(recorder.options, self.settings.options) or "",
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """An extension of ours, and no other."""
        from bridle.runtimes.pi.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """An extension in a worktree runs a hook and asks for a clear answer."""
        from bridle.runtimes.asking_js import BY_PROCESS

        return BY_PROCESS

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """As an extension of a worktree that the user has trusted."""
        from bridle.runtimes.pi.hooks import deploy_extension

        found = self.find()
        trusts = bool(self.dialect(found.version if found else None)[0].trust_flags)
        return deploy_extension(worktree, command, mark, os.environ, trusts=trusts)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folder, without what its later sessions obey or run: see `home.sandbox_needs`."""
        return home.sandbox_needs(spec.env, spec.cwd)

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """Pi's own terminal interface with the same choices; the prompt is its first message."""
        from bridle.runtimes.pi.spawn import interactive

        return interactive(self, options, env)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of Pi's terminal interface, which trusts no project; see `spawn`."""
        from bridle.runtimes.pi.spawn import spawn_command

        return spawn_command(self, options)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text; the prompt is the last word."""
        from bridle.runtimes.pi.spawn import print_command

        return print_command(self, prompt, model)

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route Pi to the model's provider; see `spawn`."""
        from bridle.runtimes.pi.spawn import provider_env

        return provider_env(self, model)

    def installed_dialect(self) -> PiDialect:
        """The dialect of the installed version; the newest when none is."""
        return installed_dialect(self)

    # -- a session in a terminal ----------------------------------------------------------------

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Its terminal interface in a pane; see `terminal`."""
        from bridle.runtimes.pi.terminal import plan

        return plan(self, options, env, session_id)

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """An extension beside those of the user; see `reporting`."""
        from bridle.runtimes.pi.reporting import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: "LiveFacts", recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript; see `following`."""
        from bridle.runtimes.pi.following import PiFollower

        return PiFollower(facts, recorder)

    def transcript_path(self, facts: "LiveFacts", pid: int | None = None) -> str | None:
        """Where the session is written down."""
        from bridle.runtimes.pi.terminal import transcript_path

        return transcript_path(facts)

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.pi.tui import TERMINAL

        return TERMINAL

    # -- worktree and history -------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Pi reads one file in a folder: `AGENTS.md`, which hides a `CLAUDE.md`, or in newer
        versions an override of it."""
        from bridle.runtimes.instructions import Place, override_places

        if self.installed_dialect().override_file:
            return override_places(worktree, self.instruction_path, "CLAUDE.md")
        return (Place(self.instruction_path, carries=("CLAUDE.md",)),)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.pi.tui import classify

        return classify(pane)

    def requires_beacon_verification(self) -> bool:
        """No: Pi keeps what is typed before it is up, so sending again would double it."""
        return False

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What the session file at `path` says was used; None when it is missing or unreadable."""
        from bridle.runtimes.pi.transcript import summarize

        return summarize(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder where Pi keeps the conversations of `project`."""
        from bridle.runtimes.pi.transcript import session_dir

        return session_dir(home.agent_dir(os.environ), project, os.environ)
