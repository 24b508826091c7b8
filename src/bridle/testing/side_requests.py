"""Side requests: the small requests that agents make next to their conversation.

Titles, topics, summaries and the like take no turn from the script. They are recognised by a table
of phrases from requests of the real agents; a request with none of them is a turn.
"""

import json
from typing import Any

import msgspec

from bridle.testing.wire.base import Question

COMPACTION = "compaction"

_MARK = "[scripted-model:"

_SYSTEM_PHRASES: tuple[tuple[str, str], ...] = (
    ("You are a title generator", "title"),
    ("Generate a concise, sentence-case title", "title"),
    ("Generate a concise title", "title"),
    ("Generate a short title", "title"),
    ("Summarize this coding conversation in under", "title"),
    ("Analyze if this message indicates a new conversation topic", "topic"),
    ("You are naming a coding session", "title"),
    ("Extract any file paths that this command reads or modifies", "paths"),
    ("You are an expert at analyzing git history", "examples"),
    ("You are a context summarization assistant", COMPACTION),
    ("You are a helpful AI assistant tasked with summarizing conversations", COMPACTION),
    ("You are a specialized context summarizer", COMPACTION),
    ("You are the component that summarizes internal chat history", COMPACTION),
    ("You are an anchored context summarization assistant", COMPACTION),
    ("You are a specialized Task Routing AI", "routing"),
    ("generates concise, one-line Git commit messages", "commit_message"),
    ("generates one-line Git commit messages", "commit_message"),
    ("*Briefly* summarize this partial conversation", COMPACTION),
)
_LAST_TEXT_PHRASES: tuple[tuple[str, str], ...] = (
    ("# Command prefix extraction examples", "command_prefix"),
    ("Your task is to create a detailed summary of the conversation so far", COMPACTION),
    ("Your task is to create a detailed summary of the RECENT portion", COMPACTION),
    ("You are performing a CONTEXT CHECKPOINT COMPACTION", COMPACTION),
    ("The messages above are a conversation to summarize", COMPACTION),
    ("Please write a 5-10 word title", "title"),
    ("Generate a title for this conversation", "title"),
    ("Generate a concise UI title", "title"),
    ("Generate a concise, single-line task title", "title"),
    ("Analyze *only* the content and structure of your immediately preceding response", "speaker"),
)
_PURPOSES = {"compaction": COMPACTION, "compact": COMPACTION, "title": "title"}


def side_kind(question: Question) -> str | None:
    """The kind of a side request; None for a turn of the conversation."""
    if question.purpose is not None and question.purpose != "turn":
        return _PURPOSES.get(question.purpose, question.purpose)
    for phrase, kind in _SYSTEM_PHRASES:
        # Helpers get no tools; a conversation whose instructions quote such a phrase has some.
        if phrase in question.system and not question.tools:
            return kind
    last = "\n".join(question.user_texts[-2:])
    for phrase, kind in _LAST_TEXT_PHRASES:
        if phrase in last:
            return kind
    if question.user_texts == ("quota",) and not question.tools:
        return "quota_check"
    if question.user_texts == ("Warmup",):
        # For the cache of a sub-agent, with that agent's instructions and tools.
        return "warmup"
    return None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary records: its conversation and the next step."""

    identity: str
    step: int


def summary_text(mark: Mark) -> str:
    """Return a summary for a compaction request.

    It carries a mark, because after a compaction only the summary is left of the history.
    """
    return (
        "<summary>\n"
        "The conversation so far followed a script: the user gave a task, the work was done step "
        "by step, and it goes on with the next step.\n"
        f"{_MARK} conversation {mark.identity}, next step {mark.step}]\n"
        "</summary>"
    )


def find_mark(texts: tuple[str, ...]) -> Mark | None:
    """Find the latest mark in the texts of a request."""
    for text in reversed(texts):
        _, found, rest = text.rpartition(_MARK)
        if not found:
            continue
        words = rest.partition("]")[0].replace(",", " ").split()
        if len(words) == 5 and words[0] == "conversation" and words[4].isdigit():
            return Mark(identity=words[1], step=int(words[4]))
    return None


def side_text(kind: str, question: Question) -> str:
    """A plausible answer to a side request other than compaction."""
    if question.json_schema is not None:
        return json.dumps(_example(question.json_schema, "Scripted task"))
    if kind == "topic":
        return json.dumps({"isNewTopic": True, "title": "Scripted task"})
    if kind == "speaker":
        return json.dumps({"reasoning": "The reply is complete.", "next_speaker": "user"})
    if kind == "routing":
        return json.dumps({"reasoning": "A simple task.", "model_choice": "flash"})
    if kind == "command_prefix":
        return "none"
    if kind == "paths":
        shows = "<is_displaying_contents>\nfalse\n</is_displaying_contents>"
        return f"{shows}\n\n<filepaths>\n</filepaths>"
    if kind == "commit_message":
        return "chore: apply scripted change"
    return "Scripted task"


def _example(schema: dict[str, Any], text: str) -> Any:
    """Return the simplest value that a JSON Schema allows."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[-1] if "user" in choices else choices[0]
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        inner = schema.get("properties")
        inner = inner if isinstance(inner, dict) else {}
        return {name: _example(each, text) for name, each in inner.items()}
    simple: dict[str, Any] = {
        "string": text,
        "boolean": False,
        "integer": int(schema.get("minimum", 1)),
        "number": schema.get("minimum", 1),
        "array": [],
    }
    return simple.get(kind)
