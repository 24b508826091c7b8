"""Keeping secrets out of everything Bridle writes.

The first defence is by exact value: Bridle knows which keys it hands to an agent, and takes them
out of each line the agent prints before anything reads it, in every form they are likely to appear
in. The second is by shape (`secret_shapes`), for texts and data. A stream is cut anywhere, so there
a shape is only known when one piece holds it whole; the message that the pieces make up is clean.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from bridle.core.secret_shapes import HIDDEN, is_secret_field, without_shapes

REDACTED = "[redacted]"
_REDACTED_BYTES = REDACTED.encode()

# fmt: off
_SECRET_PARTS = frozenset({
    "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD",
    "PASSWD", "PASSPHRASE", "PWD", "PASS", "PAT", "CREDENTIAL", "CREDENTIALS", "AUTH",
    "BEARER", "JWT", "COOKIE",
})
# fmt: on
"""Words of a variable's name that say its value is secret. Whole words between underscores: MONKEY
and TOKENIZERS do not match."""
# fmt: off
_PLAIN_PARTS = frozenset({
    "ID", "NAME", "FILE", "PATH", "DIR", "SOCK", "SOCKET", "URL", "URI", "HOST",
    "PORT", "METHOD", "TYPE", "MODE", "ENV", "LIMIT", "COUNT", "SIZE", "MAX", "MIN",
    "TTL", "TIMEOUT", "EXPIRY", "EXPIRES", "LAYOUT", "REGION", "ENABLED", "DISABLED",
    "HELPER",
})
# fmt: on
"""Words that, at the end of a name, say the value only speaks about a secret."""
_SURE_PARTS = frozenset(["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "SECRETS"])
"""Words after which even a plain word is a secret: people choose such passwords."""
_GLUED = ("APIKEY", "AUTHTOKEN", "ACCESSTOKEN", "SECRETKEY", "ACCESSKEY", "PASSWORD")
"""Secret words that people write without an underscore before them (MYAPIKEY, DBPASSWORD)."""
_LONGEST_WORD = 16
_SHORT_PATH = 30
_SHORTEST = 8
"""Shorter values are not treated as secrets: replacing them would garble ordinary text."""


def secrets_in(env: Mapping[str, str]) -> list[str]:
    """The values of `env` whose variable names say that they are secret.

    Judged by the words of the name and the shape of the value: paths, numbers, switches and short
    values are not secret, whatever their name.
    """
    return [
        value for name, value in env.items() if _looks_secret(value) and _names_secret(name, value)
    ]


def _names_secret(name: str, value: str) -> bool:
    parts = name.upper().replace("-", "_").split("_")
    if parts[-1] in _PLAIN_PARTS or name in ("PWD", "OLDPWD"):
        return False
    if any(part in _SURE_PARTS or part.endswith(_GLUED) for part in parts):
        return True
    # A single word such as `disabled` is a setting, not a key.
    is_word = value.isalpha() and len(value) < _LONGEST_WORD
    return not is_word and any(part in _SECRET_PARTS for part in parts)


def _looks_secret(value: str) -> bool:
    if len(value) < _SHORTEST or value.startswith(("~/", "./", "../")):
        return False
    if value[0] == "/" and (value.count("/") > 1 or len(value) < _SHORT_PATH):
        return False
    return not (value.isdigit() and len(value) < _LONGEST_WORD)


class Redactor:
    """Replaces known secret values. Contract: never raises; safe to call from any thread."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for secret in secrets:
            if len(secret) >= _SHORTEST:
                forms.update(form for form in _forms(secret) if len(form) >= _SHORTEST)
        # Longest first, so that a form that contains another is taken out whole.
        self._texts = sorted(forms, key=lambda form: (-len(form), form))
        self._bytes = [form.encode(errors="surrogateescape") for form in self._texts]
        self._shortest = min((len(text) for text in self._texts), default=0)
        self._longest = max((len(text) for text in self._texts), default=0)
        self._first = frozenset(text[0] for text in self._texts)
        self._pairs = frozenset(
            text[at : at + 2] for text in self._texts for at in range(len(text) - 1)
        )
        self._begins: dict[str, list[str]] = {}
        for text in self._texts:
            self._begins.setdefault(text[:2], []).append(text)

    def text(self, text: str) -> str:
        """`text` without known secrets and without anything shaped like one."""
        if len(text) >= self._shortest:
            for form in self._texts:
                if form in text:
                    text = self._replace(text)
                    break
        return without_shapes(text)

    def line(self, line: bytes) -> bytes:
        """One line of an agent's output without any known secret."""
        for form in self._bytes:
            if form in line:
                spans = _spans(line, self._bytes)
                pieces, done = [], 0
                for start, end in spans:
                    pieces += [line[done:start], _REDACTED_BYTES]
                    done = end
                return b"".join([*pieces, line[done:]])
        return line

    def value(self, value: Any) -> Any:
        """Plain data (as JSON decodes to) without any secret, keys of objects included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.value(key): HIDDEN
                if isinstance(item, str) and is_secret_field(key, item)
                else self.value(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, bytes):
            return self.line(value)
        return value

    def command(self, argv: Iterable[str]) -> str:
        """A command line as one would type it, without any known secret."""
        import shlex

        # Each word is cleaned before it is quoted: quoting may break a secret's text apart.
        return shlex.join(self.text(word) for word in argv)

    def split(self, text: str) -> tuple[str, str]:
        """Streamed text so far: what may be shown (redacted), and what must wait for the rest.

        The second part is shown again, before the text that follows, with the next call; at the end
        of the stream `text` clears it. No piece of a secret passes, wherever the stream cuts it.
        """
        if not self._texts:
            return without_shapes(text), ""
        cut = len(text) - self.held_back(text)
        if cut == len(text):
            return self.text(text), ""
        # A secret that ends in what is held back must not be cut in two by that.
        moved = True
        while moved:
            moved = False
            for form in self._texts:
                start = text.rfind(form, max(0, cut - len(form) + 1), cut + len(form) - 1)
                if 0 <= start < cut:
                    cut, moved = start, True
        return self.text(text[:cut]), text[cut:]

    def held_back(self, text: str) -> int:
        """How many characters at the end of `text` could be the beginning of a secret.

        A streamed text must keep these back until it is clear what they are, or a secret cut in
        two by the stream would pass.
        """
        if not self._texts or not text:
            return 0
        # Nearly every text is let through by its last two characters, which are together in no
        # secret: this is called for each piece of each stream.
        if text[-2:] not in self._pairs:
            return 1 if text[-1] in self._first else 0
        size = len(text)
        best = size - 1 if text[-1] in self._first else size
        lowest = max(0, size - self._longest + 1)
        for begin, forms in self._begins.items():
            at = text.find(begin, lowest, size)
            while 0 <= at < best:
                tail = text[at:]
                if any(len(form) > size - at and form.startswith(tail) for form in forms):
                    best = at
                    break
                at = text.find(begin, at + 1, size)
        return size - best

    def _replace(self, text: str) -> str:
        pieces, done = [], 0
        for start, end in _spans(text, self._texts):
            pieces += [text[done:start], REDACTED]
            done = end
        return "".join([*pieces, text[done:]])


def _spans(text: Any, forms: Iterable[Any]) -> list[tuple[int, int]]:
    """Where any of `forms` is in `text`, in order; overlapping places are one."""
    places = []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            places.append((at, at + len(form)))
            at = text.find(form, at + 1)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _forms(secret: str) -> set[str]:
    """A secret as it may be written: plain, inside JSON (once or twice), in a URL, in base64.

    Written by hand where the standard library's module would cost a run milliseconds to import.
    """
    raw = secret.encode(errors="surrogateescape")
    once = _json_forms(secret)
    forms = {secret, raw.hex(), *once}
    for form in once:
        forms |= _json_forms(form)
        forms.add(form.replace("/", "\\/"))
    for kept in (_UNRESERVED, _UNRESERVED | {0x2F}):
        forms.add("".join(chr(b) if b in kept else f"%{b:02X}" for b in raw))
        forms.add("".join(chr(b) if b in kept else f"%{b:02x}" for b in raw))
    forms |= {form.replace("%20", "+") for form in forms if "%20" in form}
    for offset in range(3):
        forms |= _base64_forms(raw, offset)
    return forms


def _json_forms(text: str) -> set[str]:
    """The inside of `text` as a JSON string, with and without its non-ASCII characters."""
    if text.isascii() and text.isprintable():
        return {text.replace("\\", "\\\\").replace('"', '\\"')}
    import json

    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _base64_forms(raw: bytes, offset: int) -> set[str]:
    """The characters of base64 that `raw` alone decides when it is `offset` bytes (modulo
    three) into the encoded text; what its neighbours share in is left off both ends."""
    from binascii import b2a_base64

    encoded = b2a_base64(b"\0" * offset + raw, newline=False).decode()
    core = encoded[(0, 2, 3)[offset] : (len(raw) + offset) * 8 // 6]
    return {core, core.replace("+", "-").replace("/", "_")}
