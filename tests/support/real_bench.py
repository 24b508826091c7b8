"""A real CLI in a place of its own, and what every one of them is held to in the same way."""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.results import TranscriptSummary
from bridle.runtimes.contract import Adapter
from bridle.testing import ScriptedModel
from tests.support.driving import COMMON_SCRIPT, Outcome, Place, check_common, drive

Script = list[dict[str, Any]]


class RealBench(msgspec.Struct, frozen=True):
    """One runtime, driven in its place against scripted models."""

    runtime: Adapter
    place: Place

    def run(self, script: Script, **options: Any) -> tuple[Outcome, ScriptedModel]:
        """A run against a model that plays `script`."""
        with ScriptedModel(script) as model:
            return drive(self.runtime, self.place, model, **options), model

    def drive(self, **options: Any) -> Outcome:
        """A run against whatever the options name."""
        return drive(self.runtime, self.place, **options)

    def run_common_script(self, unwanted: str) -> tuple[Outcome, ScriptedModel]:
        """The script that all runtimes play alike, with every kind of system prompt, a long prompt
        and one tool (`unwanted`) that the model must not be offered."""
        prompt = 'Write "it"\n\n  now. ' + "x" * 200_000
        outcome, model = self.run(
            COMMON_SCRIPT,
            prompt=prompt,
            permission_mode="bypass",
            system_prompt="MY-BASE",
            append_system_prompt="MY-ADDITION",
            denied_tools=(unwanted,),
        )
        check_common(outcome, self.place, prompt, model)
        asked = model.requests[0].question
        assert asked is not None
        assert unwanted not in [tool.name for tool in asked.tools]
        return outcome, model

    def check_fault(self, fault: dict[str, Any], kind: str, retries: int) -> None:
        """A failing service ends the run with its reason, after one retry at most."""
        outcome, _ = self.run([{"fault": fault}], provider_options={"max_retries": 1})
        assert outcome.kind == kind, outcome.result.error
        told = [event for event in outcome.events if isinstance(event, ev.Retry)]
        assert len(told) == retries, (told, outcome.result)

    def check_long_wait(self, seconds: int, **options: Any) -> None:
        """A long wait that the service asks for is not waited for."""
        script: Script = [{"fault": {"status": 429, "retry_after": seconds}}]
        outcome, _ = self.run(script, **options)
        assert outcome.kind == "rate_limited"
        assert outcome.result.error is not None
        assert outcome.result.error.until is not None

    def check_stop_in_a_tool(self) -> None:
        """A tool that runs when the agent is stopped is gone with it."""
        script: Script = [{"text": "Wait.", "shell": "echo $$ > pid; sleep 600"}, {"text": "never"}]
        begun = self.place.repo / "pid"
        outcome, _ = self.run(script, permission_mode="bypass", stop_at=begun)
        assert outcome.result.status == "aborted"
        assert begun.exists(), "the tool never began"

    def check_resumed(self, other: Callable[[str], str], **options: Any) -> tuple[Outcome, Outcome]:
        """One conversation, gone on with by its id; what `other` makes of that is no conversation's
        id and is refused. The model answers `One.` and `Two.`."""
        first = self.drive(**options)
        assert first.result.status == "completed", first.result.error
        session = first.result.native_session_id
        assert session is not None
        again = self.drive(resume=session, prompt="Go on.", **options)
        assert again.result.text == "Two."
        assert again.result.native_session_id == session
        lost = self.drive(resume=other(session), **options)
        assert lost.kind == "resume_refused"
        return first, again


def check_stored(stored: TranscriptSummary | None, *runs: Outcome) -> None:
    """The transcript counts what the runs did."""
    assert stored is not None
    assert stored.input_tokens == sum(each.result.usage.input_tokens for each in runs)
    assert stored.output_tokens == sum(each.result.usage.output_tokens for each in runs)
