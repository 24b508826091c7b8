"""Codex's transcripts ("rollouts"): where they are, and what they say was used.

Each thread has one file, `sessions/YYYY/MM/DD/rollout-<local time>-<thread id>.jsonl` below the
configuration home; a resumed thread appends to its file. Newer versions write a
`token_usage_record` for each model call, which is counted once by its response id. Older ones write
only `token_count`, a running total that is repeated and that an overflow resets, so there its
growth is counted.

A copy of a thread ("fork") continues counting from its source's total. Newer versions write nothing
of the source into its file, older ones all of it.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.codex.wire import WireUsage
from bridle.runtimes.history import Spent

_MARKS = (b"session_meta", b"token_usage_record", b"turn_context", b"token_count")
_LONGEST_CHAIN = 100
"""Of copies of copies: a file may name itself as its source."""
_STAMPED = len("rollout-YYYY-MM-DDThh-mm-ss")


class _Info(msgspec.Struct):
    total_token_usage: WireUsage | None = None


class _Payload(msgspec.Struct):
    type: str = ""
    response_id: str = ""
    usage: WireUsage | None = None
    model: str = ""
    info: _Info | None = None
    id: str = ""
    turn_id: str | None = None
    forked_from_id: str | None = None


class _Line(msgspec.Struct):
    type: str
    payload: _Payload


class Header(msgspec.Struct):
    """What the first line of a rollout says of its thread."""

    id: str = ""
    cwd: str = ""
    session_id: str = ""
    parent_thread_id: str = ""
    forked_from_id: str | None = None
    source: Any = None


class _HeaderLine(msgspec.Struct):
    type: str
    payload: Header


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What (the end of) a rollout says."""

    usage: Usage = NO_USAGE
    model: str | None = None
    calls: int = 0
    """How many model calls were counted; 0 means that the file says nothing of use."""
    before: Usage = NO_USAGE
    """The thread's running total where the part begins."""


def usage_of(wire: WireUsage) -> Usage:
    """Codex counts cached and cache-written tokens inside its input; Bridle beside it."""
    return Usage(
        input_tokens=max(
            0, wire.input_tokens - wire.cached_input_tokens - wire.cache_write_input_tokens
        ),
        output_tokens=wire.output_tokens,
        cache_read_tokens=wire.cached_input_tokens,
        cache_write_tokens=wire.cache_write_input_tokens,
        reasoning_tokens=wire.reasoning_output_tokens,
    )


def read_rollout(path: str, offset: int = 0) -> Part | None:
    """What `path` says from byte `offset` on; None when it cannot be read.

    Broken lines are skipped. Where both kinds of count are there, records win.
    """
    tally = _Tally()
    try:
        with open(path, "rb") as file:
            position = 0
            for line in file:
                if any(mark in line for mark in _MARKS):
                    tally.take(line, inside=position >= offset)
                position += len(line)
    except OSError:
        return None
    return tally.part()


def prompt_history(path: str) -> list[Spent]:
    """What each turn of the thread at `path` used."""
    recorded: list[Spent] = []
    grown: list[Spent] = []
    seen: set[str] = set()
    total = NO_USAGE
    for line in _turn_lines(path):
        payload = line.payload
        if payload.type == "task_started":
            recorded.append(Spent())
            grown.append(Spent())
        elif not grown:
            continue
        elif line.type == "turn_context" and payload.model:
            recorded[-1] += Spent(model=payload.model)
            grown[-1] += Spent(model=payload.model)
        elif line.type == "token_usage_record" and payload.usage is not None:
            if payload.response_id not in seen:
                seen.add(payload.response_id)
                recorded[-1] += Spent(usage=usage_of(payload.usage))
        elif payload.info is not None and payload.info.total_token_usage is not None:
            before, total = total, usage_of(payload.info.total_token_usage)
            if (total - before).total > 0:
                grown[-1] += Spent(usage=total - before)
    return recorded if seen else grown


def _turn_lines(path: str) -> Iterator[_Line]:
    decode = structs.decoder(_Line).decode
    try:
        with open(path, "rb") as file:
            for line in file:
                if any(mark in line for mark in (b"task_started", *_MARKS)):
                    try:
                        yield decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError):
                        continue
    except OSError:
        return


class _Tally:
    def __init__(self) -> None:
        self._decoder = structs.decoder(_Line)
        self._records: dict[str, Usage] = {}
        self._older: set[str] = set()
        self._grown = NO_USAGE
        self._steps = 0
        self._total = NO_USAGE
        self._before = NO_USAGE
        self._model: str | None = None
        self._header: _Payload | None = None
        self._copied = False
        """Whether the current turn was copied from the source of this thread."""

    def take(self, line: bytes, *, inside: bool) -> None:
        try:
            entry = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        payload = entry.payload
        if entry.type == "session_meta":
            # A copy repeats the header of its source after its own.
            self._header = self._header or payload
        elif entry.type == "turn_context":
            self._model = payload.model or self._model
            self._copied = self._is_copied(payload.turn_id or "")
        elif entry.type == "token_usage_record" and payload.usage is not None:
            if not inside:
                self._older.add(payload.response_id)
            elif payload.response_id not in self._older:
                self._records[payload.response_id] = usage_of(payload.usage)
        elif payload.type == "token_count" and payload.info is not None:
            self._count(payload.info.total_token_usage, inside and not self._copied)

    def _is_copied(self, turn_id: str) -> bool:
        """Ids begin with the time of their creation: what is older than a copy is not its own."""
        header = self._header
        if header is None or not header.forked_from_id or not turn_id:
            return False
        return turn_id.lower() < header.id.lower()

    def _count(self, wire: WireUsage | None, inside: bool) -> None:
        if wire is None:
            return
        total = usage_of(wire)
        growth = total - self._total
        self._total = total
        if not inside:
            self._before = total
        elif growth.total > 0:
            self._grown += growth
            self._steps += 1

    def part(self) -> Part:
        if self._records:
            usage, calls = sum(self._records.values(), NO_USAGE), len(self._records)
        else:
            usage, calls = self._grown, self._steps
        return Part(usage=usage, model=self._model, calls=calls, before=self._before)


# -- results of commands --------------------------------------------------------------------------


class CommandResult(msgspec.Struct, frozen=True):
    """A finished command, as the model got its result."""

    command: str
    output: str
    exit_code: int


class _Call(msgspec.Struct):
    type: str = ""
    call_id: str = ""
    arguments: str = ""
    output: Any = None


class _CallLine(msgspec.Struct):
    type: str
    payload: _Call


class _Arguments(msgspec.Struct):
    cmd: str = ""


def command_results(path: str, offset: int = 0) -> list[CommandResult]:
    """The commands that ended in the part of a rollout from `offset` on, oldest first."""
    commands: dict[str, str] = {}
    found: list[CommandResult] = []
    for call in _calls(path, offset, b"function_call"):
        if call.type == "function_call":
            with suppress(msgspec.MsgspecError):
                given = structs.decode(call.arguments, _Arguments)
                commands[call.call_id] = given.cmd
        command = commands.get(call.call_id)
        if call.type != "function_call_output" or not command or not isinstance(call.output, str):
            continue
        head, _, output = call.output.partition("\nOutput:\n")
        _, exited, rest = head.partition("Process exited with code ")
        code = rest.split("\n")[0].strip()
        if exited and code.removeprefix("-").isdigit():
            found.append(CommandResult(command, output, int(code)))
    return found


_REJECTED = "patch rejected: "


def rejected_patches(path: str, offset: int = 0) -> list[tuple[str, str]]:
    """The patches that Codex's own mode refused in the part of a rollout from `offset` on: call and
    reason, oldest first. The stream of a run does not name them."""
    return [
        (call.call_id, call.output)
        for call in _calls(path, offset, _REJECTED.encode())
        if call.type.endswith("_call_output")
        and isinstance(call.output, str)
        and call.output.startswith(_REJECTED)
    ]


def printed_output(lines: str, call_id: str) -> str | None:
    """What a tool call printed, by the lines of a rollout that name the call; None when they do not
    say."""
    for line in reversed(lines.encode().splitlines()):
        call = _call_in(line)
        if call and call.type == "function_call_output" and call.call_id == call_id:
            _, found, output = str(call.output).partition("\nOutput:\n")
            return output if found else None
    return None


def _calls(path: str, offset: int, mark: bytes) -> Iterator[_Call]:
    """The calls and their results in the lines from `offset` on that contain `mark`."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            for line in file:
                call = _call_in(line) if mark in line else None
                if call is not None:
                    yield call
    except OSError:
        return


def _call_in(line: bytes) -> _Call | None:
    try:
        return structs.decode(line, _CallLine).payload
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


# -- finding files --------------------------------------------------------------------------------


def find_rollout(home: str, thread_id: str) -> str | None:
    """The rollout of a thread below the configuration home, None when there is none.

    The id begins with the time of its creation, so the folder of that day is searched first.
    """
    sessions = os.path.join(home, "sessions")
    ending = f"-{thread_id}.jsonl"
    for folder in _likely_days(sessions, thread_id):
        found = _ending_with(folder, ending)
        if found:
            return found
    for folder, _, _ in os.walk(sessions):
        found = _ending_with(folder, ending)
        if found:
            return found
    return None


def _likely_days(sessions: str, thread_id: str) -> list[str]:
    try:
        born = int(thread_id.replace("-", "")[:12], 16) / 1000
        days = [time.localtime(born + shift) for shift in (0, -86400, 86400)]
    except (ValueError, OverflowError, OSError):
        return []
    return [os.path.join(sessions, time.strftime("%Y/%m/%d", day)) for day in days]


def _ending_with(folder: str, ending: str) -> str | None:
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return next((os.path.join(folder, name) for name in names if name.endswith(ending)), None)


def size_of_rollout(home: str, thread_id: str) -> int:
    """How many bytes the rollout of a thread has; 0 when there is none."""
    path = find_rollout(home, thread_id)
    return os.stat(path).st_size if path else 0


def forked_from(path: str) -> str:
    """The thread that the one of `path` is a copy of; empty when it is not a copy."""
    header = header_of(path)
    return (header.forked_from_id if header else None) or ""


def total_of(home: str, thread_id: str) -> Usage:
    """The running total of a thread, from which its wire, and that of a copy of it, continues.

    A copy that was never used has written none of its own; its total is that of its source."""
    for _ in range(_LONGEST_CHAIN):
        path = find_rollout(home, thread_id)
        part = read_rollout(path, os.stat(path).st_size) if path else None
        if path is None or part is None:
            break
        thread_id = forked_from(path)
        if part.before.total or not thread_id:
            return part.before
    return NO_USAGE


def subagent_files(path: str) -> list[str]:
    """Rollouts of the agents that the thread of `path` started, and that those started.

    They are in the same folder, or the next day's, and began later.
    """
    root = header_of(path)
    if root is None:
        return []
    family = {root.id}
    found = []
    for candidate in _later_files(path):
        header = header_of(candidate)
        if header is None or not isinstance(header.source, dict) or "subagent" not in header.source:
            continue
        if header.session_id == root.id or _parent_of(header) in family:
            family.add(header.id)
            found.append(candidate)
    return found


def subagent_usage(path: str) -> Usage:
    """What the agents used that the thread of `path` started."""
    parts = (read_rollout(other) for other in subagent_files(path))
    return sum((part.usage for part in parts if part), NO_USAGE)


def _later_files(path: str) -> Iterator[str]:
    own_folder, own_name = os.path.split(os.path.abspath(path))
    folders = [own_folder]
    try:
        written = time.localtime(os.stat(path).st_mtime)
        base = os.path.dirname(os.path.dirname(os.path.dirname(own_folder)))
        last = os.path.join(base, time.strftime("%Y/%m/%d", written))
        folders += [last] if last != own_folder else []
    except OSError:
        pass
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            later = folder != own_folder or name[:_STAMPED] >= own_name[:_STAMPED]
            if name.startswith("rollout-") and name != own_name and later:
                yield os.path.join(folder, name)


def header_of(path: str) -> Header | None:
    """The header of the rollout at `path`, None when the file is something else."""
    try:
        with open(path, "rb") as file:
            line = structs.decode(file.readline(), _HeaderLine)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return line.payload if line.type == "session_meta" else None


def _parent_of(header: Header) -> str:
    if header.parent_thread_id:
        return header.parent_thread_id
    inner = header.source.get("subagent") if isinstance(header.source, dict) else None
    spawned = inner.get("thread_spawn") if isinstance(inner, dict) else None
    parent = spawned.get("parent_thread_id") if isinstance(spawned, dict) else None
    return parent if isinstance(parent, str) else ""


def summarize(path: str) -> TranscriptSummary | None:
    """What a thread and its sub-agents used, each model call once; None without a rollout."""
    part = read_rollout(path)
    if part is None or (part.calls == 0 and part.model is None and header_of(path) is None):
        return None
    return transcript_summary(part.usage + subagent_usage(path), model=part.model or "")
