"""Cline's own files: where conversations are kept, and what they say was used."""

import os
from collections.abc import Mapping

import msgspec

from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import Usage
from bridle.runtimes.history import Spent
from bridle.runtimes.token_counts import InclusiveCounts


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
        """What an answer used; None where the file does not say."""
        if self.role != "assistant" or self.metrics is None:
            return None
        model = self.model_info.id if self.model_info else None
        cost = self.metrics.cost or 0.0
        return Spent(usage=self.metrics.usage(), model=model or None, cost_usd=cost)


class _Transcript(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str
    messages: list[_Message] = []


_decode = msgspec.json.Decoder(_Transcript).decode


def cline_dir(env: Mapping[str, str]) -> str:
    """Cline's home in the environment `env`."""
    home = env.get("HOME") or os.path.expanduser("~")
    return env.get("CLINE_DIR") or os.path.join(home, ".cline")


def data_dir(env: Mapping[str, str]) -> str:
    """The folder of its settings and conversations."""
    return env.get("CLINE_DATA_DIR") or os.path.join(cline_dir(env), "data")


def settings_file(env: Mapping[str, str], variable: str, name: str) -> str:
    """One of its settings files, where `variable` or else the data folder says."""
    return env.get(variable) or os.path.join(data_dir(env), "settings", name)


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
