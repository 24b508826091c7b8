"""The arguments of `bridle run`, and the options they mean."""

import argparse
import os
from itertools import pairwise
from typing import Any

import msgspec

from bridle.cli.old_flags import add_old_flags, old_permission, old_provider_options
from bridle.cli.parsing import add_json, key_value, positive_integer, positive_number
from bridle.cli.prompt_text import prompt_text
from bridle.config.environment import model_server, runtime_of_backend
from bridle.core.capabilities import CAPABILITY_NAMES
from bridle.core.errors import WrongUse
from bridle.core.options import DEFAULT_MARKER, RunOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle run`."""
    add_prompt(parser, "what to do; stdin is added to it, and `-` is stdin alone")
    groups = configure_agent(parser)
    agent, limits = groups["agent"], groups["limits"]
    agent.add_argument(
        "--schema", metavar="FILE", help="the answer must be JSON that fits this JSON Schema"
    )
    agent.add_argument(
        "--resume", metavar="ID", help="resume the agent's own conversation with this id"
    )
    agent.add_argument(
        "--interactive", action="store_true", help="show the agent's own screen at this terminal"
    )
    limits.add_argument(
        "--timeout", metavar="S", type=positive_number, help="stop the agent after S seconds"
    )
    shown = parser.add_argument_group("output")
    output = shown.add_mutually_exclusive_group()
    add_json(output)
    output.add_argument(
        "--stream-json", action="store_true", help="print each event as a line of JSON"
    )
    add_raw(shown)
    add_loudness(shown, "show the runtime, the options, the exact command, and the thinking")
    add_old_flags(parser, run=True)


def add_prompt(parser: argparse.ArgumentParser, text: str, name: str = "PROMPT") -> None:
    """Add the prompt and the files whose text belongs to it."""
    parser.add_argument(name.lower(), nargs="?", metavar=name, help=text)
    parser.add_argument(
        "--file",
        metavar="F",
        action="append",
        default=[],
        help="add the text of this file to the prompt; `-` is stdin",
    )


def add_raw(parser: argparse._ActionsContainer) -> None:
    """Add `--raw`."""
    parser.add_argument(
        "--raw", action="store_true", help="keep the agent's own message in each event"
    )


def add_loudness(parser: argparse._ActionsContainer, verbose: str) -> None:
    """Add `--verbose` and `--quiet`."""
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no line and no spinner at the start"
    )


def configure_agent(parser: argparse.ArgumentParser) -> "dict[str, argparse._ArgumentGroup]":
    """Add the arguments that say which agent works, where, and how; returns their groups."""
    agent = parser.add_argument_group("agent")
    add = agent.add_argument
    add("-r", "--runtime", metavar="R", help="the agent to use (see `bridle runtime list`)")
    add("--backend", metavar="R", help="older name of --runtime")
    add("-m", "--model", metavar="M", help="model name or configured alias")
    add("-c", "--cwd", metavar="D", help="working directory")
    add(
        "--image", metavar="F", action="append", default=[], help="an image to send with the prompt"
    )
    add("--system", metavar="T", help="replace the agent's base instructions")
    add("--append-system", metavar="T", help="add to its instructions")
    add("--append-system-file", metavar="F", help="add the text of a file to its instructions")
    add(
        "--marker",
        metavar="TEXT",
        default=DEFAULT_MARKER,
        help="what the agent writes, on its own line or as its own sentence, when it is done; "
        f"the result then says marker_detected ({DEFAULT_MARKER})",
    )

    may = parser.add_argument_group("what it may do")
    add = may.add_argument
    add(
        "--permission",
        choices=("ask", "bypass"),
        help="ask (default): you are asked before the agent acts, and it is refused when you are "
        "not there; bypass: it acts without asking, within its sandbox and guard",
    )
    add(
        "--allow-tool",
        metavar="T",
        action="append",
        default=[],
        help="allow only this tool: shell, read_file, write_file, edit_file, search, web, "
        "subagent, or the agent's own name; repeat",
    )
    add("--deny-tool", metavar="T", action="append", default=[], help="deny this tool; repeat")
    add(
        "--sandbox",
        metavar="MODE",
        choices=("off", "read-only", "commit", "worktree"),
        help="what the operating system lets the agent write: anything (off), nothing (read-only), "
        "its commits (commit), its worktree (worktree); without it, what --guard brings",
    )
    add(
        "--guard",
        metavar="C",
        help="judge every tool call by the rules of this capability, and confine the agent to what "
        f"that may write: {', '.join(CAPABILITY_NAMES)}",
    )
    add(
        "--unguarded",
        action="store_true",
        help="run without the guard, although the agent has a capability",
    )

    limits = parser.add_argument_group("limits")
    add = limits.add_argument
    add("--max-turns", metavar="N", type=positive_integer, help="at most N model calls")
    add(
        "--budget",
        metavar="USD",
        type=positive_number,
        help="stop when the work has cost this many US dollars",
    )

    setup = parser.add_argument_group("setup")
    add = setup.add_argument
    add("--settings", metavar="F", help="the runtime's own settings: a file, or JSON text")
    add("--mcp-config", metavar="F", help="MCP servers: a file, or JSON text")
    add(
        "--env",
        metavar="K=V",
        type=key_value,
        action="append",
        default=[],
        help="set variable K to V in the agent's environment; repeat",
    )
    add("--account-dir", metavar="D", help="the agent's own settings and login are in this folder")
    add(
        "--provider-option",
        metavar="K=V",
        type=key_value,
        action="append",
        default=[],
        help="an option that only this runtime has; V is JSON, or else text; repeat",
    )
    add(
        "--raw-arg",
        metavar="A",
        action="append",
        default=[],
        help="pass this word to the CLI unchanged: --raw-arg=--flag; repeat",
    )
    add(
        "--model-server",
        metavar="URL",
        help="use the scripted model at this address (its key in BRIDLE_MODEL_SERVER_KEY)",
    )
    add(
        "--ignore-unsupported",
        action="store_true",
        help="run although the runtime does not support an option, with a warning",
    )
    return {"agent": agent, "may": may, "limits": limits, "setup": setup}


def output_in(argv: list[str]) -> str:
    """The output that `argv` asks for, as far as it can be known when `argv` cannot be parsed."""
    for output in ("json", "stream-json"):
        if f"--{output}" in argv or f"--output-format={output}" in argv:
            return output
        if ("--output-format", output) in pairwise(argv):
            return output
    return "text"


def output_of(args: argparse.Namespace) -> str:
    """`text`, `json` or `stream-json`."""
    if args.json or args.stream_json:
        return "json" if args.json else "stream-json"
    return str(args.output_format or "text")


def runtime_of(args: argparse.Namespace, config: "Config") -> str | None:
    """The runtime that the caller named, under either name of the flag."""
    backend = None
    if args.backend is not None:
        from bridle.runtimes.registry import available_runtimes

        backend = runtime_of_backend(args.backend, available_runtimes(config))
    if args.runtime and backend and args.runtime != backend:
        raise WrongUse("--runtime and --backend name different agents", hint="use --runtime")
    if args.runtime == "" or backend == "":
        raise WrongUse("the runtime's name is empty", hint="see `bridle runtime list`")
    if args.runtime and _is_session_id(args.runtime):
        raise WrongUse(
            f"-r names a runtime, and {args.runtime} is a conversation's id",
            hint="--resume ID resumes a conversation",
        )
    return args.runtime or backend


def _is_session_id(text: str) -> bool:
    return len(text) == 36 and text.count("-") == 4


def options_of(args: argparse.Namespace) -> RunOptions:
    """The options that the arguments mean; `WrongUse` if they make no sense."""
    server = None if args.model_server is None else model_server(args.model_server, os.environ)
    return RunOptions(
        prompt=prompt_text(args.prompt, args.file, optional=args.interactive),
        system_prompt=args.system,
        append_system_prompt=args.append_system,
        append_system_prompt_file=_path(args.append_system_file),
        cwd=args.cwd,
        env=dict(args.env),
        model=args.model,
        max_turns=args.max_turns,
        allowed_tools=_tools(args.allow_tool, args.allow_tool_list),
        denied_tools=_tools(args.deny_tool, args.deny_tool_list),
        settings=_path_or_json(args.settings),
        mcp_config=_path_or_json(args.mcp_config),
        permission_mode=args.permission or old_permission(args) or "ask",
        sandbox=args.sandbox,
        guard=args.guard,
        unguarded=args.unguarded,
        images=tuple(os.path.abspath(path) for path in args.image),
        provider_options=old_provider_options(args)
        | {key: _json_or_text(value) for key, value in args.provider_option},
        raw_args=tuple(args.raw_arg),
        account_dir=_path(args.account_dir),
        timeout=args.timeout,
        budget_usd=args.budget,
        output_schema=args.schema,
        marker=args.marker,
        resume=args.resume,
        ignore_unsupported=args.ignore_unsupported,
        include_raw=args.raw,
        model_server=server,
    )


def _path(path: str | None) -> str | None:
    """The path of a file that the caller named, resolved here: the agent may run elsewhere."""
    return None if path is None else os.path.abspath(path)


def _path_or_json(text: str | None) -> str | None:
    return text if text is None or text.lstrip().startswith("{") else os.path.abspath(text)


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _tools(names: list[str], lists: list[str]) -> tuple[str, ...]:
    return (*names, *(name for each in lists for name in split_tools(each)))


def split_tools(text: str) -> list[str]:
    """Tool names separated by commas or spaces; those inside parentheses do not count."""
    names, word, depth = [], "", 0
    for char in f"{text} ":
        depth += (char == "(") - (char == ")")
        if char in ", \t\n" and depth <= 0:
            names += [word] if word else []
            word = ""
        else:
            word += char
    return [*names, word] if word else names
