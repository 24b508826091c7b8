"""The command line: one module for each noun, imported only when its command is called.

A command's module has `configure(parser)`, which adds its arguments, and `execute(args)`, which
does the work and returns the exit status. Errors meant for the user are raised; this package prints
them in one line with a hint, never a traceback.
"""

import os
import sys

TYPE_CHECKING = False  # type checkers treat it as true; importing `typing` would slow the help
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Protocol

    from bridle.core.errors import BridleError

    class Command(Protocol):
        """What a command's module offers. It may also have `failure(problem, argv)`, the JSON to
        print when the command failed, or None (default: `{"error": …}`), and `EXAMPLES`, command
        lines for its help."""

        def configure(self, parser: ArgumentParser) -> None:
            """Add the command's arguments."""

        def execute(self, args: Namespace) -> int:
            """Do the work; returns the exit status. Raises `BridleError` for the user to read."""


COMMANDS = {
    "run": ("bridle.cli.run_command", "run one prompt through an agent"),
    "runtime": ("bridle.cli.runtime", "list, show, check and choose runtimes"),
    "session": ("bridle.cli.session", "start agents, talk to them, and keep their conversations"),
    "usage": ("bridle.cli.usage", "show what agents used and what it cost"),
    "costs": ("bridle.cli.costs", "show what sessions and agents of Bridle cost, live"),
    "daemon": ("bridle.cli.daemon", "show, start or end the process that drives sessions"),
    "config": ("bridle.cli.config", "show, check and create configuration files"),
    "model-server": ("bridle.cli.model_server", "serve a scripted model on loopback"),
    "conformance": ("bridle.cli.conformance", "prove that a runtime keeps the contract, offline"),
    "guard": ("bridle.cli.guard", "judge tool calls, and score the judge"),
    "completion": ("bridle.cli.completion", "print completion for bash, zsh or fish"),
    "demo": ("bridle.cli.demo", "watch several agents work offline, without keys or CLIs"),
}
"""Command to the module that holds it, and the line that the help shows."""

INTERRUPTED = 130
_NARROW = 60
_DEBUG = "BRIDLE_DEBUG"


def run(argv: list[str]) -> int:
    """Run the command line `argv` (without the program's name); returns the exit status."""
    if sys.stdout is None:  # started with it closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it stays open as long as we run
    try:
        if argv and argv[0] in COMMANDS:
            status = _command(argv[0], argv[1:])
        else:
            status = _without_command(argv)
        sys.stdout.flush()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # its reader closed the pipe
        return INTERRUPTED
    except OSError as problem:
        _drop_output()
        return _system_error(problem)
    except Exception as problem:
        return _bug(problem)
    return status


def _drop_output() -> None:
    """Discard what is still buffered, or it would fail again when the process ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


def _without_command(argv: list[str]) -> int:
    """Show help or the version; refuse a word that is not a command."""
    if not argv:
        sys.stderr.write(top_help())
        return 2
    name, rest = argv[0], argv[1:]
    if name in ("-h", "--help", "help"):
        if rest and rest[0] in COMMANDS:
            return _command(rest[0], [*rest[1:], "--help"])
        sys.stdout.write(top_help())
        return 0
    if name in ("-V", "--version", "version"):
        from bridle._version import __version__

        sys.stdout.write(f"bridle {__version__}\n")
        return 0
    return _command(name, rest)


def _command(name: str, argv: list[str]) -> int:
    from bridle.cli import startup

    with startup.WithoutCollection():
        startup.postpone_unused()
        startup.import_msgspec()
        startup.import_argparse()
        from bridle.core.errors import BridleError

    module: Command | None = None
    try:
        with startup.WithoutCollection():
            module = load(name)
        return module.execute(parser_of(name, module).parse_args(argv))
    except BridleError as problem:
        return _refuse(problem, argv, module)


def load(name: str) -> "Command":
    """The module of the command `name`; `WrongUse` with the nearest name if it does not exist."""
    if name not in COMMANDS:
        from bridle.cli.parsing import unknown

        if name.startswith("-"):
            raise unknown("option", name, ["--help", "--version"], "`bridle --help`")
        raise unknown("command", name, list(COMMANDS), "`bridle --help`")
    from importlib import import_module

    return import_module(COMMANDS[name][0])


def parser_of(name: str, module: "Command") -> "ArgumentParser":
    """The argument parser of a command."""
    from bridle.cli.parsing import CommandParser

    parser = CommandParser(
        prog=f"bridle {name}",
        description=f"{_sentence(COMMANDS[name][1])}.",
        examples=getattr(module, "EXAMPLES", ()),
    )
    module.configure(parser)
    return parser


def top_help() -> str:
    """What `bridle --help` shows, as wide as the terminal."""
    width = _columns()
    size = max(map(len, COMMANDS))
    lines: list[str] = []
    for name, (_, text) in COMMANDS.items():
        if width < _NARROW:
            lines += [f"  {name}", *(f"      {line}" for line in _wrapped(text, width - 6))]
        else:
            lines.append(f"  {name:<{size}}  {text}")
    return "\n".join(
        [
            "usage: bridle COMMAND [ARGUMENTS]",
            "",
            *_wrapped("Drive every coding agent through one interface.", width),
            "",
            "commands:",
            *lines,
            "",
            *_wrapped(
                "`bridle COMMAND --help` explains a command; every command has --json.", width
            ),
            *_wrapped("`bridle --version` prints the version.", width),
            "",
        ]
    )


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(1).columns or 80
    except (OSError, ValueError):
        return 80


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width`; by hand, because `textwrap` would slow the help."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _refuse(problem: "BridleError", argv: list[str], module: "Command | None") -> int:
    """Print an error: one line and a hint on stderr, with --json also as data on stdout."""
    from bridle.cli.output import error_object, say_error, write_line

    problem.hint = getattr(problem, "command_line_hint", problem.hint)
    make = getattr(module, "failure", None)
    if make is not None:
        data = make(problem, argv)
    else:
        data = error_object(problem) if "--json" in argv else None
    if data is not None:
        write_line(data)
    say_error(problem)
    return problem.exit_code


def _system_error(problem: OSError) -> int:
    """Print what the system refused; for a full or read-only disk, also what to do about it."""
    import errno

    if problem.filename and problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        from bridle.cli.output import say_error
        from bridle.sessions.home import state_error

        known = state_error(problem, os.path.dirname(os.fsdecode(problem.filename)))
        say_error(known)
        return known.exit_code
    where = f": {problem.filename}" if problem.filename else ""
    sys.stderr.write(f"bridle: error: {problem.strerror or problem}{where}\n")
    return 1


def _bug(problem: Exception) -> int:
    if os.environ.get(_DEBUG):
        import traceback

        traceback.print_exception(problem)
    what = " ".join(f"{type(problem).__name__}: {problem}".split())
    sys.stderr.write(f"bridle: error: this is a bug in bridle: {what}\n")
    sys.stderr.write(f"hint: {_DEBUG}=1 shows where; please report it\n")
    return 1
