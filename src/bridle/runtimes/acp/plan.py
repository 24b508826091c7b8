"""What one session is to be opened with, in the protocol's own terms."""

from typing import Any

import msgspec

from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.base import RunPlan


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is said to the agent before and with the prompt."""

    cwd: str
    prompt: list[dict[str, Any]]
    """Content blocks."""
    mcp_servers: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    """`_meta` of `session/new`, where the agent takes options there."""
    resume: str | None = None
    mode: str | None = None
    """Mode to set before the prompt."""
    model: str | None = None
    """Model to choose by the protocol; None where it is chosen at the start or left as it is."""
    start_timeout: float = 60.0
    silence_timeout: float = 180.0


class AcpPlan(RunPlan, frozen=True, kw_only=True):
    """A run's plan together with its session's."""

    session: SessionPlan
    agent: AcpAgent
