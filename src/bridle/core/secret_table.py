"""What secrets look like: the one table behind logs, events, mail and exports.

`secret_shapes` applies it. A row of `SHAPES` is a key that is known by its own text; the other
tables tell of values that are secret because of what stands before them: a header's name, a
variable's name, a user in an address.
"""

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
"""Kind, a rare text that stands inside, and the whole shape."""

WORDS = ("key", "token", "secret", "passw", "passphrase", "credential", "authorization", "cookie",
         "bearer", "://")  # fmt: skip
"""One of these stands, in any case, before every value that is secret by its place."""

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
