"""The runtime of Claude Code, Anthropic's coding agent."""

from bridle.runtimes.claude.adapter import ClaudeRuntime

__all__ = ["ClaudeRuntime"]
