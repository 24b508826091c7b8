"""The guard: one engine that judges every tool call of every agent.

`Judge(policy).judge(call)` for many calls, `judge(call, policy)` for one. Three functions serve the
command line: `check_call`, `explain`, `score_corpus`. `HookHost` answers the hooks of real agents.
The modules behind them are imported on first use: a guarded run does not wait for the judge.
"""

from typing import TYPE_CHECKING, Any

from bridle.guard.policy import CAPABILITIES, Override, Policy, PolicyError
from bridle.guard.verdict import Call, Verdict

if TYPE_CHECKING:
    from bridle.guard.corpus import Report
    from bridle.guard.explain import Explanation
    from bridle.guard.hooks.host import HookHost, RunGuard
    from bridle.guard.judge import Judge, judge

__all__ = [
    "CAPABILITIES",
    "Call",
    "HookHost",
    "Judge",
    "Override",
    "Policy",
    "PolicyError",
    "RunGuard",
    "Verdict",
    "check_call",
    "explain",
    "judge",
    "score_corpus",
]


def __getattr__(name: str) -> Any:
    if name in ("Judge", "judge"):
        from bridle.guard.judge import Judge, judge

        globals().update(Judge=Judge, judge=judge)
    elif name in ("HookHost", "RunGuard"):
        from bridle.guard.hooks.host import HookHost, RunGuard

        globals().update(HookHost=HookHost, RunGuard=RunGuard)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def check_call(payload: bytes | str | dict[str, Any], policy: Policy) -> Verdict:
    """The verdict on a call as JSON `{"tool": …, "input": {…}}`. Never raises."""
    from bridle.guard.explain import read_call
    from bridle.guard.judge import judge

    call = read_call(payload)
    return call if isinstance(call, Verdict) else judge(call, policy)


def explain(call: Call, policy: Policy) -> "Explanation":
    """The verdict with the parse and the verdict on each part. Never raises."""
    from bridle.guard.explain import explain as explain_call

    return explain_call(call, policy)


def score_corpus(path: str) -> "Report":
    """The judge's score on a corpus file. Raises `corpus.CorpusError` for any other file."""
    from bridle.guard.corpus import score_corpus as score

    return score(path)
