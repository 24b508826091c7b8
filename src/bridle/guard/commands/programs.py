"""Interpreters, shells and builders: programs whose own writes cannot be seen from outside."""

import re

from bridle.guard.commands.options import Parsed, read
from bridle.guard.commands.system import agent_script
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.names import names
from bridle.guard.values import Value, literal

SHELLS = names("sh bash dash zsh ksh mksh ash fish rbash posh yash")

_PYTHON_MODULES_READ = names(
    "json.tool this calendar tokenize ast dis platform site sysconfig tabnanny symtable"
)
_MODULE_PROGRAMS = names(
    "pip ruff pytest coverage twine flit hatch poetry uv pdm virtualenv black isort nox tox pipx"
)
"""Modules that are a program of the same name."""
_PYTHON_WRITERS = {
    "zipfile": ("-e", "--extract", "-c", "--create"),
    "tarfile": ("-e", "--extract", "-c", "--create"),
}


def shell(command: Command) -> list[Effect]:
    """Effects of a shell: -c text, a script file, or a program on standard input."""
    options = read(command.args, short="oO", long=("rcfile", "init-file", "command"), permute=False)
    operands = list(options.operands)
    startup = options.values("rcfile", "init-file")
    effects: list[Effect] = [Mutates(f"a shell that first runs {v.show()}") for v in startup]
    if options.has("version", "help"):
        return []
    if options.has("c", "command"):
        # `bash -c TEXT name args`: the flag has no value of its own, the first operand is the text.
        texts = [v for v in options.values("command") if v.parts]
        if not texts:
            texts = [operands.pop(0)] if operands else []
        return effects + [Shell(text, tuple(operands[1:])) for text in texts]
    if options.has("n") and operands:
        return effects
    if operands and not options.has("s"):
        return effects + _script_file(operands[0], command)
    return effects + _stdin_program(command, options)


def _script_file(file: Value, command: Command) -> list[Effect]:
    if file.text in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"):
        return _stdin_program(command, None)
    if file.lead.startswith("/dev/fd/"):
        return [Deny("command-unresolved", "a script made by another command")]
    if file.holds("any"):
        return [Deny("command-unresolved", f"the script {file.show()}")]
    return [Mutates(f"the script {file.show()}"), *agent_script(file)]


def _stdin_program(command: Command, options: Parsed | None) -> list[Effect]:
    if command.stdin_file is not None or command.stdin.file is not None:
        return [Mutates("a script file")]
    text = command.stdin.script
    if text is not None:
        return [Shell(literal(text))]
    if command.piped:
        return [Deny("command-unresolved", "a program for the shell only known at run time")]
    return [Mutates("a shell that reads its commands from the terminal")]


def source(command: Command) -> list[Effect]:
    """Effects of source: the file's text when it arrives on standard input, else a script."""
    if not command.args:
        return []
    return _script_file(command.args[0], command)


def _inline(text: Value | None, language: str) -> list[Effect]:
    return [Code(text, language)]


def _program_stdin(command: Command, language: str) -> list[Effect]:
    text = command.stdin.script
    return _inline(literal(text) if text is not None else None, language)


def python(command: Command) -> list[Effect]:
    """Effects of python."""
    args = list(command.args)
    while args:
        arg = args.pop(0)
        lead, text = arg.lead, arg.text
        if text in ("--version", "--help", "-V", "-VV", "-h", "--help-all", "--help-env"):
            return []
        if text == "-" or (text is None and not lead.startswith("-")):
            return _program_stdin(command, "python") if text == "-" else [Mutates("a script")]
        if not lead.startswith("-"):
            if text in ("/dev/stdin", "/dev/fd/63", "/dev/fd/0"):
                return _program_stdin(command, "python")
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
                return _inline(value, "python") if letter == "c" else _module(value, args, command)
            if letter in "WX":
                if number == len(lead):
                    args = args[1:]
                break
    if command.piped:
        return _program_stdin(command, "python")
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
    if name in _PYTHON_WRITERS:
        flags = [a.text for a in args]
        if not any(flag in flags for flag in _PYTHON_WRITERS[name]):
            return []
        operands = [a for a in args if not a.lead.startswith("-")]
        if any(f in ("-c", "--create") for f in flags):
            return [Write(operands[0])] if operands else []
        return [Write(v, "merge") for v in operands[1:2] or [literal(".")]]
    known = name.replace("_", "-")
    from bridle.guard.commands.readers import LISTED

    if known in LISTED or known in _MODULE_PROGRAMS:
        return [Run((literal(known), *args), functions=False)]
    return [Mutates(f"the module {name}"), *agent_script(module)]


CODE_OPTIONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    # program: letters that take code, long options that take code, letters that take other values
    "node": ("ep", ("eval", "print"), "rC"),
    "nodejs": ("ep", ("eval", "print"), "rC"),
    "bun": ("ep", ("eval", "print"), ""),
    "ruby": ("e", (), "rICEFTWxKS"),
    "php": ("rBRE", ("run",), "cdzfFtS"),
    "lua": ("e", (), "l"),
    "luajit": ("e", (), "lj"),
    "Rscript": ("e", (), ""),
    "R": ("e", (), "fgd"),
    "julia": ("eE", ("eval", "print"), "LpJt"),
    "elixir": ("e", ("eval", "rpc-eval"), "rS"),
    "erl": ("", ("eval",), ""),
    "scala": ("e", (), ""),
    "groovy": ("e", (), ""),
    "guile": ("c", (), "eslLC"),
    "racket": ("e", ("eval",), "lpr"),
    "sbcl": ("", ("eval", "load"), ""),
    "clojure": ("e", ("eval",), ""),
    "swipl": ("g", (), "tfx"),
    "octave": ("", ("eval",), ""),
    "tclsh": ("", (), ""),
    "expect": ("c", (), "df"),
    "osascript": ("e", (), "lis"),
    "pwsh": ("c", ("Command", "command", "EncodedCommand"), "f"),
    "powershell": ("c", ("Command", "command", "EncodedCommand"), "f"),
    "raku": ("e", (), "I"),
    "deno": ("", (), ""),
    "jshell": ("", (), "R"),
    "irb": ("", (), "rI"),
    "ipython": ("c", (), "im"),
}


def interpreter(command: Command) -> list[Effect]:
    """Effects of an interpreter with code options."""
    letters, names, other = CODE_OPTIONS.get(command.name, ("e", ("eval",), ""))
    # Some spell a long option with one dash, and node bundles -p and -e.
    args = [
        literal(f"-{a.text}") if a.text is not None and a.text[1:] in names
        else literal("-e") if a.text == "-pe" else a
        for a in command.args
    ]  # fmt: skip
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
    if operands and operands[0].text != "-":
        found = agent_script(operands[0])
        return [Mutates(f"the program {operands[0].show()}"), *found]
    if command.piped or (operands and operands[0].text == "-"):
        return _program_stdin(command, command.name)
    return [Mutates(f"an interactive {command.name}")]


def perl(command: Command) -> list[Effect]:
    """Effects of perl, with -i."""
    options = read(command.args, short="eEIMmx", optional="i0lFCDVd", permute=False)
    code = options.values("e", "E")
    if options.has("v", "V") and not code and not options.operands:
        return []
    effects: list[Effect] = [Code(text, "perl") for text in code]
    operands = list(options.operands)
    if not code:
        if operands and operands[0].text != "-":
            return [Mutates(f"the program {operands[0].show()}")]
        return _program_stdin(command, "perl") if command.piped else [Mutates("perl")]
    if options.has("i"):
        effects.extend(Write(operand, "entry") for operand in operands)
    return effects


_EDITOR_VALUES = frozenset({"--cmd", "-S", "--eval", "-eval", "-f", "-l", "--load", "--funcall"})


EDITORS = names("vim vi nvim view ex vimdiff nano emacs emacsclient")


def editor(command: Command) -> list[Effect]:
    """Effects of vim, emacs and the like: the files they open and the commands they are given."""
    effects: list[Effect] = [Mutates("an editor")]
    args = list(command.args)
    while args:
        arg = args.pop(0)
        text = arg.text
        if text in ("--version", "--help"):
            return []
        if text in _EDITOR_VALUES or re.fullmatch(r"-[a-zA-Z]*c", text or ""):
            value = args.pop(0) if args else literal("")
            if text not in ("-S", "-f", "-l", "--load", "--funcall"):
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
    if any(v.text in ("-", "/dev/stdin") for v in options.values("f", "file", "makefile")):
        effects.extend(_program_stdin(command, "make"))
    if any(operand.lead.startswith(("SHELL=", ".SHELLFLAGS=")) for operand in options.operands):
        effects.append(Deny("command-unresolved", "make with another shell"))
    return effects
