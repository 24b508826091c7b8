"""Scoring the judge on a corpus of labelled calls.

The format is one JSON object a line (see docs/guard.md). Places that cases name by `{{...}}` are
made on disk in a temporary directory and removed at the end.
"""

import os
import shutil
import tempfile
from typing import Any

import msgspec

from bridle.core import structs
from bridle.guard.judge import Judge
from bridle.guard.policy import Policy
from bridle.guard.verdict import Call, Verdict

BRANCH_PREFIX = "bridle"
COMMAND_NAME = "bridle"


class CorpusError(ValueError):
    """The file is not a valid corpus."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled call."""

    id: str
    expect: str
    tool: Any
    input: Any
    category: str = ""
    why: str = ""
    capability: str | None = None
    runtime: str | None = None
    worktree: str = "{{WORKTREE}}"
    cwd: str | None = None
    agent: str | None = None
    branch: str | None = None
    quality_gates: tuple[str, ...] = ()
    layer: str = "parse"
    setup: tuple[dict[str, Any], ...] | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The score; `must_block` counts the cases that a static judge must decide."""

    cases: int
    must_block: int
    blocked: int
    benign: int
    false_blocks: int
    missed_ids: list[str]
    false_block_ids: list[str]
    sandbox_cases: int
    sandbox_blocked: int
    sandbox_missed_ids: list[str]


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """One case with its verdict."""

    case: Case
    verdict: Verdict


def read_cases(path: str) -> list[Case]:
    """The corpus file's cases. Raises `CorpusError` naming the line that is wrong."""
    decoder = structs.decoder(Case)
    cases: list[Case] = []
    try:
        with open(path, "rb") as handle:
            for number, line in enumerate(handle, 1):
                if not line.strip():
                    continue
                try:
                    case = decoder.decode(line)
                except (msgspec.DecodeError, msgspec.ValidationError) as error:
                    raise CorpusError(f"{path}, line {number}: {error}") from None
                if case.expect not in ("allow", "block"):
                    raise CorpusError(f"{path}, line {number}: expect must be allow or block")
                cases.append(case)
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}") from None
    return cases


def score_cases(path: str) -> list[Scored]:
    """Every case of the file with its verdict."""
    cases = read_cases(path)
    base = tempfile.mkdtemp(prefix="bridle-guard-eval-")
    try:
        shared = make_places(os.path.join(base, "shared"))
        scored: list[Scored] = []
        for number, case in enumerate(cases):
            # Judging writes nothing, so only cases with a set-up need their own places.
            own = make_places(os.path.join(base, str(number))) if case.setup else shared
            scored.append(_score(case, own))
        return scored
    finally:
        shutil.rmtree(base, ignore_errors=True)


def score_corpus(path: str) -> Report:
    """The score of the judge on the file. Raises `CorpusError`."""
    return report(score_cases(path))


def report(scored: list[Scored]) -> Report:
    """The score of cases already judged."""
    must = [s for s in scored if s.case.expect == "block" and s.case.layer == "parse"]
    benign = [s for s in scored if s.case.expect == "allow"]
    sandbox = [s for s in scored if s.case.expect == "block" and s.case.layer != "parse"]
    missed = [s.case.id for s in must if s.verdict.allowed]
    refused = [s.case.id for s in benign if not s.verdict.allowed]
    unseen = [s.case.id for s in sandbox if s.verdict.allowed]
    return Report(
        cases=len(scored),
        must_block=len(must),
        blocked=len(must) - len(missed),
        benign=len(benign),
        false_blocks=len(refused),
        missed_ids=missed,
        false_block_ids=refused,
        sandbox_cases=len(sandbox),
        sandbox_blocked=len(sandbox) - len(unseen),
        sandbox_missed_ids=unseen,
    )


def _score(case: Case, places: dict[str, str]) -> Scored:
    _set_up(case, places)
    filled = {key: _fill(getattr(case, key), places) for key in ("worktree", "cwd", "input")}
    policy = Policy(
        capability=case.capability,
        worktree=filled["worktree"],
        cwd=filled["cwd"] or filled["worktree"],
        agent=case.agent,
        branch_prefix=BRANCH_PREFIX,
        scratch=places["{{SCRATCH}}"],
        main_repo=places["{{REPO}}"],
        home=places["{{HOME}}"],
        command_name=COMMAND_NAME,
        quality_gates=case.quality_gates,
    )
    call = Call(tool=_fill(case.tool, places), input=filled["input"], runtime=case.runtime)
    return Scored(case=case, verdict=Judge(policy).judge(call))


def make_places(base: str) -> dict[str, str]:
    """Make the directories that the placeholders name; none is below the scratch directory."""
    repo = os.path.join(base, "repo")
    parent = os.path.join(repo, ".worktrees")
    places = {
        "{{REPO}}": repo,
        "{{WORKTREE}}": os.path.join(parent, "alice"),
        "{{SIBLING}}": os.path.join(parent, "bob"),
        "{{OUTSIDE}}": os.path.join(base, "outside"),
        "{{HOME}}": os.path.join(base, "home"),
        "{{SCRATCH}}": os.path.join(base, "scratch"),
    }
    for path in places.values():
        os.makedirs(path)
    for tree in (repo, places["{{WORKTREE}}"], places["{{SIBLING}}"]):
        os.makedirs(os.path.join(tree, "src"))
        for name in ("src/app.py", "a.txt", "b.txt", "README.md"):
            with open(os.path.join(tree, name), "w") as handle:
                handle.write("x\n")
    with open(os.path.join(places["{{OUTSIDE}}"], "f.txt"), "w") as handle:
        handle.write("x\n")
    places["{{SIBLING_NAME}}"] = "bob"
    places["{{BRANCH_PREFIX}}"] = BRANCH_PREFIX
    places["{{CLI}}"] = COMMAND_NAME
    return places


def _set_up(case: Case, places: dict[str, str]) -> None:
    for step in case.setup or ():
        pair = step.get("symlink")
        if isinstance(pair, list) and len(pair) == 2:
            link, target = (_fill(text, places) for text in pair)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)


def _fill(value: Any, places: dict[str, str]) -> Any:
    if isinstance(value, str):
        for mark, text in places.items():
            value = value.replace(mark, text)
        return value
    if isinstance(value, list):
        return [_fill(item, places) for item in value]
    if isinstance(value, dict):
        return {_fill(key, places): _fill(item, places) for key, item in value.items()}
    return value
