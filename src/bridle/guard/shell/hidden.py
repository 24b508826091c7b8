"""Words that run something although they look like names: subscripts, texts in place of names."""

import re

from bridle.guard.shell.values import Value
from bridle.guard.verdict import Blocked

_EVALUATING = frozenset(
    {"test", "[", "unset", "read", "wait", "export", "declare", "typeset", "local", "readonly",
     "mapfile", "readarray", "printf", "getopts"}
)  # fmt: skip
"""Builtins that evaluate the subscript of a variable name they are given."""
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^]]*(?:\$\(|`)")


def check_words(name: str, argv: tuple[Value, ...]) -> None:
    """Refuse a command whose words hide another. Raises `Blocked`."""
    path = argv[0].text or ""
    if name != "declare" and path.startswith("-") and path != "-":
        # `time -o FILE cmd`: whether the word is a command or an option depends on the shell.
        raise Blocked("command-unresolved", f"the command {path}")
    if name in _EVALUATING:
        for arg in argv[1:]:
            if _SUBSCRIPT.match(arg.text or ""):
                raise Blocked("command-unresolved", f"{name} evaluates {arg.text}")


def is_text(path: str) -> bool:
    """Whether a command word can only be a shell text that some program will split."""
    return any(c in path for c in " \t\n;|&") and not path.startswith(("/", "./", "../"))
