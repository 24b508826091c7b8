"""The runtime of Claude Code, Anthropic's coding agent."""

from bridle.runtimes.claude.product import ClaudeRuntime

__all__ = ["ClaudeRuntime"]
