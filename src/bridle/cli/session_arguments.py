"""The arguments of `bridle session` and its verbs."""

import argparse

from bridle.cli.parsing import CommandParser, add_json, positive_number
from bridle.cli.run_arguments import configure_agent

DRIVES = ("rpc", "tmux", "print")
FORMATS = ("json", "markdown", "html", "atif")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `bridle session`."""
    verbs = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=CommandParser
    )
    _start(_verb(verbs, "start", "start a session and wait until it is ready"))
    listing = _verb(verbs, "list", "list sessions")
    listing.add_argument("--all", action="store_true", help="also those outside this project")
    listing.add_argument("--state", metavar="S", help="only those in this state")
    listing.add_argument("--runtime", metavar="R", help="only those of this runtime")
    _named(_verb(verbs, "show", "show all that is known of a session"))
    for verb, text in (
        ("send", "give it a prompt; it waits while the agent works"),
        ("steer", "reach the turn that runs, at its next step"),
        ("follow-up", "give it a prompt for when its turn has ended"),
    ):
        _message(_verb(verbs, verb, text))
    abort = _named(_verb(verbs, "abort", "end the turn that runs; the session goes on"))
    abort.add_argument("--clear", action="store_true", help="also forget the messages that wait")
    abort.add_argument("--reason", metavar="T", default="aborted by the user")
    wait = _named(_verb(verbs, "wait", "wait until the agent is idle or gone"))
    wait.add_argument(
        "--timeout", metavar="S", type=positive_number, help="give up after S seconds"
    )
    stop = _named(_verb(verbs, "stop", "end a session"))
    stop.add_argument("--reason", metavar="T", default="stopped by the user")
    _resume(_named(_verb(verbs, "resume", "go on with a session that is over")))
    permit = _named(_verb(verbs, "permit", "answer a permission request"))
    permit.add_argument("request", metavar="REQUEST", help="the request's id")
    permit.add_argument("decision", choices=("allow", "deny"))
    permit.add_argument("--reason", metavar="T", default="", help="told to the agent")
    model = _named(_verb(verbs, "model", "change the model from the next turn on"))
    model.add_argument("model", metavar="M", help="model name")
    _named(_verb(verbs, "attach", "watch a session live and talk to it"))
    logs = _named(_verb(verbs, "logs", "print a session's events, one a line"))
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the agent is gone")
    logs.add_argument("--after", metavar="N", type=int, default=0, help="only events above N")
    export = _named(_verb(verbs, "export", "write a session out for others"))
    export.add_argument("--format", choices=FORMATS, help="markdown; json with --json")
    export.add_argument("--out", metavar="F", help="write to this file instead of stdout")


def _verb(
    verbs: "argparse._SubParsersAction[CommandParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.")
    add_json(parser)
    return parser


def _named(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("session", metavar="ID", help="its id, its name, or the id's beginning")
    return parser


def _start(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("prompt", nargs="?", metavar="PROMPT", help="the first prompt; `-` reads stdin")
    add("--drive", choices=DRIVES, help="how it is driven; the best the runtime has, if not said")
    add("--name", metavar="N", help="a name to call it by")
    configure_agent(parser)
    add("--agent", metavar="A", help="the agent's name, for its environment")
    add("--capability", metavar="C", help="its role")
    add("--task", metavar="T", help="what it works on")
    add("--actor", metavar="A", help="whose work it is (PROJECT/ROLE/AGENT)")
    add("--project", metavar="P", help="the project's name; the folder around it when not given")
    # What a run has and a session has not.
    parser.set_defaults(
        timeout=None,
        resume=None,
        raw=False,
        interactive=True,
        allow_tool_list=[],
        deny_tool_list=[],
        permission_mode=None,
        dangerously_skip_permissions=False,
    )


def _message(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    add = parser.add_argument
    add("text", metavar="TEXT", nargs="?", help="the message; `-`, or nothing, reads stdin")
    add("--image", metavar="F", action="append", default=[], help="an image to go with it")
    add(
        "--delivery",
        choices=("auto", "stdin", "tmux", "rpc"),
        default="auto",
        help="refuse when the session is not driven so",
    )
    add("--timeout", metavar="S", type=positive_number, help="wait at most S seconds for receipt")


def _resume(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("prompt", nargs="?", metavar="PROMPT", help="a prompt to go on with")
    add("--runtime", metavar="R", help="hand the conversation over to another agent")
    add("--model", metavar="M", help="go on with another model")
    add("--name", metavar="N", help="the name of the session it is handed over to")
    add(
        "--permission",
        choices=("bypass", "ask"),
        help="go on with another; ask for one that is handed over, if not said",
    )
