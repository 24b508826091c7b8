"""What a judge answers, and the wording of its answers.

Each rule has one line of advice for the agent; a reason is the detail of this call followed by
that line.
"""

from typing import Any

import msgspec

from bridle.turns.guard_contract import Verdict

__all__ = [
    "ADVICE",
    "ALLOW",
    "NO_AGENT",
    "Blocked",
    "Call",
    "Part",
    "Verdict",
    "block",
    "printable",
]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call as the agent made it."""

    tool: Any
    input: Any = None
    runtime: str | None = None


class Blocked(Exception):
    """Raised inside the judge for the first part of a call that may not run."""

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        self.detail = detail
        super().__init__(detail)

    def verdict(self) -> Verdict:
        """The refusal as a verdict."""
        return block(self.rule, self.detail)


class Part(msgspec.Struct, frozen=True):
    """One judged part of a call, for `explain`."""

    part: str
    decision: str
    rule: str
    reason: str


ALLOW = Verdict(decision="allow", rule="allowed")
NO_AGENT = Verdict(decision="allow", rule="no-agent", reason="no agent: the user's own session")

ADVICE: dict[str, str] = {
    "team-tool": "Delegate through the orchestrator (its mail and sling commands) instead.",
    "interactive-tool": "Nobody is there to answer; decide yourself, or ask in your report.",
    "tool-denied": "Use another tool, or ask for this one in your report.",
    "unknown-tool": "Use the file and shell tools you know; their calls can be judged.",
    "write-role": "Your role only reads; report what should change.",
    "path-outside": "Write inside your own worktree, or ask in your report for changes elsewhere.",
    "path-given": "Only reading commands (cat, grep, cp from there) take paths outside; give it a "
    "path in your worktree, or copy the file in first.",
    "path-protected": "Do not change the guard's configuration or the git link.",
    "path-device": "Only /dev/null, /dev/stdout and /dev/stderr may be written.",
    "path-unresolved": "Write the path out in full, without variables or substitutions.",
    "link-outside": "Links may only lead to places inside your worktree; copy the file instead.",
    "shell-unparsed": "Write it as a simpler command, or as several calls.",
    "too-long": "Split it into several shorter calls, or put long text into a file first.",
    "command-unresolved": "Write the command out in full, without building it from variables.",
    "program-role": "Your role may run reading commands and the quality gates only.",
    "option-role": "Use the command with its plain reading options, or mail what you need run.",
    "program-outside": "Run programs from inside your worktree.",
    "inline-code": "Read with cat, grep, sed -n, awk or jq, or mail what you need run.",
    "git-push": "Commit on your own branch; the orchestrator brings your work back.",
    "git-reset": "Keep the work: commit it, or restore single files by name.",
    "git-branch": "Stay on your own branch, or make one below your own prefix.",
    "git-elsewhere": "Run git in your own worktree only.",
    "git-shared": "It is shared by all worktrees; commit work in progress on your own branch.",
    "git-role": "Your role may not change the repository; report what should change.",
    "git-link": "Stop, and report it: the orchestrator must restore the worktree.",
    "agent-cli": "Do the work yourself, or delegate through the orchestrator.",
    "session-control": "Do not reach other agents through their terminals or processes.",
    "privilege": "Work with the rights you have; ask in your report for what needs more.",
    "scheduler": "Run it now, in this session, or ask in your report.",
    "sandbox-escape": "Run it inside the sandbox, without asking for more rights.",
    "remote": "Work in your own worktree on this machine.",
    "container": "Mount only directories of your worktree, without extra privileges.",
    "system": "Install into the worktree (a virtual environment, node_modules) instead.",
    "publish": "Only the operator publishes; build the package and say so.",
    "command-denied": "Use another command, or ask for this one in your report.",
    "bad-input": "Send the call again with the fields the tool documents.",
    "policy-error": "Stop, and report it: the guard's policy must be fixed first.",
    "internal-error": "Try a simpler call; report it if that is refused too.",
}
"""What to do instead, for each rule that blocks."""


def block(rule: str, detail: str) -> Verdict:
    """A refusal whose reason is the detail and the rule's advice."""
    detail = printable(detail)
    if not detail.endswith("."):
        detail += "."
    advice = ADVICE.get(rule, "")
    return Verdict(decision="block", rule=rule, reason=f"{detail} {advice}".strip())


def printable(text: str, limit: int = 400) -> str:
    """The text on one line, cut to a readable length and safe to encode."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return " ".join(text.split())
