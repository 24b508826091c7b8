"""`bridle guard`: judge a tool call, show why, score the judge, and put it into a worktree."""

import argparse
import sys

from bridle.cli.output import one_line, write_json
from bridle.cli.parsing import CommandParser, add_json
from bridle.core.errors import WrongUse

BLOCKED = 2
NOT_GUARDED = 9


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle guard`."""
    verbs = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=CommandParser
    )
    check = verbs.add_parser(
        "check",
        help="judge one call",
        description='Judge one call, {"tool": …, "input": {…}} on stdin; exit 0 allow, 2 block.',
    )
    _agent(check)
    explain = verbs.add_parser(
        "explain",
        help="judge one call and show how",
        description="Judge one call from stdin and show the parse, each part's verdict, the rule.",
    )
    _agent(explain)
    score = verbs.add_parser(
        "eval", help="score a corpus of calls", description="Score the judge on a corpus of calls."
    )
    score.add_argument("file", metavar="FILE", help="one JSON object a line")
    add_json(score)

    deploy = verbs.add_parser(
        "deploy",
        help="guard agents that are started by hand",
        description="Put the guard into a worktree, for agents that are started there by hand with "
        "BRIDLE_CAPABILITY or BRIDLE_AGENT_NAME set. Your own sessions there stay as they are.",
    )
    deploy.add_argument("--worktree", metavar="D", default=".", help="the worktree (default: here)")
    deploy.add_argument("--capability", metavar="C", help="the agent's role (not with --undo)")
    deploy.add_argument("--runtime", metavar="R", help="the agent (default: configured)")
    deploy.add_argument("--agent", metavar="A", help="the agent's name, for its branches")
    deploy.add_argument("--undo", action="store_true", help="take it out again")
    add_json(deploy)
    status = verbs.add_parser(
        "status",
        help="show whether guards fire",
        description="Show what guards each session that lives, and run a worktree's deployed guard "
        "on a forbidden call; exit 9 when one does not hold.",
    )
    status.add_argument("--worktree", metavar="D", default=".", help="the worktree (default: here)")
    add_json(status)


def _agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--capability", metavar="C", required=True, help="the agent's role")
    parser.add_argument("--worktree", metavar="D", required=True, help="the agent's worktree")
    parser.add_argument("--runtime", metavar="R", help="the runtime whose tool names are used")
    parser.add_argument("--agent", metavar="A", help="the agent's name, for its branches")
    parser.add_argument("--cwd", metavar="D", help="where its relative paths start")
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Check, explain, score, deploy or show."""
    if args.verb == "deploy":
        return _deploy(args)
    if args.verb == "status":
        return _status(args)
    return _eval(args) if args.verb == "eval" else _judge(args)


def _deploy(args: argparse.Namespace) -> int:
    from bridle.config import load_config
    from bridle.runtimes.deployed_guard import deploy, undo
    from bridle.runtimes.registry import get_runtime

    config = load_config(args.worktree)
    runtime = get_runtime(args.runtime, config)
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

    from bridle.runtimes.deployed_guard import status
    from bridle.sessions.desk import SessionDesk
    from bridle.sessions.guards import session_guard

    found = status(args.worktree)
    with SessionDesk(args.worktree) as desk:
        living = [record for record in desk.list(everywhere=True) if not record.is_over]
        sessions = [session_guard(desk.find(one.session_id)[0], one) for one in living]
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
    from bridle.guard.configured import configured_policy
    from bridle.guard.explain import read_call

    policy = configured_policy(
        load_config(args.worktree),
        capability=args.capability,
        worktree=args.worktree,
        agent=args.agent,
        cwd=args.cwd,
    )
    call = read_call(sys.stdin.buffer.read())
    if isinstance(call, Verdict):
        verdict = call
        write_json(verdict)
    else:
        call = msgspec.structs.replace(call, runtime=args.runtime or call.runtime)
        if args.verb == "explain":
            explanation = explain(call, policy)
            verdict = explanation.verdict
            write_json(explanation)
        else:
            verdict = judge(call, policy)
            write_json(verdict)
    return 0 if verdict.allowed else BLOCKED


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
