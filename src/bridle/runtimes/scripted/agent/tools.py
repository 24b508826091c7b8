"""The agent's tools: a real shell and real file changes, below its working directory.

The boundary is this agent's own: it holds for its file tools. Its shell is not confined by it.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

    from .guard import Guard
    from .output import Face
    from .replies import Interrupt

NAMES = ("shell", "read_file", "write_file", "edit_file")
_NEEDED = {
    "shell": ("command",),
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "edit_file": ("path", "old", "new"),
}
_ACTS = ("shell", "write_file", "edit_file")
_KEPT = 30_000
_SHELL_LIMIT = 600.0
_REPORTED_EVERY = 0.5
"""Seconds between pieces of what a running shell prints; one that ends sooner has no pieces."""
_ABORTED = (True, "the turn was aborted")
_running: set[int] = set()
"""Process groups of the shells that run now, for the signal handler."""


def kill_running() -> None:
    """Kill every shell that runs, with all it started in its group; safe in a signal handler."""
    for group in list(_running):
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue


class Toolbox:
    """Runs the calls of one reply."""

    def __init__(
        self,
        face: Face,
        permitted: list[str],
        interrupt: Interrupt,
        *,
        ask: bool,
        guard: Guard | None = None,
    ) -> None:
        self._face = face
        self._interrupt = interrupt
        self._permitted = permitted
        self._ask = ask
        self._guard = guard
        self._cwd = os.path.realpath(os.getcwd())

    def run(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Run the calls, several at once; returns their results in the calls' order."""
        for call in calls:
            self._face.emit(
                {
                    "type": "tool_start",
                    "id": call["id"],
                    "name": call["name"],
                    "args": call["args"],
                }
            )
        results: list[tuple[bool, str]] = [(True, "")] * len(calls)
        free = []
        for index, call in enumerate(calls):
            reason = self._refusal(call)
            if reason is None:
                free.append(index)
            else:
                self._ended(call, (True, reason))
                results[index] = (True, reason)

        def do(index: int) -> None:
            results[index] = self._do(calls[index])

        if len(free) > 1:
            import threading

            threads = [threading.Thread(target=do, args=(index,)) for index in free]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        elif free:
            do(free[0])
        return [
            {"id": call["id"], "is_error": is_error, "text": text}
            for call, (is_error, text) in zip(calls, results, strict=True)
        ]

    def _refusal(self, call: dict[str, Any]) -> str | None:
        """Why a call is not run; None when it may."""
        name, args = call["name"], call["args"]
        if name not in NAMES:
            return f"the scripted agent has no tool {name!r}; it has {', '.join(NAMES)}"
        wrong = [key for key in _NEEDED[name] if not isinstance(args.get(key), str)]
        if wrong:
            return f"{name} needs the text argument {wrong[0]!r}"
        guarded = self._guard.refusal(call) if self._guard is not None else None
        if guarded is not None:
            return f"refused: {guarded}"
        reason, by = "", "scripted"
        if name not in self._permitted:
            reason = f"the tool {name} is not allowed in this run"
        elif name != "shell":
            reason = self._outside(args["path"])
        if reason:
            self._face.emit(
                {"type": "refused", "id": call["id"], "name": name, "reason": reason, "by": by}
            )
            return f"refused: {reason}"
        if self._ask and name in _ACTS:
            allowed, why = self._face.answer(
                {
                    "type": "permission",
                    "request_id": f"ask_{call['id']}",
                    "id": call["id"],
                    "name": name,
                    "args": args,
                }
            )
            if not allowed:
                return f"permission denied: {why}"
        return None

    def _outside(self, path: str) -> str:
        real = os.path.realpath(os.path.join(self._cwd, path))
        if real == self._cwd or real.startswith(self._cwd.rstrip("/") + "/"):
            return ""
        return (
            f"{path} is outside the working directory {self._cwd} "
            "(the boundary of the scripted agent's file tools)"
        )

    def _do(self, call: dict[str, Any]) -> tuple[bool, str]:
        args = call["args"]
        try:
            if self._interrupt.requested:
                result = _ABORTED
            elif call["name"] == "shell":
                result = _shell(
                    args["command"],
                    args.get("timeout"),
                    self._interrupt,
                    lambda text: self._face.emit(
                        {"type": "tool_update", "id": call["id"], "text": text}
                    ),
                )
            else:
                path = os.path.join(self._cwd, args["path"])
                result = _FILE_TOOLS[call["name"]](path, args)
        except (OSError, ValueError) as problem:
            result = (True, str(problem))
        self._ended(call, result)
        return result

    def _ended(self, call: dict[str, Any], result: tuple[bool, str]) -> None:
        self._face.emit(
            {"type": "tool_end", "id": call["id"], "is_error": result[0], "result": result[1]}
        )
        if self._guard is not None:
            self._guard.ended(call, *result)


def _shell(
    command: str, limit: Any, interrupt: Interrupt, report: Callable[[str], None]
) -> tuple[bool, str]:
    """Run a command; `report` gets what it prints while it runs."""
    import subprocess
    import threading

    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    process = subprocess.Popen(
        [shell, "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    _running.add(process.pid)
    if interrupt.requested:
        # The request may have come before the shell was registered.
        kill_running()
    kept = bytearray()
    left_out = [0]
    reader = threading.Thread(target=_collect, args=(process.stdout, kept, left_out), daemon=True)
    reader.start()
    seconds = float(limit) if isinstance(limit, int | float) and limit > 0 else _SHELL_LIMIT
    try:
        code = _wait(process, seconds, kept, report)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said = bytes(kept).decode(errors="replace")
        return True, f"the command was stopped after {seconds:g} s\n{said}"
    finally:
        _running.discard(process.pid)
    if interrupt.requested:
        return _ABORTED
    # A background process may keep the pipe open; it is not waited for.
    reader.join(0.3)
    text = bytes(kept).decode(errors="replace")
    if left_out[0]:
        text += f"\n[{left_out[0]} more bytes left out]"
    return (True, f"exit status {code}\n{text}") if code else (False, text)


def _wait(
    process: subprocess.Popen[bytes], seconds: float, kept: bytearray, report: Callable[[str], None]
) -> int:
    """The exit status, at most `seconds` from now; `report` gets what is `kept` meanwhile."""
    import codecs
    import subprocess
    import time

    until, reported = time.monotonic() + seconds, 0
    # A piece may end within a character.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        left = until - time.monotonic()
        try:
            return process.wait(timeout=max(0.0, min(left, _REPORTED_EVERY)))
        except subprocess.TimeoutExpired:
            if left <= _REPORTED_EVERY:
                raise
        fresh = bytes(kept[reported:])
        reported += len(fresh)
        if text := decoder.decode(fresh):
            report(text)


def _collect(stream: Any, kept: bytearray, left_out: list[int]) -> None:
    while data := os.read(stream.fileno(), 65536):
        room = max(0, _KEPT - len(kept))
        kept += data[:room]
        left_out[0] += len(data) - min(room, len(data))


def _read(path: str, args: dict[str, Any]) -> tuple[bool, str]:
    with open(path, "rb") as file:
        data = file.read(_KEPT + 1)
    text = data[:_KEPT].decode(errors="replace")
    return False, text if len(data) <= _KEPT else text + "\n[the rest is left out]"


def _write(path: str, args: dict[str, Any]) -> tuple[bool, str]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(args["content"])
    return False, f"wrote {len(args['content'].encode())} bytes to {args['path']}"


def _edit(path: str, args: dict[str, Any]) -> tuple[bool, str]:
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    found = text.count(args["old"]) if args["old"] else 0
    if found != 1:
        return True, f"the text to replace occurs {found} times in {args['path']}, not once"
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text.replace(args["old"], args["new"]))
    return False, f"edited {args['path']}"


_FILE_TOOLS = {"read_file": _read, "write_file": _write, "edit_file": _edit}
