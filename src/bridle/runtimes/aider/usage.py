"""What Aider's chat histories say was used: those of the conversations that Bridle began.

Aider keeps no log by itself. Its line for people (`Tokens: 1.2k sent, 56 received`) rounds counts
above 999 and does not tell cached tokens from others.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from bridle.runtimes.usage_reader import Lines, Part, Place, Reading, Request, Tail

_BEGAN = b"# aider chat started at "
_TOKENS = b"> Tokens: "
_MODELS = (b"> Main model: ", b"> Model: ")
_MARKS = (_BEGAN, _TOKENS, *_MODELS)


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """One folder for each project, one file for each conversation."""
        home = env.get("HOME") or os.path.expanduser("~")
        return (Place(os.path.join(home, ".aider", "bridle"), "*/*.md"),)

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`. Small files: read again as a whole when they change."""
        lines = Lines(path, None, lambda line: line.startswith(_MARKS))
        requests: list[Request] = []
        at, model = 0.0, ""
        for raw in lines:
            line = raw.decode(errors="replace").strip()
            if raw.startswith(_BEGAN):
                at = _local_time(line[len(_BEGAN) :])
            elif raw.startswith(_TOKENS):
                requests.append(_request(line[len(_TOKENS) :], at, model))
            else:
                model = line.partition(": ")[2].partition(" with ")[0]
        folder, name = os.path.split(path)
        project = os.path.basename(folder)
        return Reading([Part(session=name[: -len(".md")], project=project, requests=requests)])


def _request(text: str, at: float, model: str) -> Request:
    sent = received = 0
    cost = 0.0
    for part in text.rstrip(" .").replace(". ", ", ").split(", "):
        number, _, what = part.removeprefix("Cost: ").partition(" ")
        if what == "sent":
            sent = _count(number)
        elif what == "received":
            received = _count(number)
        elif what == "message":
            cost = _number(number.removeprefix("$"))
    return Request("", at, model, sent, received, cost_usd=cost or None)


def _count(word: str) -> int:
    """A number as Aider shows it: `56`, `1.2k`, `12k`."""
    return round(_number(word.removesuffix("k")) * (1000 if word.endswith("k") else 1))


def _number(word: str) -> float:
    return float(word) if word.replace(".", "", 1).isdigit() else 0.0


def _local_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        return 0.0


READER = _Reader()
