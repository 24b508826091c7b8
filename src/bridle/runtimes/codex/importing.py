"""Codex's own import of conversations that another agent had.

`externalAgentConfig/import` of `codex app-server` takes sessions of Claude Code as it finds them
below `~/.claude/projects`, and makes a thread of each, tool calls and results as text. Seen on
0.166.0: it takes only files that it detects itself; 0.120.0 has no sessions among the things it
imports and refuses the request. So the conversation is written in that form into a home of its own,
which only the importing process sees, and the thread lands in Codex's real home.
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bridle.core.files import make_private_dir
from bridle.core.options import RunOptions
from bridle.runtimes.codex.planning import route
from bridle.runtimes.codex.provider_options import read_options
from bridle.runtimes.importing import PastMessage, PastTool
from bridle.runtimes.planner import working_dir
from bridle.turns.event_writer import utc_now

_SECONDS = 60.0
"""For the whole import; it takes well under one."""
_DONE = "externalAgentConfig/import/completed"
_VERSION = "2.1.197"
"""A version of Claude Code that wrote this form."""


def import_conversation(
    binary: str, messages: Iterable[PastMessage], options: RunOptions, env: Mapping[str, str]
) -> str | None:
    """The id of the thread that Codex made of `messages`, None if it made none.

    The thread remembers the provider it was made under and cannot be resumed under another, so the
    import runs under that of `options`.
    """
    cwd = working_dir(options)
    routing = route(options, env, "", read_options(options.provider_options))
    if routing.private:
        # A home that is thrown away after the run keeps no thread.
        return None
    make_private_dir(routing.home)
    with tempfile.TemporaryDirectory(prefix="bridle-import-") as folder:
        path = _written(folder, messages, cwd)
        variables = {**env, **options.env, **routing.env, "CODEX_HOME": routing.home}
        argv = (binary, "app-server", *routing.flags)
        server = _Server(argv, cwd, {**variables, "HOME": folder})
        try:
            return _imported(server, path, cwd)
        except (OSError, TimeoutError):
            return None
        finally:
            server.close()


def _imported(server: "_Server", path: str, cwd: str) -> str | None:
    about = {"clientInfo": {"name": "bridle", "version": "1"}}
    server.ask("initialize", {**about, "capabilities": {"experimentalApi": True}})
    server.tell("initialized")
    item = {
        "itemType": "SESSIONS",
        "description": "a session of another agent",
        "cwd": None,
        "details": {"sessions": [{"path": path, "cwd": cwd, "title": None}]},
    }
    answer = server.ask("externalAgentConfig/import", {"migrationItems": [item]})
    if "error" in answer:
        return None
    done = server.wait(lambda message: message.get("method") == _DONE)
    for results in done["params"]["itemTypeResults"]:
        for success in results["successes"]:
            if isinstance(target := success.get("target"), str):
                return target
    return None


class _Server:
    """An app-server that is asked a few things; every wait ends with the one deadline."""

    def __init__(self, argv: tuple[str, ...], cwd: str, env: dict[str, str]) -> None:
        self._until = time.monotonic() + _SECONDS
        self._count = 0
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(msgspec.MsgspecError):
                found = msgspec.json.decode(line)
                if isinstance(found, dict):
                    self._lines.put(found)
        self._lines.put(None)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; `TimeoutError` when none comes."""
        self._count += 1
        number = self._count
        self._write({"id": number, "method": method, "params": params})
        return self.wait(lambda message: message.get("id") == number and "method" not in message)

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._write({"method": method})

    def wait(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that fits; `TimeoutError` when none comes, or the server is gone."""
        while True:
            try:
                message = self._lines.get(timeout=max(0.0, self._until - time.monotonic()))
            except queue.Empty:
                message = None
            if message is None:
                raise TimeoutError
            if fits(message):
                return message

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it: politely by closing its stdin, else by force."""
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._reader.join(10.0)
        if process.stdout is not None:
            process.stdout.close()


def _written(folder: str, messages: Iterable[PastMessage], cwd: str) -> str:
    """The conversation as a file of Claude Code's in the home `folder`."""
    session_id = str(uuid.uuid4())
    key = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))[:200]
    place = os.path.join(folder, ".claude", "projects", key)
    os.makedirs(place, mode=0o700)
    path = os.path.join(place, f"{session_id}.jsonl")
    parent = None
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        for ts, kind, message in _lines(messages):
            line = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": cwd,
                "sessionId": session_id,
                "version": _VERSION,
                "type": kind,
                "message": message,
                "uuid": (parent := str(uuid.uuid4())),
                "timestamp": ts or utc_now(),
            }
            file.write(msgspec.json.encode(line) + b"\n")
    return path


def _lines(messages: Iterable[PastMessage]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number, message in enumerate(messages, 1):
        if message.from_user:
            yield message.ts, "user", {"role": "user", "content": message.text}
            continue
        blocks: list[dict[str, Any]] = [{"type": "text", "text": message.text}]
        blocks = [block for block in blocks if block["text"]]
        blocks += [_call(tool) for tool in message.tools]
        if blocks:
            yield (
                message.ts,
                "assistant",
                {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "model": "unknown",
                    "content": blocks,
                },
            )
        for tool in message.tools:
            result = {
                "type": "tool_result",
                "tool_use_id": tool.id,
                "content": tool.result,
                "is_error": tool.is_error,
            }
            yield message.ts, "user", {"role": "user", "content": [result]}


def _call(tool: PastTool) -> dict[str, Any]:
    args = tool.args if isinstance(tool.args, dict) else {"input": tool.args}
    return {"type": "tool_use", "id": tool.id, "name": tool.name, "input": args}
