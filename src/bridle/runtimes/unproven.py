"""Learning from a CLI of a version that was never run which flags and features it knows.

A dialect's range is a guess between the versions that were run, and a word that the CLI does not
know ends it. So the words that a dialect names (`Word`) are looked up in the CLI's own lists: one
process for each list and binary, and the answer is cached. Tested versions never come here.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from bridle.core.files import cached_text
from bridle.runtimes.dialects import Dialect, Word
from bridle.runtimes.install import Installation

D = TypeVar("D", bound=Dialect)

ASK_SECONDS = 20.0


class Fitted(msgspec.Struct, frozen=True):
    """A dialect without the words that a CLI does not know."""

    dialect: Any
    warnings: tuple[str, ...] = ()
    unguarded: str = ""
    """Why a run of this CLI cannot be guarded; empty if nothing that the guard needs is unknown."""


def fitted(runtime: str, dialect: D, found: Installation, env: Mapping[str, str]) -> Fitted:
    """`dialect` as far as the CLI `found` knows its words.

    Contract: starts the CLI at most once for each list, in an empty home and in bounded time. A
    list that the CLI does not print changes nothing.
    """
    used = [word for word in dialect.words if _uses(dialect, word)]
    unknown = [word for word in used if not _is_known(word, used, found, env)]
    changed: dict[str, Any] = {}
    for word in unknown:
        value = changed.get(word.field, getattr(dialect, word.field))
        changed[word.field] = _without(value, word.text)
    version = found.version or "of an unknown version"
    return Fitted(
        msgspec.structs.replace(dialect, **changed),
        tuple(
            f"{runtime} {version} does not know `{word.text}`: {word.lost}"
            for word in unknown
            if word.lost
        ),
        next(
            (
                f"{runtime} {version} does not know `{word.text}`, which the guard needs"
                for word in unknown
                if word.guard
            ),
            "",
        ),
    )


def _uses(dialect: Dialect, word: Word) -> bool:
    value = getattr(dialect, word.field)
    return word.text in value if isinstance(value, tuple) else bool(value)


def _without(value: Any, text: str) -> Any:
    if isinstance(value, tuple):
        return tuple(each for each in value if each != text)
    return False if isinstance(value, bool) else ""


def _is_known(
    word: Word, words: Sequence[Word], found: Installation, env: Mapping[str, str]
) -> bool:
    wanted = [each.text for each in words if each.listed_by == word.listed_by]
    known = _known(found, word.listed_by, wanted, env)
    return known is None or word.text in known


def _known(
    found: Installation, listed_by: tuple[str, ...], words: list[str], env: Mapping[str, str]
) -> set[str] | None:
    """Those of `words` that the CLI lists; None if it prints no list."""
    try:
        file = os.stat(found.binary)
    except OSError:
        return None
    # With the version: a launcher of one package may be the same file in every release.
    facts = ("words", os.path.realpath(found.binary), file.st_mtime_ns, file.st_size)
    key = ":".join(map(str, (*facts, found.version, *listed_by, *words)))

    def ask() -> str | None:
        text = _list(found, listed_by, env)
        return None if text is None else " ".join(["knows", *listed_in(text, words)])

    answer = cached_text(key, ask)
    return None if answer is None else set(answer.split()[1:])


def listed_in(text: str, words: Sequence[str]) -> list[str]:
    """Those of `words` that stand in `text` by themselves."""
    return [each for each in words if re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text)]


def _list(found: Installation, listed_by: tuple[str, ...], env: Mapping[str, str]) -> str | None:
    """What the CLI prints; None if it fails. Its home is empty, so that the user's is neither read
    nor written."""
    home = tempfile.mkdtemp(prefix="bridle-ask-")
    try:
        done = subprocess.run(
            (*found.command, *listed_by),
            cwd=home,
            env={
                "PATH": env.get("PATH", os.defpath),
                "HOME": home,
                "LANG": "C.UTF-8",
                "COLUMNS": "200",
                "NO_COLOR": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    finally:
        shutil.rmtree(home, ignore_errors=True)
    text = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
    return text if done.returncode == 0 and text.strip() else None
