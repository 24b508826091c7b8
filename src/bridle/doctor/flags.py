"""Checks that the installed CLI accepts each flag that Bridle would pass to it.

The flags come from commands that the adapter itself plans, one option at a time, so that a new
option is checked without a second list. The CLI's own help says which flags it accepts.
"""

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

from bridle.core.errors import BridleError
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions, SpawnOptions
from bridle.doctor.machine import ask
from bridle.doctor.report import Finding
from bridle.process.private_folders import remove_folders
from bridle.runtimes.contract import Adapter
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation

_FLAG = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
_SERVER = ModelServer(url="http://127.0.0.1:9", api_key="doctor-has-no-key")
_SUBCOMMAND = re.compile(r"[a-z][a-z-]*")

FlagSet = dict[tuple[str, ...], set[str]]
"""The flags passed, by the words of the subcommand that they are passed to."""


def check_flags(runtime: Adapter, found: Installation, dialect: Dialect, home: str) -> Finding:
    """Compare what the adapter passes with what the CLI's help lists."""
    used = flags_used(runtime, found, home)
    if not any(used.values()):
        return Finding(name="flags", status="skip", detail="no flags are passed to it")
    hidden = runtime.hidden_flags(dialect)
    unseen: set[str] = set()
    wrong: list[str] = []
    count = 0
    for words, flags in sorted(used.items()):
        answer = ask((*found.command, *words, "--help"), home)
        listed = set(_FLAG.findall(answer.text))
        if not listed:
            shown = shlex.join([os.path.basename(found.binary), *words, "--help"])
            detail = f"`{shown}` lists no flags: {answer.first_line[:200] or 'it prints nothing'}"
            return Finding(name="flags", status="fail", detail=detail, hint=_HINT)
        count += len(flags)
        missing = flags - listed
        unseen |= missing & hidden
        wrong += [_named(flag, words, listed - flags) for flag in sorted(missing - hidden)]
    if wrong:
        return Finding(name="flags", status="fail", detail="; ".join(wrong), hint=_HINT)
    rest = f"; {len(unseen)} are not in its help, only --probe proves them" if unseen else ""
    return Finding(name="flags", status="ok", detail=f"{count} flags are accepted{rest}")


_HINT = "this release changed its command line: install a tested version, or update Bridle"


def _named(flag: str, words: tuple[str, ...], others: set[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(flag, sorted(others), 1, 0.7)
    where = f" of `{' '.join(words)}`" if words else ""
    return f"{flag}{where} is not in its help" + (f" (now {near[0]}?)" if near else "")


def flags_used(runtime: Adapter, found: Installation, home: str) -> FlagSet:
    """The flags of every command that the adapter plans."""
    used: FlagSet = {}
    for argv in (*_planned(runtime, home), *_spawned(runtime)):
        rest = _after_command(argv, runtime, found)
        if rest is None:
            continue
        words = (rest[0],) if rest and _SUBCOMMAND.fullmatch(rest[0]) else ()
        flags = used.setdefault(words, set())
        for word in rest:
            if word == "--":
                break
            if _FLAG.fullmatch(word.partition("=")[0]):
                flags.add(word.partition("=")[0])
    return used


def _planned(runtime: Adapter, home: str) -> Iterator[tuple[str, ...]]:
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home}
    for options in _requests(home):
        try:
            plan = runtime.plan_run(options, env, new_session_id())
        except BridleError:
            # An option that it refuses adds no flag.
            continue
        remove_folders(plan.private_dirs)
        yield plan.spec.argv


def _requests(home: str) -> Iterator[RunOptions]:
    """Runs that together use every option that usually becomes a flag."""
    file = os.path.join(home, "words.txt")
    with open(file, "w", encoding="utf-8") as opened:
        opened.write("words\n")
    each: list[dict[str, Any]] = [
        {},
        {"permission_mode": "bypass"},
        {"model": "some-model"},
        {"system_prompt": "words"},
        {"append_system_prompt": "words"},
        {"append_system_prompt_file": file},
        {"max_turns": 3},
        {"budget_usd": 1.0},
        {"settings": "{}"},
        {"mcp_config": '{"mcpServers": {}}'},
        {"sandbox": "worktree", "permission_mode": "bypass"},
        {"sandbox": "read-only"},
    ]
    for options in each:
        yield RunOptions(prompt="words", cwd=home, model_server=_SERVER, **options)


def _spawned(runtime: Adapter) -> Iterator[tuple[str, ...]]:
    each: list[dict[str, Any]] = [
        {},
        {"permission_mode": "bypass"},
        {"system_prompt": "words"},
        {"append_system_prompt": "words"},
        {"append_system_prompt_file": "words.txt"},
        {"initial_prompt": "words"},
    ]
    for options in each:
        try:
            command = runtime.build_spawn_command(SpawnOptions(model="some-model", **options))
        except BridleError:
            continue
        yield tuple(shlex.split(command))


def _after_command(
    argv: tuple[str, ...], runtime: Adapter, found: Installation
) -> tuple[str, ...] | None:
    """The arguments after the words that start the CLI; None for another program's command."""
    command = found.command
    if argv[: len(command)] == command:
        return argv[len(command) :]
    if argv and argv[0] in (found.binary, runtime.binary, runtime.settings.binary):
        return argv[1:]
    return None
