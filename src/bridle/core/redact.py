"""Keeping secrets out of everything Bridle writes.

The first line is by exact value: Bridle knows which keys it hands to an agent, and takes them out
of each line the agent prints before anything reads it, in every form they are likely to appear in.
"""

from collections.abc import Iterable, Mapping

REDACTED = "[redacted]"
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
_SHORTEST = 8
"""Shorter values are not treated as secrets: replacing them would garble ordinary text."""


def secrets_in(env: Mapping[str, str]) -> list[str]:
    """The values of `env` whose variable names say that they are secret."""
    return [
        value
        for name, value in env.items()
        if len(value) >= _SHORTEST
        and any(word in name.upper() for word in _SECRET_WORDS)
        and not value.startswith("/")
    ]


class Redactor:
    """Replaces known secret values. Contract: never raises; safe to call from any thread."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for secret in secrets:
            if len(secret) >= _SHORTEST:
                forms.update(_forms(secret))
        # Longest first, so that a form that contains another is taken out whole.
        self._texts = sorted(forms, key=len, reverse=True)
        self._bytes = [form.encode() for form in self._texts]
        self._longest = max((len(text) for text in self._texts), default=0)
        self._shortest = min((len(text) for text in self._texts), default=0)
        self._by_first: dict[str, tuple[str, ...]] = {}
        for form in self._texts:
            self._by_first[form[0]] = (*self._by_first.get(form[0], ()), form)
        self._pairs = {form[at : at + 2] for form in self._texts for at in range(len(form) - 1)}

    def text(self, text: str) -> str:
        """`text` without any known secret."""
        for form in self._texts:
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def line(self, line: bytes) -> bytes:
        """One line of an agent's output without any known secret."""
        for form in self._bytes:
            if form in line:
                line = line.replace(form, REDACTED.encode())
        return line

    def held_back(self, text: str) -> int:
        """How many characters at the end of `text` could be the beginning of a secret.

        A streamed text must keep these back until it is clear what they are, or a secret cut in
        two by the stream would pass.
        """
        start = max(0, len(text) - self._longest + 1)
        held = 0
        for first, forms in self._by_first.items():
            at = text.find(first, start)
            while at >= 0:
                tail = text[at:]
                if any(form.startswith(tail) for form in forms):
                    held = max(held, len(tail))
                    break
                at = text.find(first, at + 1)
        return held

    def split(self, text: str) -> tuple[str, str]:
        """A streamed text without secrets, in two: what may pass, and what must be kept back."""
        if not self._texts:
            return text, ""
        if len(text) >= self._shortest:
            text = self.text(text)
        # Nearly every text is let through by how it ends: in no form's first character, nor in two
        # characters that stand together in any.
        if text[-2:] not in self._pairs and text[-1:] not in self._by_first:
            return text, ""
        held = self.held_back(text)
        return (text[:-held], text[-held:]) if held else (text, "")


def _forms(secret: str) -> set[str]:
    """A secret as it may be written: plain, inside JSON, in a URL, in base64."""
    import base64
    import json
    from urllib.parse import quote

    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), encoded}
