"""The adapter to the Cline CLI: joins its facts, command, wires, hooks and files.

See `docs/runtimes/cline.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from bridle.core.features import Features
from bridle.core.options import Provider, ResolvedModel, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.cline import command, transcript
from bridle.runtimes.cline.product import DIALECTS, PRODUCT, ClineDialect
from bridle.runtimes.contract import Interactive
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import Command, Environment, Launch
from bridle.runtimes.product import Login, Mode
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.history import Spent
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds


class ClineRuntime(AcpAdapter, Interactive):
    """The Cline CLI: runs in its JSON mode, conversations over ACP."""

    product = PRODUCT
    older_quirks = (quirks.CLINE_3_0_57,)
    quirks = quirks.CLINE
    history_variables = ("HOME", "CLINE_DIR", "CLINE_DATA_DIR", "CLINE_SESSION_DATA_DIR")

    # -- processes --------------------------------------------------------------------------------

    def features_of(self, dialect: Dialect) -> Features:
        """Additions to the system prompt are a matter of the version."""
        features = super().features_of(dialect)
        if not isinstance(dialect, ClineDialect) or dialect.added_rules:
            return features
        added = {"append_system_prompt", "append_system_prompt_file"}
        return msgspec.structs.replace(features, options=features.options - added)

    def credentials(self, env: Mapping[str, str]) -> Login:
        """Whether a provider is set up or a key is given."""
        return command.login_in(env)

    def check(self, options: RunOptions, own: Any, dialect: Any, mode: Mode) -> None:
        """Refuse a system prompt that its command line cannot carry."""
        command.check_length(options)

    def environment(self, launch: Launch) -> Environment:
        """The user's variables with the account, the model service and the run's settings files."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """A settings file that holds the address and the key of `provider`."""
        return command.provider_env(provider, model, env)

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that keep the work in the process that is started, and those of the model.
        Without the first, Cline starts a daemon that outlives the session."""
        return {**command.process_env(DIALECTS[-1]), **super().build_env(model)}

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its data, without what later sessions obey or run."""
        return command.sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """A headless Cline asks nobody."""
        return "its tools are refused"

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what a run prints."""
        from bridle.runtimes.cline.stream import ClineNormalizer

        log = os.path.join(plan.private_dirs[0], command.LOG)
        sessions = transcript.sessions_dir(plan.spec.env)
        return ClineNormalizer(recorder, after_run=transcript.files_reader(log, sessions))

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """A plugin in a home folder of the run's own."""
        from bridle.runtimes.cline.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """A plugin in a worktree runs a hook and asks for a clear answer."""
        from bridle.runtimes.guard_plugin import BY_PROCESS

        return BY_PROCESS

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """As a plugin of the worktree."""
        from bridle.runtimes.cline.hooks import deploy_plugin

        return deploy_plugin(worktree, command, mark)

    # -- worktree, terminal and history -----------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Cline reads `AGENTS.md` and every `.md` among the rules."""
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path), Place(os.path.join(".clinerules", "bridle.md")))

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.cline.tui import detect_ready

        return detect_ready(pane)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a conversation used; None when it is missing or unreadable."""
        return transcript.summarize(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each prompt of a conversation used."""
        return transcript.prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """Cline keeps the conversations of all projects together, a folder each."""
        return transcript.sessions_dir(os.environ)

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The folder of a conversation."""
        return os.path.join(transcript.sessions_dir(env), session_id)


class ClineAcp(AcpAlias, ClineRuntime):
    """Cline over ACP in runs too: the runtime `cline-acp`."""

    id: ClassVar[str] = "cline-acp"
    dialects: ClassVar[tuple[Dialect, ...]] = (quirks.CLINE_3_0_57, quirks.CLINE)
