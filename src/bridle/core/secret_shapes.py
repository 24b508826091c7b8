"""Secrets that are known by their shape alone: keys of well-known services, private keys, tokens.

The second line behind exact values (`redact`): what Bridle never handed out, but an agent may find
in a file. Every shape is a long word or holds a text that is rare elsewhere, by which nearly every
text is let through at the price of one search; only where that stands are the patterns tried.
"""

import re

_WORD = r"[A-Za-z0-9_-]"
_EDGE = r"(?<![A-Za-z0-9_])"
"""Before a shape: `task-…` holds no `sk-…`."""

_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("anthropic", "sk-ant-", rf"sk-ant-(?:api|admin|oat|ort)\d\d-{_WORD}{{20,}}"),
    ("openrouter", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{64}"),
    ("openai", "sk-", rf"sk-(?:proj|svcacct|admin)-{_WORD}{{20,}}"),
    ("api-key", "sk-", r"sk-(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{32,}"),
    ("google", "AIza", rf"AIza{_WORD}{{35}}"),
    ("google", "ya29.", rf"ya29\.{_WORD}{{20,}}"),
    ("google", "GOCSPX-", rf"GOCSPX-{_WORD}{{28}}"),
    ("xai", "xai-", r"xai-[A-Za-z0-9]{80}"),
    ("groq", "gsk_", r"gsk_[A-Za-z0-9]{52}"),
    ("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{48}"),
    ("huggingface", "hf_", r"hf_[A-Za-z0-9]{34}(?![A-Za-z0-9])"),
    ("replicate", "r8_", r"r8_[A-Za-z0-9]{37}"),
    ("bedrock", "ABSK", r"ABSK[A-Za-z0-9+/]{60,}={0,2}"),
    ("github", "gh", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    ("github", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("gitlab", "gl", rf"gl(?:pat|dt|rt)-{_WORD}{{20,}}"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("pypi", "pypi-AgEIcHlwaS5vcmc", rf"pypi-AgEIcHlwaS5vcmc{_WORD}{{20,}}"),
    ("docker", "dckr_pat_", rf"dckr_pat_{_WORD}{{27}}"),
    ("aws", "A", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    ("azure", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    ("digitalocean", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}"),
    ("vault", "hv", rf"hv[sbr]\.{_WORD}{{24,}}"),
    ("supabase", "sbp_", r"sbp_[0-9a-f]{40}"),
    ("slack", "xox", r"xox[abeprs]-[A-Za-z0-9-]{16,}"),
    ("slack", "xapp-", r"xapp-[A-Za-z0-9-]{16,}"),
    ("slack", "hooks.slack.com", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    ("stripe", "k_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("stripe", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}"),
    ("sendgrid", "SG.", rf"SG\.{_WORD}{{22}}\.{_WORD}{{43}}"),
    ("linear", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    ("notion", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    ("figma", "figd_", rf"figd_{_WORD}{{30,}}"),
    ("sentry", "sntry", r"sntry[su]_[A-Za-z0-9+/=_]{30,}"),
    ("grafana", "gl", r"gl(?:sa|c)_[A-Za-z0-9_+/=]{30,}"),
    ("atlassian", "ATATT3", r"ATATT3[A-Za-z0-9_=-]{50,}"),
    ("shopify", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("tailscale", "tskey-", r"tskey-[A-Za-z0-9-]{20,}"),
    ("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("1password", "ops_eyJ", rf"ops_eyJ{_WORD}{{50,}}"),
    ("jwt", "eyJ", rf"eyJ{_WORD}{{8,}}\.eyJ{_WORD}{{8,}}\.{_WORD}{{8,}}"),
    (
        "private-key",
        "-----BEGIN",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
)
"""Kind, a text that must stand in it, and the whole shape."""

_AWS = ("AKIA", "ASIA", "ABIA", "ACCA")
_HINTS = (*dict.fromkeys(begin for _, begin, _ in _SHAPES if begin != "A"), *_AWS)
_RARE = ("PRIVATE KEY", "AccountKey=", "hooks.slack.com")
"""What stands in the shapes that need not hold a long word."""
_SHORTEST = 20
"""Characters of the shortest shape; nearly every piece of a stream is shorter."""
_LONG_WORD = re.compile(rf"[A-Za-z0-9_-]{{{_SHORTEST}}}")

_compiled: "re.Pattern[str] | None" = None


def without_shapes(text: str) -> str:
    """`text` with everything that has the shape of a secret replaced by `[redacted:KIND]`."""
    if len(text) < _SHORTEST:
        return text
    if _LONG_WORD.search(text) is None and not any(rare in text for rare in _RARE):
        return text
    if any(hint in text for hint in _HINTS):
        return _all().sub(_named, text)
    return text


def _all() -> "re.Pattern[str]":
    global _compiled
    if _compiled is None:
        parts = (
            f"(?P<k{number}>{_EDGE if shape[0] != '-' else ''}(?:{shape}))"
            for number, (_, _, shape) in enumerate(_SHAPES)
        )
        _compiled = re.compile("|".join(parts))
    return _compiled


def _named(found: "re.Match[str]") -> str:
    assert found.lastgroup is not None
    return f"[redacted:{_SHAPES[int(found.lastgroup[1:])][0]}]"
