"""git: global options, configuration given in the call, and which subcommand does what."""

import re

import msgspec

from bridle.guard.commands.git_subcommands import HANDLERS, config_effects
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
    abbrev abbrev-commit abbrev-ref absolute-git-dir after aggregate-errors ahead-behind all
    all-match all-progress allow-unknown-type always ancestry-path anchored and annotate-stdin array
    attribute author author-date-order base basic-regexp batch batch-all-objects batch-check
    batch-command before bisect blob bool bool-or-int boundary branch branch-name branches break
    break-rewrites buffer cached candidates cc check cherry cherry-mark cherry-pick children
    clear-decorations color color-moved color-words column combined-all-paths commit-id committer
    compact-summary connectivity-only contains context count count-objects creation-factor
    cumulative current dangling date date-order debug decorate decorate-refs decorate-refs-exclude
    deduplicate default deleted dense dereference describe diff-algorithm diff-filter diff-merges
    directory dirstat dirty disambiguate dry-run dst-prefix dual-color email empty-directory
    encoding end-of-options eol error-unmatch exact-match exclude exclude-first-parent-only
    exclude-per-directory exclude-standard exists exit-code expand-tabs expiry-date extended-regexp
    files-with-matches files-without-match filter find-copies find-copies-harder find-object
    find-renames first-parent fixed-strings follow follow-symlinks forked-from format full full-diff
    full-history full-index full-name full-tree function-context fuzzy get get-all get-regexp
    get-url get-urlmatch git-common-dir git-dir git-path glob global graph grep grep-reflog group
    guess head heading heads help histogram human-readable ignore-all-space ignore-blank-lines
    ignore-case ignore-cr-at-eol ignore-if-in-upstream ignore-matching-lines ignore-missing
    ignore-rev ignore-revs-file ignore-space-at-eol ignore-space-change ignore-submodules ignored
    in-commit-order include-untracked includes incremental indent-heuristic independent index
    index-version indexed-objects int inter inter-hunk-context invert-grep invert-match
    irreversible-delete is-ancestor is-bare-repository is-inside-git-dir is-inside-work-tree
    is-shallow-repository ita-invisible-in-index killed left-only left-right line-number
    line-porcelain line-prefix list list-cmds local local-branch local-env-vars long ls-files
    mailmap match max-age max-count max-depth max-parents merge merge-base merge-order merged merges
    min-age min-parents minimal missing mode modified name-only name-rev name-status names
    no-ext-diff no-flags no-optional-locks no-pager no-prefix no-reflogs no-revs no-show-signature
    no-standard-notes no-walk not notes null numbered numstat object-id objects octopus omit-empty
    oneline only-matching only-untracked or origin others ours output-indicator-context
    output-indicator-new output-indicator-old parents parse patch patch-with-raw patch-with-stat
    path path-format patience percentage perl-regexp pickaxe-all pickaxe-regex points-at porcelain
    pretty progress q quiet raw recurse-submodules recursive reference reflog refs
    regexp-ignore-case relative relative-date relative-paths remerge-diff remotes remove-empty
    rename-empty renames resolve-undo reverse revs-only right-only root score-debug
    shared-index-path shift short shortstat show-cdup show-current show-email show-forced-updates
    show-function show-linear-break show-name show-notes show-object-format show-origin show-prefix
    show-pulls show-ref show-ref-format show-scope show-stash show-superproject-working-tree
    show-toplevel simplify-by-decoration simplify-merges since since-as-filter skip sort source
    sparse sq sq-quote src-prefix stage staged stat stat-count stat-graph-width stat-name-width
    stat-width stats stdin stdout strict submodule summary symbolic symbolic-full-name symref tag
    tags text textconv theirs threads timestamp topo-order trailers type unified unmatch unmerged
    unordered unreachable until untracked untracked-files value verbose verify version walk-reflogs
    with-tree word-diff word-diff-regex word-regexp worktree write-tree ws-error-highlight z
    """)
"""Options with which a reading subcommand still only reads; the others may write a file, or run
what the repository's configuration names."""

_READING_CONFIG = re.compile(
    r"color\..*|core\.(?:quotepath|abbrev|pager)|diff\.(?:renames|noprefix|algorithm|context"
    r"|mnemonicprefix|colormoved|wserrorhighlight|statgraphwidth)|log\.(?:date|decorate|abbrevcommit"
    r"|follow)|advice\..*|status\.(?:short|branch|showuntrackedfiles|relativepaths)|pager\..*"
    r"|grep\.(?:linenumber|patterntype|extendedregexp)|blame\..*|column\..*|i18n\.logoutputencoding"
)

SHARED = names("""
    gc prune repack pack-refs maintenance commit-graph multi-pack-index prune-packed
    update-server-info pack-redundant replace filter-branch filter-repo fast-import unpack-objects
    index-pack pack-objects sparse-checkout flow scalar backfill credential
    """)
"""Subcommands that change what all worktrees share."""

PUSHING = names("""
    push send-pack http-push receive-pack send-email imap-send cvsexportcommit svn p4 remote-http
    remote-https remote-ext remote-fd http-backend daemon
    """)

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
    if name in SHARED:
        return [Git(name), Deny("git-shared", f"git {name} changes the shared repository")]
    if name in OBJECTS:
        writes = name != "hash-object" or any(re.match(r"-[a-su-z]*w", a.lead) for a in args)
        result: list[Effect] = [Git(name)] if writes else []
        if name == "merge-file":
            given = read(args, short="L", long=("marker-size", "diff-algorithm"))
            result.extend(Write(v) for v in given.operands[:1] if not given.has("p", "stdout"))
        return result
    if name in HANDLERS:
        return HANDLERS[name](args, command)
    return [Deny("command-unresolved", f"git {name} is not a subcommand that can be judged")]


def _is_known(name: str) -> bool:
    """Whether git has this subcommand itself; git ignores an alias of that name."""
    known = (READING, SHARED, PUSHING, OBJECTS, HANDLERS)
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
