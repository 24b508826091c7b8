"""What a conversation's wire is built from, so that it can be built again after a crash of ours."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from bridle.core.errors import Unavailable
from bridle.core.files import new_private_dir, write_private
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.live import AcpWire, CompactingWire
from bridle.runtimes.acp.plan import AcpPlan, SessionPlan
from bridle.runtimes.acp.prompt_history import count_prompts, spent_on
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts

_SERVERS = "mcp-servers.json"

HISTORY_VARIABLES = (
    "HOME",
    "XDG_DATA_HOME",
    "OPENCODE_DB",
    "CLINE_DIR",
    "CLINE_DATA_DIR",
    "CLINE_SESSION_DATA_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
)
"""Variables that say where an agent keeps its files."""


class AcpFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`LiveFacts.own` of these runtimes."""

    session: SessionPlan
    servers: str = ""
    """File with the MCP servers, which may hold keys."""
    places: dict[str, str] = {}
    """Where the agent keeps its files, where these tell what a turn used."""
    earlier: int = 0
    """Prompts of the session before this process."""


def with_facts(plan: AcpPlan, *, runtime: str, env: Mapping[str, str]) -> AcpPlan:
    """`plan` as that of a conversation."""
    session, folders = plan.session, plan.private_dirs
    servers = ""
    if session.mcp_servers:
        folder = folders[0] if folders else new_private_dir(env, runtime)
        folders = (folder,)
        servers = write_private(folder, _SERVERS, msgspec.json.encode(session.mcp_servers))
    places: dict[str, str] = {}
    earlier = 0
    if plan.agent.history:
        given = plan.spec.env
        places = {name: given[name] for name in HISTORY_VARIABLES if name in given}
        if session.resume:
            earlier = count_prompts(plan.agent.family, places, session.resume)
    own = AcpFacts(
        session=msgspec.structs.replace(session, prompt=[], mcp_servers=[]),
        servers=servers,
        places=places,
        earlier=earlier,
    )
    live = plan.conversing(runtime, resume=session.resume, own=msgspec.to_builtins(own))
    return msgspec.structs.replace(live, private_dirs=folders)


def wire_of(facts: LiveFacts, agent: AcpAgent, recorder: Recorder) -> AcpWire:
    """The wire that `facts` describe."""
    own = msgspec.convert(facts.own, AcpFacts)
    session = own.session
    if own.servers:
        session = msgspec.structs.replace(session, mcp_servers=_servers(own.servers))
    history = partial(spent_on, agent.family, own.places) if agent.history else None
    cls = CompactingWire if agent.compact_command else AcpWire
    return cls(recorder, agent, session, history=history, earlier=own.earlier)


def _servers(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=list[dict[str, Any]])
    except (OSError, msgspec.MsgspecError) as problem:
        raise Unavailable(f"the conversation's MCP servers cannot be read: {problem}") from None
