"""Single requests to an app-server: the hooks it will run, and the import of a conversation."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import GuardRefused
from bridle.core.options import RunOptions
from bridle.runtimes.codex.app_server import AppServer
from bridle.runtimes.past_conversation import PastMessage, PastTool
from tests.runtimes.codex.fake_install import FakeInstall

SERVER = """\
import json, os, sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] in replies:
        print("not a message")
        for reply in replies[asked["method"]]:
            print(json.dumps(reply if "method" in reply else {"id": asked["id"], **reply}))
        sys.stdout.flush()
"""
"""Answers each request with the replies it is made with; one it does not know gets none."""

READY: dict[str, Any] = {"initialize": [{"result": {}}]}


def server(folder: Path, replies: dict[str, Any]) -> str:
    """A program that answers like an app-server."""
    path = folder / "server"
    path.write_text(f"#!{sys.executable}\nreplies = {replies!r}\n{SERVER}")
    path.chmod(0o755)
    return str(path)


def asked(folder: Path, replies: dict[str, Any], seconds: float = 20.0) -> AppServer:
    argv = [server(folder, READY | replies)]
    return AppServer(argv, cwd=str(folder), env=dict(os.environ), seconds=seconds)


def test_a_request_gets_its_own_response(tmp_path: Path) -> None:
    others = [{"method": "a/note", "params": {}}, {"method": "a/request", "params": {}}]
    replies = {"a": [*others, {"result": [1]}, {"method": "later", "params": [2]}]}
    with asked(tmp_path, replies) as client:
        assert client.request("a", {}) == b"[1]"
        assert client.notification("later") == b"[2]"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [([{"error": {"code": 1, "message": "unknown"}}], "refused a: unknown"), ([], "in time")],
)
def test_a_refusal_and_silence_are_errors(tmp_path: Path, reply: list[Any], reason: str) -> None:
    seconds = 20.0 if reply else 1.0
    with asked(tmp_path, {"a": reply}, seconds) as client, pytest.raises(OSError, match=reason):
        client.request("a", {})


def test_a_program_that_ends_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError),  # noqa: PT011 (by its pipe or by its end)
        AppServer(["/bin/true"], cwd=str(tmp_path), env={}, seconds=20.0),
    ):
        pass


def hooks(*events: str, trust: str = "trusted") -> dict[str, Any]:
    listed = [
        {"eventName": each, "source": "sessionFlags", "enabled": True, "trustStatus": trust}
        for each in events
    ]
    return {"hooks/list": [{"result": {"data": [{"cwd": "/", "hooks": listed}]}}]}


ALL = ("preToolUse", "sessionStart", "userPromptSubmit")


@pytest.mark.parametrize(
    ("replies", "problem"),
    [
        (hooks(*ALL), ""),
        (hooks(*ALL[:2]), "UserPromptSubmit"),
        (hooks(*ALL, trust="untrusted"), "PreToolUse"),
        ({"hooks/list": [{"error": {"message": "unknown method"}}]}, "does not list its hooks"),
    ],
)
def test_a_guard_is_proved_by_the_list_of_hooks(
    tmp_path: Path, replies: dict[str, Any], problem: str
) -> None:
    fake = FakeInstall(tmp_path, "0.166.0")
    plan = fake.plan()
    found = msgspec.structs.replace(plan.installation, binary=server(tmp_path, READY | replies))
    plan = msgspec.structs.replace(plan, installation=found)
    if not problem:
        assert fake.runtime.prove_guard(plan) == "hooks/list"
        return
    with pytest.raises(GuardRefused, match=problem):
        fake.runtime.prove_guard(plan)


def test_an_import_returns_the_thread_that_codex_made(tmp_path: Path) -> None:
    fake = FakeInstall(tmp_path, "0.166.0")
    results = {"itemTypeResults": [{"successes": [{"target": None}, {"target": "thread-1"}]}]}
    done = {"method": "externalAgentConfig/import/completed", "params": results}
    replies = {"externalAgentConfig/import": [{"result": {}}, done]}
    fake.use(server(tmp_path, READY | replies))
    tool = PastTool(id="c1", name="Bash", args={"command": "ls"}, result="a")
    messages = [
        PastMessage(from_user=True, text="hello"),
        PastMessage(from_user=False, text="done", tools=(tool,)),
    ]
    options = RunOptions(prompt="x", cwd=str(fake.work))
    assert fake.runtime.import_conversation(messages, options, fake.env) == "thread-1"
    fake.use(server(tmp_path, READY | {"externalAgentConfig/import": [{"error": {}}]}))
    assert fake.runtime.import_conversation(messages, options, fake.env) is None
