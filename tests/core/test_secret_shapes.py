"""Secrets known by their shape are taken out; hashes, ids and ordinary words stay."""

import base64
import hashlib
import random
import string
import uuid

import pytest

from bridle.core.redact import Redactor
from bridle.core.secret_shapes import without_shapes

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
_random = random.Random(7)


def some(size: int, letters: str = LETTERS) -> str:
    return "".join(_random.choice(letters) for _ in range(size))


# Made up here, so that no file holds anything that looks like a real one.
SAMPLES = [
    ("anthropic", "sk-ant-" + "api03-" + some(90)),
    ("openrouter", "sk-or-v1-" + some(64, HEX)),
    ("openai", "sk-proj-" + some(60)),
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


def test_a_private_key_that_is_cut_off_does_not_pass() -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{some(64)}\n{some(20)}"
    assert without_shapes(f"see {text}") == "see [redacted:private-key]"


def test_data_is_cleaned_also_when_no_value_is_known() -> None:
    secret = SAMPLES[0][1]
    cleaned = Redactor().value({"out": [f"key {secret}"], "n": 3})
    assert cleaned == {"out": ["key [redacted:anthropic]"], "n": 3}


def test_an_exact_value_is_taken_out_first() -> None:
    secret = SAMPLES[0][1]
    assert Redactor([secret]).text(f"key {secret}") == "key [redacted]"
