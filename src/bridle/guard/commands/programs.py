"""Interpreters, shells and builders: programs whose own writes cannot be seen from outside."""

import os
import re
import stat

import msgspec

from bridle.guard.commands.given import given
from bridle.guard.commands.options import read
from bridle.guard.commands.system import agent_script
from bridle.guard.effects import (
    STDIN_NAMES,
    Code,
    Command,
    Deny,
    Effect,
    Mutates,
    Run,
    Shell,
    Write,
)
from bridle.guard.shell.values import Output, Value, literal, names

SHELLS = names(
    "sh bash dash zsh ksh mksh ash fish rbash posh yash csh tcsh pdksh oksh lksh ksh93 rksh rzsh "
    "osh ysh hush bosh busybox-sh rc es elvish nu xonsh"
)

_PYTHON_MODULES_READ = names(
    "json.tool this calendar tokenize ast dis platform site sysconfig tabnanny symtable"
)
_MODULE_PROGRAMS = names(
    "pip ruff pytest coverage twine flit hatch poetry uv pdm virtualenv black isort nox tox pipx"
)
"""Modules that are a program of the same name."""


def shell(command: Command) -> list[Effect]:
    """Effects of a shell: -c text, a script file, or a program on standard input."""
    options = read(
        _signed(command.args), short="oOC" if command.name == "fish" else "oO",
        long=_SHELL_VALUES, permute=False,
    )  # fmt: skip
    operands = list(options.operands)
    effects: list[Effect] = []
    for file in options.values("rcfile", "init-file", "config", "env-config"):
        effects.extend(_script_file(file, command))
    if options.has("version", "help"):
        return []
    leading = command.args[: len(command.args) - len(operands)]
    if any(a.text is None and a.lead[:1] in ("-", "+") for a in leading):
        return [Deny("command-unresolved", "a shell with options only known at run time")]
    effects.extend(Shell(v) for v in options.values("init-command", "C") if v.parts)
    if options.has("c", "command", "commands"):
        # `bash -c TEXT name args`: the flag has no value, the first operand is the text.
        texts = [v for v in options.values("command", "commands") if v.parts]
        if not texts:
            texts = [operands.pop(0)] if operands else []
        return effects + [Shell(text, tuple(operands[1:])) for text in texts]
    if options.has("n") and operands:
        return effects
    if operands and not options.has("s"):
        return effects + _script_file(operands[0], command)
    return effects + _stdin_program(command)


def _signed(args: tuple[Value, ...]) -> list[Value]:
    """The words of a shell's call with each `+x` before its first operand as `-x`: both are
    options, and neither ends the options."""
    found = list(args)
    number = 0
    while number < len(found):
        lead = found[number].lead
        if lead[:1] not in ("-", "+") or lead in ("-", "--"):
            break
        if lead[0] == "+":
            found[number] = Value(("-" + lead[1:], *found[number].parts[1:]))
        # The value of some options is the next word.
        valued = lead[2:] in _SHELL_VALUES if lead[1:2] == "-" else lead[-1] in "oO"
        number += 2 if valued else 1
    return found


_SHELL_VALUES = ("rcfile", "init-file", "command", "init-command", "commands", "config",
                 "env-config")  # fmt: skip


def _script_file(file: Value, command: Command) -> list[Effect]:
    if file.text in STDIN_NAMES:
        return _stdin_program(command)
    text = command.streamed(file)
    if text is not None:
        return _streamed_program(text)
    if file.lead.startswith(("/dev/fd/", "/proc/self/fd/")):
        return [Deny("command-unresolved", "a script made by another command")]
    if file.holds("any"):
        return [Deny("command-unresolved", f"the script {file.show()}")]
    return [Mutates(f"the script {file.show()}"), *agent_script(file)]


def _stdin_program(command: Command) -> list[Effect]:
    if command.piped or command.stdin.lines:
        return _streamed_program(command.streamed(literal("-")) or command.stdin)
    return [Mutates("a shell that reads its commands from the terminal")]


def _streamed_program(stream: Output) -> list[Effect]:
    """Effects of a shell that runs what it reads from the stream."""
    if stream.file is not None:
        return [Mutates("a script file")]
    if stream.script is not None:
        return [Shell(literal(stream.script))]
    return [Deny("command-unresolved", "a program for the shell only known at run time")]


def program_text(file: Value, command: Command) -> str | None:
    """The text of a program file: what the command reads from a stream, or a small plain file that
    exists now. None when it is not known."""
    stream = command.streamed(file)
    if stream is not None:
        if stream.file is None:
            return stream.script
        file = stream.file
    place = command.directories[0] if command.directories else None
    if file.text is None or place is None:
        return None
    try:
        # An agent can put anything there: a FIFO or a terminal must not block the judge.
        handle = os.open(os.path.join(place, file.text), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(handle, errors="replace") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            text = opened.read(MAX_SCRIPT_FILE + 1)
    except (OSError, ValueError):
        return None
    return text if len(text) <= MAX_SCRIPT_FILE else None


MAX_SCRIPT_FILE = 1 << 16


def source(command: Command) -> list[Effect]:
    """Effects of source: the file's text when it arrives on standard input, else a script."""
    if not command.args:
        return []
    found = _script_file(command.args[0], command)
    # It runs in this shell: what it changes there stays.
    return [msgspec.structs.replace(e, sourced=True) if isinstance(e, Shell) else e for e in found]


def _program_stream(stream: Output, language: str) -> list[Effect]:
    text = stream.script
    return [Code(literal(text) if text is not None else None, language)]


def python(command: Command) -> list[Effect]:
    """Effects of python."""
    args = list(command.args)
    while args:
        arg = args.pop(0)
        lead, text = arg.lead, arg.text
        if text in ("--version", "--help", "-V", "-VV", "-h", "--help-all", "--help-env"):
            return []
        if text == "-" or (text is None and not lead.startswith("-")):
            return (
                _program_stream(command.stdin, "python") if text == "-" else [Mutates("a script")]
            )
        if not lead.startswith("-"):
            if (stream := command.streamed(arg)) is not None:
                return _program_stream(stream, "python")
            return [Mutates(f"the program {text}"), *agent_script(arg)]
        if lead.startswith("--"):
            if lead == "--check-hash-based-pycs":
                args = args[1:]
            continue
        for number, letter in enumerate(lead[1:], 2):
            if letter in "cm":
                value = arg.after(number)
                if not value.parts:
                    value = args.pop(0) if args else literal("")
                found: list[Effect] = [Code(value, "python")]
                return found if letter == "c" else _module(value, args, command)
            if letter in "WX":
                if number == len(lead):
                    args = args[1:]
                break
    if command.piped:
        return _program_stream(command.stdin, "python")
    return [Mutates("an interactive python")]


def _module(module: Value, args: list[Value], command: Command) -> list[Effect]:
    name = module.text
    if name is None:
        return [Mutates("a module only known at run time")]
    if name in _PYTHON_MODULES_READ:
        outputs = [a for a in args if not a.lead.startswith("-")]
        if name == "json.tool" and len(outputs) > 1:
            return [Write(outputs[1])]
        return []
    known = name.replace("_", "-")
    from bridle.guard.commands.readers import LISTED

    if known in LISTED or known in _MODULE_PROGRAMS:
        return [Run((literal(known), *args), functions=False)]
    # Some modules run code from their arguments: timeit, pdb, code.
    texts = [a for a in args if "(" in a.show()]
    texts += [literal(command.stdin.script)] if command.stdin.script is not None else []
    found: list[Effect] = [Code(text, "python") for text in texts]
    return [Mutates(f"the module {name}"), *agent_script(module), *found]


_LETTERS = ("eE", ("eval", "print"), "lL")
CODE_OPTIONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    # program: letters that take code, long options that take code, letters that take other values
    "node": ("ep", ("eval", "print"), "rC"), "bun": ("ep", ("eval", "print"), ""),
    "ruby": ("e", (), "rICEFTWxKS"), "php": ("rBRE", ("run",), "cdzfFtS"),
    "deno": ("", (), ""), "tclsh": _LETTERS, "lua": _LETTERS, "Rscript": _LETTERS,
}  # fmt: skip


def _spelled(arg: Value, letters: str, names: tuple[str, ...]) -> Value:
    """An option that takes code as others spell it: `-pe CODE` as `-e`, `-eval` as `--eval`."""
    word = arg.lead
    if len(word) > 2 and word[0] == "-" and word[1] != "-":
        if all(letter in letters for letter in word[1:]):
            return Value(("-" + word[-1], *arg.parts[1:]))
        name = next((n for n in names if n.lower().startswith(word[1:].lower())), None)
        if name is not None:
            return Value(("--" + name, *arg.parts[1:]))
    return arg


def interpreter(command: Command) -> list[Effect]:
    """Effects of an interpreter with code options."""
    letters, names, other = CODE_OPTIONS[command.name]
    args = [_spelled(arg, letters, names) for arg in command.args]
    options = read(args, short=letters + other, long=names, permute=False)
    inline = options.values(*letters, *names)
    asks = ("version", "help", "v", "V", *("mi" if command.name == "php" else ""))
    if options.has(*asks) and not inline and not options.operands:
        return []
    effects: list[Effect] = [Code(text, command.name) for text in inline]
    if inline:
        if command.name == "ruby" and options.has("i"):
            effects.extend(Write(operand, "entry") for operand in options.operands)
        return effects
    operands = options.operands
    if operands and operands[0].text == "eval" and command.name in ("deno",):
        return [Code(v, command.name) for v in operands[1:2]] or [Code(None, command.name)]
    stream = command.streamed(operands[0]) if operands else None
    if stream is not None:
        return _program_stream(stream, command.name)
    if operands:
        found = agent_script(operands[0])
        return [Mutates(f"the program {operands[0].show()}"), *found]
    if command.piped:
        return _program_stream(command.stdin, command.name)
    return [Mutates(f"an interactive {command.name}")]


def perl(command: Command) -> list[Effect]:
    """Effects of perl, with -i."""
    options = read(command.args, short="eEIMmx", optional="i0lFCDVd", permute=False)
    # `-Mmodule;code` is code too.
    code = options.values("e", "E") + [v for v in options.values("M", "m") if ";" in v.show()]
    if options.has("v", "V") and not code and not options.operands:
        return []
    effects: list[Effect] = [Code(text, "perl") for text in code]
    operands = list(options.operands)
    if not code:
        stream = command.streamed(operands[0]) if operands else None
        if stream is not None:
            return _program_stream(stream, "perl")
        if operands:
            return [Mutates(f"the program {operands[0].show()}")]
        return _program_stream(command.stdin, "perl") if command.piped else [Mutates("perl")]
    if options.has("i"):
        effects.extend(Write(operand, "entry") for operand in operands)
    return effects


_EDITOR_FILES = names("-S -f -l --load --funcall")
EDITORS = names("vim vi nvim view ex vimdiff nano emacs emacsclient ed red")


def editor(command: Command) -> list[Effect]:
    """Effects of vim, emacs and similar: the files they open and the commands in their
    arguments."""
    effects: list[Effect] = [Mutates("an editor")]
    args = list(command.args)
    while args:
        arg = args.pop(0)
        text = arg.text
        if text in ("--version", "--help"):
            return []
        if text in _EDITOR_FILES or re.fullmatch(r"-[a-zA-Z]*c|--cmd|--?eval", text or ""):
            value = args.pop(0) if args else literal("")
            if text not in _EDITOR_FILES:
                effects.append(Code(value, "editor"))
            continue
        if arg.lead.startswith("+"):
            effects.append(Code(arg.after(1), "editor"))
        elif not arg.lead.startswith("-"):
            effects.append(Write(arg))
    if command.stdin.script is not None:
        effects.append(Code(literal(command.stdin.script), "editor"))
    return effects


def make(command: Command) -> list[Effect]:
    """Effects of make and ninja: what they build is in their files."""
    options = read(
        command.args, short="CfIjloWk", optional="j",
        long=("directory", "file", "makefile", "include-dir", "jobs?", "load-average?", "eval",
              "old-file", "what-if"),
    )  # fmt: skip
    places = options.values("C", "directory")
    if options.has("n", "dry-run", "just-print", "recon", "version", "v") and not places:
        return [Mutates("make reads its files")] if not options.has("version", "v") else []
    directory = places[-1] if places else None
    effects: list[Effect] = [Mutates(f"{command.name} runs what its files say", directory)]
    effects.extend(Code(v, "make") for v in options.values("eval"))
    for file in options.values("f", "file", "makefile"):
        if (stream := command.streamed(file)) is not None:
            effects.extend(_program_stream(stream, "make"))
    if any(operand.lead.startswith(("SHELL=", ".SHELLFLAGS=")) for operand in options.operands):
        effects.append(Deny("command-unresolved", "make with another shell"))
    return effects


def pager(command: Command) -> list[Effect]:
    """less: `+COMMAND` is typed into it, and may run or write something; it may also search."""
    effects: list[Effect] = []
    for arg in command.args:
        typed = (arg.text or "").lstrip("+") if arg.lead.startswith("+") else ""
        if typed[:1] in ("!", "#"):
            effects.append(Shell(literal(typed[1:])))
        if typed[:1] in ("|", "s", "v") or ("!" in typed[1:] and typed[:1] not in "/?&"):
            effects.append(Mutates("a command typed into less"))
    return effects


# --- sqlite3: what its statements and dot commands read, write and run ---

_SQL_READS = re.compile(
    r"\s*(?:(?:select|explain|with\b(?!.*\b(?:insert|update|delete|replace)\b)"
    r"|pragma\s+[\w.]+\s*+(?:\([^)]*\))?+\s*+)(?=[\s;(*]|\Z|(?<=\s))[^;]*+"
    r"|\.(?:schema|tables|indexes|indices|databases|headers?|mode|width|nullvalue|dump|fullschema"
    r"|timer|show|help|stats|quit|exit|separator|limit|print|echo)\b[^\n;]*+\s*+)\Z",
    re.IGNORECASE | re.DOTALL,
)
_SQL_ACTS = re.compile(r"\b(?:writefile|load_extension|edit|readfile)\s*\(", re.IGNORECASE)
_SQL_OPENS = re.compile(r"(?im)\b(?:attach|vacuum|writefile|load_extension|edit)\b|^[ \t]*\.")
"""Statements and dot commands that open other files."""
_SQL_SHELL = re.compile(
    r"""(?m)^[ \t]*\.(?:(?:shell|system|sh)\s+|(?:once|output|excel)\s+(?:-\w+\s+)*['"]?\|)"""
    r"""(.*?)['"]?$"""
)
_SQL_VALUED = names("-cmd --cmd -init --init -separator -nullvalue -newline")


def sqlite(command: Command) -> list[Effect]:
    """sqlite3: queries read; with any other text it may write the paths in it, and run commands."""
    texts: list[str | None] = []
    operands = read(command.args, long=("cmd",)).operands
    words = [a.text for a in command.args]
    for word, value in zip(words, command.args[1:], strict=False):
        if word in _SQL_VALUED:
            operands = [o for o in operands if o is not value]
            texts += [value.text] if "cmd" in (word or "") else []
    database = operands[:1]
    texts.extend(o.text for o in operands[1:])
    if command.piped:
        texts.append(command.stdin.script)
    if not database or {"-version", "--version", "-help", "--help"}.intersection(words):
        return []
    if texts and all(t is not None and _only_reads(t) for t in texts):
        return []
    effects: list[Effect] = [Mutates("sqlite3 changes what it opens"), Write(database[0])]
    effects.extend(given(command, tuple(literal(t) for t in texts if t and _SQL_OPENS.search(t))))
    runs = [text for t in texts for text in _SQL_SHELL.findall(t or "")]
    return effects + [Shell(literal(text)) for text in runs]


def _only_reads(text: str) -> bool:
    if _SQL_ACTS.search(text):
        return False
    return all(_SQL_READS.match(part) for part in text.split(";") if part.strip())
