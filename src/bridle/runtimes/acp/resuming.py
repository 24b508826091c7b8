"""Sessions that an agent would harm by loading them; refused before it is started."""

import calendar
import os
import time
from collections.abc import Callable, Mapping

import msgspec

from bridle.core.errors import ResumeRefused


class _Entry(msgspec.Struct, frozen=True):
    type: str = ""


def _check_gemini(env: Mapping[str, str], session_id: str) -> None:
    """Gemini names a session's file by its id and the minute, and begins such a file anew when it
    loads a session. In the minute in which the session began that is the session's own file, whose
    messages are then gone."""
    home = env.get("GEMINI_CLI_HOME") or env.get("HOME") or os.path.expanduser("~")
    projects = os.path.join(home, ".gemini", "tmp")
    now = time.gmtime()
    name = f"session-{time.strftime('%Y-%m-%dT%H-%M', now)}-{session_id[:8]}.jsonl"
    folders = os.listdir(projects) if os.path.isdir(projects) else []
    for folder in folders:
        if _holds_messages(os.path.join(projects, folder, "chats", name)):
            raise ResumeRefused(
                f"Gemini would lose session {session_id}, which began within this minute",
                hint=f"try again in {60 - now.tm_sec} s",
                until=time.strftime(
                    "%Y-%m-%dT%H:%M:%SZ", time.gmtime(calendar.timegm(now) + 60 - now.tm_sec)
                ),
            )


def _holds_messages(path: str) -> bool:
    decode = msgspec.json.Decoder(_Entry).decode
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    if decode(line).type in ("user", "gemini"):
                        return True
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
    except OSError:
        return False
    return False


CHECKS: dict[str, Callable[[Mapping[str, str], str], None]] = {"gemini": _check_gemini}
"""By the row's `resume_check`: the agent's environment and a session's id in; raises
`ResumeRefused`."""
