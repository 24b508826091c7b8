"""Program text of other languages: what can be told from it without running it.

Not much can. A text that names a path outside, or starts git to push, is refused; the rest is the
sandbox's to decide.
"""

import itertools
import os
import re

from bridle.guard.paths import Mode, Places
from bridle.guard.verdict import Blocked

_PATH = re.compile(r"""['"`(\s=>:,|]((?:/|~/|\.\./)[^\s'"`;|)(<>,]*)""")
_GUARDED = re.compile(
    r"""['"`(\s=>:,]((?:\./)?\.(?:git|claude|codex|pi|gemini|opencode|github|bridle|clinerules"""
    r"""|cline|copilot)(?![\w-])[^\s'"`;|)(<>,]*)"""
)
_RELATIVE = re.compile(r"""['"]([\w.-]+(?:/[\w.-]+)+)['"]""")
_MOST_PATHS = 100
_TAKES_AWAY = re.compile(r"rmtree|rmdir|rename|move|remove|unlink|\brm", re.IGNORECASE)
_WRITES = re.compile(
    r"write|\brm(?:Sync|dir)?\b|unlink|remove|rmtree|mkdir|makedirs|rename|replace\(|copy|move|chmod|chown|symlink|link\("
    r"|truncate|touch|dump\(|save|system|popen|subprocess|exec|spawn|['\"][waxr]b?\+?b?['\"]\s*\)"
    r"|open\([^)]*,\s*['\"][wax]|\bopen\s+\S+\s+[wa]\b|['\"]\+?>>?['\"]|>\s*['\"]?/"
    r"|\bFile\b(?!\.(?:read|exist|basename|dirname|join|size|stat|file|directory|extname))"
    r"|\bDir\b(?!\.(?:glob|entries|children|exist|each))|:w|-delete|chdir|extract|retrieve"
    r"|put_contents|rm_r|creat|append|download|install|sink|to_(?:csv|json|parquet|excel|pickle)"
    r"|\b(?:set|add|new|out|clear)-\w",
    re.IGNORECASE,
)
_STARTS = re.compile(
    r"system|subprocess|popen|exec|spawn|child_process|Open3|shell_exec|passthru|`|:!|%x|sh\.|\bsh\b",
    re.IGNORECASE,
)
_SEP = r"""(?:[\s'",\[\]()]|-[-\w]++)+"""
"""What may stand between two words; it gives nothing back, so that no text takes long."""
_PUSH = re.compile(rf"\bgit\b{_SEP}(push|send-pack)\b", re.IGNORECASE)
_HARD = re.compile(rf"\bgit\b{_SEP}reset\b{_SEP}?.{{0,200}}--har?d?\b", re.IGNORECASE)
_HOME = re.compile(r"expanduser|Path\.home|homedir\(|Dir\.home|\bHOME\b|\$HOME|ENV\[.HOME")


_ELSEWHERE = re.compile(r"""(?:\bchdir\s*\(?\s*|\bcwd\s*[=:]\s*)['"](\.\.)['"]""")
_SCRIPTS = ("node", "nodejs", "bun", "deno")
_REGEX_LITERAL = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)"""
    r"""|(?<=[(,=:\[!&|?;{}])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*"""
)
"""Texts, which stay, and expressions between slashes, which are no paths."""


def check_code(text: str, language: str, places: Places, directory: str) -> None:
    """Refuse program text that names a place outside, or pushes."""
    if language in ("editor", "make", "pwsh", "powershell") or _STARTS.search(text):
        if _PUSH.search(text):
            raise Blocked("git-push", f"{language} code that runs git push")
        if _HARD.search(text):
            raise Blocked("git-reset", f"{language} code that runs git reset --hard")
    if language == "editor" and re.search(
        r"(^|[|:\s'\"])!|\bsystem\(|call-process|shell-command", text
    ):
        raise Blocked("command-unresolved", "an editor command that runs a program")
    # Names of folders say nothing about what the text does.
    bare = _PATH.sub(lambda m: m[0][0] + m[1][0], " " + text)
    writes = language == "editor" or _WRITES.search(bare) is not None
    if _HOME.search(text) and writes:
        raise Blocked("path-outside", f"{language} code that writes to the home directory")
    if language in _SCRIPTS:
        text = _REGEX_LITERAL.sub(lambda m: m[1] or " ", text)
    for match in _PATH.finditer(" " + text):
        _check_path(match.group(1), writes, language, places, directory)
    if writes:
        for match in _ELSEWHERE.finditer(text):
            _check_links(match.group(1), language, places, directory)
        mode: Mode = "tree" if _TAKES_AWAY.search(text) else "write"
        for match in _GUARDED.finditer(" " + text):
            places.check_text(match.group(1), directory, mode)
        for match in itertools.islice(_RELATIVE.finditer(text), _MOST_PATHS):
            _check_links(match.group(1), language, places, directory)


def _check_links(path: str, language: str, places: Places, directory: str) -> None:
    """Refuse a relative path that a link of the worktree leads out of it."""
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
