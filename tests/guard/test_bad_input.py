"""Whatever arrives, the judge answers: a block with a reason, never an exception."""

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.guard import Call, Judge, Policy, check_call, judge
from bridle.guard.shell import shfmt as parsing
from bridle.guard.tools import TOOLS
from tests.guard.conftest import bash


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"tool":5,"input":{}}',
        b'{"tool":"","input":{}}',
        b'{"tool":"Bash"}',
        b'{"tool":"Bash","input":[]}',
        b'{"tool":"Bash","input":{"command":7}}',
        b'{"tool":"Bash","input":{"command":null}}',
        b'{"tool":"Bash","input":"{"}',
        b'{"tool":"Write","input":{"file_path":["/etc/x"]}}',
        b'{"tool":"shell","input":{"command":["ls",3]}}',
        b'{"tool":"batch","input":{"tool_calls":[{"tool":"batch","parameters":{}}]}}',
        b"\xff\xfe",
        b'{"tool":"Bash","input":{"command":"ls \xff"}}',
        b'{"tool":"Write","input":{"file_path":"a\\u0000b"}}',
        b'{"tool":"Write","input":{"file_path":"\\ud800/x"}}',
    ],
)
def test_malformed_payloads_are_blocked(payload: bytes, policy: Policy) -> None:
    verdict = check_call(payload, policy)
    assert verdict.decision == "block"
    assert verdict.reason
    verdict.reason.encode()


def test_a_payload_of_five_megabytes(builder: Judge, places: dict[str, str]) -> None:
    text = "x" * (5 << 20)
    inside = places["{{WORKTREE}}"] + "/big.txt"
    assert builder.judge(Call(tool="Write", input={"file_path": inside, "content": text})).allowed
    outside = places["{{OUTSIDE}}"] + "/big.txt"
    call = Call(tool="Write", input={"file_path": outside, "content": text})
    assert builder.judge(call).rule == "path-outside"
    assert builder.judge(bash("echo " + text)).rule == "shell-unparsed"
    assert not builder.judge(Call(tool="Write", input={"file_path": text})).allowed


def test_a_long_heredoc_passes_the_parser(builder: Judge) -> None:
    body = "line of text with $HOME and 'quotes'\n" * 5000
    assert builder.judge(bash(f"cat > out.txt <<'EOF'\n{body}EOF")).allowed
    assert not builder.judge(bash(f"cat > ../out.txt <<'EOF'\n{body}EOF")).allowed


def test_paths_of_many_components(builder: Judge) -> None:
    deep = "/".join("d" for _ in range(100))
    assert builder.judge(Call(tool="Write", input={"file_path": deep + "/f"})).allowed
    up = "/".join("d" for _ in range(100)) + "/" + "/".join(".." for _ in range(101)) + "/f"
    assert not builder.judge(Call(tool="Write", input={"file_path": up})).allowed
    endless = "/".join("d" for _ in range(5000))
    assert not builder.judge(Call(tool="Write", input={"file_path": endless})).allowed


def test_bytes_that_are_not_text(builder: Judge, places: dict[str, str]) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    assert builder.judge(Call(tool="Write", input={"file_path": name})).allowed
    outside = places["{{OUTSIDE}}"] + "/" + name
    verdict = builder.judge(Call(tool="Write", input={"file_path": outside}))
    assert not verdict.allowed
    verdict.reason.encode()
    for word in (name, f"../{name}", "\ud800"):
        assert builder.judge(bash(f"touch '{word}'")).rule == "shell-unparsed"


def test_links_that_loop(builder: Judge, places: dict[str, str]) -> None:
    worktree = places["{{WORKTREE}}"]
    os.symlink("two", worktree + "/one")
    os.symlink("one", worktree + "/two")
    assert not builder.judge(Call(tool="Write", input={"file_path": "one/x"})).allowed
    assert not builder.judge(bash("echo x > one")).allowed


def test_a_changed_git_link_blocks_git(policy: Policy, places: dict[str, str]) -> None:
    link = places["{{WORKTREE}}"] + "/.git"
    good = f"gitdir: {places['{{REPO}}']}/.git/worktrees/alice\n"
    with open(link, "w") as handle:
        handle.write(good)
    ready = Judge(policy)
    assert ready.judge(bash("git commit -m x")).allowed
    with open(link, "w") as handle:
        handle.write(f"gitdir: {places['{{OUTSIDE}}']}/.git\n")
    assert ready.judge(bash("git commit -m x")).rule == "git-link"
    assert ready.judge(bash("git log -1")).allowed
    assert judge(bash("git commit -m x"), policy).rule == "git-link"
    os.unlink(link)
    assert ready.judge(bash("git commit -m x")).rule == "git-link"
    expected = msgspec.structs.replace(policy, git_link=good)
    assert judge(bash("git add ."), expected).rule == "git-link"


def test_a_parser_that_is_missing_hangs_or_talks_nonsense(
    builder: Judge, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    command = "ls | wc -l  # not in any cache"
    for body in ("#!/bin/sh\necho '{}'\n", "#!/bin/sh\nexit 3\n", "#!/bin/sh\nexec sleep 20\n"):
        fake = tmp_path / "parser"
        fake.write_text(body)
        fake.chmod(0o755)
        monkeypatch.setattr(parsing, "_binary", str(fake))
        monkeypatch.setattr(parsing, "TIME_LIMIT", 0.2)
        verdict = builder.judge(bash(command))
        assert verdict.rule == "shell-unparsed"
    monkeypatch.setattr(parsing, "_binary", str(tmp_path / "gone"))
    assert builder.judge(bash(command)).rule == "shell-unparsed"


def test_an_error_of_ours_is_a_block(builder: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(builder.places, "check_text", broken)
    assert builder.judge(Call(tool="Write", input={"file_path": "x"})).rule == "internal-error"


@pytest.mark.parametrize(
    "command",
    [
        "(" * 2000 + "ls" + ")" * 2000,
        "$(" * 300 + "ls" + ")" * 300,
        "; ".join(["ls"] * 20000),
        "echo " + "{a,b}" * 30,
        "a() { a; }; a",
        "a() { b; }; b() { a; }; a",
        "x=x; " + "x=$x$x; " * 40 + "rm $x",
        "eval " * 200 + "ls",
        "bash -c '" * 30 + "ls",
        "for i in {1..999999999}; do ls; done",
    ],
)
def test_commands_made_to_exhaust(command: str, builder: Judge) -> None:
    verdict = builder.judge(bash(command))
    assert verdict.rule != "internal-error"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=30)
    | st.sampled_from(["git push", "/etc/passwd", "a.txt", "rm -rf /", "$(x", "~", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["command", "cmd", "path", "file_path", "args", "input", "cwd", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tool=st.sampled_from([*TOOLS, "mcp__x__do", "who knows"]) | JSON, data=JSON)
def test_any_json_gets_a_verdict(builder: Judge, scout: Judge, tool: Any, data: Any) -> None:
    for ready in (builder, scout):
        verdict = ready.judge(Call(tool=tool, input=data))
        assert verdict.decision in ("allow", "block")
        assert verdict.rule != "internal-error"
        assert verdict.allowed or verdict.reason


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(max_size=40)
    | st.lists(
        st.sampled_from(
            ["rm", "git", "push", "'", '"', "$", "(", ")", "{", "}", "|", "&&", ";", ">", "<",
             "<<E", "\n", " ", "a.txt", "$x", "${x", "`", "*", "~", "[[", "]]", "if", "then", "fi",
             "E", "awk", "sed", "-i", "s/a/b/w", "find", "-exec", "xargs", "\\", "#", "=", "@("]
        ),
        max_size=14,
    ).map(" ".join)
)  # fmt: skip
def test_any_text_gets_a_verdict(builder: Judge, scout: Judge, text: str) -> None:
    for ready in (builder, scout):
        assert ready.judge(bash(text)).rule != "internal-error"
