"""What looks like a key does not leave; what does not, stays."""

import pytest

from bridle.core.secret_patterns import without_secret_shapes


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-" + "a1B2" * 8,
        "sk-proj-" + "Zz9_" * 8,
        "ghp_" + "a1B2c3" * 6,
        "github_pat_" + "a1B2c3" * 6,
        "glpat-" + "a1B2c3" * 4,
        "xoxb-" + "1234567890-abc",
        "AKIA" + "ABCDEFGH12345678",
        "AIza" + "a1B2c3" * 6,
        "hf_" + "a1B2c3" * 6,
        "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".SflKxwRJSMeKKF2QT4",
    ],
)
def test_a_key_is_known_by_its_shape(secret: str) -> None:
    assert without_secret_shapes(f"use {secret}, please") == "use [redacted], please"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: correcthorse", "password: [redacted]"),
        ('{"api_key": "abcdef123"}', '{"api_key": "[redacted]"}'),
        ("export DB_PASSWORD=tr0ub4dor", "export DB_PASSWORD=[redacted]"),
        ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer [redacted]"),
        ("git clone https://me:tok3n@host/x", "git clone https://me:[redacted]@host/x"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest",
            "[redacted]\nrest",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]"),
    ],
)
def test_what_stands_in_a_secret_place(text: str, left: str) -> None:
    assert without_secret_shapes(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "fix the task-runner and the risk-assessment of desk-top apps",
        "ask for the password before you go on",
        "see https://example.com:8080/path@v2 and mail a@b.c",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "the bearer of bad news",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert without_secret_shapes(text) == text
