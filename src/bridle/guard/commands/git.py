"""git: global options, configuration given in the call, and which subcommand does what."""

import re

import msgspec

from bridle.guard.commands.git_subcommands import BY_WORD, HANDLERS, by_word, config_effects
from bridle.guard.commands.options import read
from bridle.guard.effects import (
    Command,
    Deny,
    Discard,
    Effect,
    Git,
    Mutates,
    Run,
    Shell,
    Unlisted,
    Write,
    hook,
)
from bridle.guard.shell.values import EMPTY, Value, literal, names

READING = names("""
    status log show diff blame annotate grep ls-files ls-tree ls-remote rev-parse rev-list
    merge-base describe shortlog cat-file name-rev for-each-ref show-ref show-branch diff-tree
    diff-index diff-files cherry count-objects fsck verify-commit verify-tag verify-pack whatchanged
    range-diff help version var check-ignore check-attr check-mailmap check-ref-format column
    stripspace fmt-merge-msg get-tar-commit-id patch-id merge-tree request-pull show-index
    """)
"""Subcommands that change nothing, apart from the options looked at in `_reading`."""

READING_OPTIONS = names("""
    abbrev abbrev-commit abbrev-ref absolute-git-dir after ahead-behind all all-match always
    ancestry-path author batch batch-check before branch branches cached cc check cherry cherry-pick
    color color-moved color-words column commit-id committer compact-summary contains context count
    count-objects dangling date date-order debug decorate decorate-refs decorate-refs-exclude
    default deleted dereference describe diff-algorithm diff-filter diff-merges directory dirstat
    dirty dry-run end-of-options error-unmatch exact-match exclude exclude-standard exists exit-code
    extended-regexp files-with-matches files-without-match filter find-copies find-copies-harder
    find-renames first-parent fixed-strings follow follow-symlinks format full full-diff
    full-history full-index full-name full-tree function-context get get-all get-regexp get-url
    get-urlmatch git-common-dir git-dir git-path glob global graph grep group guess head heading
    heads help histogram human-readable ignore-all-space ignore-blank-lines ignore-case
    ignore-cr-at-eol ignore-missing ignore-rev ignore-revs-file ignore-space-at-eol
    ignore-space-change ignore-submodules ignored include-untracked includes incremental independent
    index invert-grep invert-match is-ancestor is-bare-repository is-inside-git-dir
    is-inside-work-tree is-shallow-repository left-only left-right line-number line-porcelain
    line-prefix list local long ls-files mailmap max-count max-depth merge merge-base merge-order
    merged merges minimal mode modified name-only name-status no-ext-diff no-optional-locks no-pager
    no-prefix no-show-signature no-walk notes null numbered numstat objects oneline only-matching
    only-untracked others ours parents parse patch path path-format patience perl-regexp points-at
    porcelain pretty progress q quiet raw recurse-submodules recursive reference reflog
    regexp-ignore-case relative relative-date relative-paths remotes renames reverse revs-only
    right-only root short shortstat show-cdup show-current show-email show-function show-name
    show-notes show-origin show-prefix show-ref show-toplevel simplify-by-decoration since skip sort
    source stage staged stat stat-width stats stdin stdout strict submodule summary symbolic
    symbolic-full-name symref tag tags text textconv theirs threads timestamp topo-order trailers
    type unified unmerged until untracked untracked-files verbose verify version walk-reflogs
    word-diff word-diff-regex word-regexp worktree write-tree z
    """)
"""Options with which a reading subcommand still only reads; the others may write a file, or run
what the repository's configuration names."""

_READING_CONFIG = re.compile(
    r"color\..*|core\.(?:quotepath|abbrev|pager)|diff\.(?:renames|noprefix|algorithm|context"
    r"|mnemonicprefix|colormoved|wserrorhighlight|statgraphwidth)|log\.(?:date|decorate|abbrevcommit"
    r"|follow)|advice\..*|status\.(?:short|branch|showuntrackedfiles|relativepaths)|pager\..*"
    r"|grep\.(?:linenumber|patterntype|extendedregexp)|blame\..*|column\..*|i18n\.logoutputencoding"
)

PUSHING = names("push send-pack http-push receive-pack send-email imap-send svn p4")

_NOT_JUDGED = names("""
    gc prune repack pack-refs maintenance commit-graph multi-pack-index prune-packed replace
    fast-import unpack-objects index-pack pack-objects sparse-checkout update-ref filter-branch
    """)
"""Subcommands of git that no role may use; an alias cannot replace them."""

OBJECTS = names("hash-object mktree mktag commit-tree write-tree merge-file")

_VALUED = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env",
     "--attr-source", "--exec-path"}
)  # fmt: skip

_ELSEWHERE = names(
    "GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_INDEX_FILE GIT_NAMESPACE "
    "GIT_ALTERNATE_OBJECT_DIRECTORIES"
)


class GlobalOptions(msgspec.Struct):
    """What is between `git` and its subcommand, and in the environment."""

    directory: Value | None = None
    pointed: list[Value] = []
    configs: list[tuple[str, Value]] = []
    unknown: bool = False
    other: str = ""
    """An option before the subcommand that changes what git runs."""
    asks: bool = False
    """Whether git is asked for help or its version, and runs nothing of what follows."""


def git(command: Command) -> list[Effect]:
    """Effects of a git call."""
    options, rest = _globals(command)
    if options.asks and not options.unknown:
        return _configured(options)[0]
    if options.unknown or not rest:
        only = [a.text for a in command.args]
        if not options.unknown and all(t in ("--version", "--help", "-h", None) or
                                       (t or "").startswith("--") for t in only):  # fmt: skip
            return []
        if not rest and not options.unknown:
            return []
        return [Deny("command-unresolved", "a git subcommand only known at run time")]
    name = rest[0].text
    if name is None:
        return [Deny("command-unresolved", "a git subcommand only known at run time")]
    args = rest[1:]
    config_effects, aliases = _configured(options)
    if name.lower() in aliases and not _is_known(name):
        return config_effects + _alias(aliases[name.lower()], args, options)
    if [a.text for a in args] in (["--help"], ["-h"]):
        return config_effects
    if name in ("add", "stage") and any(
        k.lower() == "core.excludesfile" for k, _ in options.configs
    ):
        # The call chooses what git ignores: it may be nothing.
        args = [literal("--force"), *args]
    effects = _subcommand(name, args, options, command)
    if not any(isinstance(effect, Git | Deny | Mutates) for effect in effects):
        effects = effects + _unlisted(name, args, options)
    return config_effects + [_placed(effect, options) for effect in effects]


def _unlisted(name: str, args: list[Value], options: GlobalOptions) -> list[Effect]:
    """Options of a reading subcommand, and of git itself, that may do more than read."""
    other = options.other
    for key, value in options.configs:
        harmless = value.text in ("", "cat", "less", "false", "true") or "pager" not in key.lower()
        if not (_READING_CONFIG.fullmatch(key.lower()) and harmless):
            other = other or f"-c {key}"
    for arg in args:
        lead = arg.lead
        if arg.text == "--":
            break
        if lead.startswith("--"):
            spelled = lead[2:].partition("=")[0]
            if (
                spelled not in READING_OPTIONS
                and spelled.removeprefix("no-") not in READING_OPTIONS
            ):
                other = other or f"{name} --{spelled}"
        elif name == "help" and lead.startswith("-") and set(lead) - set("-agcv"):
            other = other or f"help {lead}"
        elif arg.open_start and name not in ("show", "cat-file", "diff", "log", "rev-parse"):
            other = other or f"{name} with an argument only known at run time"
    return [Unlisted(f"git {other}")] if other else []


def _globals(command: Command) -> tuple[GlobalOptions, list[Value]]:
    options = GlobalOptions(pointed=[], configs=[])
    _environment(command, options)
    args = list(command.args)
    while args:
        arg = args[0]
        text, lead = arg.text, arg.lead
        if not lead.startswith("-"):
            if text is None:
                options.unknown = True
            break
        args.pop(0)
        if text in ("--help", "-h", "--version", "-v"):
            options.asks = True
            break
        if lead[:2] in ("-C", "-c") and len(lead) > 2:
            args.insert(0, arg.after(2))
            lead = text = lead[:2]
        name, equals, _ = lead.partition("=")
        value = arg.after(len(name) + 1) if equals else EMPTY
        if name in _VALUED and not equals and name != "--exec-path":
            value = args.pop(0) if args else EMPTY
        if name == "-C":
            if options.directory is not None and not value.lead.startswith("/"):
                value = Value((*options.directory.parts, "/", *value.parts))
            options.directory = value
        elif name in ("--git-dir", "--work-tree", "--namespace"):
            options.pointed.append(value)
        elif name == "-c":
            key, _, _ = value.lead.partition("=")
            options.configs.append((key, value.after(len(key) + 1)))
        elif (name == "--exec-path" and equals) or name in ("-p", "--paginate"):
            options.other = name
        elif name == "--config-env":
            options.other = name
            options.configs.append((value.lead.partition("=")[0], Value(())))
            options.unknown = options.unknown or value.lead.lower().startswith("alias.")
        elif text is None and not equals:
            options.unknown = True
        elif name == "--bare":
            options.pointed.append(literal("."))
    return options, args


def _environment(command: Command, options: GlobalOptions) -> None:
    values = dict(command.env)
    for name in _ELSEWHERE:
        if name in values:
            options.pointed.append(values[name])
    if "GIT_CONFIG_PARAMETERS" in values:
        options.unknown = True
    for name, key in values.items():
        if name.startswith("GIT_CONFIG_KEY_"):
            value = values.get("GIT_CONFIG_VALUE_" + name[15:], EMPTY)
            options.configs.append((key.text if key.text is not None else "alias.?", value))
            options.unknown = options.unknown or key.text is None


def _configured(options: GlobalOptions) -> tuple[list[Effect], dict[str, Value]]:
    effects: list[Effect] = []
    aliases: dict[str, Value] = {}
    for raw, value in options.configs:
        key = raw.lower()
        if "ext::" in key or "ext::" in value.show():
            effects.append(Deny("command-unresolved", "git with a command as a remote"))
        if key.startswith("alias."):
            aliases[key[6:]] = value
        else:
            effects.extend(config_effects(key, value))
    return effects, aliases


def _alias(value: Value, args: list[Value], options: GlobalOptions) -> list[Effect]:
    text = value.text
    if text is None:
        return [Deny("command-unresolved", "a git alias only known at run time")]
    if text.startswith("!"):
        return [Shell(literal(text[1:]), tuple(args))]
    words = [literal(word) for word in text.split()]
    front: list[Value] = []
    if options.directory is not None:
        front = [literal("-C"), options.directory]
    for pointed in options.pointed:
        front += [literal("--git-dir"), pointed]
    return [Run((literal("git"), *front, *words, *args), functions=False)]


def _placed(effect: Effect, options: GlobalOptions) -> Effect:
    """The effect seen from where -C leads."""
    if isinstance(effect, Git):
        return msgspec.structs.replace(
            effect, directory=options.directory, elsewhere=bool(options.pointed)
        )
    if options.directory is None:
        return effect
    if isinstance(effect, Write) and effect.directory is None:
        return msgspec.structs.replace(effect, directory=options.directory)
    if isinstance(effect, Discard | Run | Shell | Mutates):
        return msgspec.structs.replace(effect, directory=options.directory)
    return effect


def _subcommand(
    name: str, args: list[Value], options: GlobalOptions, command: Command
) -> list[Effect]:
    if name in PUSHING:
        return [Deny("git-push", f"git {name} sends work to a remote")]
    if name in READING:
        return _reading(name, args)
    if name in OBJECTS:
        writes = name != "hash-object" or any(re.match(r"-[a-su-z]*w", a.lead) for a in args)
        result: list[Effect] = [Git(name)] if writes else []
        if name == "merge-file":
            given = read(args, short="L", long=("marker-size", "diff-algorithm"))
            result.extend(Write(v) for v in given.operands[:1] if not given.has("p", "stdout"))
        return result
    if name in HANDLERS:
        return HANDLERS[name](args, command)
    if name in BY_WORD:
        return by_word(name, args)
    # gc, replace, filter-branch and all that is not known: it may change what all worktrees share.
    return [Deny("git-shared", f"git {name} is not a subcommand that agents may use")]


def _is_known(name: str) -> bool:
    """Whether git has this subcommand itself; git ignores an alias of that name."""
    known = (READING, PUSHING, OBJECTS, HANDLERS, BY_WORD, _NOT_JUDGED)
    return any(name in table for table in known)


def _reading(name: str, args: list[Value]) -> list[Effect]:
    if name == "grep":
        return _grep(args)
    effects: list[Effect] = []
    known = read(args, long=("output", "upload-pack", "exec"), flags=("lost-found",))
    effects.extend(Write(v) for v in known.values("output"))
    effects.extend(Shell(v) for v in known.values("upload-pack", "exec"))
    if known.has("lost-found") and name == "fsck":
        effects.append(Git("fsck"))
    if any(operand.lead.startswith(("ext::", "fd::")) for operand in known.operands):
        effects.append(Deny("command-unresolved", f"git {name} with a command as its remote"))
    return effects


def _grep(args: list[Value]) -> list[Effect]:
    options = read(args, short="efABCm", long=("open-files-in-pager?",), optional="O")
    pagers = options.values("O", "open-files-in-pager")
    return [hook(v) if v.parts else Mutates("git grep opens a pager") for v in pagers]


def dashed(command: Command) -> list[Effect]:
    """`git-push` and similar, called as programs."""
    return [Run((literal("git"), literal(command.name[4:]), *command.args), functions=False)]
