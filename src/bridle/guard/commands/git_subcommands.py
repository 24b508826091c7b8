"""git subcommands that change something: files, the index, branches, what all worktrees share.

A handler names the options that matter and those that take a value. An abbreviated option counts as
every named option that it may mean.
"""

import os
import re
from collections.abc import Callable

import msgspec

from bridle.guard.commands.files import patched
from bridle.guard.commands.options import read
from bridle.guard.effects import (
    Branch,
    Command,
    Deny,
    Discard,
    Effect,
    Git,
    Mutates,
    Run,
    Shell,
    Write,
    hook,
)
from bridle.guard.shell.values import EMPTY, Value, join, literal, names

Handler = Callable[[list[Value], Command], list[Effect]]

_COMMITISH = re.compile(r"(HEAD|@)([~^@{].*)?\Z|[0-9a-f]{7,64}\Z|.*[~^]\d*\Z|(?=.*\}\Z).*?@\{")


def _split(args: list[Value]) -> tuple[list[Value], list[Value] | None]:
    """Arguments before and after `--`."""
    for number, arg in enumerate(args):
        if arg.text == "--":
            return args[:number], args[number + 1 :]
    return args, None


def _is_path(value: Value, command: Command) -> bool:
    text = value.text
    if text is None:
        return value.holds("glob") or value.holds("rel")
    if text in (".", "..") or text.startswith((":", "./", "../", "/")) or text.endswith("/"):
        return True
    return any(os.path.lexists(f"{d}/{text}") for d in command.directories if d is not None)


_WHOLE = "checks out over all uncommitted work"


def checkout(args: list[Value], command: Command) -> list[Effect]:
    """git checkout: of a branch, or of files."""
    before, paths = _split(args)
    options = read(
        before, short="bB", long=("orphan", "conflict", "pathspec-from-file", "track?"),
        flags=("force", "detach", "patch", "ours", "theirs"),
    )  # fmt: skip
    effects: list[Effect] = [Git("checkout")]
    operands = list(options.operands)
    if options.has("f", "force") and not paths:
        effects.append(Deny("git-reset", f"git checkout --force {_WHOLE}"))
    if options.has("pathspec-from-file"):
        effects.append(Deny("path-unresolved", "git checkout of paths from a file"))
    named = options.values("b", "B", "orphan")
    if named:
        return effects + [Branch(v, "makes") for v in named]
    if paths is not None:
        return effects + [Discard(p) for p in paths] + _patch_all(options.has("p", "patch"), paths)
    if options.has("t", "track") and operands:
        return [*effects, Branch(literal(_after_remote(operands[0])), "makes")]
    if options.has("p", "patch"):
        return effects + _patch_all(True, operands[1:])
    if not operands or options.has("detach", "d"):
        return effects
    if options.has("ours", "theirs", "2", "3"):
        # A side of a conflict can only be taken for files.
        return effects + [Discard(p) for p in operands]
    first = operands[0]
    if len(operands) > 1:
        tail: list[Effect] = [Discard(p) for p in operands[1:]]
        if _is_path(first, command):
            tail.append(Discard(first))
        return effects + tail
    if first.text == "-":
        return [*effects, Deny("git-branch", "git checkout - switches to an unnamed branch")]
    if first.text is not None and _COMMITISH.match(first.text):
        return effects
    if _is_path(first, command):
        return [*effects, Discard(first)]
    return [*effects, Branch(first, "switches to")]


def _patch_all(patch: bool, paths: list[Value]) -> list[Effect]:
    if patch and not paths:
        return [Deny("git-reset", "git discards parts of the whole tree")]
    return []


def _after_remote(value: Value) -> str:
    return value.show().partition("/")[2] or value.show()


def switch(args: list[Value], command: Command) -> list[Effect]:
    """git switch."""
    options = read(
        args, short="cC", long=("create", "force-create", "orphan", "conflict", "track?"),
        flags=("discard-changes", "force", "detach"),
    )  # fmt: skip
    effects: list[Effect] = [Git("switch")]
    if options.has("f", "force", "discard-changes"):
        effects.append(Deny("git-reset", f"git switch --discard-changes {_WHOLE}"))
    named = options.values("c", "C", "create", "force-create", "orphan")
    if named:
        return effects + [Branch(v, "makes") for v in named]
    if options.has("t", "track") and options.operands:
        return [*effects, Branch(literal(_after_remote(options.operands[0])), "makes")]
    if options.has("d", "detach"):
        return effects
    return effects + [Branch(v, "switches to") for v in options.operands[:1]]


def restore(args: list[Value], command: Command) -> list[Effect]:
    """git restore."""
    before, paths = _split(args)
    options = read(
        before, short="s", long=("source", "conflict", "pathspec-from-file"),
        flags=("staged", "worktree", "patch"),
    )  # fmt: skip
    effects: list[Effect] = [Git("restore")]
    if options.has("S", "staged") and not options.has("W", "worktree"):
        taken = options.operands + (paths or []) if options.has("s", "source") else []
        return [Git("restore", forced=tuple(taken))]
    named = options.operands + (paths or [])
    if options.has("pathspec-from-file"):
        effects.append(Deny("path-unresolved", "git restore of paths from a file"))
    return effects + [Discard(p) for p in named] + _patch_all(options.has("p", "patch"), named)


def reset(args: list[Value], command: Command) -> list[Effect]:
    """git reset: never --hard."""
    before, paths = _split(args)
    options = read(before, flags=("soft", "mixed", "hard", "merge", "keep"))
    if options.has("hard", "merge"):
        return [Deny("git-reset", "git reset --hard discards uncommitted work")]
    if options.open_options and not options.has("soft", "mixed", "keep"):
        return [Git("reset"), Deny("command-unresolved", "git reset with unknown options")]
    if paths and options.operands and options.operands[0].text not in ("HEAD", "@"):
        # Entries of another commit are taken into the index.
        return [Git("reset", forced=tuple(paths))]
    return [Git("reset")]


def read_tree(args: list[Value], command: Command) -> list[Effect]:
    """git read-tree: with -u it is a hard reset."""
    options = read(args, long=("prefix", "index-output"))
    if options.has("u"):
        return [Deny("git-reset", "git read-tree -u overwrites the working tree")]
    effects: list[Effect] = [Git("read-tree")]
    effects.extend(Write(v, "merge") for v in options.values("prefix"))
    return effects + [Write(v) for v in options.values("index-output") if v.parts]


def checkout_index(args: list[Value], command: Command) -> list[Effect]:
    """git checkout-index."""
    options = read(args, long=("prefix", "stage"), flags=("all", "force", "stdin"))
    prefixes = options.values("prefix")
    effects: list[Effect] = [Git("checkout-index")]
    if prefixes:
        return effects + [Write(v, "merge") for v in prefixes]
    if options.has("a", "all", "stdin") and options.has("f", "force"):
        return [*effects, Deny("git-reset", "git checkout-index overwrites the whole tree")]
    return effects + [Discard(v) for v in options.operands]


def clean(args: list[Value], command: Command) -> list[Effect]:
    """git clean: only of named paths."""
    before, paths = _split(args)
    options = read(before, short="e", long=("exclude",), flags=("dry-run",))
    if options.has("n", "dry-run"):
        return []
    named = options.operands + (paths or [])
    if not named:
        return [Git("clean"), Deny("git-reset", "git clean removes all untracked work")]
    return [Git("clean"), *(Write(v, "tree") for v in named), *map(Discard, named)]


def remove(args: list[Value], command: Command) -> list[Effect]:
    """git rm."""
    before, paths = _split(args)
    options = read(before, long=("pathspec-from-file",), flags=("cached", "dry-run"))
    if options.has("n", "dry-run"):
        return []
    if options.has("cached"):
        return [Git("rm --cached", forced=tuple(options.operands + (paths or [])))]
    effects: list[Effect] = [Git("rm")]
    named = options.operands + (paths or [])
    return [*effects, *(Write(v, "tree") for v in named), *map(Discard, named)]


def move(args: list[Value], command: Command) -> list[Effect]:
    """git mv."""
    operands = [a for a in args if not a.lead.startswith("-")]
    effects: list[Effect] = [Git("mv"), *(Write(v, "tree") for v in operands[:-1])]
    return effects + [Write(v, "entry") for v in operands[-1:]]


def add(args: list[Value], command: Command) -> list[Effect]:
    """git add, which coordinators may run too."""
    before, paths = _split(args)
    options = read(before, long=("pathspec-from-file", "chmod"), flags=("force", "dry-run"))
    forced: tuple[Value, ...] = ()
    if options.has("f", "force") and not options.has("n", "dry-run"):
        forced = tuple(options.operands + (paths or [])) or (literal("."),)
    return [Git("add", commits=True, forced=forced)]


def rebase(args: list[Value], command: Command) -> list[Effect]:
    """git rebase: --exec runs commands; a second operand is the branch that moves."""
    options = read(
        args, short="xsXC",
        long=("exec", "onto", "strategy", "strategy-option", "whitespace", "empty", "gpg-sign?",
              "keep-base?", "rebase-merges?"),
        flags=("root", "update-refs"),
    )  # fmt: skip
    effects: list[Effect] = [Git("rebase")]
    effects.extend(Shell(v) for v in options.values("x", "exec"))
    if options.has("update-refs"):
        effects.append(Deny("git-branch", "git rebase --update-refs moves other branches"))
    position = 0 if options.has("root") else 1
    effects.extend(
        Branch(v, "moves")
        for v in options.operands[position : position + 1]
        if v.text is None or not _COMMITISH.match(v.text)
    )
    return effects


def apply(args: list[Value], command: Command) -> list[Effect]:
    """git apply: git itself keeps it inside the tree, unless an option disables that."""
    options = read(
        args, short="pCX",
        long=("directory", "exclude", "include", "build-fake-ancestor", "whitespace"),
        flags=("check", "stat", "numstat", "summary", "apply", "unsafe-paths"),
    )  # fmt: skip
    looks = options.has("check", "stat", "numstat", "summary") and not options.has("apply")
    if looks:
        return []
    effects: list[Effect] = [Git("apply")]
    if options.has("unsafe-paths"):
        effects.append(Deny("path-outside", "git apply --unsafe-paths"))
    places = options.values("directory")
    effects.extend(Write(v, "merge") for v in places)
    if not options.operands or any(o.text == "-" for o in options.operands):
        effects.extend(patched(command, options.values("p"), 1, places))
    return effects + [Write(v) for v in options.values("build-fake-ancestor")]


def mailed(args: list[Value], command: Command) -> list[Effect]:
    """git am: commits what patches by mail change."""
    options = read(
        args, short="pCS", long=("directory", "exclude", "include", "whitespace", "patch-format")
    )
    places = options.values("directory")
    effects: list[Effect] = [Git("am"), *(Write(v, "merge") for v in places)]
    if not options.operands:
        effects.extend(patched(command, options.values("p"), 1, places))
    return effects


def _words(args: list[Value]) -> list[str]:
    """The arguments that are not options."""
    return [a.text or "" for a in args if not a.lead.startswith("-")]


def _shared(what: str) -> list[Effect]:
    return [Git(what), Deny("git-shared", f"git {what} changes what all worktrees share")]


def branch(args: list[Value], command: Command) -> list[Effect]:
    """git branch."""
    options = read(
        args, short="u",
        long=("set-upstream-to", "format", "sort", "contains?", "no-contains?", "merged?",
              "no-merged?", "points-at", "abbrev?", "color?", "column?", "track?"),
        flags=("delete", "move", "copy", "force", "list", "all", "remotes", "show-current",
               "edit-description", "unset-upstream"),
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
        flags=("list", "delete", "verify"),
    )  # fmt: skip
    listing = ("l", "list", "n", "contains", "no-contains", "merged", "no-merged", "points-at",
               "v", "verify")  # fmt: skip
    if options.has(*listing) and not options.has("d", "delete", "f", "a", "m"):
        return []
    return _shared("tag") if options.operands else []


def fetch(args: list[Value], command: Command) -> list[Effect]:
    """git fetch and git pull: remote-tracking refs, and what refspecs name."""
    options = read(
        args, short="jojsXS",
        long=("upload-pack", "depth", "deepen", "shallow-since", "shallow-exclude", "refmap",
              "jobs", "server-option", "negotiation-tip", "filter", "recurse-submodules?",
              "strategy", "strategy-option", "rebase?", "gpg-sign?", "log?"),
        flags=("set-upstream", "prune-tags", "stdin", "prune"),
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


_WRITING_CONFIG = ("unset", "unset-all", "add", "replace-all", "rename-section", "remove-section",
                   "edit")  # fmt: skip


def config(args: list[Value], command: Command) -> list[Effect]:
    """git config: reading is free; the file given by --file may be inside the worktree."""
    options = read(
        args, short="f", long=("file", "blob", "type", "default", "get-color", "get-colorbool",
                               "get-urlmatch", "url", "value", "comment"),
        flags=("get", "get-all", "get-regexp", "list", *_WRITING_CONFIG),
    )  # fmt: skip
    words = [o.text for o in options.operands]
    first = words[0] if words else ""
    reads = not options.has(*_WRITING_CONFIG, "e") and (
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


def worktree(args: list[Value], command: Command) -> list[Effect]:
    """git worktree: a new one only inside the agent's own worktree."""
    words = _words(args)
    if not words or words[0] == "list":
        return []
    if words[0] != "add":
        return [Git("worktree"), Deny("git-elsewhere", f"git worktree {words[0]}")]
    position = next(i for i, a in enumerate(args) if a.text == "add")
    options = read(args[position + 1 :], short="bB", long=("reason",), flags=("detach",))
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


def symbolic_ref(args: list[Value], command: Command) -> list[Effect]:
    """git symbolic-ref."""
    options = read(args, short="m", flags=("delete",))
    if options.has("d", "delete"):
        return _shared("symbolic-ref -d")
    if len(options.operands) < 2:
        return []
    if options.operands[0].text != "HEAD":
        return _shared(f"symbolic-ref {options.operands[0].show()}")
    return [Git("symbolic-ref"), Branch(options.operands[1], "switches to")]


class Words(msgspec.Struct, frozen=True):
    """A subcommand whose first word says what it does; other words change what is shared."""

    reads: frozenset[str]
    """With these it only reads; the empty text stands for no word."""
    own: frozenset[str] = frozenset()
    """With these it changes the agent's own worktree and branch."""


BY_WORD = {
    "remote": Words(names("show get-url") | {""}, names("update prune")),
    "stash": Words(names("list show"), names("create")),
    "notes": Words(names("list show get-ref") | {""}),
    "lfs": Words(names("ls-files status env logs version help locks pointer") | {""},
                 names("pull fetch checkout track untrack clean smudge fsck dedup")),
    "submodule": Words(names("status summary") | {""}, names("update")),
    "subtree": Words(frozenset(), names("add merge pull")),
}  # fmt: skip
_SHARING = names("""
    add copy append edit remove merge prune clear expire delete drop write push split --init
    """)
"""Words that change what is shared, wherever they are."""


def by_word(name: str, args: list[Value]) -> list[Effect]:
    """A subcommand of `BY_WORD`."""
    row, words = BY_WORD[name], _words(args)
    if name == "subtree":
        # Its options with a value come before its word.
        words = [word for word in words if word in row.own or word in _SHARING]
    first = words[0] if words else ""
    others = {a.text or "" for a in args} - {first}
    if first == "foreach" and name == "submodule":
        position = next(i for i, a in enumerate(args) if a.text == "foreach")
        rest = [a for a in args[position + 1 :] if a.text not in ("--recursive", "--quiet", "-q")]
        pieces = [piece for value in rest for piece in (*value.parts, " ")]
        return [Shell(join(list(pieces)))] if rest else []
    if first in row.own and not others & _SHARING:
        return [Git(f"{name} {first}")]
    if first in row.reads and not others & _SHARING:
        return [Write(v) for v in read(args, long=("output",)).values("output")]
    return _shared(f"{name} {first}".strip())


def reflog(args: list[Value], command: Command) -> list[Effect]:
    """git reflog: it shows a branch's history unless its first word changes it."""
    if _SHARING.intersection(_words(args)[:1]):
        return _shared("reflog")
    return [Write(v) for v in read(args, long=("output",)).values("output")]


def bisect(args: list[Value], command: Command) -> list[Effect]:
    """git bisect."""
    words = [a.text for a in args]
    if not words or words[0] in ("log", "view", "visualize", "help", "terms"):
        return []
    effects: list[Effect] = [Git("bisect")]
    if words[0] == "run":
        effects.append(Run(tuple(args[1:]), functions=False))
    return effects


_RUNNING_KEYS = (
    "core.pager", "pager.", "core.editor", "sequence.editor", "core.sshcommand", "diff.external",
    ".textconv", "core.fsmonitor", "credential.helper", ".helper", "gpg.program", ".program",
    ".clean", ".smudge", ".process", ".driver", ".cmd", "core.askpass", "uploadpack.",
    ".uploadpack", ".receivepack", "core.gitproxy", "web.browser", ".command", "sendemail.",
    "diff.tool", "merge.tool", "core.alternaterefscommand", "trailer.", "interactive.difffilter",
    "ssh.variant", "gpg.",
)  # fmt: skip
"""Configuration keys (whole, or parts) whose value git runs as a command."""


def config_effects(key: str, value: Value) -> list[Effect]:
    """What a configuration value given in a call makes git run."""
    if key in ("core.hookspath", "core.worktree", "init.templatedir"):
        if value.text == "/dev/null":
            return []
        return [Deny("git-shared", f"git with {key} set")]
    if key.startswith(("include", "protocol.ext")) or key in (
        "protocol.allow",
        "rebase.updaterefs",
    ):
        return [Deny("git-shared", f"git with {key} set")]
    if any(key == k or (k[0] == "." and key.endswith(k)) or (k[-1] == "." and key.startswith(k))
           for k in _RUNNING_KEYS):  # fmt: skip
        text = (value.text or "").lower()
        if value.text is not None and text in ("", "true", "false", "0", "1", "less", "cat"):
            return []
        if text.startswith("!"):
            return [hook(value.after(1))]
        return [hook(value)]
    return []


def clone(args: list[Value], command: Command) -> list[Effect]:
    """git clone: the new directory."""
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
        flags=("stdout",),
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
    """git update-index: adds paths to the index, ignored ones too, or given entries."""
    paths: list[Value] = []
    rest = list(reversed(args))
    while rest:
        arg = rest.pop()
        lead = arg.lead
        name, equals, _ = lead.partition("=")
        if len(name) > 3 and "--cacheinfo".startswith(name):
            entry = arg.after(len(name) + 1) if equals else rest.pop() if rest else EMPTY
            if "," in entry.lead:
                # mode,object,path
                paths.append(entry.after(len(entry.lead) - len(entry.lead.split(",", 2)[-1])))
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


HANDLERS: dict[str, Handler] = {
    "checkout": checkout, "switch": switch, "restore": restore, "reset": reset,
    "read-tree": read_tree, "checkout-index": checkout_index, "clean": clean, "rm": remove,
    "mv": move, "add": add, "stage": add, "am": mailed, "rebase": rebase, "apply": apply,
    "commit": lambda args, command: [Git("commit", commits=True)],
    "branch": branch, "tag": tag, "fetch": fetch, "pull": fetch, "config": config,
    "reflog": reflog, "worktree": worktree, "symbolic-ref": symbolic_ref, "bisect": bisect,
    "clone": clone, "init": init, "init-db": init, "archive": archive, "bundle": bundle,
    "format-patch": format_patch, "interpret-trailers": trailers, "update-index": update_index,
    # They change only the agent's own branch and tree.
    **dict.fromkeys(("merge", "cherry-pick", "revert"), lambda args, command: [Git("merge")]),
}  # fmt: skip
