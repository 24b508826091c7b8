"""A real CLI on a bench, and what every one of them is held to in the same way."""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.results import TranscriptSummary
from bridle.runtimes.contract import Adapter
from bridle.testing.bench import AgentBench, AgentRun
from tests.support.driving import COMMON_SCRIPT, check_common

Script = list[dict[str, Any]]


class RealAgent(msgspec.Struct, frozen=True):
    """One runtime on a bench."""

    runtime: Adapter
    bench: AgentBench

    def run(self, script: Script | None = None, **options: Any) -> AgentRun:
        """A run on a model that plays `script`, or on what the options name; it asks by default."""
        given = {"permission_mode": "ask", "timeout": 200.0, **options}
        return self.bench.run(self.runtime, script, **given)

    def run_common_script(self, unwanted: str) -> AgentRun:
        """The script that all runtimes play alike, with every kind of system prompt, a long prompt
        and one tool (`unwanted`) that the model must not be offered."""
        prompt = 'Write "it"\n\n  now. ' + "x" * 200_000
        run = self.run(
            COMMON_SCRIPT,
            prompt=prompt,
            permission_mode="bypass",
            system_prompt="MY-BASE",
            append_system_prompt="MY-ADDITION",
            denied_tools=(unwanted,),
        )
        check_common(run, self.bench, prompt)
        asked = run.requests[0].question
        assert asked is not None
        assert unwanted not in [tool.name for tool in asked.tools]
        return run

    def check_fault(self, fault: dict[str, Any], kind: str, retries: int) -> None:
        """A failing service ends the run with its reason, after one retry at most."""
        outcome = self.run([{"fault": fault}], provider_options={"max_retries": 1})
        assert outcome.error_kind == kind, outcome.result.error
        told = outcome.of(ev.Retry)
        assert len(told) == retries, (told, outcome.result)

    def check_long_wait(self, seconds: int, **options: Any) -> None:
        """A long wait that the service asks for is not waited for."""
        script: Script = [{"fault": {"status": 429, "retry_after": seconds}}]
        outcome = self.run(script, **options)
        assert outcome.error_kind == "rate_limited"
        assert outcome.result.error is not None
        assert outcome.result.error.until is not None

    def check_stop_in_a_tool(self) -> None:
        """A tool that runs when the agent is stopped is gone with it."""
        script: Script = [{"text": "Wait.", "shell": "echo $$ > pid; sleep 600"}, {"text": "never"}]
        begun = self.bench.work / "pid"
        outcome = self.run(script, permission_mode="bypass", stop_when=begun.exists)
        assert outcome.result.status == "aborted"
        assert begun.exists(), "the tool never began"

    def check_resumed(
        self, other: Callable[[str], str], **options: Any
    ) -> tuple[AgentRun, AgentRun]:
        """One conversation, gone on with by its id; what `other` makes of that is no conversation's
        id and is refused. The model answers `One.` and `Two.`."""
        first = self.run(**options)
        assert first.result.status == "completed", first.result.error
        session = first.result.native_session_id
        assert session is not None
        again = self.run(resume=session, prompt="Go on.", **options)
        assert again.result.text == "Two."
        assert again.result.native_session_id == session
        lost = self.run(resume=other(session), **options)
        assert lost.error_kind == "resume_refused"
        return first, again


def check_stored(stored: TranscriptSummary | None, *runs: AgentRun) -> None:
    """The transcript counts what the runs did."""
    assert stored is not None
    assert stored.input_tokens == sum(each.result.usage.input_tokens for each in runs)
    assert stored.output_tokens == sum(each.result.usage.output_tokens for each in runs)
