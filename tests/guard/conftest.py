"""Places and judges for the guard's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bridle.guard import Call, Judge, Policy, Verdict
from bridle.guard.corpus import make_places

Ask = Callable[..., Verdict]


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """The corpus's places, made on disk."""
    return make_places(str(tmp_path / "places"))


@pytest.fixture
def policy(places: dict[str, str]) -> Policy:
    """A builder's policy."""
    return Policy(
        capability="builder",
        worktree=places["{{WORKTREE}}"],
        agent="alice",
        scratch=places["{{SCRATCH}}"],
        main_repo=places["{{REPO}}"],
        home=places["{{HOME}}"],
        quality_gates=("pytest -q", "npm test", "ruff check ."),
    )


@pytest.fixture
def builder(policy: Policy) -> Judge:
    """A judge of a builder."""
    return Judge(policy)


@pytest.fixture
def scout(policy: Policy) -> Judge:
    """A judge of a scout."""
    import msgspec

    return Judge(msgspec.structs.replace(policy, capability="scout"))


def bash(command: object) -> Call:
    """A shell call."""
    return Call(tool="Bash", input={"command": command})
