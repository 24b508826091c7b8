"""Names of tools: neutral ones on every runtime, the agent's own, and everything else refused."""

import pytest

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.options import RunOptions
from bridle.runtimes.planner import check_options, native_options
from bridle.runtimes.product import NEUTRAL, ToolTable
from bridle.runtimes.registry import available_runtimes, get_adapter

BOTH = Features(options=frozenset({"allowed_tools", "denied_tools", "mcp_config"}))
SERVERS = '{"mcpServers": {"lab": {"command": "x"}}}'
WITH_TOOLS = [name for name in available_runtimes() if get_adapter(name).tool_table() is not None]


def translated(runtime: str, **options: object) -> RunOptions:
    """The options in the words of `runtime`, after the check."""
    wanted = RunOptions(prompt="x", **options)  # type: ignore[arg-type]
    adapter = get_adapter(runtime)
    check_options(adapter, wanted, BOTH)
    return native_options(adapter, wanted)


def test_every_runtime_that_takes_names_has_a_table() -> None:
    for name in available_runtimes():
        runtime = get_adapter(name)
        options = runtime.features_of(runtime.dialect(None)[0]).options
        if options & {"allowed_tools", "denied_tools"}:
            assert name in WITH_TOOLS


@pytest.mark.parametrize("runtime", WITH_TOOLS)
def test_a_table_says_something_of_every_neutral_name(runtime: str) -> None:
    table = get_adapter(runtime).tool_table()
    assert table is not None
    assert set(table.neutral) == set(NEUTRAL)


@pytest.mark.parametrize("runtime", WITH_TOOLS)
@pytest.mark.parametrize("field", ["allowed_tools", "denied_tools"])
def test_a_name_of_no_tool_is_refused_with_the_known_ones(runtime: str, field: str) -> None:
    with pytest.raises(WrongUse, match="has no tool 'no_such_tool'") as refusal:
        translated(runtime, **{field: ("no_such_tool",)})
    assert refusal.value.exit_code == 2
    assert "shell" in refusal.value.hint


@pytest.mark.parametrize(
    ("runtime", "given", "meant"),
    [
        ("pi", "Bash", "bash"),
        ("claude", "bash", "Bash"),
        ("gemini", "Bash", "shell"),
        ("opencode", "Read", "read"),
        ("copilot", "run_shell_command", "shell"),
        ("cline", "Bash", "shell"),
        ("claude", "read", "Read"),
        ("claude", "shel", "shell"),
    ],
)
def test_the_nearest_right_name_is_hinted_at(runtime: str, given: str, meant: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        translated(runtime, denied_tools=(given,))
    assert f"did you mean {meant}?" in refusal.value.hint


@pytest.mark.parametrize(
    ("runtime", "native"),
    [
        ("claude", "Bash"),
        ("pi", "bash"),
        ("codex", "exec_command"),
        ("gemini", "run_shell_command"),
        ("opencode", "bash"),
        ("copilot", "bash"),
        ("cline", "run_commands"),
        ("scripted", "shell"),
        ("opencode-acp", "bash"),
    ],
)
def test_shell_is_denied_under_the_agents_own_name(runtime: str, native: str) -> None:
    assert native in translated(runtime, denied_tools=("shell",)).denied_tools
    assert native in translated(runtime, denied_tools=(native,)).denied_tools


def test_a_tool_that_the_agent_does_not_have_can_be_denied_but_not_allowed() -> None:
    assert translated("pi", denied_tools=("web", "bash")).denied_tools == ("bash",)
    with pytest.raises(UnsupportedOption, match="no tool for web"):
        translated("pi", allowed_tools=("web",))


def test_a_tool_that_cannot_be_switched_is_refused_by_name() -> None:
    for name in ("edit_file", "apply_patch"):
        with pytest.raises(UnsupportedOption, match=name) as refusal:
            translated("codex", denied_tools=(name,))
        assert refusal.value.exit_code == 4
    runtime = get_adapter("codex")
    wanted = RunOptions(prompt="x", denied_tools=("edit_file", "shell"), ignore_unsupported=True)
    assert check_options(runtime, wanted, BOTH) == ("denied_tools",)
    assert "exec_command" in native_options(runtime, wanted).denied_tools


def test_a_tool_that_does_two_things_does_not_bring_the_second_in() -> None:
    with pytest.raises(UnsupportedOption, match="edit_file also does write_file"):
        translated("opencode", allowed_tools=("edit_file",))
    assert "edit" in translated("opencode", allowed_tools=("edit_file", "write_file")).allowed_tools


@pytest.mark.parametrize(
    ("runtime", "native"),
    [
        ("claude", "mcp__lab__shout"),
        ("pi", "mcp__lab__shout"),
        ("gemini", "mcp_lab_shout"),
        ("opencode", "lab_shout"),
        ("copilot", "lab-shout"),
        ("cline", "lab__shout"),
    ],
)
def test_tools_of_servers(runtime: str, native: str) -> None:
    for name in ("mcp__lab__shout", "lab/shout"):
        assert translated(runtime, denied_tools=(name,)).denied_tools == (native,)
    own = translated(runtime, denied_tools=(native,), mcp_config=SERVERS)
    assert own.denied_tools == (native,)


def test_whole_servers_and_rules() -> None:
    assert translated("claude", denied_tools=("mcp__lab",)).denied_tools == ("mcp__lab",)
    assert translated("opencode", denied_tools=("mcp__lab",)).denied_tools == ("lab_*",)
    with pytest.raises(UnsupportedOption, match="whole MCP server"):
        translated("pi", denied_tools=("mcp__lab",))
    with pytest.raises(UnsupportedOption, match="MCP servers cannot be switched"):
        translated("codex", denied_tools=("lab/shout",))
    for runtime, rule in (("claude", "Bash(git:*)"), ("copilot", "shell(git push)")):
        assert translated(runtime, denied_tools=(rule,)).denied_tools == (rule,)
    with pytest.raises(WrongUse, match="has no tool"):
        translated("claude", denied_tools=("Bsh(git:*)",))
    rule = "lab(shout)"
    assert translated("copilot", denied_tools=(rule,), mcp_config=SERVERS).denied_tools == (rule,)


def test_names_of_a_table_are_listed_once() -> None:
    table = ToolTable(neutral={"shell": ("shell", "sh"), "web": (), "search": None}, native=("sh",))
    assert table.names() == ["shell", "sh"]
