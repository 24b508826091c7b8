"""Aider's options, panes, histories and deployed files; nothing is started."""

import os
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import NotAuthenticated, ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.options import (
    HooksDef,
    ModelServer,
    OverlayContent,
    Provider,
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import Dialog, Loading
from bridle.runtimes import deployment
from bridle.runtimes.aider import AiderRuntime
from bridle.runtimes.aider.product import DEPLOYED
from bridle.runtimes.aider.stream import error_of_line
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.plan import RunPlan
from tests.runtimes.aider.captures import TESTDATA
from tests.runtimes.products import installed


@pytest.fixture
def runtime(tmp_path: Path) -> AiderRuntime:
    return AiderRuntime(AdapterSettings(binary=installed("aider", tmp_path)))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "work"


def plan(runtime: AiderRuntime, work: Path, *, env: Any = None, **options: Any) -> RunPlan:
    given = {"prompt": "p", "cwd": str(work), **options}
    home = {"HOME": str(work.parent / "home"), "PATH": os.environ["PATH"]}
    return runtime.plan_run(RunOptions(**given), {**home, **(env or {})}, "0-session")


def value_of(plan: RunPlan, flag: str) -> str:
    return plan.spec.argv[plan.spec.argv.index(flag) + 1]


def test_the_prompt_is_in_a_private_file(runtime: AiderRuntime, work: Path) -> None:
    planned = plan(runtime, work, prompt="Secretly do it.")
    assert not any("Secretly" in word for word in planned.spec.argv)
    file = Path(value_of(planned, "--message-file"))
    assert file.read_text() == "Secretly do it."
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (private,) = planned.private_dirs
    assert stat.S_IMODE(os.stat(private).st_mode) == 0o700
    assert planned.spec.stdin is not None
    assert set(planned.spec.stdin.split()) == {b"n"}


@pytest.mark.parametrize("prompt", ["/run id", "!id", "/exit"])
def test_a_prompt_is_no_command(runtime: AiderRuntime, work: Path, prompt: str) -> None:
    planned = plan(runtime, work, prompt=prompt)
    assert Path(value_of(planned, "--message-file")).read_text() == f" {prompt}"


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({}, ["--no-auto-commits", "--no-dirty-commits"]),
        ({"auto_commits": "true"}, ["--auto-commits", "--no-dirty-commits"]),
        ({"edit_format": "diff"}, ["--edit-format", "diff"]),
        ({"request_timeout": "30"}, ["--timeout", "30"]),
        ({"weak_model": "w"}, ["--weak-model", "w"]),
        ({"map_tokens": 0}, ["--map-tokens", "0"]),
        ({"auto_lint": False}, ["--no-auto-lint"]),
        ({"test_cmd": "make test"}, ["--test-cmd", "make test", "--auto-test"]),
        ({"reasoning_effort": "high"}, ["--reasoning-effort", "high"]),
    ],
)
def test_its_own_options(
    runtime: AiderRuntime, work: Path, given: dict[str, Any], flags: list[str]
) -> None:
    argv = plan(runtime, work, provider_options=given).spec.argv
    at = argv.index(flags[0])
    assert list(argv[at : at + len(flags)]) == flags


def test_permission(runtime: AiderRuntime, work: Path) -> None:
    asked, free = plan(runtime, work), plan(runtime, work, permission_mode="bypass")
    assert "--yes-always" not in asked.spec.argv
    assert "--yes-always" in free.spec.argv
    assert free.spec.stdin is None
    for planned in (asked, free):
        assert "--no-suggest-shell-commands" in planned.spec.argv
        assert planned.spec.env["BROWSER"] == "true"


def test_no_repository_is_made(runtime: AiderRuntime, work: Path) -> None:
    assert "--no-git" in plan(runtime, work).spec.argv
    (work / ".git").mkdir()
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    planned = plan(runtime, work)
    assert "--no-git" not in planned.spec.argv
    assert planned.warnings == ()
    (work / "sub").mkdir()
    (warning,) = plan(runtime, work / "sub", env={"HOME": str(work.parent / "home")}).warnings
    assert str(work) in warning


def test_what_the_model_is_shown(runtime: AiderRuntime, work: Path) -> None:
    (work / "AGENTS.md").write_text("rules")
    (work / "more.md").write_text("more")
    extra = work.parent / "extra file.md"
    extra.write_text("extra")
    planned = plan(
        runtime,
        work,
        append_system_prompt="said",
        append_system_prompt_file=str(extra),
        provider_options={"read": "more.md", "files": ["more.md"]},
    )
    load = Path(value_of(planned, "--load")).read_text()
    shown = [shlex.split(line) for line in load.splitlines()]
    assert [words[0] for words in shown] == ["/read-only"] * 3
    assert [words[1] for words in shown][:2] == [str(work / "more.md"), str(work / "AGENTS.md")]
    assert Path(shown[2][1]).read_text() == "said\n\nextra\n"
    assert value_of(planned, "--file") == str(work / "more.md")
    assert "--read" not in planned.spec.argv
    bare = plan(runtime, work, provider_options={"instructions": False})
    assert "--load" not in bare.spec.argv


def test_a_scripted_model_gets_everything(runtime: AiderRuntime, work: Path) -> None:
    server = ModelServer(url="http://127.0.0.1:9", api_key="scripted-key-1")
    env = {"OPENAI_API_KEY": "users-openai-key", "AIDER_MODEL": "o1", "HTTPS_PROXY": "http://x"}
    for model, named in (
        (None, "openai/gpt-4o"),
        ("sonnet", "sonnet"),
        ("claude-x", "anthropic/claude-x"),
        ("somebody/model-1", "openai/somebody/model-1"),
    ):
        planned = plan(runtime, work, model_server=server, model=model, env=env)
        assert value_of(planned, "--model") == named
        child = planned.spec.env
        assert child["AIDER_OPENAI_API_BASE"] == "http://127.0.0.1:9/v1"
        assert child["AIDER_OPENAI_API_KEY"] == "scripted-key-1"
        assert "users-openai-key" not in child.values()
        assert not {"AIDER_MODEL", "HTTPS_PROXY"} & set(child)
        assert child["HOME"].startswith(planned.private_dirs[0])
        assert not any("scripted-key-1" in word for word in planned.spec.argv)
        assert planned.secrets == ("scripted-key-1",)
        assert value_of(planned, "--chat-history-file").startswith(planned.private_dirs[0])


def test_a_provider_of_the_callers_own(runtime: AiderRuntime, work: Path) -> None:
    provider = Provider(base_url="http://gate/v1/", auth_token_env="GATE_KEY")
    env = {"GATE_KEY": "gate-key-12345"}
    planned = plan(runtime, work, provider=provider, model="big", env=env)
    assert value_of(planned, "--model") == "openai/big"
    assert planned.spec.env["AIDER_OPENAI_API_BASE"] == "http://gate/v1"
    assert planned.spec.env["AIDER_OPENAI_API_KEY"] == "gate-key-12345"
    assert not any("gate-key" in word for word in planned.spec.argv)
    planned = plan(runtime, work, provider=provider, model="sonnet", env=env)
    assert value_of(planned, "--set-env") == "ANTHROPIC_API_BASE=http://gate/v1"
    assert planned.spec.env["AIDER_ANTHROPIC_API_KEY"] == "gate-key-12345"
    planned = plan(
        runtime, work, provider=Provider(auth_token_env="GATE_KEY"), model="gemini/x", env=env
    )
    assert planned.spec.env["GEMINI_API_KEY"] == "gate-key-12345"
    with pytest.raises(NotAuthenticated, match="GATE_KEY"):
        plan(runtime, work, provider=provider, model="big")
    with pytest.raises(WrongUse, match="needs a model"):
        plan(runtime, work, provider=provider, env=env)


def test_routing_by_variables(runtime: AiderRuntime) -> None:
    model = ResolvedModel(
        model="big", env={"K": "key-12345678"}, provider=Provider(base_url="http://g/v1")
    )
    assert runtime.build_env(model) == {
        "K": "key-12345678",
        "AIDER_OPENAI_API_BASE": "http://g/v1",
    }


def test_conversations(runtime: AiderRuntime, work: Path) -> None:
    first = plan(runtime, work)
    assert first.native_session_id == "0-session"
    history = Path(value_of(first, "--chat-history-file"))
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    again = plan(runtime, work, resume="0-session")
    assert value_of(again, "--chat-history-file") == str(history)
    assert "--restore-chat-history" in again.spec.argv
    for unknown in ("9-session", "../x", ""):
        with pytest.raises(ResumeRefused):
            plan(runtime, work, resume=unknown)
    with pytest.raises(ResumeRefused):
        plan(runtime, work.parent, resume="0-session")


def test_an_account_folder_is_its_home(runtime: AiderRuntime, work: Path, tmp_path: Path) -> None:
    (work.parent / "home" / ".gitconfig").write_text("[user]\n")
    account = tmp_path / "account"
    planned = plan(runtime, work, account_dir=str(account))
    assert planned.spec.env["HOME"] == str(account)
    assert planned.spec.env["GIT_CONFIG_GLOBAL"] == str(work.parent / "home" / ".gitconfig")


def test_instructions_stand_in_a_file_of_their_own(runtime: AiderRuntime, work: Path) -> None:
    (work / "AGENTS.md").write_text("the project's\n")
    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(work))
    assert deployment.deploy(runtime, str(work), None, hooks) == []
    for text in ("one", "two"):
        files = deployment.deploy(runtime, str(work), OverlayContent(content=text), hooks)
        assert files == [str(work / DEPLOYED)]
    assert "two" in (work / DEPLOYED).read_text()
    assert "one" not in (work / DEPLOYED).read_text()
    assert (work / "AGENTS.md").read_text() == "the project's\n"
    load = Path(value_of(plan(runtime, work), "--load")).read_text()
    assert DEPLOYED in load
    assert "AGENTS.md" in load
    assert deployment.withdraw(runtime, str(work))
    assert [path.name for path in work.iterdir()] == ["AGENTS.md"]


def test_the_command_of_a_terminal_session(runtime: AiderRuntime) -> None:
    words = shlex.split(
        runtime.build_spawn_command(
            SpawnOptions(model="a b", append_system_prompt_file="r.md", permission_mode="bypass")
        )
    )
    assert words[1:3] == ["--model", "a b"]
    assert words[-3:] == ["--yes-always", "--read", "r.md"]
    with pytest.raises(UnsupportedOption, match="initial_prompt"):
        runtime.build_spawn_command(SpawnOptions(model="m", initial_prompt="x"))
    with pytest.raises(UnsupportedOption, match="prompt"):
        runtime.plan_interactive(RunOptions(prompt="x"), {})


def interactive(runtime: AiderRuntime, work: Path, **options: Any) -> RunPlan:
    env = {"HOME": str(work.parent / "home"), "PATH": os.environ["PATH"], "COLUMNS": "80"}
    return runtime.plan_interactive(RunOptions(prompt="", cwd=str(work), **options), env)


def test_a_person_at_its_terminal_gets_what_a_run_gets(runtime: AiderRuntime, work: Path) -> None:
    (work / "AGENTS.md").write_text("rules")
    planned = interactive(runtime, work, model="big", append_system_prompt="said")
    assert value_of(planned, "--model") == "big"
    load = Path(value_of(planned, "--load")).read_text()
    shown = [shlex.split(line)[1] for line in load.splitlines()]
    assert [Path(file).read_text() for file in shown] == ["rules", "said\n"]
    assert planned.spec.env["COLUMNS"] == "80"
    assert planned.spec.stdin is None
    assert not {"--yes-always", "--no-git", "--analytics-log"} & set(planned.spec.argv)
    free = interactive(runtime, work, permission_mode="bypass")
    assert {"--yes-always", "--no-git"} <= set(free.spec.argv)


@pytest.mark.parametrize(
    ("option", "value"), [("max_turns", 2), ("budget_usd", 1.0), ("resume", "0-session")]
)
def test_a_persons_own_session_is_not_limited(
    runtime: AiderRuntime, work: Path, option: str, value: Any
) -> None:
    with pytest.raises(UnsupportedOption, match=option):
        interactive(runtime, work, **{option: value})
    ignored = interactive(runtime, work, ignore_unsupported=True, **{option: value})
    assert ignored.ignored_options == (option,)


def test_a_question_at_the_start_is_never_agreed_to(runtime: AiderRuntime) -> None:
    pane = "────────\nNo git repo found, create one? (Y)es/(N)o [Yes]:\n"
    state = runtime.detect_ready(pane)
    assert state == Dialog(name="no git repo found, create one", action="n Enter")
    assert runtime.detect_ready("") == Loading()


def test_transcripts(runtime: AiderRuntime, tmp_path: Path) -> None:
    exact = runtime.parse_transcript(str(TESTDATA / "analytics-no-stream.jsonl"))
    assert exact is not None
    assert (exact.input_tokens, exact.output_tokens, exact.model) == (1234, 56, "openai/scripted")
    assert exact.cost_usd == pytest.approx(0.001346)
    rounded = runtime.parse_transcript(str(TESTDATA / "chat-history.md"))
    assert rounded is not None
    assert (rounded.input_tokens, rounded.output_tokens, rounded.cost_usd) == (1200, 56, 0.0013)
    small = tmp_path / "h.md"
    small.write_text(
        "> Main model: m/x with diff edit format  \n> Tokens: 216 sent, 5 cache hit, 17 received.  "
        "\n> Tokens: 409 sent, 19 received. Cost: $0.01 message, $0.02 session.  \n"
    )
    found = runtime.parse_transcript(str(small))
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.model) == (625, 36, "m/x")
    for bad in ("missing", "work"):
        assert runtime.parse_transcript(str(tmp_path / bad)) is None
    small.write_bytes(b"\xff\x00nothing")
    assert runtime.parse_transcript(str(small)) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("litellm.AuthenticationError: AuthenticationError: XException - no", "not_authenticated"),
        ("litellm.PermissionDeniedError: PermissionDeniedError: x", "not_authenticated"),
        ("litellm.RateLimitError: RateLimitError: OpenAIException - slow", "rate_limited"),
        ("litellm.RateLimitError: OpenAIException - You exceeded your current quota", "billing"),
        ("litellm.BadRequestError: AnthropicException - credit balance is too low", "billing"),
        ("litellm.BadRequestError: OpenAIException - odd", "unavailable"),
        ("litellm.NotFoundError: OpenAIException - no such model", "unavailable"),
        ("litellm.InternalServerError: AnthropicException - Overloaded", "overloaded"),
        ("litellm.InternalServerError: OpenAIException - x", "unavailable"),
        ("litellm.ServiceUnavailableError: OpenAIException - x", "overloaded"),
        ("litellm.APIConnectionError: Connection error.", "unavailable"),
        ("litellm.ContextWindowExceededError: x", "context_overflow"),
        ("litellm.SomethingNew: x", "unavailable"),
        ("litellm.", "unavailable"),
    ],
)
def test_errors_by_the_name_of_their_class(line: str, kind: str) -> None:
    error = error_of_line(line, "m")
    assert error.kind == kind
    assert error.message
    assert error.hint


def test_when_a_limit_ends() -> None:
    line = "litellm.RateLimitError: RateLimitError: OpenAIException - Please try again in 20s."
    assert error_of_line(line).until is not None
    assert error_of_line("litellm.RateLimitError: x").until is None
