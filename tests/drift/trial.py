"""Tries one release: the conformance kit, the guard proof, and the conversation of a session.

`python -m tests.drift.trial` is a process of its own, with a home of its own and next to nothing in
its environment; what it finds is written to a file after every part.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from bridle.core import events as ev
from bridle.core.errors import GuardRefused
from bridle.core.events import encode_event
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter
from bridle.sessions.manager import default_drive
from bridle.testing.conformance import NAMES, CheckResult, Kit
from bridle.testing.conformance.checks import CHECKS
from bridle.testing.conformance.lab import Outcome
from tests.drift.results import BASIC, FIRST, FLAG, GUARD, SESSION
from tests.guard.agents import AGENTS, WITHOUT_GUARD, Agent
from tests.guard.proof import cell_of
from tests.sessions.conversation import Conversation, trace
from tests.support.clis import cli_cache

RUN_SECONDS = 90.0
"""Longest time of one run of the kit."""
HELP_SECONDS = 30.0
"""Longest time to wait for a help text."""
MANY = 10
"""With more failures than this in the kit, none is tried a second time."""

RUNTIMES = {"claude-agent-acp": "claude-acp"}
"""The runtime of a CLI that is named otherwise."""

HELP: dict[str, tuple[tuple[str, ...], ...]] = {
    "codex": (
        ("--help",),
        ("exec", "--help"),
        ("exec", "resume", "--help"),
        ("app-server", "--help"),
        ("features", "list"),
    ),
    "opencode": (("--help",), ("run", "--help"), ("acp", "--help")),
    "claude-agent-acp": (),
    "codex-acp": (),
}
"""What shows the flags of a CLI, `--help` for the others. The bridges have none and would wait."""


class Found(msgspec.Struct, kw_only=True):
    """What a trial found so far."""

    runtime: str = ""
    dialect: str = ""
    version: str | None = None
    too_old: str = ""
    checks: list[CheckResult] = []
    unknown: list[str] = []
    notes: list[str] = []
    problem: str = ""
    """Why the trial itself could not go on."""


class Released(Agent, frozen=True, kw_only=True):
    """An agent of the guard proof on a release that is not pinned."""

    binary: str

    def runtime(self) -> Adapter:
        """The adapter, on this release's command."""
        runtime = get_adapter(self.name)
        runtime.use_binary(self.binary)
        return runtime


def runtime_of(name: str) -> str:
    """The runtime that a CLI is tried with."""
    return RUNTIMES.get(name, name)


class Trial:
    """The checks of one release, and the captures that they leave."""

    def __init__(self, name: str, binary: str, scratch: Path, captures: Path) -> None:
        self.name, self.binary = name, binary
        self.scratch, self.captures = scratch, captures
        self.found = Found(runtime=runtime_of(name))
        self._agent = self._guarded()
        self._argv: Sequence[str] = ()
        """The command line of the first run."""

    def run(self, checks: Sequence[str], keep: Callable[[Found], None]) -> Found:
        """Run the checks, `keep` what is known after each part; nothing more after the first one
        failed."""
        self._surface()
        self._add([self._flag(each) for each in checks if each.startswith(FLAG)])
        if all(each.startswith(FLAG) for each in checks):
            return self.found
        if (refused := self._runtime().refusal(self._runtime().installation().version)) is not None:
            self.found.too_old = refused.message
            return self.found
        kit = [each for each in checks if each in NAMES]
        first = [each for each in kit if each in BASIC]
        with self._kit() as lab:
            for part in (first, [each for each in kit if each not in first]):
                if part:
                    self._add(self._played(lab, part))
                    keep(self.found)
                if self._dead():
                    break
        if self._dead():
            self._unlisted_flags()
            self._by_other_rules()
            keep(self.found)
            return self.found
        self._second_try(kit)
        keep(self.found)
        for each in checks:
            if each in GUARD:
                self._add([self._guard(each)])
                keep(self.found)
        if SESSION in checks:
            self._add([self._session()])
            keep(self.found)
        return self.found

    def _dead(self) -> bool:
        return any(each.name == FIRST and each.status == "fail" for each in self.found.checks)

    def _add(self, checks: Iterable[CheckResult]) -> None:
        for found in checks:
            each = hidden(found, {str(self.scratch): "<scratch>", str(cli_cache()): "<clis>"})
            others = [other for other in self.found.checks if other.name != each.name]
            self.found.checks = [*others, each]
            _say(f"{each.name}: {each.status}" + (f": {each.detail}" if _is_bad(each) else ""))

    # -- the conformance kit --------------------------------------------------------------------

    @contextlib.contextmanager
    def _kit(self, runtime: Adapter | None = None) -> Iterator[Kit]:
        runtime = runtime or self._runtime()
        env = self._agent.options.get("env", {}) if self._agent else {}
        with Kit(runtime, folder=str(self.scratch), run_seconds=RUN_SECONDS, env=env) as kit:
            yield kit

    def _played(self, kit: Kit, names: Sequence[str], at_once: int = 2) -> list[CheckResult]:
        report = kit.report(names, at_once=at_once)
        self.found.version, self.found.dialect = report.version, report.dialect
        for note in report.notes or ():
            self._note(note)
        needed = {each for check in CHECKS if check.name in names for each in check.needs}
        for scenario in sorted(needed):
            with contextlib.suppress(Exception):
                outcomes = kit.played(scenario)
                if not self._argv and outcomes[0].plan is not None:
                    self._argv = outcomes[0].plan.spec.argv
                self._note_unknown(outcomes)
                self._capture(scenario, outcomes, kit)
        return [_shortened(each, kit.lab.folder) for each in report.checks]

    def _second_try(self, names: Sequence[str]) -> None:
        """Failures are tried again alone: a busy machine is not a change of the agent."""
        failed = [each.name for each in self.found.checks if each.status == "fail"]
        again = [each for each in names if each in failed]
        if not again or len(again) > MANY:
            return
        _say(f"again: {', '.join(again)}")
        with self._kit() as kit:
            self._add(self._played(kit, again, at_once=1))

    def _unlisted_flags(self) -> None:
        """Note the flags of a run that the help does not list: it dies of the first alone."""
        if not (self.captures / "help.txt").exists():
            return
        flags = dict.fromkeys(re.findall(r"^--[a-z][\w-]*", "\n".join(self._argv), re.M))
        unlisted = [each for each in flags if not self._listed(each)]
        if unlisted:
            self._note(f"its help does not list {', '.join(unlisted)}")

    def _flag(self, check: str) -> CheckResult:
        """Whether the help has a word."""
        word = check.removeprefix(FLAG)
        if not (self.captures / "help.txt").exists():
            return CheckResult(name=check, status="unsupported", detail="it has no help")
        if self._listed(word):
            return CheckResult(name=check, status="pass")
        return CheckResult(name=check, status="fail", detail=f"its help does not list {word}")

    def _listed(self, word: str) -> bool:
        text = (self.captures / "help.txt").read_text(encoding="utf-8")
        return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None

    def _by_other_rules(self) -> None:
        """Note which dialect's rules a release answers by that does not answer by its own.

        A dialect is chosen by the version, so the release is given a version of each.
        """
        installation = self._runtime().installation()
        own = self._runtime().dialect(installation.version)[0].name
        for row in self._runtime().dialects:
            if row.name == own or not row.seen:
                continue
            runtime = self._runtime()
            disguised = msgspec.structs.replace(installation, version=row.seen[-1])
            with (
                mock.patch.object(runtime, "find", return_value=disguised),
                self._kit(runtime) as kit,
            ):
                (result,) = kit.report([FIRST]).checks
            word = "answers" if result.status == "pass" else "does not answer"
            self._note(f"{word} by the rules of {row.name}")

    def _runtime(self) -> Adapter:
        runtime = get_adapter(self.found.runtime)
        runtime.use_binary(self.binary)
        return runtime

    def _note(self, text: str) -> None:
        if text not in self.found.notes:
            self.found.notes.append(text)
            _say(text)

    def _note_unknown(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            for event in outcome.of(ev.Unknown):
                kind = kind_of(event.raw)
                if kind not in self.found.unknown:
                    self.found.unknown.append(kind)

    # -- guard and session ----------------------------------------------------------------------

    def _guarded(self) -> Released | None:
        for agent in (*AGENTS, *WITHOUT_GUARD):
            if agent.name == self.found.runtime and "print" in agent.drives and not agent.older:
                fields = {name: getattr(agent, name) for name in agent.__struct_fields__}
                return Released(**fields, binary=self.binary)
        return None

    def _guard(self, name: str) -> CheckResult:
        if self._agent is None:
            return CheckResult(name=name, status="unsupported", detail="no guard for this agent")
        try:
            said, right = cell_of(self._agent, "print", name[-1])
        except GuardRefused as refusal:
            # Nothing was started, so nothing was let through.
            return CheckResult(name=name, status="unsupported", detail=refusal.message)
        except Exception as problem:
            return CheckResult(name=name, status="fail", detail=_short(f"{problem!r}"))
        return CheckResult(name=name, status="pass" if right else "fail", detail=_short(said))

    def _session(self) -> CheckResult:
        runtime = self._runtime()
        drive = default_drive(runtime)
        conversation = Conversation(runtime, drive, self.scratch)
        try:
            conversation.talk()
            result = CheckResult(name=SESSION, status="pass", detail=drive)
        except Exception as problem:
            detail = _short(f"{drive}: {type(problem).__name__}: {problem}")
            result = CheckResult(name=SESSION, status="fail", detail=detail)
        events: list[ev.Event] = []
        with contextlib.suppress(Exception):
            events = conversation.events
        error = next((each for each in reversed(events) if isinstance(each, ev.ErrorRaised)), None)
        if result.status == "fail" and error is not None:
            detail = _short(f"{result.detail}; {error.kind}: {error.message}")
            result = msgspec.structs.replace(result, detail=detail)
        lines = [encode_event(each).decode(errors="replace") for each in events]
        self._write(
            "session",
            {"drive": drive, "trace": trace(events), "events": shortened_lines(lines)},
            {str(conversation.folder): "<session>"},
        )
        return hidden(result, {str(conversation.folder): "<session>"})

    # -- captures -------------------------------------------------------------------------------

    def _capture(self, scenario: str, outcomes: Sequence[Outcome], kit: Kit) -> None:
        hide = {kit.lab.folder: "<lab>", kit.lab.key: "<key>", kit.lab.planted: "<planted>"}
        self._write(scenario, [_described(each) for each in outcomes], hide)

    def _surface(self) -> None:
        """What the CLI says of itself: its flags."""
        home = self.scratch / "help-home"
        home.mkdir(exist_ok=True)
        path = os.environ.get("PATH", os.defpath)
        env = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "COLUMNS": "100"}
        parts = []
        for words in HELP.get(self.name, (("--help",),)):
            try:
                done = subprocess.run(
                    [self.binary, *words],
                    cwd=home,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=HELP_SECONDS,
                    check=False,
                )
                said = done.stdout or done.stderr
            except (OSError, subprocess.TimeoutExpired) as problem:
                said = type(problem).__name__
            parts.append(f"$ {self.name} {' '.join(words)}\n{said}")
        if parts:
            self.captures.mkdir(parents=True, exist_ok=True)
            text = "\n".join(parts).replace(str(home), "<home>")
            (self.captures / "help.txt").write_text(text, encoding="utf-8")

    def _write(self, name: str, content: Any, hide: Mapping[str, str]) -> None:
        text = msgspec.json.format(msgspec.json.encode(content), indent=1).decode()
        hide = {**hide, str(self.scratch): "<scratch>"}
        if os.path.isabs(self.binary):
            hide[os.path.dirname(self.binary)] = "<cli>"
        hide[str(cli_cache())] = "<clis>"
        for secret, shown in hide.items():
            text = text.replace(secret, shown)
        self.captures.mkdir(parents=True, exist_ok=True)
        (self.captures / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def kind_of(raw: Any) -> str:
    """What names the kind of a message on an agent's wire."""
    if isinstance(raw, bytes | bytearray | msgspec.Raw):
        with contextlib.suppress(msgspec.DecodeError):
            raw = msgspec.json.decode(raw)
    if isinstance(raw, str):
        with contextlib.suppress(msgspec.DecodeError):
            raw = msgspec.json.decode(raw)
    if isinstance(raw, dict):
        parts = [raw.get(key) for key in ("method", "type", "subtype", "sessionUpdate")]
        params = raw.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        if isinstance(update, dict):
            parts.append(update.get("sessionUpdate"))
        named = [str(each) for each in parts if isinstance(each, str)]
        if named:
            return "/".join(named)
        return "with " + ", ".join(sorted(map(str, raw)))
    return _short(str(raw), 60)


def _described(outcome: Outcome) -> dict[str, Any]:
    """A run as a capture."""
    result, plan = outcome.result, outcome.plan
    lines = [line.decode(errors="replace") for line in outcome.lines]
    return {
        "argv": [_short(word, 400) for word in plan.spec.argv] if plan else [],
        "refusal": str(outcome.refusal) if outcome.refusal else "",
        "exit": msgspec.to_builtins(outcome.exit) if outcome.exit else None,
        "error": msgspec.to_builtins(result.error) if result and result.error else None,
        "status": result.status if result else "",
        "seconds": round(outcome.seconds, 1),
        "requests": [
            {"outcome": each.outcome, "body": _short(msgspec.json.encode(each.body).decode(), 2500)}
            for each in outcome.requests
        ],
        "lines": shortened_lines(lines),
        "events": shortened_lines(
            [encode_event(each).decode(errors="replace") for each in outcome.events]
        ),
    }


def shortened_lines(lines: Sequence[str], most: int = 120, longest: int = 3000) -> list[str]:
    """Lines for a capture: the first and the last, none of them endless."""
    shown = [_short(line, longest) for line in lines]
    if len(shown) <= most:
        return shown
    half = most // 2
    return [*shown[:half], f"… {len(shown) - most} lines …", *shown[-half:]]


def _short(text: str, longest: int = 400) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _shortened(result: CheckResult, folder: str) -> CheckResult:
    return hidden(result, {folder: "<lab>"})


def hidden(result: CheckResult, hide: Mapping[str, str]) -> CheckResult:
    """A result without what differs on each machine."""
    detail = result.detail
    for secret, shown in hide.items():
        detail = detail.replace(secret, shown)
    # A random name would make the same words different on every release.
    detail = re.sub(r"(?<=-)[0-9a-f]{12,}(?![0-9a-f])", "…", detail)
    return msgspec.structs.replace(result, detail=" ".join(detail.split()))


def _is_bad(result: CheckResult) -> bool:
    return result.status == "fail"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Try one release and write what was found to `--out`."""
    parser = argparse.ArgumentParser(prog="python -m tests.drift.trial", description=__doc__)
    for name in ("name", "binary", "scratch", "captures", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("checks", nargs="+")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    out = Path(args.out)

    def keep(found: Found) -> None:
        out.write_bytes(msgspec.json.encode(found))

    began = time.monotonic()
    trial = Trial(args.name, args.binary, Path(args.scratch), Path(args.captures))
    try:
        keep(trial.run(args.checks, keep))
    except Exception as problem:
        trial.found.problem = _short(f"{type(problem).__name__}: {problem}")
        keep(trial.found)
        return 1
    _say(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
