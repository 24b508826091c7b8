"""Program text in other languages: what can be seen without running it.

That is not much. A text that names a path outside, or starts git to push, is refused; the rest is
left to the sandbox.
"""

import itertools
import os
import re
from collections.abc import Iterator

from bridle.guard.budget import spend
from bridle.guard.paths import Mode, Places
from bridle.guard.shell.values import names
from bridle.guard.verdict import Blocked

_PATH = re.compile(r"""['"`(\s=<>:,|]((?:/|~/|\.\./)[^\s'"`;|)(<>,]*)""")
_GUARDED = re.compile(
    r"""['"`(\s=>:,]((?:\./)?\.(?:git|claude|codex|pi|gemini|opencode|github|bridle|clinerules"""
    r"""|cline|copilot)(?![\w-])[^\s'"`;|)(<>,]*)"""
)
_RELATIVE = re.compile(r"""['"]([\w.-]+(?:/[\w.-]+)+)['"]""")
_MOST_PATHS = 100
_A_PATH = 30
"""Units of work that the look at a path counts for."""
_TAKES_AWAY = re.compile(r"rmtree|rmdir|rename|move|remove|unlink|\brm", re.IGNORECASE)
_WRITES = re.compile(
    # Every part that may be long is bounded, so that no search from any start goes far.
    r"write|\brm(?:Sync|dir)?\b|unlink|remove|rmtree|mkdir|makedirs|rename|replace\(|copy|move|chmod|chown|symlink|link\("
    r"|truncate|touch|dump\(|save|system|popen|subprocess|exec|spawn"
    r"|(?:,\s{0,9}(?:mode\s{0,9}=\s{0,9})?|\bopen\(\s{0,9})['\"](?:[wax][bt]?\+?|r[bt]?\+)[bt]?['\"]\s*\)"
    r"|\b(?:os|dbm|shelve)\.open\(|\bopen(?:Sync)?\([^)]{0,200}?,\s{0,9}[\dO]|\+<"
    r"|open\([^)]{0,200}?,\s{0,9}['\"][wax]|\bopen\s+\S{1,200}\s{1,9}[wa]\b|['\"]\+?>>?['\"]"
    r"|>\s*['\"]?/|\bFile\b(?!\.(?:read|exist|basename|dirname|join|size|stat|file|directory"
    r"|extname))"
    r"|\bDir\b(?!\.(?:glob|entries|children|exist|each))|:w|-delete|chdir|extract|retrieve"
    r"|put_contents|rm_r|creat|append|download|install|sink|to_(?:csv|json|parquet|excel|pickle)"
    r"|\b(?:set|add|new|out|clear)-\w",
    re.IGNORECASE,
)
_STARTS = re.compile(
    r"system|subprocess|popen|exec|spawn|child_process|Open3|shell_exec|passthru|`|:!|%x|sh\.|\bsh\b",
    re.IGNORECASE,
)
_GIT = r"""(?<![-\w])git\b(?:[\s'",\[\]()]|-[-\w]++)++"""
"""git and what may be between it and its subcommand. It never backtracks, and no second git can
begin inside it: each character is examined once."""
_PUSH = re.compile(rf"{_GIT}(push|send-pack)\b", re.IGNORECASE)
_LIBRARY = re.compile(
    r"\b(?:pygit2|dulwich|nodegit|rugged|simple-git|isomorphic-git|gitpython|jgit|go-git"
    r"|(?:import|from)\s{1,9}git\b|require\s?\(\s?['\"]git['\"])",
    re.IGNORECASE,
)
"""Libraries that push without starting git."""
_RESET = re.compile(rf"{_GIT}reset\b", re.IGNORECASE)
_HARD = re.compile(r"--har?d?\b", re.IGNORECASE)
_REACH = 300
"""How far after `git reset` to look for its option."""
_HOME = re.compile(r"expanduser|Path\.home|homedir\(|Dir\.home|\bHOME\b|\$HOME|ENV\[.HOME")


_ELSEWHERE = re.compile(r"""(?:\bchdir\s*(?:\(\s*)?|\bcwd\s*[=:]\s*)['"](\.\.)['"]""")
_COMMAND_LANGUAGES = frozenset(
    {"editor", "make", "pwsh", "powershell", "expect", "tclsh", "osascript"}
)
"""Languages in which a command is written as in a shell."""
_SCRIPTS = ("node", "bun", "deno")
_TEXT = {
    '"': re.compile(r"""(?:\\.|[^"\\\n])*+"?+""", re.DOTALL),
    "'": re.compile(r"""(?:\\.|[^'\\\n])*+'?+""", re.DOTALL),
    "`": re.compile(r"""(?:\\.|[^`\\])*+`?+""", re.DOTALL),
}
_TEXT_OR_SLASH = re.compile(r"""["'`/]""")
_EXPRESSION = re.compile(r"(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*+\]|[^/\\\n\[])++/[a-z]*+")
_BEFORE_EXPRESSION = "(,=:[!&|?;{}"


def check_code(text: str, language: str, places: Places, directory: str) -> None:
    """Refuse program text that names a place outside, or pushes."""
    spend(len(text) >> 2)
    if language in _COMMAND_LANGUAGES or _STARTS.search(text):
        if _PUSH.search(text):
            raise Blocked("git-push", f"{language} code that runs git push")
        if any(_HARD.search(text, m.end(), m.end() + _REACH) for m in _RESET.finditer(text)):
            raise Blocked("git-reset", f"{language} code that runs git reset --hard")
    if _LIBRARY.search(text) and re.search(r"\bpush\b", text):
        raise Blocked("git-push", f"{language} code that pushes with a library")
    if language == "editor" and re.search(
        r"(^|[|:\s'\"])!|\bsystem\(|call-process|shell-command", text
    ):
        raise Blocked("command-unresolved", "an editor command that runs a program")
    # Names of folders say nothing about what the text does.
    bare = _PATH.sub(lambda m: m[0][0] + m[1][0], " " + text)
    writes = language == "editor" or _WRITES.search(bare) is not None
    writes = writes or _calls_unknown(bare, language)
    if _HOME.search(text) and writes:
        raise Blocked("path-outside", f"{language} code that writes to the home directory")
    if language in _SCRIPTS:
        text = _without_expressions(text)
    for path in _distinct(_PATH, " " + text):
        _check_path(path, writes, language, places, directory)
    if writes:
        for path in _distinct(_ELSEWHERE, text):
            _check_links(path, language, places, directory)
        mode: Mode = "tree" if _TAKES_AWAY.search(text) else "write"
        for path in _distinct(_GUARDED, " " + text):
            places.check_text(path, directory, mode)
        for path in itertools.islice(_distinct(_RELATIVE, text), _MOST_PATHS):
            _check_links(path, language, places, directory)


_CALL = re.compile(r"(?<!re\.)\b([A-Za-z_]\w*+)[!?]?\s?\(")
_BARE_CALL = re.compile(
    r"\.([a-z_]\w*+)[!?]?\s{1,9}['\"]|\b([a-z_]\w*+)\s[^'\"\n;|(]{0,40},\s?['\"][/~]"
)
"""A call without parentheses, as Ruby and Perl write it."""
_DEFINED = re.compile(
    r"\b(?:def|function|sub|class|const|let|var|my)\s{1,9}(\w+)|\b(\w++)\s?=\s?lambda"
)
_READING_CALLS = names("""
    abs access all any append array ascii assert basename bool bytes ceil chain chomp chr close
    closedir codecs concat console count Counter csv Date decode deepcopy defaultdict define deque
    dict DictReader die dig dir dirname each echo each_line elif else encode endsWith endswith
    entries enumerate eof error eval every exists existsSync exit expanduser explode extend extname
    fetch file file_exists file_get_contents fileno filter find findall finditer first flatMap float
    floor flush for forEach foreach format from fromkeys frozenset fullmatch get getattr getcwd
    getenv getmtime getsize getsizeof glob group groupby groups grep gsub hasattr hash head
    hexdigest hex id if implode import in includes index indexOf info input insert int is_dir
    is_file isabs isalpha isatty isdir isdigit isDirectory isFile isfile isinstance islice islink
    issubclass items iter iterdir join json JSON json_decode json_encode key keys last len length
    lines list listdir listdirSync load loads log lower lstat lstatSync lstrip map match Math
    matchAll max md5 min most_common name namedtuple new next normalize not now Number Object open
    opendir or ord os parse parseArgs parseFloat parseInt partition Path path pathlib pop pow pprint
    print printf println print_r process product puts range rglob read read_bytes read_csv read_json
    read_text readdir readdirSync reader readFile readFileSync readline readlines readlink realpath
    realpathSync reduce relative relpath repr require resolve return reverse reversed rfind rindex
    round rpartition rsplit rstrip scan scandir search seek select set setdefault sha1 sha256 sha512
    shift show size skip slice some sort sorted splice split splitext splitlines sprintf SQL stat
    statSync startsWith startswith str String strip strlen strptime strftime sub substr substring
    sum super tail tell test then time to_a to_i to_s toLowerCase toString toUpperCase today title
    trim tuple type typeof uniq unpack unshift upper utf8 values var_dump vars version walk warn
    when while with yield zip util inspect stdout stringify Set Map Array Promise async await catch
    finally function lambda describe head info suffix stem at charAt repeat replaceAll flat update
    digest getvalue StringIO BytesIO sleep
    """)
"""Calls that read, compute or show. A text with another call that names a place outside may write
there: what the call does is not known."""


def _calls_unknown(text: str, language: str) -> bool:
    defined = {name for found in _DEFINED.findall(text) for name in found}
    called = set(_CALL.findall(text))
    if language in ("ruby", "perl"):
        called.update(name for found in _BARE_CALL.findall(text) for name in found if name)
    return not called <= _READING_CALLS | defined


def _distinct(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Each path that the pattern finds, without repeats."""
    seen: set[str] = set()
    for match in pattern.finditer(text):
        path = match.group(1)
        if path not in seen:
            seen.add(path)
            spend(_A_PATH + len(path))
            yield path


def _without_expressions(text: str) -> str:
    """JavaScript without its regular expressions between slashes, which are not paths; strings
    stay.

    One pass: if an expression in a line does not end, the rest of the line stays unchanged.
    """
    kept: list[str] = []
    position = start = 0
    skip_to = 0
    while (match := _TEXT_OR_SLASH.search(text, position)) is not None:
        position = match.end()
        quotes = _TEXT.get(match.group())
        if quotes is not None:
            ended = quotes.match(text, position)
            position = ended.end() if ended is not None else position
            continue
        before = text[max(start, position - 40) : position - 1].rstrip()
        if position < skip_to or before[-1:] not in _BEFORE_EXPRESSION or not before:
            continue
        found = _EXPRESSION.match(text, position)
        if found is None:
            line = text.find("\n", position)
            skip_to = line if line >= 0 else len(text)
            continue
        kept.append(text[start : position - 1])
        position = start = found.end()
    kept.append(text[start:])
    return " ".join(kept)


def _check_links(path: str, language: str, places: Places, directory: str) -> None:
    """Refuse a relative path that leads out of the worktree through a link."""
    real = places.real(f"{directory}/{path}")
    if not places.inside(real):
        raise Blocked("path-outside", f"{language} code that names {path}, which leads to {real}")


def _check_path(path: str, writes: bool, language: str, places: Places, directory: str) -> None:
    if path.startswith("/"):
        first = path.split("/")[1]
        if not first or not os.path.isdir("/" + first) or len(path) < 3:
            return
        if path.startswith("/dev/") and path in ("/dev/null", "/dev/stdin", "/dev/stdout"):
            return
    if not writes:
        # Reading is free everywhere.
        return
    try:
        places.check_text(path, directory, "write")
    except Blocked as block:
        raise Blocked(
            block.rule, f"{language} code that names {path}, outside the worktree"
        ) from None
