"""Cline's own files: where conversations are, what they say was used, and the log of a run.

The wire has only a service's words. The log, which Cline writes to a private file for Bridle, has
the failed call with its status and headers, and the process id, by which the conversation's folder
is found.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import Usage
from bridle.runtimes.cline.product import PRODUCT
from bridle.runtimes.errors import until_in
from bridle.runtimes.history import Spent
from bridle.runtimes.wire import InclusiveCounts

# -- conversations --------------------------------------------------------------------------------


class _Metrics(InclusiveCounts, frozen=True, rename="camel"):
    cost: float | None = None


class _Model(msgspec.Struct, frozen=True):
    id: str = ""


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    role: str = ""
    content: list[_Block] | str = ""
    model_info: _Model | None = None
    metrics: _Metrics | None = None

    @property
    def is_prompt(self) -> bool:
        """Whether a user wrote it; the results of tools have the role `user` too."""
        blocks = self.content
        given = isinstance(blocks, str) or any(block.type != "tool_result" for block in blocks)
        return self.role == "user" and given

    @property
    def spent(self) -> Spent | None:
        """What an answer used; None if the file does not say."""
        if self.role != "assistant" or self.metrics is None:
            return None
        model = self.model_info.id if self.model_info else None
        cost = self.metrics.cost or 0.0
        return Spent(usage=self.metrics.usage(), model=model or None, cost_usd=cost)


class _Transcript(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str
    messages: list[_Message] = []


_decode = structs.decoder(_Transcript).decode


def data_dir(env: Mapping[str, str]) -> str:
    """The folder of its settings and conversations."""
    return env.get("CLINE_DATA_DIR") or os.path.join(PRODUCT.home_in(env), "data")


def sessions_dir(env: Mapping[str, str]) -> str:
    """The folder of all conversations, one folder each, named by its id."""
    return env.get("CLINE_SESSION_DATA_DIR") or os.path.join(data_dir(env), "sessions")


def summarize(path: str) -> TranscriptSummary | None:
    """What the conversation at `path` used: its folder, its record or its messages.

    None when it is missing or cannot be read.
    """
    transcript = _read(path)
    if transcript is None:
        return None
    answers = (message.spent for message in transcript.messages)
    whole = sum((spent for spent in answers if spent is not None), start=Spent())
    return transcript_summary(whole.usage, model=whole.model or "", cost_usd=whole.cost_usd or None)


def prompt_history(path: str) -> list[Spent]:
    """What each prompt of the conversation at `path` used."""
    transcript = _read(path)
    prompts: list[Spent] = []
    for message in transcript.messages if transcript else ():
        if message.is_prompt:
            prompts.append(Spent())
        elif message.spent is not None and prompts:
            prompts[-1] += message.spent
    return prompts


def noted_usage(path: str) -> Usage | None:
    """What the conversation at `path` used, as a count."""
    found = summarize(path)
    if found is None:
        return None
    return Usage(**{name: getattr(found, name) for name in Usage.__struct_fields__})


def last_text(path: str) -> str | None:
    """The text of the last message of the assistant in the conversation at `path`."""
    transcript = _read(path)
    for message in reversed(transcript.messages if transcript else []):
        if message.role == "assistant":
            if isinstance(message.content, str):
                return message.content
            return "".join(block.text for block in message.content if block.type == "text")
    return None


def _read(path: str) -> _Transcript | None:
    if os.path.isdir(path):
        path = os.path.join(path, f"{os.path.basename(os.path.abspath(path))}.messages.json")
    elif path.endswith(".json") and not path.endswith(".messages.json"):
        path = f"{path.removesuffix('.json')}.messages.json"
    try:
        with open(path, "rb") as file:
            return _decode(file.read())
    except (OSError, msgspec.MsgspecError):
        return None


# -- the log of a run -----------------------------------------------------------------------------

_MOST = 16 * 1024 * 1024
"""Bytes from the log's end that are read: each failed call repeats its whole request."""
_MOST_SESSIONS = 50
_FAILED_CALL = b"[ai-sdk] stream error"


class FailedCall(msgspec.Struct, frozen=True, rename="camel"):
    """A model call that the service refused."""

    status_code: int | None = None
    message: str = ""
    response_headers: dict[str, Any] = {}
    response_body: str | None = None

    @property
    def until(self) -> str | None:
        """When to try again, if the service said so."""
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                return until_in(float(self.response_headers[name]) * unit)
            except (KeyError, ValueError, TypeError):
                continue
        return None


class _Problem(FailedCall, frozen=True, rename="camel"):
    last_error: FailedCall | None = None


class _Entry(msgspec.Struct, frozen=True):
    pid: int = 0
    err: _Problem | None = None


class Session(msgspec.Struct, frozen=True):
    """The record of one conversation."""

    pid: int = 0
    session_id: str = ""
    status: str = ""


class RunLog(msgspec.Struct, frozen=True):
    """What the log of one run says."""

    pid: int | None = None
    failed_call: FailedCall | None = None


_decode_entry = structs.decoder(_Entry).decode
_decode_session = structs.decoder(Session).decode


def read_log(path: str) -> RunLog:
    """The log at `path`, as far as it exists and can be read."""
    try:
        with open(path, "rb") as file:
            first = file.readline(4096)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST))
            lines = file.read(_MOST).split(b"\n")
    except OSError:
        return RunLog()
    pid = _entry(first).pid or None
    for line in reversed(lines):
        if _FAILED_CALL in line:
            problem = _entry(line).err
            if problem is not None:
                return RunLog(pid, problem.last_error or problem)
    return RunLog(pid)


def _entry(line: bytes) -> _Entry:
    try:
        return _decode_entry(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Entry()


def find_session(folder: str, pid: int) -> Session | None:
    """The conversation that the process `pid` kept in `folder`, among the newest."""
    try:
        names = sorted(os.listdir(folder), reverse=True)[:_MOST_SESSIONS]
    except OSError:
        return None
    for name in names:
        try:
            with open(os.path.join(folder, name, f"{name}.json"), "rb") as file:
                session = _decode_session(file.read())
        except (OSError, msgspec.MsgspecError):
            continue
        if session.pid == pid and session.session_id == name:
            return session
    return None


class Afterwards(msgspec.Struct, frozen=True, kw_only=True):
    """What only files say, once the process has ended."""

    session_id: str | None = None
    failed_call: FailedCall | None = None
    completed: bool = False
    """Whether the conversation's own record says that its work was completed."""
    text: str | None = None
    """The last message of a completed conversation."""
    usage: Usage | None = None


def files_reader(log_path: str, sessions: str) -> Callable[[], Afterwards]:
    """The reader of a run's files: its log, and its conversation in the folder `sessions`."""

    def read() -> Afterwards:
        log = read_log(log_path)
        session = find_session(sessions, log.pid) if log.pid else None
        if session is None:
            return Afterwards(failed_call=log.failed_call)
        path = os.path.join(sessions, session.session_id)
        return Afterwards(
            session_id=session.session_id,
            failed_call=log.failed_call,
            completed=session.status == "completed",
            text=last_text(path),
            usage=noted_usage(path),
        )

    return read
