"""The contract of runtimes that can take in a conversation which another agent had.

Optional: a runtime that can is an `ImportsConversation`; with all others a hand-over is a brief.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from bridle.core.options import RunOptions


class PastTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called, and what it gave."""

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
    """A runtime whose agent has an import of its own."""

    def import_conversation(
        self, messages: Iterable[PastMessage], options: RunOptions, env: Mapping[str, str]
    ) -> str | None:
        """Make the conversation one of this agent's own; returns its native id, to resume by.

        `options` are those of the session that will go on with it: its working directory, account
        and provider decide where the conversation lands. None when the installed version has no
        such import or would not take this one. Raises `NotInstalled`. It calls no model.
        """
