"""The contract of runtimes that can import a conversation of another agent.

Optional: a runtime that can is an `ImportsConversation`; a handover to any other is a brief.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from bridle.core.options import RunOptions


class PastTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and its result."""

    id: str
    name: str
    args: Any = None
    result: str = ""
    is_error: bool = False


class PastMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a past conversation: the user's, or the agent's with its tools."""

    from_user: bool
    text: str = ""
    ts: str = ""
    tools: tuple[PastTool, ...] = ()


@runtime_checkable
class ImportsConversation(Protocol):
    """A runtime whose agent can import conversations."""

    def import_conversation(
        self, messages: Iterable[PastMessage], options: RunOptions, env: Mapping[str, str]
    ) -> str | None:
        """Import the conversation into this agent; returns its native id, for resuming it.

        `options` are those of the session that will continue it: its working directory, account
        and provider decide where the conversation is stored. None when the installed version cannot
        import it. Raises `NotInstalled`. It calls no model.
        """
