"""The guard of tool calls: asks on the wire, or by a hook command. Only a clear consent lets a tool
run."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .output import Face

_SECONDS = 60.0


class Guard:
    """Asks before each call; `how` is `stdio` or a shell command."""

    def __init__(self, how: str, face: Face) -> None:
        self._how = how
        self._face = face

    def begin(self) -> None:
        """Show that it will ask."""
        if self._how == "stdio":
            self._face.emit({"type": "guarded"})
        else:
            self._hook({"hook_event_name": "SessionStart"})

    def refusal(self, call: dict[str, Any]) -> str | None:
        """Why a call may not run; None when it may."""
        if self._how == "stdio":
            allowed, reason = self._face.answer(
                {
                    "type": "guard",
                    "request_id": f"guard_{call['id']}",
                    "id": call["id"],
                    "name": call["name"],
                    "args": call["args"],
                    "cwd": os.getcwd(),
                }
            )
            return None if allowed else reason or "the guard refused"
        return self._hook(
            {
                "hook_event_name": "PreToolUse",
                "tool_name": call["name"],
                "tool_input": call["args"],
                "tool_use_id": call["id"],
            }
        )

    def ended(self, call: dict[str, Any], is_error: bool, text: str) -> None:
        """Report how a call went, where no wire does."""
        if self._how != "stdio":
            end = {"tool_name": call["name"], "tool_input": call["args"], "tool_use_id": call["id"]}
            end |= {"error": text} if is_error else {"tool_response": text}
            name = "PostToolUseFailure" if is_error else "PostToolUse"
            self._hook({"hook_event_name": name, **end})

    def _hook(self, payload: dict[str, Any]) -> str | None:
        import subprocess

        try:
            done = subprocess.run(
                ["/bin/sh", "-c", self._how],
                input=json.dumps({**payload, "cwd": os.getcwd()}).encode(),
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            return f"the guard's hook failed: {problem}"
        if done.returncode == 0 and not done.stdout.strip():
            return None
        try:
            said = json.loads(done.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
        except (ValueError, KeyError, TypeError):
            said = "the guard's hook gave no answer that can be understood"
        return str(said)
