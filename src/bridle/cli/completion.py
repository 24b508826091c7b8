"""`bridle completion`: scripts that complete commands, options and names in bash, zsh and fish.

The scripts are written from the parsers. Only the names of runtimes and sessions are looked up when
Tab is pressed, by `bridle completion --list`, which asks no daemon.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator

import msgspec

from bridle.cli.output import write_json
from bridle.cli.parsing import CommandParser, add_json, verbs_of
from bridle.core.errors import WrongUse

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = (
    'eval "$(bridle completion bash)"    # in ~/.bashrc',
    'eval "$(bridle completion zsh)"     # in ~/.zshrc, after compinit',
    "bridle completion fish > ~/.config/fish/completions/bridle.fish",
)
_FILES = ("F", "FILE", "SCRIPT", "PATH")
_PLAIN = re.compile(r"[\w.@:+-]+", re.ASCII)
_KINDS = {"runtime": "runtimes", "backend": "runtimes", "session": "sessions"}
"""What the value of an argument is, by the argument's name."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle completion`."""
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="the shell to print a script for")
    parser.add_argument(
        "--list", choices=("runtimes", "sessions"), help="print the existing names instead"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Print a script, or names."""
    if args.list is not None:
        names = _runtimes() if args.list == "runtimes" else _sessions()
        if args.json:
            write_json({args.list: names})
        else:
            sys.stdout.write("".join(f"{name}\n" for name in names))
        return 0
    if args.shell is None:
        raise WrongUse("the shell is missing", hint=f"one of {', '.join(SHELLS)}")
    text = script(args.shell, places())
    if args.json:
        write_json({"shell": args.shell, "script": text})
    else:
        sys.stdout.write(text)
    return 0


# -- names ------------------------------------------------------------------------------------


def _runtimes() -> list[str]:
    from bridle.config import load_config
    from bridle.core.errors import BridleError
    from bridle.runtimes.registry import available_runtimes

    try:
        return available_runtimes(load_config())
    except BridleError:
        return available_runtimes()


def _sessions() -> list[str]:
    """Sessions of this folder's project and of the user's own place: their names, or ids where a
    name is missing or would need quotes."""
    from bridle.sessions.home import homes
    from bridle.sessions.store import SessionStore

    found: list[str] = []
    for home in homes(os.getcwd(), os.environ):
        if os.path.exists(home.database):
            with SessionStore(home) as store:
                for record in store.all():
                    name = record.name or ""
                    found.append(name if _PLAIN.fullmatch(name) else record.session_id)
    return list(dict.fromkeys(found))


# -- what can be completed --------------------------------------------------------------------


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option: its flags, and what its value is ("" without a value, `any` when unknown)."""

    flags: tuple[str, ...]
    value: str = ""
    choices: tuple[str, ...] = ()
    text: str = ""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A command, or a verb of one, with what can follow it."""

    words: tuple[str, ...]
    """The words that lead here: `("session", "send")`; empty for `bridle` itself."""
    verbs: tuple[tuple[str, str], ...] = ()
    """The words that can come next, with their help."""
    options: tuple[Option, ...] = ()
    arguments: tuple[Option, ...] = ()
    """What each further word is; they have no flags."""


def places() -> list[Place]:
    """Every command and verb."""
    from bridle.cli import COMMANDS, load, parser_of

    found = [Place(words=(), verbs=tuple((name, text) for name, (_, text) in COMMANDS.items()))]
    for name in COMMANDS:
        parser = parser_of(name, load(name))
        assert isinstance(parser, CommandParser)
        found += _below((name,), parser)
    return found


def _below(words: tuple[str, ...], parser: CommandParser) -> Iterator[Place]:
    verbs = verbs_of(parser)
    if verbs is None:
        shown = [each for each in parser._actions if each.help is not argparse.SUPPRESS]
        yield Place(
            words=words,
            options=tuple(_option(each) for each in shown if each.option_strings),
            arguments=_arguments([each for each in shown if not each.option_strings]),
        )
        return
    rows = tuple(row for group in parser.verb_groups.values() for row in group)
    yield Place(words=words, verbs=rows)
    for name, _ in rows:
        yield from _below((*words, name), verbs.choices[name])


def _arguments(actions: list[argparse.Action]) -> tuple[Option, ...]:
    """What each word is; one that is optional may already be the next."""
    found = [_option(each) for each in actions]
    for at in range(len(found) - 1):
        if actions[at].nargs == "?" and found[at].value == "any":
            found[at] = found[at + 1]
    return tuple(found)


def _option(action: argparse.Action) -> Option:
    choices = tuple(str(choice) for choice in action.choices or ())
    value = ""
    if action.nargs != 0:
        value = "choices" if choices else _KINDS.get(action.dest, "any")
        if value == "any" and action.metavar in _FILES:
            value = "files"
        elif value == "any" and action.metavar == "D":
            value = "folders"
    text = " ".join((action.help or "").split())
    return Option(
        flags=tuple(action.option_strings), value=value, choices=choices, text=text.split("; ")[0]
    )


# -- scripts ----------------------------------------------------------------------------------


def script(shell: str, found: list[Place]) -> str:
    """The completion script of a shell for `found`."""
    return _WRITERS[shell](found)


def _tables(found: list[Place]) -> str:
    """Functions that bash and zsh understand alike: what can follow, and what a value is."""
    words = [
        f"        {_quoted(' '.join(place.words))}) echo {_quoted(' '.join(_next(place)))} ;;"
        for place in found
    ]
    values = [
        f"        {'|'.join(_quoted(' '.join((*place.words, flag))) for flag in option.flags)})"
        f" echo {_quoted(_kind(option))} ;;"
        for place in found
        for option in place.options
        if option.value
    ]
    arguments = [
        f"        {_quoted(' '.join((*place.words, str(number))))})"
        f" echo {_quoted(_kind(option))} ;;"
        for place in found
        for number, option in enumerate(place.arguments)
    ]
    return "\n".join(
        [
            "_bridle_next() {",
            '    case "$1" in',
            *words,
            "    esac",
            "}",
            "",
            "_bridle_value() {",
            '    case "$1" in',
            *values,
            "    esac",
            "}",
            "",
            "_bridle_argument() {",
            '    case "$1" in',
            *arguments,
            "    esac",
            "}",
            "",
            "# Prints the words that fit the place after the words given.",
            "_bridle_found() {",
            '    local at="" kind="" option="" count=0 word',
            '    for word in "$@"; do',
            '        if [ -n "$option" ]; then',
            '            option=""',
            '        elif [ "${word#-}" != "$word" ]; then',
            '            [ -n "$(_bridle_value "$at $word")" ] && option="$word"',
            '        elif [ -n "$(_bridle_next "${at:+$at }$word")" ]; then',
            '            at="${at:+$at }$word"',
            "        else",
            "            count=$((count + 1))",
            "        fi",
            "    done",
            '    if [ -n "$option" ]; then',
            '        kind="$(_bridle_value "$at $option")"',
            "    else",
            '        kind="$(_bridle_argument "$at $count")"',
            '        _bridle_next "$at"',
            "    fi",
            '    case "$kind" in',
            '        runtimes|sessions) bridle completion --list "$kind" 2>/dev/null ;;',
            '        "choices "*) echo "${kind#choices }" ;;',
            '        files|folders) echo "<$kind>" ;;',
            "    esac",
            "}",
        ]
    )


def _next(place: Place) -> list[str]:
    words = [name for name, _ in place.verbs]
    flags = [flag for option in place.options for flag in option.flags]
    if not place.words:
        flags = ["--help", "--version"]
    elif place.verbs:
        flags = ["--help"]
    return [*words, *flags]


def _kind(option: Option) -> str:
    return f"choices {' '.join(option.choices)}" if option.choices else option.value


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(found: list[Place]) -> str:
    return f"""# bash completion of bridle, printed by `bridle completion bash`

{_tables(found)}

_bridle() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" word
    local -a before=() words=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        # Bash takes `--flag=value` apart at the `=`.
        [ "$word" = "=" ] || before+=("$word")
    done
    [ "$current" = "=" ] && current=""
    # `compgen -W` would expand the words, and a session may have any name.
    read -r -d '' -a words <<< "$(_bridle_found "${{before[@]}}")"
    COMPREPLY=()
    for word in "${{words[@]}}"; do
        case "$word" in
            "<files>"|"<folders>") COMPREPLY=(); return ;;
            "$current"*) COMPREPLY+=("$word") ;;
        esac
    done
}}

complete -o bashdefault -o default -F _bridle bridle
"""


def _zsh(found: list[Place]) -> str:
    return f"""#compdef bridle
# zsh completion of bridle, printed by `bridle completion zsh`

{_tables(found)}

_bridle() {{
    local current="${{words[CURRENT]}}" found
    local -a before
    before=("${{(@)words[2,CURRENT-1]}}")
    case "$current" in
        --*=*) before+=("${{current%%=*}}"); compset -P '*=' ;;
    esac
    found="$(_bridle_found "${{before[@]}}")"
    case "$found" in
        *"<files>"*) _files ;;
        *"<folders>"*) _files -/ ;;
        *) compadd -- ${{=found}} || _files ;;
    esac
}}

compdef _bridle bridle
"""


def _fish(found: list[Place]) -> str:
    lines = [
        "# fish completion of bridle, printed by `bridle completion fish`",
        "",
        "# Whether the words before the cursor begin with these.",
        "function __bridle_in",
        "    set -l before (commandline -opc)",
        "    set -e before[1]",
        "    for word in $argv",
        '        test (count $before) -gt 0; and test "$before[1]" = "$word"; or return 1',
        "        set -e before[1]",
        "    end",
        "end",
        "",
        "# Whether the words before the cursor are just these.",
        "function __bridle_at",
        "    set -l before (commandline -opc)",
        "    set -e before[1]",
        '    test "$before" = "$argv"',
        "end",
        "",
        "complete -c bridle -f",
    ]
    for place in found:
        path = " ".join(place.words)
        at = _quoted(f"__bridle_at {path}".strip())
        for name, text in place.verbs:
            lines.append(f"complete -c bridle -n {at} -a {name} -d {_fish_quoted(text)}")
        inside = _quoted(f"__bridle_in {path}")
        for option in place.options:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            )
            takes = _fish_value(option)
            text = _fish_quoted(option.text)
            lines.append(f"complete -c bridle -n {inside} {flags}{takes} -d {text}")
        for option in place.arguments[:1]:
            takes = _fish_value(option).replace(" -x", "").replace(" -r", "")
            if takes or option.value == "files":
                lines.append(f"complete -c bridle -n {at}{takes or ' -F'}")
    return "\n".join(lines) + "\n"


def _fish_value(option: Option) -> str:
    """What a value is, as arguments of fish's `complete`."""
    if option.value in ("runtimes", "sessions"):
        return f" -x -a '(bridle completion --list {option.value} 2>/dev/null)'"
    if option.choices:
        return f" -x -a {_quoted(' '.join(option.choices))}"
    if option.value == "folders":
        return " -x -a '(__fish_complete_directories)'"
    if option.value == "files":
        return " -r -F"
    return " -x" if option.value else ""


def _fish_quoted(text: str) -> str:
    """Single quotes of fish, in which only a backslash and the quote are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS: dict[str, Callable[[list[Place]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
