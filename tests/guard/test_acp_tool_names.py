"""The one table of native tool names knows what the agents over ACP offer their models."""

from typing import Any

import pytest

from bridle.guard.tools import lookup, only_reads
from bridle.runs import prepare
from bridle.testing import ScriptedModel
from tests.guard.agents import AGENTS, Agent, wanted_of
from tests.sandbox.bench import bench

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch")


def offered_in(body: dict[str, Any]) -> set[str]:
    entries = [tool for entry in body.get("tools", []) for tool in _tools_of(entry)]
    return {str(tool.get("name") or tool.get("type")) for tool in entries}


def _tools_of(entry: dict[str, Any]) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = entry.get("functionDeclarations", [])
    return declared or [entry.get("function", entry)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_the_protocol_is_known(kind: str) -> None:
    assert lookup(kind) is not None


@pytest.mark.real_cli
@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent.cli], ids=str)
def test_every_tool_that_an_agent_offers_is_known(agent: Agent) -> None:
    with bench() as place, ScriptedModel([{"text": "Nothing to do."}]) as model:
        wanted = wanted_of(place, agent, "builder", model)
        for _ in prepare(agent.runtime(), wanted, env=place.env).run.events():
            pass
        offered = set().union(*(offered_in(request.body or {}) for request in model.requests))
    assert len(offered) >= 4
    assert {t for t in offered if lookup(t) is None and not only_reads(t)} == set()
