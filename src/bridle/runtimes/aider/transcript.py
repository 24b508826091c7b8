"""Aider's own records: the chat history for people, and its log of events."""

import os

from bridle.core.results import TranscriptSummary
from bridle.runtimes.aider.wire import ANNOUNCED_MODEL, log_event

_TOKENS = "> Tokens: "


def project_dir(home: str, project: str) -> str:
    """The folder of the conversations of `project` that Bridle began."""
    name = os.path.realpath(project).strip("/").replace("/", "-") or "root"
    return os.path.join(home, ".aider", "bridle", name)


def history_file(home: str, project: str, session_id: str) -> str | None:
    """The file of a conversation; None for a text that cannot be an id."""
    if not session_id or not session_id.replace("-", "").isalnum():
        return None
    return os.path.join(project_dir(home, project), f"{session_id}.md")


def parse(path: str) -> TranscriptSummary | None:
    """The usage that a chat history, or a log of events (`.jsonl`), records; None when it cannot be
    read or names no model.

    A log is exact. A history has Aider's lines for people, which round counts above 999 tokens.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    found = _from_log(data) if path.endswith(".jsonl") else _from_history(data)
    return found if found is not None and found.model else None


def _from_log(data: bytes) -> TranscriptSummary | None:
    sent, received, cost, model = 0, 0, 0.0, ""
    for line in data.split(b"\n"):
        event = log_event(line)
        if event is not None and event.event == "message_send":
            sent += event.properties.prompt_tokens
            received += event.properties.completion_tokens
            cost += event.properties.cost
            model = event.properties.main_model or model
    return TranscriptSummary(
        input_tokens=sent, output_tokens=received, model=model, cost_usd=cost or None
    )


def _from_history(data: bytes) -> TranscriptSummary | None:
    sent, received, cost, model = 0, 0, 0.0, ""
    for line in data.decode(errors="replace").split("\n"):
        for begin in ANNOUNCED_MODEL:
            if line.startswith(f"> {begin}"):
                model = line[len(begin) + 2 :].partition(" with ")[0]
        if line.startswith(_TOKENS):
            for part in line[len(_TOKENS) :].rstrip(" .").replace(". ", ", ").split(", "):
                number, _, what = part.removeprefix("Cost: ").partition(" ")
                sent += _count(number) if what == "sent" else 0
                received += _count(number) if what == "received" else 0
                cost += _money(number) if what == "message" else 0.0
    return TranscriptSummary(
        input_tokens=sent, output_tokens=received, model=model, cost_usd=cost or None
    )


def _count(word: str) -> int:
    """A number as Aider shows it: `56`, `1.2k`, `12k`."""
    number = word.removesuffix("k")
    if not number.replace(".", "", 1).isdigit():
        return 0
    return round(float(number) * (1000 if number != word else 1))


def _money(word: str) -> float:
    number = word.removeprefix("$")
    return float(number) if number.replace(".", "", 1).isdigit() else 0.0
