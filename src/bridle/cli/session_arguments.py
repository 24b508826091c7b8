"""The arguments of `bridle session` and its verbs."""

import argparse
from typing import get_args

from bridle.cli.old_flags import add_old_flags
from bridle.cli.parsing import Verbs, positive_number
from bridle.cli.run_arguments import add_loudness, add_prompt, add_raw, configure_agent
from bridle.core.events import SessionState

DRIVES = ("rpc", "tmux", "print")
FORMATS = ("json", "markdown", "html", "atif")
STATES = get_args(SessionState)
_ID = "its id, its name, or the beginning of its id (at least 4 characters)"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `bridle session`."""
    verbs = Verbs(parser)
    verbs.group("begin")
    _start(
        verbs.add(
            "start",
            "start a session and wait until it is ready",
            'bridle session start "read the code" -r claude --name q1',
        )
    )
    _resume(
        _named(
            verbs.add(
                "resume",
                "resume a session that is over, or hand it over to another agent",
                'bridle session resume q1 "go on"',
                'bridle session resume q1 -r codex "go on"',
            )
        )
    )
    fork = _named(
        verbs.add(
            "fork",
            "start a session that continues in a copy of a conversation",
            "bridle session fork q1 --name q2",
        )
    )
    fork.add_argument("-n", "--name", metavar="N", help="a name for the new session")
    fork.add_argument("-m", "--model", metavar="M", help="continue with another model")
    _talk(verbs)
    _control(verbs)
    _look(verbs)
    _keep(verbs)


def _talk(verbs: Verbs) -> None:
    verbs.group("talk")
    _message(
        verbs.add(
            "ask",
            "send a prompt, wait for the turn to end, print the answer",
            'bridle session ask q1 "what does main.py do?"',
        ),
        waits=True,
    )
    for verb, text in (
        ("send", "send a prompt; it waits while the agent works"),
        ("steer", "send a message into the running turn, for its next step"),
        ("follow-up", "send a prompt for when the running turn has ended"),
    ):
        _message(verbs.add(verb, text, f'bridle session {verb} q1 "and now the tests"'))
    _named(verbs.add("attach", "watch a session live and talk to it", "bridle session attach q1"))
    wait = _named(
        verbs.add(
            "wait",
            "wait until the agent is idle or gone, and print its last answer",
            "bridle session wait q1 --timeout 60",
        )
    )
    wait.add_argument(
        "--timeout", metavar="S", type=positive_number, help="give up after S seconds (exit 7)"
    )


def _control(verbs: Verbs) -> None:
    verbs.group("control")
    permit = _named(
        verbs.add(
            "permit",
            "answer a permission request",
            "bridle session permit q1 allow",
            'bridle session permit q1 REQUEST deny --reason "not there"',
        )
    )
    permit.add_argument(
        "request",
        metavar="REQUEST",
        nargs="?",
        help="the request's id; may be left out when exactly one waits",
    )
    permit.add_argument(
        "decision", choices=("allow", "deny"), metavar="allow|deny", help="the answer"
    )
    permit.add_argument("--reason", metavar="T", default="", help="passed on to the agent")
    abort = _named(
        verbs.add("abort", "end the running turn; the session stays", "bridle session abort q1")
    )
    abort.add_argument("--clear", action="store_true", help="also drop the messages that wait")
    abort.add_argument(
        "--reason", metavar="T", default="aborted by the user", help="kept in the session's events"
    )
    compact = verbs.add(
        "compact", "have the agent shorten its context", "bridle session compact q1"
    )
    _named(compact)
    model = _named(
        verbs.add(
            "model",
            "change the model from the next turn on",
            "bridle session model q1 claude-haiku-4-5",
        )
    )
    model.add_argument("model", metavar="M", help="model name or configured alias")
    stop = verbs.add(
        "stop",
        "end a session; it can be resumed",
        "bridle session stop q1",
        "bridle session stop --all",
    )
    stop.add_argument("session", metavar="ID", nargs="?", help=_ID)
    stop.add_argument("--all", action="store_true", help="end every living session of this project")
    stop.add_argument(
        "--reason", metavar="T", default="stopped by the user", help="kept in the session's events"
    )


def _look(verbs: Verbs) -> None:
    verbs.group("look")
    listing = verbs.add("list", "list sessions", "bridle session list --state ready")
    listing.add_argument(
        "-a", "--all", action="store_true", help="also those of every other project on this machine"
    )
    listing.add_argument(
        "--state",
        choices=STATES,
        metavar="S",
        help=f"only those in this state: {', '.join(STATES)}",
    )
    listing.add_argument("-r", "--runtime", metavar="R", help="only those of this runtime")
    _named(verbs.add("show", "show everything known about a session", "bridle session show q1"))
    logs = _named(
        verbs.add(
            "logs",
            "show what happened in a session",
            "bridle session logs q1 -f",
            description="Show what happened in a session: on a terminal as a transcript, with "
            "--json or in a pipe each event as a line of JSON.",
        )
    )
    logs.add_argument(
        "-f", "--follow", action="store_true", help="continue until the agent is gone"
    )
    logs.add_argument(
        "--after", metavar="N", type=int, default=0, help="only events with a number above N"
    )
    logs.add_argument(
        "-v", "--verbose", action="store_true", help="with the thinking and changes of state"
    )
    export = _named(
        verbs.add(
            "export",
            "write a session to a file for others",
            "bridle session export q1 --format html --out q1.html",
        )
    )
    export.add_argument("--format", choices=FORMATS, help="markdown; json with --json")
    export.add_argument("--out", metavar="F", help="write to this file instead of stdout")


def _keep(verbs: Verbs) -> None:
    verbs.group("clean up")
    rename = _named(
        verbs.add("rename", "give a session another name", "bridle session rename q1 review")
    )
    rename.add_argument("name", metavar="NAME", help="the new name")
    remove = _named(
        verbs.add(
            "rm",
            "remove a session that is over",
            "bridle session rm q1",
            description="Remove a session that is over, with all that Bridle stores about it. "
            "The agent's own transcripts stay.",
        )
    )
    remove.add_argument("--force", action="store_true", help="also a living one: stop it first")
    prune = verbs.add(
        "prune",
        "remove every session that is over",
        "bridle session prune --older-than 30",
        description="Remove every session of this project that is over. Living sessions and the "
        "agents' own transcripts stay.",
    )
    prune.add_argument(
        "--older-than",
        metavar="DAYS",
        type=positive_number,
        default=0.0,
        help="only those that ended more than this many days ago",
    )
    prune.add_argument(
        "-a", "--all", action="store_true", help="also those of every other project on this machine"
    )
    prune.add_argument("--dry-run", action="store_true", help="only show what would be removed")


def _named(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("session", metavar="ID", help=_ID)
    return parser


def _start(parser: argparse.ArgumentParser) -> None:
    add_prompt(parser, "the first prompt; stdin is added to it, and `-` is stdin alone")
    groups = configure_agent(parser)
    session = parser.add_argument_group("session")
    add = session.add_argument
    add("-n", "--name", metavar="N", help="a name to call it by")
    add(
        "--drive",
        choices=DRIVES,
        help="how it is driven: rpc (its protocol), tmux (its screen, which a person can join), "
        "print (a process for each turn); rpc where the runtime has it, else print",
    )
    add("--agent", metavar="A", help="the agent's name, for its environment")
    add("--capability", metavar="C", help="its role, for its environment and its guard")
    add("--task", metavar="T", help="what it works on, for its environment")
    add("--actor", metavar="A", help="whose work it is (PROJECT/ROLE/AGENT), for its environment")
    add("--project", metavar="P", help="the project's name; default: the folder's name")
    groups["limits"].add_argument(
        "--timeout", metavar="S", type=positive_number, help="end a turn after S seconds"
    )
    add_raw(groups["setup"])
    add_loudness(groups["setup"], "show the runtime and the options")
    add_old_flags(parser, run=False)
    # Refused with the reason, so it is known but not offered.
    parser.add_argument("--schema", metavar="FILE", help=argparse.SUPPRESS)
    # Options that a run has and a session does not.
    parser.set_defaults(resume=None, interactive=True)


def _message(parser: argparse.ArgumentParser, *, waits: bool = False) -> None:
    _named(parser)
    add_prompt(parser, "the message; stdin is added to it, and `-` is stdin alone", "TEXT")
    add = parser.add_argument
    add("--image", metavar="F", action="append", default=[], help="an image to send with it")
    add(
        "--delivery",
        choices=("auto", "stdin", "tmux", "rpc"),
        default="auto",
        help="refuse if the session is driven otherwise",
    )
    if waits:
        add(
            "--timeout",
            metavar="S",
            type=positive_number,
            help="give up waiting after S seconds (exit 7); the turn continues",
        )
        parser.set_defaults(wait=True)
        return
    add("-w", "--wait", action="store_true", help="wait for the turn to end and print the answer")
    add(
        "--timeout",
        metavar="S",
        type=positive_number,
        help="wait at most S seconds until the agent has it; with --wait for the answer",
    )


def _resume(parser: argparse.ArgumentParser) -> None:
    add_prompt(parser, "a prompt to continue with; stdin is added to it")
    add = parser.add_argument
    add("-r", "--runtime", metavar="R", help="hand the conversation over to this agent")
    add("-m", "--model", metavar="M", help="continue with another model")
    add("-n", "--name", metavar="N", help="a name for the session of the other agent")
    add(
        "--permission",
        choices=("ask", "bypass"),
        help="continue with another permission mode (default after a handover: ask)",
    )
    add_loudness(parser, "show the runtime and the options")
