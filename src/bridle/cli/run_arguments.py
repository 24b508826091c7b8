"""The arguments of `bridle run`, and the options they mean."""

import argparse
import os
import sys
from itertools import pairwise
from typing import Any

import msgspec

from bridle.cli.parsing import add_json, key_value, positive_integer, positive_number
from bridle.config.environment import model_server, runtime_of_backend
from bridle.core.errors import WrongUse
from bridle.core.options import DEFAULT_MARKER, RunOptions

_HIDDEN = argparse.SUPPRESS
_OLD_PERMISSIONS = {"bypassPermissions": "bypass", "default": "ask"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle run`."""
    add = parser.add_argument
    add("prompt", nargs="?", metavar="PROMPT", help="what to do; `-`, or nothing, reads stdin")
    configure_agent(parser)
    add("--timeout", metavar="S", type=positive_number, help="stop the agent after S seconds")
    add("--resume", metavar="ID", help="go on with the conversation of this native session id")
    output = parser.add_mutually_exclusive_group()
    add_json(output)
    output.add_argument("--stream-json", action="store_true", help="print each event as JSON")
    add("--raw", action="store_true", help="keep the agent's own message in each event")
    add("--verbose", action="store_true", help="show runtime, options and the exact command")
    add("--interactive", action="store_true", help="drive the agent yourself at this terminal")
    _add_old_flags(parser)


def configure_agent(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which agent works, where, and how."""
    add = parser.add_argument
    add("--runtime", metavar="R", help="the agent to use (see `bridle runtime list`)")
    add("--backend", metavar="R", help="older name of --runtime")
    add("--model", metavar="M", help="model name or configured alias")
    add("--cwd", metavar="D", help="working directory")
    add("--system", metavar="T", help="replace the agent's base instructions")
    add("--append-system", metavar="T", help="add to its instructions")
    add("--append-system-file", metavar="F", help="add the text of a file to its instructions")
    add("--max-turns", metavar="N", type=positive_integer, help="most model calls")
    names = (
        "shell, read_file, write_file, edit_file, search, web, subagent, or the agent's own name"
    )
    add("--allow-tool", metavar="T", action="append", default=[], help=f"only these tools: {names}")
    add("--deny-tool", metavar="T", action="append", default=[], help="never these tools")
    add("--settings", metavar="F", help="the runtime's own settings: a file, or JSON")
    add("--mcp-config", metavar="F", help="MCP servers: a file, or JSON")
    add("--image", metavar="F", action="append", default=[], help="an image to go with the prompt")
    add(
        "--permission",
        choices=("bypass", "ask"),
        help="ask (default): you are asked, or it is refused when you are not there; "
        "bypass: the agent acts within its sandbox and guards",
    )
    add("--sandbox", choices=("off", "read-only", "worktree"), help="what the agent may write")
    add("--guard", metavar="C", help="judge every tool call by the rules of this capability")
    add("--unguarded", action="store_true", help="run without the guard of the agent's capability")
    add("--budget", metavar="USD", type=positive_number, help="most the run may cost")
    add("--marker", metavar="TEXT", default=DEFAULT_MARKER, help="how the agent says it is done")
    add(
        "--provider-option",
        metavar="K=V",
        type=key_value,
        action="append",
        default=[],
        help="an option that only this runtime knows; V is JSON, or else a text",
    )
    add(
        "--raw-arg",
        metavar="A",
        action="append",
        default=[],
        help="an argument for the CLI as it is; write --raw-arg=--flag",
    )
    add("--env", metavar="K=V", type=key_value, action="append", default=[], help="a variable")
    add("--model-server", metavar="URL", help="run against a scripted model (key in environment)")
    add("--ignore-unsupported", action="store_true", help="report what cannot be honoured instead")


def _add_old_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that callers of one agent's CLI already use, taken for what they mean here."""
    add = parser.add_argument
    add("-p", "--print", action="store_true", help=_HIDDEN)
    add("--system-prompt", dest="system", help=_HIDDEN)
    add("--append-system-prompt", dest="append_system", help=_HIDDEN)
    add("--append-system-prompt-file", dest="append_system_file", help=_HIDDEN)
    add("--dangerously-skip-permissions", action="store_true", help=_HIDDEN)
    add("--permission-mode", choices=tuple(_OLD_PERMISSIONS), help=_HIDDEN)
    add("--output-format", choices=("text", "json", "stream-json"), help=_HIDDEN)
    for flag, other in (("allowed", "allow"), ("disallowed", "deny")):
        add(
            f"--{flag}Tools",
            f"--{flag}-tools",
            dest=f"{other}_tool_list",
            action="append",
            default=[],
            help=_HIDDEN,
        )


def output_in(argv: list[str]) -> str:
    """The output that `argv` asks for, as far as can be told when it could not be parsed."""
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


def runtime_of(args: argparse.Namespace) -> str | None:
    """The runtime that the caller named, under either name of the flag."""
    backend = None if args.backend is None else runtime_of_backend(args.backend)
    if args.runtime and backend and args.runtime != backend:
        raise WrongUse("--runtime and --backend name different agents", hint="use --runtime")
    if args.runtime == "" or backend == "":
        raise WrongUse("the runtime's name is empty", hint="see `bridle runtime list`")
    return args.runtime or backend


def options_of(args: argparse.Namespace) -> RunOptions:
    """The options that the arguments mean; `WrongUse` where they mean nothing."""
    server = None if args.model_server is None else model_server(args.model_server, os.environ)
    return RunOptions(
        prompt=_prompt(args),
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
        permission_mode=_permission(args),
        sandbox=args.sandbox,
        guard=args.guard,
        unguarded=args.unguarded,
        images=tuple(os.path.abspath(path) for path in args.image),
        provider_options={key: _json_or_text(value) for key, value in args.provider_option},
        raw_args=tuple(args.raw_arg),
        timeout=args.timeout,
        budget_usd=args.budget,
        marker=args.marker,
        resume=args.resume,
        ignore_unsupported=args.ignore_unsupported,
        include_raw=args.raw,
        model_server=server,
    )


def _prompt(args: argparse.Namespace) -> str:
    if args.prompt is not None and args.prompt != "-":
        return _whole_text(args.prompt)
    if args.interactive and args.prompt is None:
        return ""
    return read_text(args.prompt)


def read_text(argument: str | None) -> str:
    """A text that the caller gave as an argument, or with `-` or nothing on stdin."""
    if argument is not None and argument != "-":
        return _whole_text(argument)
    if sys.stdin is None or (argument is None and sys.stdin.isatty()):
        raise WrongUse("the prompt is missing", hint='bridle run "what to do"')
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise WrongUse("the prompt on stdin is not UTF-8 text") from None


def _whole_text(argument: str) -> str:
    """An argument as text; bytes of it that are not UTF-8 cannot be sent to a model."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise WrongUse("the prompt is not UTF-8 text") from None
    return argument


def _permission(args: argparse.Namespace) -> Any:
    old = "bypass" if args.dangerously_skip_permissions else None
    old = old or _OLD_PERMISSIONS.get(args.permission_mode or "")
    return args.permission or old or "ask"


def _path(path: str | None) -> str | None:
    """A file the caller named, from here: the agent may run elsewhere."""
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
    """Tool names separated by commas or spaces; those inside parentheses separate nothing."""
    names, word, depth = [], "", 0
    for char in f"{text} ":
        depth += (char == "(") - (char == ")")
        if char in ", \t\n" and depth <= 0:
            names += [word] if word else []
            word = ""
        else:
            word += char
    return [*names, word] if word else names
