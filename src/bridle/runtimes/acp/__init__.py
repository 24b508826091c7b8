"""Agents that speak the Agent Client Protocol: one adapter, a row of data for each."""

from bridle.runtimes.acp.adapter import AcpRuntime
from bridle.runtimes.acp.readymade import (
    ClaudeAcp,
    ClineAcp,
    CodexAcp,
    CopilotAcp,
    GeminiAcp,
    OpencodeAcp,
    declared_agent,
)

__all__ = [
    "AcpRuntime",
    "ClaudeAcp",
    "ClineAcp",
    "CodexAcp",
    "CopilotAcp",
    "GeminiAcp",
    "OpencodeAcp",
    "declared_agent",
]
