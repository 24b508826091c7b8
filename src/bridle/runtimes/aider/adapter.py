"""The adapter to Aider: joins its facts, command, wire and files.

See `docs/runtimes/aider.md` for what the CLI honours and what it does by itself. Aider has no
hooks: nothing can ask before one of its edits.
"""

from collections.abc import Mapping
from typing import Any

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.files import home_dir
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.runtimes.aider import command
from bridle.runtimes.aider.product import APIS, PRODUCT, AiderOptions
from bridle.runtimes.alternatives import supporters
from bridle.runtimes.contract import History, Interactive
from bridle.runtimes.options import check_range
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.product import Mode
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer


class AiderRuntime(CliAdapter, Interactive, History):
    """Aider (`aider`), one process for each prompt."""

    product = PRODUCT

    # -- processes --------------------------------------------------------------------------------

    def check(self, options: RunOptions, own: AiderOptions, dialect: Any, mode: Mode) -> None:
        """Refuse values that this version does not know, and what its terminal cannot be given."""
        _one_of("edit_format", own.edit_format, dialect.edit_formats)
        _one_of("api", own.api, APIS)
        check_range("max_retries", own.max_retries, 0, 8)
        if mode not in ("interactive", "spawn"):
            return
        if options.prompt:
            raise UnsupportedOption(
                self.id,
                "prompt" if mode == "interactive" else "initial_prompt",
                supporters("interactive", self.id),
                reason="its terminal interface takes no first prompt",
            )
        for name in ("system_prompt", "append_system_prompt") if mode == "spawn" else ():
            if getattr(options, name) is not None:
                able = supporters(name, self.id)
                raise UnsupportedOption(self.id, name, able, reason="no flag brings it there")

    def environment(self, launch: Launch) -> Environment:
        """The user's variables, a home, and the way to the model service."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The address and the key of `provider`, in Aider's variables."""
        return command.provider_env(provider, model, env)

    def unasked(self, options: RunOptions) -> str:
        """Aider prints its questions without an end of line, so nobody can be asked in time."""
        return "it edits only files that were put into the chat, and every question is answered no"

    # -- wire and files ---------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what a run prints."""
        from bridle.runtimes.aider.stream import AiderNormalizer

        retries = recorder.options.provider_options.get("max_retries", AiderOptions().max_retries)
        return AiderNormalizer(
            recorder,
            native_session_id=plan.native_session_id,
            resumed=recorder.options.resume is not None,
            max_retries=int(retries),
        )

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.aider.tui import detect_ready

        return detect_ready(pane)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """The usage that a chat history or a log of events at `path` records."""
        from bridle.runtimes.aider.transcript import parse

        return parse(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of the histories that Bridle's runs of `project` left."""
        import os

        from bridle.runtimes.aider.transcript import project_dir

        return project_dir(home_dir(os.environ), project)


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise WrongUse(
            f"provider option {name} cannot be {value}", hint=f"one of: {', '.join(allowed)}"
        )
