"""`bridle guard`: judge a tool call, show why, score the judge, and put it into a worktree."""

import argparse
import sys
from typing import TYPE_CHECKING

from bridle.cli.output import Style, error_object, one_line, write_json
from bridle.cli.parsing import Verbs
from bridle.core.capabilities import CAPABILITY_NAMES
from bridle.core.errors import BridleError, WrongUse

if TYPE_CHECKING:
    from bridle.guard.explain import Explanation

BLOCKED = 2
NOT_GUARDED = 9


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle guard`."""
    verbs = Verbs(parser)
    verbs.group("judge a call")
    call = """echo '{"tool":"Bash","input":{"command":"git push"}}' |"""
    _agent(
        verbs.add(
            "check",
            "judge one tool call",
            f"{call} bridle guard check --capability builder --worktree .",
            description='Judge one tool call, {"tool": …, "input": {…}} on stdin. Prints '
            '{"decision", "reason", "rule"} as JSON; exit 0 allow, 2 block. Wrong use '
            'blocks too, with the rule "wrong-use".',
        )
    )
    _agent(
        verbs.add(
            "explain",
            "judge one tool call and show how",
            f"{call} bridle guard explain --capability builder --worktree .",
            description="Judge one tool call from stdin and show how: the commands in it, the "
            "verdict on each part, the rule. Exit 0 allow, 2 block.",
        )
    )
    score = verbs.add(
        "eval",
        "score the judge on a corpus of calls",
        "bridle guard eval calls.jsonl",
    )
    score.add_argument("file", metavar="FILE", help="the corpus, one JSON object per line")

    verbs.group("guard a worktree")
    deploy = verbs.add(
        "deploy",
        "guard agents that are started by hand",
        "bridle guard deploy --capability builder --runtime claude",
        description="Put the guard into a worktree, for agents that are started there by hand with "
        "BRIDLE_CAPABILITY or BRIDLE_AGENT_NAME set. Your own sessions there are not affected.",
    )
    deploy.add_argument("--worktree", metavar="D", default=".", help="the worktree (default: here)")
    deploy.add_argument(
        "--capability", metavar="C", help=f"the agent's role: {', '.join(CAPABILITY_NAMES)}"
    )
    deploy.add_argument(
        "-r", "--runtime", metavar="R", help="the agent (default: the configured one)"
    )
    deploy.add_argument("--agent", metavar="A", help="the agent's name, for its branches")
    deploy.add_argument("--undo", action="store_true", help="remove the guard again")
    status = verbs.add(
        "status",
        "show whether guards fire",
        "bridle guard status",
        description="Show what guards each living session, and run a worktree's deployed guard "
        "on a forbidden call; exit 9 when one does not hold.",
    )
    status.add_argument("--worktree", metavar="D", default=".", help="the worktree (default: here)")


def _agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--capability",
        metavar="C",
        required=True,
        help=f"the agent's role: {', '.join(CAPABILITY_NAMES)}",
    )
    parser.add_argument("--worktree", metavar="D", required=True, help="the agent's worktree")
    parser.add_argument(
        "-r", "--runtime", metavar="R", help="the runtime whose tool names the call uses"
    )
    parser.add_argument("--agent", metavar="A", help="the agent's name, for its branches")
    parser.add_argument("--cwd", metavar="D", help="where its relative paths start")


def execute(args: argparse.Namespace) -> int:
    """Check, explain, score, deploy or show."""
    if args.verb == "deploy":
        return _deploy(args)
    if args.verb == "status":
        return _status(args)
    return _eval(args) if args.verb == "eval" else _judge(args)


def _deploy(args: argparse.Namespace) -> int:
    from bridle.config import load_config
    from bridle.guard.deploy import deploy, undo
    from bridle.runtimes.guards import as_deployable
    from bridle.runtimes.registry import get_adapter

    config = load_config(args.worktree)
    runtime = as_deployable(get_adapter(args.runtime, config))
    if args.undo:
        done = undo(runtime, args.worktree)
    elif args.capability is None:
        raise WrongUse("--capability is missing", hint="such as --capability builder")
    else:
        done = deploy(runtime, config, args.worktree, capability=args.capability, agent=args.agent)
    if args.json:
        write_json(done)
    else:
        sys.stdout.write(f"{'guarded' if done.guarded else 'not guarded'}: {done.worktree}\n")
    return 0


def _status(args: argparse.Namespace) -> int:
    import msgspec

    from bridle.guard.deploy import status
    from bridle.sessions.guards import session_guard
    from bridle.sessions.manager import SessionManager

    found = status(args.worktree)
    with SessionManager(args.worktree) as manager:
        living = [record for record in manager.list(everywhere=True) if not record.is_over]
        sessions = [session_guard(manager.find(one.session_id)[0], one) for one in living]
    if args.json:
        write_json({**msgspec.to_builtins(found), "sessions": sessions})
    else:
        for one in sessions:
            by = f" by {one.proof}" if one.proof else ""
            how = f"{one.guard}: {one.state}{by}" if one.guard else "not guarded"
            called = f"{one.session_id} {one.name or ''}".strip()
            sys.stdout.write(one_line(f"{called}  {one.runtime} ({one.drive})  {how}") + "\n")
        for each in found.guards:
            state = "fires" if each.fires else f"DOES NOT HOLD: {each.detail}"
            sys.stdout.write(f"{each.runtime} as {each.capability}: {one_line(state)}\n")
        if not found.guards:
            sys.stdout.write(f"no guard is deployed in {found.worktree}\n")
    holds = all(each.fires for each in found.guards)
    return 0 if holds and all(one.state != "broken" for one in sessions) else NOT_GUARDED


def _judge(args: argparse.Namespace) -> int:
    import msgspec

    from bridle.config import load_config
    from bridle.guard import Verdict, explain, judge
    from bridle.guard.agent_policy import configured_policy
    from bridle.guard.explain import read_call

    policy = configured_policy(
        load_config(args.worktree),
        capability=args.capability,
        worktree=args.worktree,
        agent=args.agent,
        cwd=args.cwd,
    )
    if sys.stdin.isatty():
        sys.stderr.write('type the call, {"tool": …, "input": {…}}, and end it with Ctrl-D\n')
        sys.stderr.flush()
    call = read_call(sys.stdin.buffer.read())
    if isinstance(call, Verdict):
        verdict = call
        write_json(verdict)
    else:
        call = msgspec.structs.replace(call, runtime=args.runtime or call.runtime)
        if args.verb == "explain":
            explanation = explain(call, policy)
            verdict = explanation.verdict
            if args.json:
                write_json(explanation)
            else:
                _show_explanation(explanation)
        else:
            verdict = judge(call, policy)
            write_json(verdict)
    return 0 if verdict.allowed else BLOCKED


def _show_explanation(explanation: "Explanation") -> None:
    """The verdict, then each part with its own."""
    verdict = explanation.verdict
    style = Style(sys.stdout)
    word = "allow" if verdict.allowed else style.red("block")
    sys.stdout.write(f"{word}  rule {verdict.rule}, action {explanation.action}\n")
    if verdict.reason:
        sys.stdout.write(f"  {one_line(verdict.reason)}\n")
    for part in explanation.parts:
        sys.stdout.write(f"{part.decision:<5}  {one_line(part.part, 200)}  ({part.rule})\n")
    if explanation.parse is not None:
        sys.stdout.write("parse\n")
        _show_tree(explanation.parse, 1)


def _show_tree(node: object, depth: int, name: str = "") -> None:
    """A syntax tree with one node per line."""
    lead = "  " * depth + (f"{name}: " if name else "")
    if isinstance(node, dict):
        sys.stdout.write(f"{lead}{node.get('type', '')}\n")
        for key, value in node.items():
            if key != "type":
                _show_tree(value, depth + 1, key)
    elif isinstance(node, list):
        for each in node:
            _show_tree(each, depth, name)
    else:
        sys.stdout.write(f"{lead}{one_line(str(node), 200)}\n")


def failure(problem: BridleError, argv: list[str]) -> bytes | None:
    """A check that failed blocks, in the shape of every verdict: a caller that reads only the
    verdict must not mistake wrong use for an allowed call."""
    if "check" in argv:
        import msgspec

        verdict = {"decision": "block", "reason": problem.message, "rule": "wrong-use"}
        return msgspec.json.encode({**verdict, "error": problem.info()})
    return error_object(problem) if "--json" in argv else None


def _eval(args: argparse.Namespace) -> int:
    from bridle.guard import score_corpus
    from bridle.guard.corpus import CorpusError

    try:
        report = score_corpus(args.file)
    except (CorpusError, OSError) as problem:
        raise WrongUse(f"cannot score {args.file}: {problem}") from None
    if args.json:
        write_json(report)
        return 0
    sys.stdout.write(
        f"blocked {report.blocked} of {report.must_block} that must be\n"
        f"refused {report.false_blocks} of {report.benign} that are harmless\n"
    )
    for label, ids in (("missed", report.missed_ids), ("refused", report.false_block_ids)):
        if ids:
            sys.stdout.write(f"{label}: {one_line(', '.join(ids))}\n")
    return 0
