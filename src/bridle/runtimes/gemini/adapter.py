"""The adapter to Gemini CLI: joins its facts, command, wire, hooks and files.

See `docs/runtimes/gemini.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.core.errors import ResumeRefused, WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.contract import Interactive
from bridle.runtimes.gemini import command
from bridle.runtimes.gemini.product import PRODUCT, GeminiDialect, GeminiOptions
from bridle.runtimes.options import read_provider_options
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import Command, Environment, Launch, refuse_system_prompts
from bridle.runtimes.product import Mode
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.history import Spent
    from bridle.runtimes.retries import RetryReader
    from bridle.sandbox import SandboxNeeds

_ID_PARTS = (8, 4, 4, 4, 12)


class GeminiRuntime(AcpAdapter, Interactive):
    """Gemini CLI (`gemini`): runs in its stream-json mode, conversations over ACP."""

    product = PRODUCT
    quirks = quirks.GEMINI
    history_variables = ("HOME", command.HOME)

    # -- processes --------------------------------------------------------------------------------

    def check(self, options: RunOptions, own: Any, dialect: Any, mode: Mode) -> None:
        """Refuse a prompt that Gemini would cut, an unknown mode, and an id that it would not take
        for a session's. Over ACP the protocol answers."""
        if mode == "live":
            return
        if mode in ("interactive", "spawn"):
            refuse_system_prompts(self, options)
        if own.approval_mode is not None and own.approval_mode not in dialect.approval_modes:
            raise WrongUse(
                f"provider option approval_mode cannot be {own.approval_mode}",
                hint=f"one of: {', '.join(dialect.approval_modes)}",
            )
        if (
            mode == "run"
            and len(options.prompt.encode(errors="surrogateescape")) > dialect.prompt_limit
        ):
            raise WrongUse(
                f"gemini reads no more than {dialect.prompt_limit >> 20} MiB of a prompt",
                hint="write the text to a file in the working directory and name it",
            )
        if options.resume is None:
            return
        if tuple(map(len, options.resume.split("-"))) != _ID_PARTS:
            # Gemini takes a number for a place in its list, and `latest` for the newest session.
            raise ResumeRefused(
                f"not a session's id: {options.resume}", hint="give the whole id", runtime=self.id
            )
        if options.model_server is not None and options.account_dir is None:
            raise ResumeRefused(
                "a run on a scripted model has a new home, without any session",
                hint="give it a lasting home with account_dir",
                runtime=self.id,
            )

    def environment(self, launch: Launch) -> Environment:
        """The user's variables, routed to the model service, and a home for changed settings."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The address and the key of `provider`, and a home with the setting that they need."""
        return command.provider_env(provider, env)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        return command.sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """A headless Gemini asks nobody."""
        return "tools that need permission are not offered to the model"

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what a run prints."""
        from bridle.runtimes.gemini.stream import GeminiNormalizer

        assert isinstance(plan.dialect, GeminiDialect)
        options = recorder.options
        own = read_provider_options(self.id, options.provider_options, GeminiOptions)
        return GeminiNormalizer(
            recorder,
            retry_seconds=own.retry_seconds,
            resumed=options.resume,
            requested_model=options.model or plan.dialect.default_model,
        )

    def retry_log(self) -> "RetryReader":
        """Gemini logs failed calls on its standard error; over ACP only when it exits."""
        from bridle.runtimes.gemini.stream import GeminiLog

        return GeminiLog()

    def check_load(self, env: Mapping[str, str], session_id: str) -> None:
        """Refuse a session that began within this minute: Gemini would lose it."""
        from bridle.runtimes.gemini.transcript import check_load

        check_load(command.config_dir(env), session_id)

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Hooks in the settings of a private home, over ACP a policy."""
        from bridle.runtimes.gemini.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """The settings of a trusted worktree bring hooks that hold."""
        from bridle.runtimes.gemini.hooks import SHAPE

        return SHAPE

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """In `.gemini/settings.json`, of a folder that the user has trusted."""
        from bridle.runtimes.gemini.hooks import deploy_hooks

        return deploy_hooks(worktree, command, mark, os.environ)

    # -- its terminal interface -------------------------------------------------------------------

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.gemini.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """Yes: it may restart itself right after its start, which loses what was typed."""
        return True

    # -- history ----------------------------------------------------------------------------------

    def history_places(self, env: Mapping[str, str]) -> dict[str, str]:
        """The user's home, which lasts longer than the home of a process."""
        places = super().history_places(env)
        if command.HOME in places:
            places[command.HOME] = os.path.dirname(command.user_config_dir(env))
        return places

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """The usage that a session file records; None if it is missing or unreadable."""
        from bridle.runtimes.gemini.transcript import parse_transcript

        return parse_transcript(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each prompt in a session file used."""
        from bridle.runtimes.gemini.transcript import prompt_history

        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of the sessions of `project`; None if Gemini has never worked there."""
        from bridle.runtimes.gemini.transcript import chats_dir

        return chats_dir(command.config_dir(os.environ), project)

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The file of a session, of any project."""
        from bridle.runtimes.gemini.transcript import find_session

        return find_session(command.config_dir(env), session_id)


class GeminiAcp(AcpAlias, GeminiRuntime):
    """Gemini CLI over ACP in runs too: the runtime `gemini-acp`."""
