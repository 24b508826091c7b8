"""Secrets: which variables hold one, and that none passes in any form or cut."""

import base64
import json
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.core.redaction import REDACTED, Redactor, secrets_in

KEY = "sk-ant-api03-Zz9/+x=_Q7"
OWN_KEY = "own-key-api03-Zz9/+x=_Q7"
"""A secret without a known shape: shapes are only found where one piece of a stream holds them."""

ORDINARY = {
    "SSH_AUTH_SOCK": "/run/user/1000/keyring/ssh",
    "KEYBOARD": "us-international",
    "TOKENIZERS_PARALLELISM": "false",
    "MONKEY": "banana123",
    "MAX_THINKING_TOKENS": "1000000000",
    "AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP",
    "PWD": "/home/someone/projects",
    "OLDPWD": "/home/someone",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/someone/key.json",
    "API_KEY_FILE": "/run/secrets/key",
    "AUTH_METHOD": "oauth-device-code",
    "HTTP_AUTH": "disabled",
    "OPENAI_API_KEY": "none",
    "XKEYSYMDB": "/usr/share/X11/XKeysymDB",
    "COMPASS": "north-by-northwest",
    "AUTHOR": "somebody else 1234",
}

SECRET = {
    "ANTHROPIC_API_KEY": KEY,
    "ANTHROPIC_AUTH_TOKEN": "tok_1234567890",
    "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-abcdefgh",
    "GITHUB_PAT": "ghp_0123456789abcdef",
    "DB_PASSWORD": "hunterhunter",
    "MYAPIKEY": "0123456789abcdef-x",
    "aws_secret_access_key": "/wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEY",
    "SIGNING_KEY": "-----BEGIN KEY-----\nabc def\n-----END KEY-----",
}


def test_only_variables_that_hold_a_secret_are_taken() -> None:
    assert secrets_in(ORDINARY) == []
    assert secrets_in({**ORDINARY, **SECRET}) == list(SECRET.values())


@pytest.mark.parametrize(
    "shown",
    [
        KEY,
        json.dumps({"k": KEY}),
        json.dumps(json.dumps({"k": KEY})),
        json.dumps(KEY).replace("/", "\\/"),
        quote(KEY, safe=""),
        quote(KEY),
        quote_plus(KEY),
        base64.b64encode(KEY.encode()).decode(),
        base64.b64encode(f"x{KEY}".encode()).decode(),
        base64.b64encode(f"xy{KEY} and more".encode()).decode(),
        base64.b64encode(f"user:{KEY}".encode()).decode(),
        base64.urlsafe_b64encode(f"ab{KEY}?".encode()).decode(),
        KEY.encode().hex(),
    ],
)
def test_every_form_is_taken_out(shown: str) -> None:
    redactor = Redactor([KEY])
    text = redactor.text(f"before {shown} after")
    assert REDACTED in text
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert redactor.line(f"before {shown} after".encode()) == text.encode()
    # Nothing that still decodes to a piece of the secret stays.
    assert KEY[3:-3] not in text
    for offset in range(3):
        inner = base64.b64encode(b"\0" * offset + KEY.encode()).decode()[4:-8]
        assert inner not in text


def test_a_secret_with_quotes_backslashes_and_foreign_letters() -> None:
    secret = 'pä"ss\\wörd\u2028\n€end'
    redactor = Redactor([secret])
    for ascii_only in (True, False):
        line = json.dumps({"a": [secret]}, ensure_ascii=ascii_only)
        assert redactor.text(line) == '{"a": ["' + REDACTED + '"]}'
        assert json.loads(redactor.line(line.encode())) == {"a": [REDACTED]}


def test_overlapping_secrets_leave_no_rest() -> None:
    redactor = Redactor(["abcdefgh1234", "efgh12345678", "abcdefgh"])
    assert redactor.text("<abcdefgh12345678>") == f"<{REDACTED}>"
    assert redactor.line(b"<abcdefgh12345678>") == f"<{REDACTED}>".encode()


def test_short_values_never_garble_text() -> None:
    redactor = Redactor(["", "a", "secret7"])
    assert redactor.text("a secret7 thing") == "a secret7 thing"


def test_values_are_cleaned_all_through() -> None:
    redactor = Redactor([KEY])
    dirty = {"a": [KEY, 1, None, {"b" + KEY: (KEY.encode(), 2.5)}]}
    clean = redactor.value(dirty)
    assert clean == {"a": [REDACTED, 1, None, {"b" + REDACTED: [REDACTED.encode(), 2.5]}]}


def test_a_command_is_cleaned_before_it_is_quoted() -> None:
    secret = "it's a se'cret"
    line = Redactor([secret]).command(["claude", "--key", secret, "a b"])
    assert line == f"claude --key '{REDACTED}' 'a b'"


@given(
    pieces=st.lists(
        st.sampled_from(
            ["o", "ow", "own", OWN_KEY, OWN_KEY + "tail9999", OWN_KEY[:9], "x", " ", OWN_KEY[5:]]
        )
    ),
    cuts=st.lists(st.integers(0, 200)),
)
def test_no_secret_passes_wherever_the_stream_is_cut(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    redactor = Redactor([OWN_KEY, OWN_KEY + "tail9999"])
    marks = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    shown, held = "", ""
    for start, end in pairwise(marks):
        out, held = redactor.split(held + text[start:end])
        shown += out
    shown += redactor.text(held)
    assert shown == redactor.text(text)
    assert OWN_KEY not in shown


@given(st.text(alphabet="ab-", max_size=40), st.lists(st.text("ab-", min_size=8, max_size=12)))
def test_held_back_is_the_longest_beginning_of_a_secret(text: str, secrets: list[str]) -> None:
    redactor = Redactor(secrets)
    expected = max(
        (
            size
            for size in range(len(text) + 1)
            for form in redactor._texts
            if size < len(form) and form.startswith(text[len(text) - size :])
        ),
        default=0,
    )
    assert redactor.held_back(text) == expected
