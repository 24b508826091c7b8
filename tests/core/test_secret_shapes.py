"""Secrets known by their shape are taken out; hashes, ids and ordinary words stay."""

import base64
import hashlib
import random
import string
import uuid

import pytest

from bridle.core.redaction import Redactor
from bridle.core.secret_shapes import without_shapes

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
_random = random.Random(7)


def some(size: int, letters: str = LETTERS) -> str:
    return "".join(_random.choice(letters) for _ in range(size))


# Made up here, so that no file holds anything that looks like a real one.
SAMPLES = [
    ("anthropic", "sk-ant-" + "api03-" + some(90)),
    ("anthropic", "sk-ant-" + "sid07-" + some(80)),
    ("anthropic", "sk-ant-" + some(40)),
    ("openrouter", "sk-or-v1-" + some(64, HEX)),
    ("openai", "sk-proj-" + some(60)),
    ("openai", "sk-" + some(20, string.ascii_letters) + "T3BlbkFJ" + some(20)),
    ("api-key", "sk-" + some(31) + "7"),
    ("google", "AIza" + some(35)),
    ("google", "ya29." + some(40)),
    ("google", "GOCSPX-" + some(28)),
    ("xai", "xai-" + some(80)),
    ("groq", "gsk_" + some(52)),
    ("perplexity", "pplx-" + some(48)),
    ("huggingface", "hf_" + some(34)),
    ("replicate", "r8_" + some(37)),
    ("bedrock", "ABSK" + some(80)),
    ("github", "ghp_" + some(36)),
    ("github", "github_pat_" + some(22) + "_" + some(59)),
    ("gitlab", "glpat-" + some(20)),
    ("npm", "npm_" + some(36)),
    ("pypi", "pypi-" + "AgEIcHlwaS5vcmc" + some(60)),
    ("docker", "dckr_pat_" + some(27)),
    ("aws", "AKIA" + some(16, "ABCDEFGHIJKLMNOP234567")),
    ("azure", "AccountKey=" + some(86) + "=="),
    ("azure", some(3) + "8Q~" + some(34)),
    ("terraform", some(14) + ".atlasv1." + some(67)),
    ("twilio", "SK" + some(32, HEX)),
    ("telegram", some(9, "123456789") + ":AA" + some(33)),
    ("crates", "cio" + some(32)),
    ("digitalocean", "dop_v1_" + some(64, HEX)),
    ("databricks", "dapi" + some(32, HEX)),
    ("vault", "hvs." + some(30)),
    ("supabase", "sbp_" + some(40, HEX)),
    ("slack", "xoxb-" + some(40)),
    ("slack", "hooks.slack.com/services/" + some(9) + "/" + some(9) + "/" + some(24)),
    ("stripe", "sk_live_" + some(24)),
    ("stripe", "whsec_" + some(32)),
    ("sendgrid", "SG." + some(22) + "." + some(43)),
    ("linear", "lin_api_" + some(40)),
    ("notion", "ntn_" + some(46)),
    ("figma", "figd_" + some(40)),
    ("sentry", "sntrys_" + some(60)),
    ("grafana", "glsa_" + some(40)),
    ("atlassian", "ATATT3" + some(80)),
    ("shopify", "shpat_" + some(32, HEX)),
    ("tailscale", "tskey-auth-" + some(30)),
    ("age", "AGE-SECRET-KEY-1" + some(58, string.ascii_uppercase + string.digits)),
    ("1password", "ops_eyJ" + some(80)),
    ("jwt", f"eyJ{some(20)}.eyJ{some(40)}.{some(43)}"),
    ("private-key", f"-----BEGIN RSA PRIVATE KEY-----\n{some(64)}\n-----END RSA PRIVATE KEY-----"),
]

HARMLESS = [
    hashlib.sha1(b"commit").hexdigest(),
    hashlib.sha256(b"file").hexdigest(),
    f"index {some(7, HEX)}..{some(7, HEX)} 100644",
    str(uuid.UUID(int=2**100)),
    base64.b64encode(bytes(range(250))).decode(),
    "risk-free task-runner for sk-learn",
    f"mask-{hashlib.sha256(b'x').hexdigest()}",
    f"disk-{hashlib.md5(b'x').hexdigest()}",
    "ghp_ is how such a key begins, as in ghp_xxxx",
    "the column api_key_id and the table pk_live_orders",
    "toolu_01A09q90qw90lq917835lq9",
    "src/bridle/runtimes/claude/normalizer_of_the_wire.py",
    "sk-ant- is how such a key begins, as in sk-ant-xxxx",
    "AKIA is a prefix; AKIAlowercase is no key",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
]


@pytest.mark.parametrize(("kind", "secret"), SAMPLES, ids=[kind for kind, _ in SAMPLES])
def test_a_secret_is_known_by_its_shape(kind: str, secret: str) -> None:
    for before, after in ((' "', '" '), ("KEY=", "\n"), ("(", ")"), ("", "")):
        text = without_shapes(f"{before}{secret}{after}")
        assert text == f"{before}[redacted:{kind}]{after}"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_none_stays(text: str) -> None:
    assert without_shapes(text) == text
    assert without_shapes(text, guess=True) == text


PLACES = [
    ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer [redacted:header]"),
    ("curl -H 'authorization: Basic dXNlcjpwYXNz0w=='", "curl -H 'authorization: Basic HEADER'"),
    ('{"Authorization":"token 0a1b2c3d4e5f6a7b8c9d!"}', '{"Authorization":"token HEADER"}'),
    ("Proxy-Authorization: Digest q1w2e3r4t5y6u7", "Proxy-Authorization: Digest HEADER"),
    ("x-api-key: 9f8e7d6c5b4a39281706", "x-api-key: VALUE"),
    ("it sent Bearer q1w2e3r4t5y6u7i8o9p0 twice", "it sent Bearer HEADER twice"),
    ("Cookie: session=abc123def456; theme=dark", "Cookie: [redacted:cookie]"),
    ("Set-Cookie: sid=s%3Aabcdef123; Path=/\nX: y", "Set-Cookie: [redacted:cookie]\nX: y"),
    ("export DB_PASSWORD=tr0ub4dor", "export DB_PASSWORD=VALUE"),
    ("DJANGO_SECRET_KEY='k9$m2!xq7zz'", "DJANGO_SECRET_KEY='VALUE'"),
    ('{"api_key": "abcdef123"}', '{"api_key": "VALUE"}'),
    ('{\\"apiKey\\": \\"abcdef123\\"}', '{\\"apiKey\\": \\"VALUE\\"}'),
    ("aws_secret_access_key = wJalrXUt/nFEMI7K+MDENGbPx", "aws_secret_access_key = VALUE"),
    ("client-secret: 8f3kd93kd93k", "client-secret: VALUE"),
    ("GITHUB_TOKEN=v1a2b3c4d5e6f7g8", "GITHUB_TOKEN=VALUE"),
    ("ENCRYPTION_KEY=8sJd72kLm3Qw", "ENCRYPTION_KEY=VALUE"),
    ("?access_token=q1w2e3r4t5y6&page=2", None),
    ("git clone https://me:tok3nval@host/x", "git clone https://me:[redacted:login]@host/x"),
    ("postgres://app:p4ss@db:5432/x", "postgres://app:[redacted:login]@db:5432/x"),
]


@pytest.mark.parametrize(("text", "left"), PLACES)
def test_what_stands_in_a_secret_place(text: str, left: str | None) -> None:
    cleaned = without_shapes(text)
    if left is None:
        assert "q1w2e3r4t5y6" not in cleaned
        return
    expected = left.replace("HEADER", "[redacted:header]").replace("VALUE", "[redacted:value]")
    assert cleaned == expected


CODE = [
    "def login(self, password: str, token: Optional[str] = None) -> None:",
    "password = getpass.getpass('Password: ')",
    "api_key = os.environ['API_KEY']",
    "const apiKey = process.env.API_KEY;",
    "token = self._tokens.refresh_token",
    "SECRET_KEY = settings.SECRET_KEY",
    "headers['Authorization'] = f'Bearer {token}'",
    "Authorization: Bearer ${GITHUB_TOKEN}",
    "Authorization: Bearer <your-token-here>",
    "the Authorization: header is required for all of them",
    "rows.sort(key=lambda row: row.created_at2)",
    'cache_key = "user:1234:profile"',
    '{"key": "7f3a9c21b5d84e60917f3a9c21b5d84e", "value": 1}',
    "idempotency_key: 123e4567-e89b-12d3-a456-426614174000",
    "max_tokens=4096, input_tokens: 123456789, tokenizer='cl100k_base'",
    "page_token=CAUQAA next_page_token: CAoQAA12345678",
    '"token_count": 12345678, "tokenType": "keyword42"',
    "primaryKey: user_id_v2, foreign_key=orders_2024_id",
    "KEY_FILE=/etc/ssl/private/server1.pem",
    "SSH_AUTH_SOCK=/tmp/ssh-XXXX1234/agent.99",
    "password: string; passwordConfirmation: string2",
    "expect(screen.getByLabelText('Password:')).toBeInTheDocument()",
    "secretName: my-tls-secret",
    "see https://example.com:8080/path@v2 and mail a@b.c",
    "ssh://git@github.com:22/owner/repo.git",
    "https://${USER}:${TOKEN}@example.com/x",
    "the bearer of bad news and of internationalization",
    "keyboard: qwerty1234567",
    "ask for the password before you go on",
    "fix the task-runner and the risk-assessment of desk-top apps",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "cookie: the browser keeps it",
    "monkey=banana12345 donkey: carrots12345",
    "X-Request-Id: 123e4567-e89b-12d3-a456-426614174000",
    "publickey: ok; keyid=0xDEADBEEFDEADBEEF",
]


@pytest.mark.parametrize("text", CODE)
def test_ordinary_code_stays(text: str) -> None:
    assert without_shapes(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: correcthorse", "password: [redacted:value]"),
        ("the passphrase = opensesame then", "the passphrase = [redacted:value] then"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted:private-key]"),
    ],
)
def test_texts_that_leave_are_guessed_at(text: str, left: str) -> None:
    assert without_shapes(text, guess=True) == left


def test_a_long_text_is_searched_in_time_that_grows_with_its_length() -> None:
    # A pattern that tries again from every character of a long word would take minutes here.
    blob = base64.b64encode(bytes(range(256)) * 4000).decode()
    text = f"key {blob} token={blob[:40]} " + "a" * 200_000 + " secret-" * 20_000
    assert "token=[redacted:value]" not in without_shapes(text[:100])
    assert len(without_shapes(text)) <= len(text)


def test_a_private_key_that_is_cut_off_does_not_pass() -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{some(64)}\n{some(20)}"
    assert without_shapes(f"see {text}") == "see [redacted:private-key]"


def test_data_is_cleaned_also_when_no_value_is_known() -> None:
    secret = SAMPLES[0][1]
    cleaned = Redactor().value({"out": [f"key {secret}"], "n": 3})
    assert cleaned == {"out": ["key [redacted:anthropic]"], "n": 3}


def test_a_field_is_judged_by_its_name() -> None:
    data = {
        "apiKey": "abcdef123",
        "password": "tr0ub4dor",
        "cache_key": "abcdef123",
        "tokens": "12345678a",
        "nested": [{"client_secret": "8f3kd93kd93k", "n": 1}],
        "secret": {"name": "abcdef123"},
    }
    assert Redactor().value(data) == {
        "apiKey": "[redacted:value]",
        "password": "[redacted:value]",
        "cache_key": "abcdef123",
        "tokens": "12345678a",
        "nested": [{"client_secret": "[redacted:value]", "n": 1}],
        "secret": {"name": "abcdef123"},
    }


def test_an_exact_value_is_taken_out_first() -> None:
    secret = SAMPLES[0][1]
    assert Redactor([secret]).text(f"key {secret}") == "key [redacted]"
