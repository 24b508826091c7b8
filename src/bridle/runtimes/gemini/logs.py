"""The lines of Gemini's standard error that tell of model calls which are made again."""

import re

from bridle.runtimes.gemini.errors import error_from_text
from bridle.runtimes.retries import Retry

_FAILED = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?[.:]?\s*(.*)")
_AFTER = re.compile(r"Retrying after (\d+(?:\.\d+)?)ms")
_BACKOFF = "Retrying with backoff..."
_OVER = "Max attempts reached"


class GeminiLog:
    """Puts together what Gemini says about a failed call; a message may take several lines."""

    def __init__(self, model: str = "") -> None:
        self._model = model
        self._attempt = 0
        self._status: int | None = None
        self._said: list[str] = []

    def feed(self, line: bytes) -> Retry | None:
        """Take one line; returns a retry when it is complete."""
        text = line.decode(errors="replace")
        found = _FAILED.match(text)
        if found:
            self._attempt = int(found[1])
            self._status = int(found[2]) if found[2] else None
            self._said = [found[3]]
        elif self._said and len(self._said) < _MOST_LINES:
            self._said.append(text)
        else:
            return None
        if _OVER in text:
            self._said = []
        elif _BACKOFF in text or _AFTER.search(text):
            return self._told(text)
        return None

    def _told(self, text: str) -> Retry:
        said, self._said = " ".join(self._said), []
        after = _AFTER.search(text)
        words = _AFTER.sub("", said.replace(_BACKOFF, "")).strip(" .")
        return Retry(
            attempt=self._attempt,
            error=error_from_text(words, self._model, self._status),
            delay_ms=round(float(after[1])) if after else None,
        )


_MOST_LINES = 8
