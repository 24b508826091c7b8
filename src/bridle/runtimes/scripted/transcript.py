"""The scripted agent's own transcripts."""

import os
from collections.abc import Mapping

import msgspec

from bridle.core import files, structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE, Usage


class _Record(msgspec.Struct, frozen=True):
    type: str = ""
    usage: Usage | None = None
    model: str | None = None
    cost_usd: float | None = None


def state_dir(env: Mapping[str, str]) -> str:
    """The folder where the agent keeps its conversations."""
    return os.path.join(files.state_dir(env), "scripted")


def parse_transcript(path: str) -> TranscriptSummary | None:
    """The usage that a transcript records; None when it is missing or of another program.

    A last line that was cut off by a kill is left out.
    """
    decoder = structs.decoder(_Record)
    total, model, cost = NO_USAGE, "scripted", None
    known = False
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
                known = known or record.type == "session"
                if record.type != "assistant" or record.usage is None:
                    continue
                total += record.usage
                model = record.model or model
                if record.cost_usd is not None:
                    cost = (cost or 0.0) + record.cost_usd
    except OSError:
        return None
    if not known:
        return None
    return transcript_summary(total, model=model, cost_usd=cost)
