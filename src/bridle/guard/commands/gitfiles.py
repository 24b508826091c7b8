"""git subcommands that write files or make repositories."""

import re
from collections.abc import Callable

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Effect, Git, Mutates, Shell, Write
from bridle.guard.shell.values import EMPTY, Value, literal

Handler = Callable[[list[Value], Command], list[Effect]]


def clone(args: list[Value], command: Command) -> list[Effect]:
    """git clone: the new directory."""
    from bridle.guard.commands.git import config_effects

    options = read(
        args, short="boucj",
        long=("branch", "origin", "upload-pack", "config", "template", "reference", "depth",
              "separate-git-dir", "shallow-since", "jobs", "filter", "reference-if-able",
              "server-option", "bundle-uri", "recurse-submodules?"),
    )  # fmt: skip
    effects: list[Effect] = [Mutates("git clone")]
    effects.extend(Shell(v) for v in options.values("u", "upload-pack"))
    effects.extend(Write(v, "merge") for v in options.values("separate-git-dir"))
    for pair in options.values("c", "config"):
        key = pair.lead.partition("=")[0]
        effects.extend(config_effects(key.lower(), pair.after(len(key) + 1)))
    if options.operands and options.operands[0].lead.startswith(("ext::", "fd::")):
        effects.append(Deny("command-unresolved", "git clone with a command as its remote"))
    if len(options.operands) > 1:
        effects.append(Write(options.operands[1], "merge"))
    elif options.operands:
        name = options.operands[0].show().rstrip("/").rpartition("/")[2].rpartition(":")[2]
        effects.append(Write(literal(name.removesuffix(".git") or "."), "merge"))
    return effects


def init(args: list[Value], command: Command) -> list[Effect]:
    """git init: in a new directory; never over the worktree's own link."""
    options = read(args, short="b", long=("template", "separate-git-dir", "initial-branch",
                                          "object-format", "shared?", "ref-format"))  # fmt: skip
    effects: list[Effect] = [Mutates("git init")]
    effects.extend(Write(v, "merge") for v in options.values("separate-git-dir"))
    if options.operands:
        place = options.operands[0]
        effects.append(Write(Value((*place.parts, "/.git")), "merge"))
    else:
        effects.append(Write(literal(".git"), "merge"))
    return effects


def archive(args: list[Value], command: Command) -> list[Effect]:
    """git archive."""
    options = read(args, short="o", long=("output", "format", "prefix", "remote", "exec",
                                          "add-file", "mtime"))  # fmt: skip
    effects: list[Effect] = [Shell(v) for v in options.values("exec")]
    return effects + [Write(v) for v in options.values("o", "output")]


def bundle(args: list[Value], command: Command) -> list[Effect]:
    """git bundle."""
    words = read(args, long=("version",)).operands
    if not words or words[0].text in ("verify", "list-heads"):
        return []
    if words[0].text == "create":
        return [Write(v) for v in words[1:2] if v.text != "-"]
    return [Git("bundle unbundle")]


def format_patch(args: list[Value], command: Command) -> list[Effect]:
    """git format-patch."""
    options = read(
        args, short="ov", long=("output-directory", "output", "start-number", "subject-prefix",
                                "cover-from-description", "reroll-count", "in-reply-to?", "to",
                                "cc", "suffix", "base", "range-diff", "interdiff"),
        flags=("stdout", "numbered", "cover-letter", "signoff", "zero-commit"),
    )  # fmt: skip
    places = options.values("o", "output-directory")
    effects: list[Effect] = [Write(v, "merge") for v in places]
    effects.extend(Write(v) for v in options.values("output"))
    if not options.has("stdout") and not effects:
        effects.append(Write(literal("."), "merge"))
    return effects


def trailers(args: list[Value], command: Command) -> list[Effect]:
    """git interpret-trailers."""
    options = read(args, long=("trailer", "where", "if-exists", "if-missing"), flags=("in-place",))
    return [Write(v) for v in options.operands] if options.has("in-place") else []


def update_index(args: list[Value], command: Command) -> list[Effect]:
    """git update-index: adds paths to the index, ignored ones too, or entries that it is given."""
    paths: list[Value] = []
    rest = list(reversed(args))
    while rest:
        arg = rest.pop()
        lead = arg.lead
        name, equals, _ = lead.partition("=")
        if len(name) > 3 and "--cacheinfo".startswith(name):
            entry = arg.after(len(name) + 1) if equals else rest.pop() if rest else EMPTY
            if "," in entry.lead:
                paths.append(entry.after(_path_start(entry.lead)))
            elif len(rest) >= 2:
                rest.pop()
                paths.append(rest.pop())
        elif len(name) > 4 and "--index-info".startswith(name):
            if command.stdin.script is None:
                return [Git("update-index"), Deny("path-unresolved", "git --index-info of entries "
                                                  "only known at run time")]  # fmt: skip
            lines = command.stdin.script.splitlines()
            paths.extend(literal(re.split(r"[\t ]", line)[-1]) for line in lines)
        elif name == "--stdin":
            paths.extend(command.stdin.lines)
        elif arg.text == "--":
            paths.extend(reversed(rest))
            break
        elif not lead.startswith("-"):
            paths.append(arg)
    return [Git("update-index", forced=tuple(paths))]


def _path_start(entry: str) -> int:
    """Where the path begins in `mode,object,path`."""
    first = entry.find(",") + 1
    return entry.find(",", first) + 1 or first


HANDLERS: dict[str, Handler] = {
    "clone": clone, "init": init, "init-db": init, "archive": archive, "bundle": bundle,
    "format-patch": format_patch, "interpret-trailers": trailers, "update-index": update_index,
}  # fmt: skip
