"""git subcommands that change branches, other refs, configuration and worktrees."""

from collections.abc import Callable

from bridle.guard.commands.options import read
from bridle.guard.effects import Branch, Command, Deny, Effect, Git, Mutates, Run, Shell, Write
from bridle.guard.shell.values import Value, join, literal

Handler = Callable[[list[Value], Command], list[Effect]]


def _shared(what: str) -> list[Effect]:
    return [Git(what), Deny("git-shared", f"git {what} changes what all worktrees share")]


def branch(args: list[Value], command: Command) -> list[Effect]:
    """git branch."""
    options = read(
        args, short="u",
        long=("set-upstream-to", "format", "sort", "contains?", "no-contains?", "merged?",
              "no-merged?", "points-at", "abbrev?", "color?", "column?", "track?"),
        flags=("delete", "move", "copy", "force", "list", "all", "remotes", "show-current",
               "edit-description", "unset-upstream", "verbose", "quiet", "create-reflog",
               "ignore-case", "no-color", "no-column", "no-track", "recurse-submodules"),
    )  # fmt: skip
    operands = options.operands
    if options.has("u", "set-upstream-to", "unset-upstream", "edit-description"):
        return _shared("branch (its configuration)")
    if options.has("d", "D", "delete"):
        if options.has("r", "remotes"):
            return _shared("branch -dr")
        return [Git("branch -d"), *(Branch(o, "deletes") for o in operands)]
    if options.has("m", "M", "move", "c", "C", "copy"):
        return [Git("branch -m"), *(Branch(o, "renames or copies") for o in operands)]
    # Order, format and columns alone do not make a list of it: an operand is a new branch.
    listing = ("l", "list", "a", "all", "r", "remotes", "contains", "no-contains", "merged",
               "no-merged", "points-at", "show-current")  # fmt: skip
    if options.has(*listing) and not options.has("f", "force"):
        return []
    if not operands:
        return []
    return [Git("branch"), Branch(operands[0], "makes or moves")]


def tag(args: list[Value], command: Command) -> list[Effect]:
    """git tag."""
    options = read(
        args, short="mFu", optional="n",
        long=("message", "file", "local-user", "contains?", "no-contains?", "merged?", "no-merged?",
              "points-at", "sort", "format", "cleanup", "column?", "color?"),
        flags=("list", "delete", "verify", "force", "annotate", "sign"),
    )  # fmt: skip
    listing = ("l", "list", "n", "contains", "no-contains", "merged", "no-merged", "points-at",
               "v", "verify")  # fmt: skip
    if options.has(*listing) and not options.has("d", "delete", "f", "a", "m"):
        return []
    return _shared("tag") if options.operands else []


def remote(args: list[Value], command: Command) -> list[Effect]:
    """git remote."""
    words = [a.text for a in args if not a.lead.startswith("-")]
    if not words or words[0] in ("show", "get-url"):
        return []
    if words[0] in ("update", "prune"):
        return [Git("remote update")]
    return _shared(f"remote {words[0]}")


def fetch(args: list[Value], command: Command) -> list[Effect]:
    """git fetch and git pull: remote-tracking refs, and what refspecs name."""
    options = read(
        args, short="jojsXS",
        long=("upload-pack", "depth", "deepen", "shallow-since", "shallow-exclude", "refmap",
              "jobs", "server-option", "negotiation-tip", "filter", "recurse-submodules?",
              "strategy", "strategy-option", "rebase?", "gpg-sign?", "log?"),
        flags=("set-upstream", "prune-tags", "stdin", "prune", "tags"),
    )  # fmt: skip
    effects: list[Effect] = [Git("fetch")]
    if options.has("stdin"):
        effects.append(Deny("git-branch", "git fetch of what its input names"))
    if options.has("set-upstream", "prune-tags", "P"):
        effects.extend(_shared("fetch (tags and configuration)"))
    effects.extend(Shell(v) for v in options.values("upload-pack"))
    for number, operand in enumerate(options.operands):
        if operand.lead.startswith(("ext::", "fd::")):
            effects.append(Deny("command-unresolved", "git fetch with a command as its remote"))
        if (number == 0 and len(options.operands) > 1) or "://" in operand.lead:
            continue
        shown = operand.show()
        if number and ":" in shown:
            target = shown.partition(":")[2]
            if target and not target.startswith("refs/remotes/"):
                effects.append(Branch(literal(target), "moves"))
    return effects


def config(args: list[Value], command: Command) -> list[Effect]:
    """git config: reading is free; the file given by --file may be inside the worktree."""
    options = read(
        args, short="f", long=("file", "blob", "type", "default", "get-color", "get-colorbool",
                               "get-urlmatch", "url", "value", "comment"),
        flags=("get", "get-all", "get-regexp", "list", "unset", "unset-all", "add", "replace-all",
               "rename-section", "remove-section", "edit", "global", "system", "local", "worktree",
               "null", "name-only", "show-origin", "show-scope", "includes", "bool", "int",
               "path"),
    )  # fmt: skip
    writing = ("unset", "unset-all", "add", "replace-all", "rename-section", "remove-section",
               "edit", "e")  # fmt: skip
    words = [o.text for o in options.operands]
    first = words[0] if words else ""
    reads = not options.has(*writing) and (
        options.has("get", "get-all", "get-regexp", "list", "l", "get-urlmatch", "get-color",
                    "get-colorbool", "blob")
        or first in ("get", "list", "get-all", "get-regexp")
        or (len(words) == 1 and first not in ("edit", "set", "unset"))
    )  # fmt: skip
    if reads or not args:
        return []
    files = options.values("f", "file")
    if files:
        return [Mutates("git config --file"), *(Write(v) for v in files)]
    return _shared("config")


def stash(args: list[Value], command: Command) -> list[Effect]:
    """git stash: the list of stashes is one for all worktrees."""
    words = [a.text for a in args if not a.lead.startswith("-")]
    if words and words[0] in ("list", "show"):
        options = read(args, long=("output",))
        return [Write(v) for v in options.values("output")]
    if words and words[0] == "create":
        return [Git("stash create")]
    return _shared("stash")


def notes(args: list[Value], command: Command) -> list[Effect]:
    """git notes."""
    words = [a.text for a in args if not a.lead.startswith("-")]
    changes = {"add", "copy", "append", "edit", "remove", "merge", "prune"}.intersection(words)
    reads = not words or (words[0] in ("list", "show", "get-ref") and not changes)
    return [] if reads else _shared("notes")


def reflog(args: list[Value], command: Command) -> list[Effect]:
    """git reflog."""
    words = [a.text for a in args if not a.lead.startswith("-")]
    if words and words[0] in ("expire", "delete", "drop", "write"):
        return _shared(f"reflog {words[0]}")
    return [Write(v) for v in read(args, long=("output",)).values("output")]


def worktree(args: list[Value], command: Command) -> list[Effect]:
    """git worktree: a new one inside the own worktree at most."""
    words = [a.text for a in args if not a.lead.startswith("-")]
    if not words or words[0] == "list":
        return []
    if words[0] != "add":
        return [Git("worktree"), Deny("git-elsewhere", f"git worktree {words[0]}")]
    position = next(i for i, a in enumerate(args) if a.text == "add")
    options = read(
        args[position + 1 :], short="bB", long=("reason",),
        flags=("detach", "force", "checkout", "no-checkout", "guess-remote", "track", "orphan",
               "lock"),
    )  # fmt: skip
    effects: list[Effect] = [Git("worktree add")]
    effects.extend(Write(v, "merge") for v in options.operands[:1])
    named = options.values("b", "B")
    effects.extend(Branch(v, "makes") for v in named)
    if not named and not options.has("detach", "d") and options.operands:
        if len(options.operands) > 1:
            effects.append(Branch(options.operands[1], "checks out"))
        else:
            name = options.operands[0].show().rstrip("/").rpartition("/")[2]
            effects.append(Branch(literal(name), "makes"))
    return effects


def update_ref(args: list[Value], command: Command) -> list[Effect]:
    """git update-ref."""
    options = read(args, short="m", flags=("stdin", "no-deref", "create-reflog"))
    if options.has("stdin"):
        return _shared("update-ref --stdin")
    if not options.operands:
        return []
    ref = options.operands[0]
    if ref.text == "HEAD":
        return [Git("update-ref HEAD")]
    return [Git("update-ref"), Branch(ref, "moves or deletes")]


def symbolic_ref(args: list[Value], command: Command) -> list[Effect]:
    """git symbolic-ref."""
    options = read(args, short="m", flags=("delete", "quiet", "short"))
    if options.has("d", "delete"):
        return _shared("symbolic-ref -d")
    if len(options.operands) < 2:
        return []
    if options.operands[0].text != "HEAD":
        return _shared(f"symbolic-ref {options.operands[0].show()}")
    return [Git("symbolic-ref"), Branch(options.operands[1], "switches to")]


def submodule(args: list[Value], command: Command) -> list[Effect]:
    """git submodule."""
    words = [a.text or "" for a in args if not a.lead.startswith("-")]
    first = words[0] if words else "status"
    if first in ("status", "summary"):
        return []
    if first == "foreach":
        position = next(i for i, a in enumerate(args) if a.text == "foreach")
        rest = [a for a in args[position + 1 :] if a.text not in ("--recursive", "--quiet", "-q")]
        pieces = [piece for value in rest for piece in (*value.parts, " ")]
        return [Shell(join(list(pieces)))] if rest else []
    if first == "update" and not any(a.text == "--init" for a in args):
        return [Git("submodule update")]
    return _shared(f"submodule {first}")


def bisect(args: list[Value], command: Command) -> list[Effect]:
    """git bisect."""
    words = [a.text for a in args]
    if not words or words[0] in ("log", "view", "visualize", "help", "terms"):
        return []
    effects: list[Effect] = [Git("bisect")]
    if words[0] == "run":
        effects.append(Run(tuple(args[1:]), functions=False))
    return effects


def lfs(args: list[Value], command: Command) -> list[Effect]:
    """git lfs."""
    words = [a.text for a in args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    if first in ("push", "pre-push"):
        return [Deny("git-push", "git lfs push sends files to a remote")]
    if first == "logs" and "clear" in words:
        return _shared("lfs logs clear")
    if first in ("ls-files", "status", "env", "logs", "version", "help", "", "locks", "pointer"):
        return []
    if first in ("install", "uninstall", "update", "lock", "unlock", "prune", "migrate"):
        return _shared(f"lfs {first}")
    return [Git(f"lfs {first}")]


def subtree(args: list[Value], command: Command) -> list[Effect]:
    """git subtree: it sends work to a remote, or makes branches, unless it takes from one."""
    takes = any(a.text in ("add", "merge", "pull") for a in args)
    takes = takes and not any(a.text in ("push", "split") for a in args)
    return [Git("subtree")] if takes else [Deny("git-push", "git subtree sends work to a remote")]


HANDLERS: dict[str, Handler] = {
    "branch": branch, "tag": tag, "remote": remote, "fetch": fetch, "pull": fetch,
    "config": config, "stash": stash, "notes": notes, "reflog": reflog, "worktree": worktree,
    "update-ref": update_ref, "symbolic-ref": symbolic_ref, "submodule": submodule,
    "bisect": bisect, "lfs": lfs, "subtree": subtree,
}  # fmt: skip
