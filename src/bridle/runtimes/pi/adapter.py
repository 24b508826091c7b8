"""The adapter to Pi: joins its facts, command, wires, hooks and files.

See `docs/runtimes/pi.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.features import Features
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.contract import Guarded, History, Interactive, Live, Terminal
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.pi import command
from bridle.runtimes.pi.product import PRODUCT, PiDialect, PiOptions, agent_dir
from bridle.runtimes.pi.stream import PiNormalizer
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.product import Login, Mode
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds


class PiRuntime(CliAdapter, Live, Terminal, Interactive, Guarded, History):
    """The Pi coding agent (`pi`): a process for each prompt in its JSON mode, or one for many in
    its rpc mode."""

    product = PRODUCT

    # -- processes --------------------------------------------------------------------------------

    def features_of(self, dialect: Dialect) -> Features:
        """MCP servers and the report of retries are a matter of the version."""
        features = PRODUCT.features
        if not isinstance(dialect, PiDialect):
            return features
        options = features.options if dialect.mcp else features.options - {"mcp_config"}
        return msgspec.structs.replace(features, options=options, retries=dialect.retries)

    def credentials(self, env: Mapping[str, str]) -> Login:
        """Whether a login or key exists; Pi expands `~` in the variable of its folder."""
        return PRODUCT.login_in({**env, PRODUCT.home_variable: agent_dir(env)})

    def check(self, options: RunOptions, own: PiOptions, dialect: PiDialect, mode: Mode) -> None:
        """Refuse values that this version does not know, and a copy in a terminal session."""
        command.check(options, own, dialect, mode)

    def environment(self, launch: Launch) -> Environment:
        """The user's variables, and a configuration folder where the user's own does not fit."""
        return command.environment(launch, self.settings.options)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env, self.settings.options)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The key of `provider` in Pi's variables, its address in a configuration folder."""
        full = command.expand_model(model, self.settings.options) if model else None
        return command.provider_env(provider, full, env, self.installed_dialect())

    def unasked(self, options: RunOptions) -> str:
        """In its JSON mode Pi asks nobody."""
        return "only tools that read run, all others are refused"

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folder, without what its later sessions obey or run."""
        return command.sandbox_needs(spec.env, spec.cwd)

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> PiNormalizer:
        """The translator of what a run prints."""
        assert isinstance(plan.dialect, PiDialect)
        return PiNormalizer(
            recorder,
            settles=plan.dialect.settles,
            resumed=recorder.options.resume,
            fork=plan.native_session_id is None,
            requested_model=command.wanted_model(recorder.options, self.settings.options) or "",
        )

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a conversation in Pi's rpc mode."""
        from bridle.runtimes.pi.live import PiLiveWire

        return PiLiveWire(facts, recorder)

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """An extension of Bridle's, and no other."""
        from bridle.runtimes.pi.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """An extension in a worktree runs a hook and asks for a clear answer."""
        from bridle.runtimes.guard_plugin import BY_PROCESS

        return BY_PROCESS

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """As an extension of a worktree that the user has trusted."""
        from bridle.runtimes.pi.hooks import deploy_extension

        trusts = self.installed_dialect().trust_flags
        return deploy_extension(worktree, command, mark, os.environ, trusts=trusts)

    # -- its terminal interface -------------------------------------------------------------------

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """An extension beside those of the user."""
        from bridle.runtimes.pi.tui import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: LiveFacts, recorder: Recorder) -> "TranscriptWire":
        """The reader of its session file."""
        from bridle.runtimes.pi.tui import PiFollower

        return PiFollower(facts, recorder)

    def transcript_path(self, facts: LiveFacts, pid: int | None = None) -> str | None:
        """The session file of a session in a pane."""
        from bridle.runtimes.pi.transcript import session_path

        return session_path(facts)

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.pi.tui import TERMINAL

        return TERMINAL

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.pi.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """No: Pi keeps what is typed before it is up, so sending again would double it."""
        return False

    # -- worktree and history ---------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Pi reads one file in a folder: `AGENTS.md`, which hides a `CLAUDE.md`, or in newer
        versions an override of it."""
        from bridle.runtimes.instructions import Place, override_places

        if self.installed_dialect().override_file:
            return override_places(worktree, self.instruction_path, "CLAUDE.md")
        return (Place(self.instruction_path, carries=("CLAUDE.md",)),)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a conversation used; None when its file is missing or unreadable."""
        from bridle.runtimes.pi.transcript import parse_transcript

        return parse_transcript(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder where Pi keeps the conversations of `project`."""
        from bridle.runtimes.pi.transcript import session_dir

        return session_dir(agent_dir(os.environ), project, os.environ)
