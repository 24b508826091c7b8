"""Secrets that are known by their shape, or by the name they are assigned to.

`redaction` removes the exact values that Bridle hands to an agent. This module finds the others:
keys that an agent reads from a file, prints in a header or sets in a variable. A row of `SHAPES` or
`INNER` is a key that its own text gives away; the other tables describe values that are secret
because of the word before them (a header, a variable, a user in an address).

Nearly every text passes after a few substring searches: a shape is a long word or contains a rare
text, and a secret value has one of ten words before it.
"""

import re

# -- the tables -----------------------------------------------------------------------------------

_WORD = r"[A-Za-z0-9_-]"

SHAPES: tuple[tuple[str, str, str], ...] = (
    ("anthropic", "sk-ant-", rf"sk-ant-{_WORD}{{16,}}"),
    ("openrouter", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{64}"),
    ("openai", "sk-", rf"sk-(?:proj|svcacct|admin)-{_WORD}{{20,}}"),
    ("api-key", "sk-", r"sk-(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{32,}"),
    ("google", "AIza", rf"AIza{_WORD}{{35}}"),
    ("google", "ya29.", rf"ya29\.{_WORD}{{20,}}"),
    ("google", "GOCSPX-", rf"GOCSPX-{_WORD}{{28}}"),
    ("xai", "xai-", r"xai-[A-Za-z0-9]{80}"),
    ("groq", "gsk_", r"gsk_[A-Za-z0-9]{52}"),
    ("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{48}"),
    ("huggingface", "hf_", r"hf_[A-Za-z0-9]{34,}"),
    ("replicate", "r8_", r"r8_[A-Za-z0-9]{37}"),
    ("bedrock", "ABSK", r"ABSK[A-Za-z0-9+/]{60,}={0,2}"),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    ("github", "github_pat_", r"github_pat_[A-Za-z0-9_]{36,}"),
    ("gitlab", "glpat- gldt- glrt-", rf"gl(?:pat|dt|rt)-{_WORD}{{20,}}"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("pypi", "pypi-AgEIcHlwaS5vcmc", rf"pypi-AgEIcHlwaS5vcmc{_WORD}{{20,}}"),
    ("docker", "dckr_pat_", rf"dckr_pat_{_WORD}{{27}}"),
    ("crates", "cio", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("aws", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("azure", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    ("twilio", "SK", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("digitalocean", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}"),
    ("vault", "hvs. hvb. hvr.", rf"hv[sbr]\.{_WORD}{{24,}}"),
    ("supabase", "sbp_", r"sbp_[0-9a-f]{40}"),
    ("slack", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{15,}"),
    ("slack", "xapp-", r"xapp-[A-Za-z0-9-]{16,}"),
    ("slack", "hooks.slack.com", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    ("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("stripe", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}"),
    ("sendgrid", "SG.", rf"SG\.{_WORD}{{22}}\.{_WORD}{{43}}"),
    ("linear", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    ("notion", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    ("figma", "figd_", rf"figd_{_WORD}{{30,}}"),
    ("sentry", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9+/=_]{30,}"),
    ("grafana", "glsa_ glc_", r"gl(?:sa|c)_[A-Za-z0-9_+/=]{30,}"),
    ("atlassian", "ATATT3", r"ATATT3[A-Za-z0-9_=-]{50,}"),
    ("shopify", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
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
"""Kind, the texts it may begin with, and the whole shape."""

INNER: tuple[tuple[str, str, str], ...] = (
    ("openai", "T3BlbkFJ", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("azure", "sig=", r"(?<=[?&]sig=)[A-Za-z0-9%+/]{40,}={0,2}"),
    ("azure", "Q~", r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    ("terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),
    ("telegram", ":AA", r"\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
)
"""Kind, a rare text inside it, and the whole shape."""

WORDS = ("key", "token", "secret", "passw", "passphrase", "credential", "authorization", "cookie",
         "bearer", "://")  # fmt: skip
"""One of these words, in upper or lower case, is before every value that is secret by its place."""

SURE_WORDS = frozenset({"password", "passwd", "passphrase", "secret", "apikey", "credential",
                        "credentials"})  # fmt: skip
"""Words of a name after which a value is secret although it may look like a hash or a word."""

KEY_KINDS = frozenset({"api", "access", "secret", "private", "signing", "encryption", "master",
                       "service", "auth", "license", "account", "shared", "admin",
                       "deploy"})  # fmt: skip
"""Words before `key` that make it one that opens something; a cache key or a sort key does not."""

TOKEN_KINDS = frozenset({"auth", "access", "refresh", "bearer", "api", "bot", "deploy", "personal",
                         "github", "gitlab", "npm", "slack"})  # fmt: skip
"""Words before `token` that make it one that opens something."""

SPEAKING = frozenset({
    "id", "ids", "name", "names", "file", "path", "dir", "url", "uri", "host", "port", "type",
    "mode", "env", "count", "counts", "limit", "size", "max", "min", "ttl", "timeout", "expiry",
    "expires", "helper", "hash", "length", "len", "field", "column", "prefix", "suffix", "policy",
    "label", "hint", "index", "usage", "budget", "used", "ref", "kind", "version", "format",
    "provider", "source", "ring", "chain", "manager", "store", "value", "required", "input",
})  # fmt: skip
"""Words that, at the end of a name, say the value only speaks about a secret."""

# -- finding them ---------------------------------------------------------------------------------

_BEGINS: dict[str, list[int]] = {}
for _number, (_, _begins, _) in enumerate(SHAPES):
    for _begin in _begins.split():
        _BEGINS.setdefault(_begin, []).append(_number)
_SHORTEST = 16
"""Characters of the shortest text that can hold a secret; most pieces of a stream are shorter."""
_LONG_WORD = re.compile(r"[A-Za-z0-9_-]{20}")
"""What every shape contains, except a few that are searched for by their own words."""
_LONGEST_NAME = 64
_LONGEST_VALUE = 4096
_NAMING = ("key", "token", "secret", "passw", "passphrase", "credential")

_WORD_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")

_shapes: "dict[str, re.Pattern[str]]" = {}
_places: "dict[str, tuple[str, re.Pattern[str]]]" = {}


def without_shapes(text: str, *, guess: bool = False) -> str:
    """`text` with everything that looks like a secret replaced by `[redacted:KIND]`.

    Never raises. `guess` is for texts that leave Bridle (exports, briefs): what comes after
    `password:` is taken out there even when it is an ordinary word, which in a stream of code is
    mostly a type or a variable.
    """
    if len(text) < _SHORTEST:
        return text
    if (
        _LONG_WORD.search(text) is not None
        or "PRIVATE KEY" in text
        or "AccountKey=" in text
        or "hooks.slack.com" in text
    ):
        text = _without_keys(text)
    if ":" in text or "=" in text or "earer " in text:
        folded = text.lower()
        if len(folded) != len(text):
            folded = "".join(c.lower() if c.isascii() else c for c in text)
        for word in WORDS:
            if word in folded:
                return _without_places(text, folded, guess)
    return text


def _without_keys(text: str) -> str:
    """`text` without keys that are known by their own shape.

    A shape is tried only where one of its prefixes is found: one pattern for all would
    take a hundred times as long.
    """
    spans: list[tuple[int, int, str]] = []
    for number, (kind, inside, _) in enumerate(INNER):
        if inside in text:
            found_here = _shape(number, INNER).finditer(text)
            spans.extend((*found.span(), kind) for found in found_here)
    for begin, numbers in _BEGINS.items():
        at = text.find(begin)
        while at >= 0:
            # `task-…` holds no `sk-…`.
            if at == 0 or begin[0] == "-" or text[at - 1] not in _WORD_CHARS:
                for number in numbers:
                    found = _shape(number, SHAPES).match(text, at)
                    if found is not None:
                        spans.append((at, found.end(), SHAPES[number][0]))
                        break
            at = text.find(begin, at + len(begin))
    return _cut(text, spans)


def _shape(number: int, table: tuple[tuple[str, str, str], ...]) -> "re.Pattern[str]":
    pattern = table[number][2]
    compiled = _shapes.get(pattern)
    if compiled is None:
        edge = r"(?<![A-Za-z0-9_])" if table is INNER and pattern[0] != "(" else ""
        compiled = _shapes[pattern] = re.compile(edge + pattern)
    return compiled


def _cut(text: str, spans: list[tuple[int, int, str]]) -> str:
    """`text` with the spans replaced by their kinds; one that lies in another is part of it."""
    if not spans:
        return text
    pieces, done = [], 0
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= done:
            pieces += [text[done:start], f"[redacted:{kind}]"]
            done = end
    return "".join([*pieces, text[done:]])


_QUOTE = r"(?:\\{0,3}[\"'])?"
_ASSIGN = rf"{_QUOTE}\s{{0,2}}(?:=>|:=|[:=])\s{{0,2}}{_QUOTE}"
_VALUE = r"[^\s\"'`,;<>()\[\]{}\\$*%][^\s\"'`,;<>()\[\]{}\\]{5,}"
_COOKIE = (
    rf"cookie{_QUOTE}:\s{{0,2}}{_QUOTE}"
    r"(?P<secret>[^\s\"'`<>(){}=]+=[^\"'`\n\\]{6,})"
)
_PLACES = {
    "authorization": (
        "header",
        rf"authorization{_ASSIGN}(?:(?:bearer|basic|token|digest|apikey)\s+)?(?P<secret>{_VALUE})",
    ),
    "bearer": ("header", r"bearer\s+(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)"),
    "cookie": ("cookie", _COOKIE),
    "://": (
        "login",
        r"://[^\s/:@\"'<>]{0,64}:(?P<secret>[^\s/@\"'<>{}$*]{3,256})(?=@)",
    ),
    "": (
        "value",
        r"(?:key|token|secret|passw(?:or)?d|passphrase|credentials?)"
        rf"(?P<rest>[A-Za-z0-9_-]{{0,24}})(?P<assign>{_ASSIGN})(?P<secret>{_VALUE})",
    ),
}
"""By the word before it: the kind, and the pattern. Tried only where the word
is, because searching for patterns takes many times as long as searching for words."""


def _place(word: str) -> "tuple[str, re.Pattern[str]]":
    found = _places.get(word)
    if found is None:
        kind, pattern = _PLACES.get(word) or _PLACES[""]
        found = _places[word] = (kind, re.compile(pattern, re.IGNORECASE))
    return found


def _without_places(text: str, folded: str, guess: bool) -> str:
    """`text` without the values in a secret place."""
    spans: list[tuple[int, int, str]] = []
    for word in WORDS:
        at = folded.find(word)
        while at >= 0:
            kind, pattern = _place(word)
            found = pattern.match(text, at)
            if found is not None and _holds(kind, found, guess):
                spans.append((*found.span("secret"), kind))
            at = folded.find(word, at + len(word))
    return _cut(text, spans)


def _holds(kind: str, found: "re.Match[str]", guess: bool) -> bool:
    """Whether the value in the place is a secret."""
    if kind == "value":
        name = _name_before(found) + found.string[found.start() : found.end("rest")]
        return _is_secret(name, found, guess)
    return kind != "header" or _is_opaque(found["secret"], sure=True)


HIDDEN = "[redacted:value]"
"""The replacement of a field's value."""


def is_secret_field(name: object, value: str) -> bool:
    """Whether a field of this name holds a secret in this value, as it would in an assignment."""
    if not isinstance(name, str) or not 8 <= len(value) <= _LONGEST_VALUE:
        return False
    folded = name.lower()
    for word in _NAMING:
        if word in folded:
            assignment = f'{name}="{value}"'
            return _without_places(assignment, assignment.lower(), False) == f'{name}="{HIDDEN}"'
    return False


def _name_before(found: "re.Match[str]") -> str:
    """The part of a name before the word that was found."""
    text, start = found.string, found.start()
    at = start
    lowest = max(0, start - _LONGEST_NAME)
    while at > lowest and (text[at - 1].isalnum() or text[at - 1] in "_-."):
        at -= 1
    return text[at:start]


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HEX = r"(?:0x|sha\d+[:-])?[0-9a-fA-F]{16,}"
_IDENTIFIER = r"[A-Za-z_][A-Za-z_-]*\d{0,2}"
_MEMBER = r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+"
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])|[_.\- ]+"


def _is_secret(name: str, found: "re.Match[str]", guess: bool) -> bool:
    words = [word.lower() for word in re.split(_CAMEL, name) if word]
    if not words or words[-1] in SPEAKING:
        return False
    value = found["secret"]
    after = found.string[found.end() : found.end() + 1]
    quoted = found["assign"][-1:] in ("'", '"')
    if (after in ("(", "[", "{") and not quoted) or value.isdigit() or "://" in value:
        return False
    if value.startswith(("/", "./", "~/", "../")) and value.count("/") > 1:
        return False
    if not quoted and re.fullmatch(_MEMBER, value.rstrip(".!?")):
        return False
    joined = "".join(words)
    sure = any(w in SURE_WORDS for w in words) or joined.endswith(("apikey", "password"))
    before = words[words.index("key") - 1] if "key" in words[1:] else ""
    sure = sure or before in KEY_KINDS
    shouted = name.isupper() and "_" in name and len(words) > 1
    if sure:
        # A bare word after a name in lower case is mostly a variable or a type.
        bare = not quoted and not shouted and re.fullmatch(_IDENTIFIER, value) is not None
        return guess or (not bare and _is_opaque(value, sure=True))
    opens = "token" in words and (
        shouted or len(words) == 1 or words[words.index("token") - 1] in TOKEN_KINDS
    )
    if not opens and not (shouted and words[-1] == "key"):
        return False
    return _is_opaque(value)


def _is_opaque(value: str, sure: bool = False) -> bool:
    """Whether a value looks made up by a machine or a careful person: no word, hash, id or path."""
    value = value.rstrip(".,;:!?=")
    if len(value) < 8 or len(set(value)) < 4:
        return False
    if sure:
        return any(c.isdigit() for c in value) or (
            not re.fullmatch(_IDENTIFIER, value) and any(c in "!@#^&+~?/=" for c in value)
        )
    if re.fullmatch(_UUID, value) or re.fullmatch(_HEX, value) or re.fullmatch(_IDENTIFIER, value):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
