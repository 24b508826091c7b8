"""Roles, policy, tools, reasons and explanations."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.config import Config
from bridle.config.schema import GuardsSection
from bridle.core.errors import ConfigError
from bridle.guard import (
    CAPABILITIES,
    Call,
    Judge,
    Override,
    Policy,
    PolicyError,
    check_call,
    explain,
    judge,
)
from bridle.guard.agent_policy import configured_policy
from bridle.guard.commands.registry import check_safe
from bridle.guard.policy import check
from bridle.guard.verdict import ADVICE
from tests.guard.conftest import bash


def _with(policy: Policy, **changes: Any) -> Judge:
    return Judge(msgspec.structs.replace(policy, **changes))


@pytest.mark.parametrize("capability", sorted(CAPABILITIES))
def test_no_role_may_push_reset_or_start_agents(policy: Policy, capability: str) -> None:
    ready = _with(policy, capability=capability)
    for command in ("git push", "git reset --hard", "claude -p x", "tmux kill-server", "sudo ls"):
        assert not ready.judge(bash(command)).allowed
    assert ready.judge(bash("git log -1")).allowed
    assert ready.judge(bash("pytest -q")).allowed
    assert ready.judge(Call(tool="Task", input={})).rule == "team-tool"
    assert ready.judge(Call(tool="AskUserQuestion", input={})).rule == "interactive-tool"


@pytest.mark.parametrize("capability", sorted(CAPABILITIES))
def test_bridles_own_command_looks_but_configures_and_starts_nothing(
    policy: Policy, capability: str
) -> None:
    ready = _with(policy, capability=capability)
    refused = {
        "bridle config init": "path-protected",
        "bridle config init --user": "path-protected",
        "bridle runtime set default pi": "path-protected",
        "bridle runtime doctor --probe": "agent-cli",
        "bridle conformance pi": "agent-cli",
        "bridle session stop --all": "session-control",
    }
    assert {command: ready.judge(bash(command)).rule for command in refused} == refused
    for command in ("bridle config show", "bridle config check", "bridle runtime doctor"):
        assert ready.judge(bash(command)).allowed


def test_roles_differ_in_writing_and_committing(policy: Policy) -> None:
    rows = {
        cap: (
            _with(policy, capability=cap).judge(bash("touch x")).allowed,
            _with(policy, capability=cap).judge(bash("git commit -m x")).allowed,
        )
        for cap in CAPABILITIES
    }
    writers = {cap for cap, (writes, _) in rows.items() if writes}
    committers = {cap for cap, (_, commits) in rows.items() if commits}
    assert writers == {"builder", "merger"}
    assert committers == CAPABILITIES - {"scout", "reviewer", "lead"}


def test_the_users_own_session_is_left_alone(policy: Policy) -> None:
    verdict = judge(bash("git push --force"), msgspec.structs.replace(policy, capability=None))
    assert (verdict.decision, verdict.rule) == ("allow", "no-agent")


@pytest.mark.parametrize(
    "changes",
    [
        {"capability": "bilder"},
        {"worktree": "relative"},
        {"worktree": "/"},
        {"scratch": "tmp"},
        {"allow_paths": ("/",)},
        {"allow_paths": ("x",)},
        {"allow_commands": ("git",)},
        {"allow_commands": ("bash",)},
        {"quality_gates": ("",)},
        {"safe_commands": ("",)},
        {"safe_commands": ("git",)},
        {"safe_commands": ("rm",)},
        {"safe_commands": ("/tmp/tracker",)},
        {"branch_prefix": "*"},
        {"agent": "../x"},
        {"overrides": {"bilder": Override()}},
    ],
)
def test_a_wrong_policy_blocks_everything(policy: Policy, changes: dict[str, Any]) -> None:
    wrong = msgspec.structs.replace(policy, **changes)
    with pytest.raises(PolicyError):
        (check_safe if "safe_commands" in changes else check)(wrong)
    assert judge(Call(tool="Read", input={}), wrong).rule == "policy-error"


def test_a_policy_with_a_typo_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="quality_gate"):
        msgspec.convert(
            {"capability": "scout", "worktree": "/w", "quality_gate": ["x"]}, type=Policy
        )


def test_gates_are_lifted_but_not_what_follows_them(policy: Policy) -> None:
    scout = _with(policy, capability="scout")
    for command in ("pytest -q tests/a.py", "timeout 9 npm test", "A=1 ruff check . | tail"):
        assert scout.judge(bash(command)).allowed
    for command in ("pytest -q > x", "npm test; touch x", "ruff check . --fix", "npm install"):
        assert not scout.judge(bash(command)).allowed


def test_a_gate_with_operators_is_allowed_as_it_stands(policy: Policy) -> None:
    gate = "cd web && npm run lint"
    scout = _with(policy, capability="scout", quality_gates=(gate,))
    assert scout.judge(bash(gate)).allowed
    assert not scout.judge(bash(gate + " && npm run fix")).allowed


def test_extra_commands_and_paths(policy: Policy, places: dict[str, str]) -> None:
    outside = places["{{OUTSIDE}}"]
    wider = _with(policy, allow_paths=(outside,), allow_commands=("ssh build-host",))
    assert wider.judge(bash(f"touch {outside}/x")).allowed
    assert not wider.judge(bash(f"rm -rf {outside}")).allowed
    assert wider.judge(bash("ssh build-host make")).allowed
    assert not wider.judge(bash("ssh other-host make")).allowed
    assert not _with(policy, allow_commands=("git push",)).judge(bash("git push")).allowed


def test_overrides_of_the_own_capability_only(policy: Policy) -> None:
    overrides = {
        "builder": Override(deny_tools=("WebFetch",), deny_commands=("npm run deploy",)),
        "scout": Override(allow_commands=("make report",), allow_tools=("mcp__x__mark",)),
    }
    builder = _with(policy, overrides=overrides)
    scout = _with(policy, overrides=overrides, capability="scout")
    assert builder.judge(Call(tool="WebFetch", input={})).rule == "tool-denied"
    assert builder.judge(bash("npm run deploy --now")).rule == "command-denied"
    assert scout.judge(Call(tool="WebFetch", input={})).allowed
    assert scout.judge(bash("make report")).allowed
    assert not scout.judge(bash("make all")).allowed
    assert scout.judge(Call(tool="mcp__x__mark", input={"id": 1})).allowed


@pytest.mark.parametrize(
    ("tool", "data", "builder_may", "scout_may"),
    [
        ("mcp__db__query", {"sql": "select 1"}, True, True),
        ("mcp__x__run", {"command": "git push"}, False, False),
        ("mcp__x__run", {"command": "ls"}, True, False),
        ("mcp__x__save_chart", {"output_path": "/etc/x"}, False, False),
        ("mcp__x__save_chart", {"output_path": "chart.png"}, True, False),
        ("mcp__x__eval", {"code": "1"}, False, False),
        ("mcp__x__create_issue", {"title": "t"}, True, False),
        ("labmcp_lab_ping", {}, True, False),
        ("TeamFuture", {}, False, False),
        ("brand_new_tool", {"path": "/etc/x"}, False, False),
        ("getThings", {"path": "/etc/x"}, True, True),
    ],
)
def test_tools_that_no_table_knows(
    builder: Judge, scout: Judge, tool: str, data: Any, builder_may: bool, scout_may: bool
) -> None:
    assert builder.judge(Call(tool=tool, input=data)).allowed == builder_may
    assert scout.judge(Call(tool=tool, input=data)).allowed == scout_may


def test_input_may_be_a_json_string(builder: Judge) -> None:
    assert not builder.judge(Call(tool="bash", input='{"command":"git push"}')).allowed
    assert builder.judge(Call(tool="bash", input='{"command":"ls"}')).allowed


def test_every_block_says_what_to_do(builder: Judge, scout: Judge) -> None:
    for command in ("git push", "touch ../x", "rm $X", "echo 'x", "git checkout main", "at now"):
        verdict = builder.judge(bash(command))
        assert ADVICE[verdict.rule] in verdict.reason
    verdict = scout.judge(bash("rm a.txt"))
    assert ADVICE[verdict.rule] in verdict.reason


def test_explain_shows_every_part(policy: Policy) -> None:
    told = explain(bash("ls src && git push; echo x > ../y"), policy)
    assert told.verdict.rule == "git-push"
    assert told.action == "shell"
    shown = [(part.part, part.decision, part.rule) for part in told.parts]
    assert shown[0] == ("ls src", "allow", "allowed")
    assert [rule for _, decision, rule in shown if decision == "block"] == [
        "git-push",
        "path-outside",
    ]
    assert told.parse[0]["command"]["op"] == "&&"
    msgspec.json.encode(told)


def test_explain_of_what_cannot_be_parsed(policy: Policy) -> None:
    told = explain(bash("echo 'x"), policy)
    assert told.parse is None
    assert told.verdict.rule == "shell-unparsed"
    assert explain(Call(tool=None), policy).verdict.rule == "bad-input"


def test_check_call_answers_in_the_shape_of_the_command_line(policy: Policy) -> None:
    verdict = check_call(b'{"tool":"Bash","input":{"command":"git push"}}', policy)
    assert set(msgspec.to_builtins(verdict)) == {"decision", "reason", "rule"}


def test_a_link_swapped_after_preparing_is_seen(builder: Judge, places: dict[str, str]) -> None:
    worktree = places["{{WORKTREE}}"]
    os.mkdir(worktree + "/d")
    call = Call(tool="Write", input={"file_path": worktree + "/d/x"})
    assert builder.judge(call).allowed
    os.rmdir(worktree + "/d")
    os.symlink(places["{{OUTSIDE}}"], worktree + "/d")
    assert not builder.judge(call).allowed


def test_a_worktree_reached_by_a_link(policy: Policy, places: dict[str, str]) -> None:
    alias = places["{{HOME}}"] + "/wt"
    os.symlink(places["{{WORKTREE}}"], alias)
    ready = _with(policy, worktree=alias)
    assert ready.judge(Call(tool="Write", input={"file_path": alias + "/x"})).allowed
    real = places["{{WORKTREE}}"] + "/x"
    assert ready.judge(Call(tool="Write", input={"file_path": real})).allowed
    assert not ready.judge(Call(tool="Write", input={"file_path": alias + "/../x"})).allowed


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("pkill -9 -f hook.sh", "block"),
        ("pkill -f 'nothing|ho[o]k'", "block"),
        ("killall -9 dash", "block"),
        ("kill -9 $(pgrep -f guard)", "block"),
        ("pgrep -f hook.sh | xargs kill -9", "block"),
        ("pkill -f '(h+)+(o+)+k!'", "block"),
        ("pkill -f webhook-server", "allow"),
        ("pkill -f 'vite|next dev'", "allow"),
        ("kill $(pgrep -f uvicorn)", "allow"),
    ],
)
def test_the_guards_own_hooks_are_not_ended_by_name(
    builder: Judge, command: str, decision: str
) -> None:
    verdict = builder.judge(bash(command))
    assert verdict.decision == decision, verdict


@pytest.mark.parametrize("command", ["git add -f .", "git add -fA", "git add --force .claude"])
def test_a_forced_add_of_a_folder_with_settings_of_an_agent_is_refused(
    tmp_path: Path, command: str
) -> None:
    policy = Policy(capability="builder", worktree=str(tmp_path))
    call = Call(tool="Bash", input={"command": command})
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    assert judge(call, policy).allowed
    (tmp_path / ".claude" / "settings.local.json").write_text("{}")
    verdict = judge(call, policy)
    assert (verdict.allowed, verdict.rule) == (False, "path-protected")
    assert judge(Call(tool="Bash", input={"command": "git add -A"}), policy).allowed


def test_safe_commands_of_the_configuration(policy: Policy) -> None:
    def judged(section: GuardsSection, command: str) -> str:
        config = Config(guards=section)
        made = configured_policy(config, capability="scout", worktree=policy.worktree)
        return judge(Call(tool="Bash", input={"command": command}), made).decision

    command = "tracker update 7 --write"
    assert judged(GuardsSection(), command) == "block"
    assert judged(GuardsSection(safe_commands=("tracker",)), command) == "allow"
    assert judged(GuardsSection(safe_commands=("tracker",)), "bd update 7 --write") == "allow"
    with pytest.raises(ConfigError, match="safe command"):
        judged(GuardsSection(safe_commands=("git",)), command)


@pytest.mark.parametrize(
    "command",
    [
        "obscure {out}",
        "obscure --dest={out}/x",
        "obscure -o{out}/x",
        "obscure -o:{out}/x",
        "obscure a=b:{out}/x",
        "obscure one,two,{out}",
        "obscure file://{out}/x",
        "obscure -Wl,-Map,{out}/x",
        "obscure -m {out}/x",
        "obscure ../x",
        "obscure --dir=~/x",
        "obscure --config key={out}/x",
        "python3 scripts/x.py {out}/f.txt",
        "GOCACHE={out} go build ./...",
        "export XDG_CACHE_HOME={out}",
        "FOO={out}/x; export FOO",
        "set -a; FOO={out}/x",
        "env npm_config_prefix={out} npm ci",
        "TMPDIR={out}; mktemp",
        "DATABASE_URL=sqlite:///{out}/x.db pytest",
        "npm --prefix {out} install",
        "sort -T {out} a.txt",
    ],
)
def test_a_program_that_is_no_reader_gets_no_path_outside(
    builder: Judge, places: dict[str, str], command: str
) -> None:
    verdict = builder.judge(bash(command.format(out=places["{{OUTSIDE}}"])))
    assert verdict.rule in ("path-given", "path-outside"), verdict
    inside = builder.judge(bash(command.format(out="sub").replace("../", "").replace("~/", "")))
    assert inside.allowed, inside


@pytest.mark.parametrize(
    "command",
    [
        "cat {out}/f.txt",
        "jq . {out}/f.txt > x.json",
        "cp {out}/f.txt .",
        "tar -cf x.tar {out}/f.txt",
        "sort -u {out}/f.txt -o x",
        "python3 {out}/tool.py",
        "obscure < {out}/f.txt",
        "obscure https://example.com/usr/x",
        "obscure -m 'as in /etc/hosts'",
        "gcc -I/usr/include a.c -o a",
        "make CC=/usr/bin/gcc",
        "export PATH=$HOME/bin:$PATH",
        "export GOPATH=$HOME/go; go build ./...",
        "pip install -r {out}/requirements.txt",
        "x={out}; ls $x",
    ],
)
def test_reading_outside_is_free(builder: Judge, places: dict[str, str], command: str) -> None:
    verdict = builder.judge(bash(command.format(out=places["{{OUTSIDE}}"])))
    assert verdict.allowed, verdict


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.fsmonitor=./x status",
        "git --exec-path=./x log",
        "git --config-env=core.pager=X log",
        "git log --ext-diff -p",
        "git cat-file --filters HEAD:a.txt",
        "git ls-remote ext::./x",
        "GIT_CONFIG_COUNT=1 git log",
        "HOME=. git log",
        "HOME=.; git log",
        "PATH=.:$PATH ls",
        "TAR_OPTIONS=--to-command=x tar tf a.tar",
        "PYTHONPATH=. python3 -m json.tool a.json",
        "LD_PRELOAD=./x.so ls",
        "PAGER=./x git log",
        "NODE_OPTIONS='--require ./x' npm test",
        "rg --pre ./x foo",
        "sort --compress-program=./x a.txt",
        "sort --outp=x a.txt",
        "eslint --rulesdir x .",
        "eslint -f ./x.js .",
        "pylint --init-hook=x src",
        "mypy --config-file x src",
        "compgen -W '$(touch x)'",
        "npm ls --script-shell=./x",
        "go vet -vettool=./x ./...",
        "kubectl get pods --kubeconfig=x",
        "obscure",
    ],
)
def test_roles_that_read_run_listed_options_only(scout: Judge, command: str) -> None:
    verdict = scout.judge(bash(command))
    assert not verdict.allowed
    assert ADVICE[verdict.rule] in verdict.reason


@pytest.mark.parametrize(
    "command",
    [
        "git -c color.ui=never log --oneline --graph -5",
        "git log --since='2 weeks ago' --author=me --no-merges",
        "LC_ALL=C sort -k2,2n -t, a.csv",
        "PAGER=cat git diff",
        "PYTHONPATH=src pytest -q",
        "CI=1 npm test",
        "rg -n --hidden -g '!.git' foo",
        "eslint . --ext .ts,.tsx --format json",
        "npm view react version --json",
        "kubectl -n app get pods -o jsonpath='{.items}'",
        "go list -m -json all",
        "env -i ls",
        "x=5; echo $x",
    ],
)
def test_roles_that_read_may_read(scout: Judge, command: str) -> None:
    verdict = scout.judge(bash(command))
    assert verdict.allowed, verdict


def test_a_gate_needs_the_option_that_keeps_it_from_writing(policy: Policy) -> None:
    scout = _with(policy, capability="scout", quality_gates=("npx tsc --noEmit",))
    assert scout.judge(bash("npx tsc --noEmit -p web")).allowed
    assert not scout.judge(bash("npx tsc")).allowed


def test_a_second_slash_leads_nowhere_else(policy: Policy, places: dict[str, str]) -> None:
    builder = _with(policy)
    worktree, scratch = places["{{WORKTREE}}"], places["{{SCRATCH}}"]
    for path in (f"{worktree}//x", f"{worktree}/{scratch}/x", f"{worktree}//src//x"):
        assert builder.judge(bash(f"touch {path}")).allowed
        assert builder.judge(Call(tool="Write", input={"file_path": path})).allowed
    for path in (f"{worktree}//.git/config", f"{worktree}/{scratch}{'/..' * 40}/x"):
        assert not builder.judge(Call(tool="Write", input={"file_path": path})).allowed
    only_scratch = _with(policy, worktree=places["{{SIBLING}}"], cwd=places["{{SIBLING}}"])
    assert not only_scratch.judge(bash(f"touch {worktree}/{scratch}/x")).allowed


@pytest.mark.parametrize(
    "command",
    [
        "for f in *; do [ -f $f ] || continue; break; done",
        "sqlite3 {out}/x.db 'SELECT 1'",
        'eval "$(brew shellenv)"',
        "./configure --prefix=$PWD/out",
        'sed -n "$n,+3p" a.txt',
        "git worktree add -b bridle/alice/x wt",
        "nvm use 18",
        "python3 -c \"print(open('{out}/f.txt').read())\"",
    ],
)
def test_everyday_commands_are_not_refused(
    builder: Judge, places: dict[str, str], command: str
) -> None:
    verdict = builder.judge(bash(command.format(out=places["{{OUTSIDE}}"])))
    assert verdict.allowed, verdict
