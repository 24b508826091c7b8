"""Secrets that are known by their looks: keys that somebody pasted into a message.

`bridle.core.redact` takes out the values that Bridle knows. A person's text may hold a key that
nobody told it of; those of the common services have shapes of their own, and what stands after
`password=` is none of a reader's business either. Only for texts that leave Bridle (exports,
briefs): it costs too much, and guesses too much, for every line of a stream.
"""

import re

from bridle.core.redact import REDACTED

_SHAPES = (
    r"sk-[A-Za-z0-9_-]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"A(?:KIA|SIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"(?:npm|hf|gsk|xai)_[A-Za-z0-9]{20,}",
    r"xai-[A-Za-z0-9]{20,}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
)
"""Keys of Anthropic, OpenAI, GitHub, GitLab, Slack, AWS, Google, npm, Hugging Face, Groq, xAI and
Stripe; JSON web tokens."""

_NAMED = (
    r"(?P<lead>\b(?:[\w.-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key"
    r"|auth[_-]?token|access[_-]?token)[\w.-]*)[\"']?\s*[:=]\s*[\"']?)"
    r"(?P<value>[^\s\"',;<>\[\]{}()]{6,})"
)
_BEARER = r"(?P<scheme>\b(?:Bearer|Basic)\s+)(?P<token>[A-Za-z0-9._~+/-]{16,}=*)"
_LOGIN = r"(?P<place>\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)(?P<login>[^\s/@]+)(?=@)"
_BLOCK = r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"

_pattern: "re.Pattern[str] | None" = None


def without_secret_shapes(text: str) -> str:
    """`text` with everything replaced that looks like a key, a token or a password.

    Never raises. What it does not know by its looks stays.
    """
    global _pattern
    if _pattern is None:
        shapes = rf"(?<![A-Za-z0-9_])(?:{'|'.join(_SHAPES)})"
        parts = (_BLOCK, shapes, _BEARER, _LOGIN, f"(?i:{_NAMED})")
        _pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)
    return _pattern.sub(_hidden, text)


def _hidden(match: "re.Match[str]") -> str:
    lead = match["lead"] or match["scheme"] or match["place"] or ""
    return f"{lead}{REDACTED}"
