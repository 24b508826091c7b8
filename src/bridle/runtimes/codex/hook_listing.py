"""Codex's own list of the hooks that it will run, asked before a session is started.

Its SessionStart hook comes only with the first prompt, so the hooks themselves cannot show earlier
that they fire. The app-server tells of each hook whether it is switched on and trusted; it is asked
with the session's own settings, in the session's own environment.
"""

import os
import select
import subprocess
import time
from itertools import pairwise

import msgspec

from bridle._version import __version__
from bridle.core.errors import GuardRefused
from bridle.runtimes.codex.hooks import SHAPE
from bridle.runtimes.plan import RunPlan

_SECONDS = 30.0
_SETTINGS = ("-c", "--config", "--enable", "--disable")
_SOURCE = "sessionFlags"


class _Hook(msgspec.Struct, frozen=True):
    eventName: str = ""
    source: str = ""
    enabled: bool = False
    trustStatus: str = ""


class _Place(msgspec.Struct, frozen=True):
    hooks: list[_Hook] = []


class _Listing(msgspec.Struct, frozen=True):
    data: list[_Place] = []


class _Answer(msgspec.Struct, frozen=True):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")


def prove(plan: RunPlan) -> None:
    """Raise `GuardRefused` unless Codex will run every hook of the guard's."""
    listing = _asked(plan)
    runs = {
        hook.eventName.lower()
        for place in listing.data
        for hook in place.hooks
        if hook.source == _SOURCE and hook.enabled and hook.trustStatus == "trusted"
    }
    missing = [event for event in (*SHAPE.asks, *SHAPE.live) if event.lower() not in runs]
    if missing:
        raise GuardRefused(
            f"codex {plan.installation.version or ''} will not run the guard's hooks "
            f"({', '.join(missing)})",
            hint="look for a setting that switches hooks off, or run with --unguarded",
            runtime="codex",
        )


def _asked(plan: RunPlan) -> _Listing:
    spec = plan.spec
    told = [word for pair in pairwise(spec.argv) if pair[0] in _SETTINGS for word in pair]
    try:
        process = subprocess.Popen(
            [*plan.installation.command, "app-server", *told],
            env=spec.env,
            cwd=spec.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as problem:
        raise GuardRefused(f"codex does not tell its hooks: {problem}", runtime="codex") from None
    try:
        return _conversed(process, spec.cwd)
    finally:
        process.kill()
        process.communicate()


def _conversed(process: "subprocess.Popen[bytes]", cwd: str) -> _Listing:
    assert process.stdin is not None
    info = {"name": "bridle", "title": "Bridle", "version": __version__}
    abilities = {"experimentalApi": True}
    until = time.monotonic() + _SECONDS
    try:
        for line in (
            {
                "id": 1,
                "method": "initialize",
                "params": {"clientInfo": info, "capabilities": abilities},
            },
            {"method": "initialized"},
            {"id": 2, "method": "hooks/list", "params": {"cwds": [cwd]}},
        ):
            process.stdin.write(msgspec.json.encode(line) + b"\n")
        process.stdin.flush()
        return msgspec.json.decode(_answer(process, 2, until), type=_Listing)
    except (OSError, msgspec.MsgspecError) as problem:
        raise GuardRefused(f"codex does not tell its hooks: {problem}", runtime="codex") from None


def _answer(process: "subprocess.Popen[bytes]", number: int, until: float) -> bytes:
    """The result that answers our request `number`."""
    assert process.stdout is not None
    handle, data = process.stdout.fileno(), b""
    while (left := until - time.monotonic()) > 0:
        if not select.select([handle], [], [], left)[0]:
            break
        piece = os.read(handle, 1 << 16)
        if not piece:
            raise OSError("it ended without an answer")
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            answer = msgspec.json.decode(line, type=_Answer)
            if answer.id == number:
                return bytes(answer.result)
    raise OSError("it did not answer in time")
