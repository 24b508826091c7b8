"""The adapter to OpenCode: joins its facts, command, wire, hooks and files.

See `docs/runtimes/opencode.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from bridle.core.errors import ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.alternatives import refuse_fork
from bridle.runtimes.contract import Interactive
from bridle.runtimes.opencode import command
from bridle.runtimes.opencode.product import APIS, PRODUCT, OpenCodeDialect, OpenCodeOptions
from bridle.runtimes.options import read_provider_options
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import Command, Environment, Launch, refuse_system_prompts
from bridle.runtimes.product import Login, Mode
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.history import Spent
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds


class OpenCodeRuntime(AcpAdapter, Interactive):
    """OpenCode (`opencode`): runs by `opencode run --format json`, conversations over ACP."""

    product = PRODUCT
    quirks = quirks.OPENCODE
    history_variables = ("HOME", "XDG_DATA_HOME", "OPENCODE_DB")

    def credentials(self, env: Mapping[str, str]) -> Login:
        """Whether a key variable is set or a login is saved, without reading any."""
        from bridle.runtimes.opencode.transcript import data_dir

        try:
            # OpenCode also leaves an empty object.
            if os.stat(os.path.join(data_dir(env), "auth.json")).st_size > len("{}\n"):
                return "present"
        except OSError:
            pass
        return super().credentials(env)

    # -- processes --------------------------------------------------------------------------------

    def check(self, options: RunOptions, own: Any, dialect: Any, mode: Mode) -> None:
        """Refuse what no flag of a mode expresses, and an id that would be read as a flag. Over
        ACP the protocol answers."""
        if mode == "live":
            return
        if own.api not in APIS:
            raise WrongUse(
                f"provider option api cannot be {own.api}", hint=f"one of: {', '.join(APIS)}"
            )
        if mode == "spawn":
            refuse_system_prompts(self, options)
            if options.permission_mode == "ask":
                raise UnsupportedOption(
                    self.id,
                    "permission_mode=ask",
                    [],
                    reason="no flag of its terminal makes it ask; give bypass, or start it with "
                    "`bridle run --interactive`",
                )
        if mode == "interactive":
            refuse_fork(self.id, options, own.fork, "not in an interactive run")
        if options.resume is None:
            return
        if options.resume.startswith("-"):
            raise WrongUse(f"not a session's id: {options.resume}")
        if options.model_server is not None and options.account_dir is None:
            raise ResumeRefused(
                "a run on a scripted model has a new home, without any session",
                hint="give it a lasting home with account_dir",
                runtime=self.id,
            )

    def environment(self, launch: Launch) -> Environment:
        """The user's variables, the configuration of this process, and a home for a scripted
        model."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """A configuration that names `provider`, and its key."""
        return command.provider_env(provider, model, env)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        return command.sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """`opencode run` asks nobody."""
        return "only tools that look are offered to the model"

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what a run prints."""
        from bridle.runtimes.opencode.stream import OpenCodeNormalizer
        from bridle.runtimes.opencode.transcript import database_path, model_of

        assert isinstance(plan.dialect, OpenCodeDialect)
        options = recorder.options
        own = read_provider_options(self.id, options.provider_options, OpenCodeOptions)
        return OpenCodeNormalizer(
            recorder,
            plan.dialect,
            max_retries=own.max_retries,
            retry_seconds=own.retry_seconds,
            resumed=options.resume,
            fork=own.fork,
            requested_model=command.full_model(options) or "",
            find_model=partial(model_of, database_path(plan.spec.env)),
        )

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """A plugin that the environment names."""
        from bridle.runtimes.opencode.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """A plugin in a worktree runs a hook and needs a clear answer."""
        from bridle.runtimes.guard_plugin import BY_PROCESS

        return BY_PROCESS

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """As a plugin of the worktree."""
        from bridle.runtimes.opencode.hooks import deploy_plugin

        return deploy_plugin(worktree, command, mark)

    # -- its terminal interface -------------------------------------------------------------------

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.opencode.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """Yes: the screen stays blank for many seconds, and what is typed then may be lost."""
        return True

    # -- worktree and history ---------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """`AGENTS.md`, which hides a `CLAUDE.md`."""
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path, carries=("CLAUDE.md",)),)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a session used: `…/opencode.db#ses_ID`, or a file that `opencode export` wrote."""
        from bridle.runtimes.opencode.transcript import parse_transcript

        return parse_transcript(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each prompt of a session used."""
        from bridle.runtimes.opencode.transcript import prompt_history

        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of OpenCode's database, the same for every project."""
        from bridle.runtimes.opencode.transcript import data_dir

        return data_dir(os.environ)

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """One session in the database."""
        from bridle.runtimes.opencode.transcript import database_path

        return f"{database_path(env)}#{session_id}"


class OpencodeAcp(AcpAlias, OpenCodeRuntime):
    """OpenCode over ACP in runs too: the runtime `opencode-acp`."""
