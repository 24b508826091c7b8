"""The tiny agent under a known name, for the examples of the documentation."""

from collections.abc import Mapping

from msgspec.structs import replace

from bridle.core.features import Features
from bridle.core.options import RunOptions
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.plan import RunPlan
from tests.support.tiny_agent import TinyRuntime


class StandingRuntime(TinyRuntime):
    """Does what a prompt of the documentation asks for, in the tiny agent's own words."""

    id = "claude"

    def features_of(self, dialect: Dialect) -> Features:
        return Features(options=frozenset({"model", "max_turns", "allowed_tools"}), streaming=True)

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        prompt = options.prompt.lower()
        rows = ["say I will look."]
        if "hello.txt" in prompt:
            rows.append("tool echo hello > hello.txt")
        if "clean up" in prompt:
            rows.append("ask Bash")
        if "for ever" in prompt:
            rows.append("hang")
        if "too fast" in prompt:
            rows.append("fail the limit is reached")
        rows.append("say Done. ORCHESTRA_COMPLETE")
        return super().plan_run(replace(options, prompt="\n".join(rows)), env, session_id)
