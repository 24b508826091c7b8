"""Every tool that a real agent offers its model is known, by the one table or by its name."""

from typing import Any

import pytest

from bridle.core.options import ModelServer, RunOptions
from bridle.guard.tools import lookup, only_reads
from bridle.runs import prepare
from bridle.testing import ScriptedModel
from tests.sandbox.bench import bench
from tests.support.real_cli import newest

OTHERS = {"DeferredToolPlaceholder"}
"""No tool: it stands for those that Claude's model has to search for."""


def names_in(body: dict[str, Any]) -> set[str]:
    """The names of the tools in a request, in whichever of the vendors' forms."""
    found = set()
    for entry in body.get("tools", []):
        for tool in entry.get("functionDeclarations", [entry]):
            told = tool.get("function", tool)
            found.add(told.get("name") or told.get("type"))
    return found


@pytest.mark.real_cli
@pytest.mark.parametrize(
    "name", ["claude", "cline", "codex", "copilot", "gemini", "opencode", "pi"]
)
def test_every_tool_is_known(name: str) -> None:
    runtime = newest(name)
    with bench() as place, ScriptedModel([{"text": "Nothing to do."}]) as model:
        options = RunOptions(
            prompt="Do it.",
            cwd=str(place.worktree),
            permission_mode="bypass",
            timeout=120.0,
            model="gpt-5.5" if name == "codex" else None,
            model_server=ModelServer(url=model.url, api_key=model.api_key),
        )
        for _ in prepare(runtime, options, env=place.env).run.events():
            pass
        offered = set().union(*(names_in(request.body) for request in model.requests))
    assert len(offered) >= 4
    unknown = {tool for tool in offered - OTHERS if lookup(tool) is None}
    assert {tool for tool in unknown if not only_reads(tool)} == set()
