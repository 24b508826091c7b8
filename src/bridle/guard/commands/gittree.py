"""git subcommands that change the working tree, the index, the own branch."""

import os
import re
from collections.abc import Callable

from bridle.guard.commands.files import patched
from bridle.guard.commands.options import read
from bridle.guard.effects import (
    Branch,
    Command,
    Deny,
    Discard,
    Effect,
    Git,
    Shell,
    Write,
)
from bridle.guard.shell.values import Value, literal

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
        before, short="bB",
        long=("orphan", "conflict", "pathspec-from-file", "track?"),
        flags=("force", "detach", "patch", "ours", "theirs", "merge", "quiet", "guess", "no-guess",
               "no-track", "ignore-other-worktrees", "recurse-submodules", "overlay", "no-overlay",
               "progress", "no-progress"),
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
        return [*effects, Deny("git-branch", "git checkout - leads to a branch not named")]
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
        flags=("discard-changes", "force", "detach", "guess", "no-guess", "merge", "quiet",
               "no-track", "ignore-other-worktrees", "recurse-submodules"),
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
        flags=("staged", "worktree", "patch", "ours", "theirs", "merge", "quiet", "overlay",
               "no-overlay", "ignore-unmerged", "progress", "ignore-skip-worktree-bits"),
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
    options = read(
        before, flags=("soft", "mixed", "hard", "merge", "keep", "quiet", "patch", "no-refresh",
                       "refresh", "pathspec-from-file", "intent-to-add", "recurse-submodules"),
    )  # fmt: skip
    if options.has("hard", "merge"):
        return [Deny("git-reset", "git reset --hard throws uncommitted work away")]
    if options.open_options and not options.has("soft", "mixed", "keep"):
        return [Git("reset"), Deny("command-unresolved", "git reset with unknown options")]
    if paths and options.operands and options.operands[0].text not in ("HEAD", "@"):
        # Entries of another commit are taken into the index.
        return [Git("reset", forced=tuple(paths))]
    return [Git("reset")]


def read_tree(args: list[Value], command: Command) -> list[Effect]:
    """git read-tree: with -u it is a hard reset."""
    options = read(args, long=("prefix", "index-output"), flags=("reset", "empty", "dry-run"))
    if options.has("u"):
        return [Deny("git-reset", "git read-tree -u overwrites the working tree")]
    effects: list[Effect] = [Git("read-tree")]
    effects.extend(Write(v, "merge") for v in options.values("prefix"))
    return effects + [Write(v) for v in options.values("index-output") if v.parts]


def checkout_index(args: list[Value], command: Command) -> list[Effect]:
    """git checkout-index."""
    options = read(args, long=("prefix", "stage"), flags=("all", "force", "stdin", "temp"))
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
    options = read(before, short="e", long=("exclude",), flags=("force", "dry-run", "interactive"))
    if options.has("n", "dry-run"):
        return []
    named = options.operands + (paths or [])
    if not named:
        return [Git("clean"), Deny("git-reset", "git clean removes all untracked work")]
    return [Git("clean"), *(Write(v, "tree") for v in named), *map(Discard, named)]


def remove(args: list[Value], command: Command) -> list[Effect]:
    """git rm."""
    before, paths = _split(args)
    options = read(before, long=("pathspec-from-file",), flags=("cached", "force", "dry-run"))
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
    options = read(before, long=("pathspec-from-file", "chmod"), flags=("force", "all", "dry-run"))
    forced: tuple[Value, ...] = ()
    if options.has("f", "force") and not options.has("n", "dry-run"):
        forced = tuple(options.operands + (paths or [])) or (literal("."),)
    return [Git("add", commits=True, forced=forced)]


def commit(args: list[Value], command: Command) -> list[Effect]:
    """git commit."""
    return [Git("commit", commits=True)]


def own_branch(args: list[Value], command: Command) -> list[Effect]:
    """merge, cherry-pick, revert, am and the like: they change the own branch and tree."""
    return [Git("merge")]


def rebase(args: list[Value], command: Command) -> list[Effect]:
    """git rebase: --exec runs commands; a second operand is the branch that moves."""
    options = read(
        args, short="xsXC",
        long=("exec", "onto", "strategy", "strategy-option", "whitespace", "empty", "gpg-sign?",
              "keep-base?", "rebase-merges?"),
        flags=("interactive", "continue", "abort", "skip", "quit", "autosquash", "autostash",
               "root", "update-refs", "no-autostash", "edit-todo", "show-current-patch"),
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
    """git apply: git itself keeps it inside the tree, unless an option lifts that."""
    options = read(
        args, short="pCX", long=("directory", "exclude", "include", "build-fake-ancestor",
                                 "whitespace"),
        flags=("check", "stat", "numstat", "summary", "apply", "unsafe-paths", "index", "cached",
               "reverse", "reject", "3way"),
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
        args, short="pCS", long=("directory", "exclude", "include", "whitespace", "patch-format"),
        flags=("continue", "abort", "skip", "quit", "3way", "signoff", "keep", "interactive"),
    )  # fmt: skip
    places = options.values("directory")
    effects: list[Effect] = [Git("am"), *(Write(v, "merge") for v in places)]
    if not options.operands:
        effects.extend(patched(command, options.values("p"), 1, places))
    return effects


HANDLERS: dict[str, Handler] = {
    "checkout": checkout, "switch": switch, "restore": restore, "reset": reset,
    "read-tree": read_tree, "checkout-index": checkout_index, "clean": clean, "rm": remove,
    "mv": move, "add": add, "stage": add, "commit": commit, "merge": own_branch,
    "cherry-pick": own_branch, "revert": own_branch, "am": mailed, "rebase": rebase, "apply": apply,
}  # fmt: skip
