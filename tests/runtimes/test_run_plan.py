"""Where a plan takes further arguments of the agent's own command."""

from bridle.process.spec import ProcessSpec
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan

_SUBCOMMANDS = ("exec", "resume")


def _plan(*argv: str) -> RunPlan:
    return RunPlan(
        spec=ProcessSpec(argv=argv, env={}, cwd="/"),
        session_id="s",
        installation=Installation(binary="/bin/agent.js", version="1", launcher=("node",)),
        dialect=Dialect(name="any", since=(1,), seen=(), capture=""),
    )


def _given(plan: RunPlan, *words: str) -> tuple[str, ...] | None:
    changed = plan.with_arguments(*words, past=_SUBCOMMANDS)
    return None if changed is None else changed.spec.argv


def test_they_come_first() -> None:
    plan = _plan("node", "/bin/agent.js", "--json", "exec")
    assert _given(plan, "-e", "x") == ("node", "/bin/agent.js", "-e", "x", "--json", "exec")
    assert plan.spec.argv == ("node", "/bin/agent.js", "--json", "exec")


def test_they_come_after_a_subcommand() -> None:
    plan = _plan("node", "/bin/agent.js", "exec", "resume", "--json")
    assert _given(plan, "-e") == ("node", "/bin/agent.js", "exec", "-e", "resume", "--json")


def test_another_program_may_stand_before_the_command() -> None:
    plan = _plan("python", "relay.py", "node", "--", "node", "/bin/agent.js", "exec")
    assert _given(plan, "-e") == (
        *("python", "relay.py", "node", "--"),
        *("node", "/bin/agent.js", "exec", "-e"),
    )


def test_a_command_may_have_no_arguments() -> None:
    assert _given(_plan("node", "/bin/agent.js"), "-e") == ("node", "/bin/agent.js", "-e")


def test_a_plan_of_another_program_takes_none() -> None:
    assert _given(_plan("node", "/bin/other.js", "exec"), "-e") is None
    assert _given(_plan(), "-e") is None
