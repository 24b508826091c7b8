"""Adapters that are broken on purpose, each in one way: the scripted runtime with one change.

`MUTANTS` gives for each check the runtime that it, and no other check on the same runs, must fail.
"""

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridle.core import errors as er
from bridle.core.options import DEFAULT_MARKER, RunOptions
from bridle.core.redaction import Redactor
from bridle.core.results import TranscriptSummary
from bridle.process.spec import SESSION_MARK, ProcessExit
from bridle.runtimes.instructions import Place
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing.conformance import scenarios as sc
from bridle.testing.conformance.checks.wire import WORD
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

replace = msgspec.structs.replace
Line = dict[str, Any]


class Mutant(ScriptedRuntime):
    """The scripted runtime; what is set here is spoilt."""

    change_line: Callable[[Line], Line | None] | None = None
    after_line: Callable[[Line, Recorder], None] | None = None
    before_end: Callable[[Recorder], None] | None = None
    change_options: Callable[[RunOptions], RunOptions] | None = None
    change_plan: Callable[[RunPlan], RunPlan] | None = None
    change_recorder: Callable[[Recorder], None] | None = None
    keeps_garbage = True

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        if self.change_options is not None:
            options = self.change_options(options)
        plan = super().plan_run(options, env, session_id)
        return plan if self.change_plan is None else self.change_plan(plan)

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        if self.change_recorder is not None:
            self.change_recorder(recorder)
        return Spoiling(self, super().normalizer(plan, recorder), recorder)


class Spoiling:
    """Changes lines on their way to the real normalizer, and the recorder after them."""

    def __init__(self, mutant: Mutant, inner: Normalizer, recorder: Recorder) -> None:
        self._mutant, self._inner, self._recorder = mutant, inner, recorder

    def feed(self, line: bytes) -> None:
        mutant = self._mutant
        try:
            message = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            message = None
        if not isinstance(message, dict) or WORD in str(message):
            if mutant.keeps_garbage:
                self._inner.feed(line)
            return
        changed = message if mutant.change_line is None else mutant.change_line(message)
        if changed is not None:
            self._inner.feed(msgspec.json.encode(changed))
        if mutant.after_line is not None:
            mutant.after_line(message, self._recorder)

    def finish(self, exit: ProcessExit) -> None:
        if self._mutant.before_end is not None:
            self._mutant.before_end(self._recorder)
        self._inner.finish(exit)


def mutant(**changes: Any) -> Callable[[], Mutant]:
    """A maker of mutants with these changes."""

    def make() -> Mutant:
        made = Mutant()
        vars(made).update(changes)
        return made

    return make


# -- changes of lines -----------------------------------------------------------------------------


def line_change(
    kind: str, change: Callable[[Line], Line | None], *, when: str = ""
) -> Callable[[], Mutant]:
    """Changes the lines of one type (that hold a text)."""

    def changed(line: Line) -> Line | None:
        if line.get("type") != kind or when not in str(line):
            return line
        return change(dict(line))

    return mutant(change_line=changed)


def with_field(name: str, change: Callable[[Any], Any]) -> Callable[[Line], Line]:
    """Changes one field of a line, where it is."""
    return lambda line: {**line, name: change(line[name])} if name in line else line


def wrong_error(when: str, **instead: Any) -> Callable[[], Mutant]:
    """Takes one failure for another."""
    return line_change(
        "error", lambda line: {"type": "error", "message": "something else", **instead}, when=when
    )


def _more_input(line: Line) -> Line:
    usage = dict(line["usage"])
    if usage["input_tokens"] == sc.TALK_USAGE["input_tokens"]:
        usage["input_tokens"] += 1
    return {**line, "usage": usage}


def _other_model(line: Line) -> Line | None:
    return {**line, "model": "other-model"} if "model" in line else line


# -- changes of the recorder ----------------------------------------------------------------------


def _skip_number(line: Line, recorder: Recorder, *, at: str) -> None:
    if at in str(line):
        recorder._writer.seq += 1


def _forget_id(line: Line, recorder: Recorder) -> None:
    if recorder.options.prompt != sc.FIRST_PROMPT:
        recorder.native_session_id = None


def _see_marker(line: Line, recorder: Recorder, *, at: str) -> None:
    if at in str(line):
        recorder.words.run_marker = True


def _unsee_marker(line: Line, recorder: Recorder) -> None:
    recorder.words.run_marker = False


def _misjudge(kind: str) -> Callable[[Recorder], None]:
    def change(recorder: Recorder) -> None:
        if recorder.error is not None and recorder.error.kind == kind:
            recorder.error = er.Crashed("it just ended")

    return change


def _claim_success(recorder: Recorder) -> None:
    if recorder.native_session_id is None and recorder.error is None:
        recorder.turn_ended()


def _leave_process(recorder: Recorder) -> None:
    """Start something of the session's that nobody ends."""
    env = {"PATH": os.environ["PATH"], SESSION_MARK: recorder.session_id}
    command = "sleep 60 </dev/null >/dev/null 2>&1 &"
    subprocess.run(["sh", "-c", command], env=env, start_new_session=True, check=True)


def _tell_secrets(recorder: Recorder) -> None:
    vars(recorder.redactor).update(vars(Redactor()))


# -- changes of options and plans -----------------------------------------------------------------


def options_change(name: str, change: Callable[[Any], Any]) -> Callable[[], Mutant]:
    """Does something else than it was asked for."""

    def changed(options: RunOptions) -> RunOptions:
        return replace(options, **{name: change(getattr(options, name))})

    return mutant(change_options=changed)


def _write_home(plan: RunPlan) -> RunPlan:
    with open(os.path.join(plan.spec.env["HOME"], ".profile"), "a", encoding="utf-8") as file:
        file.write("# touched\n")
    return plan


class DeploysNothing(Mutant):
    """Names an instruction file that its agent does not read."""

    def instruction_places(self, worktree: str) -> tuple[Place, ...]:
        return (Place("UNREAD.md"),)


class PrintsMore(Mutant):
    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        argv = super().build_print_command(prompt, model, env)
        return ["/bin/sh", "-c", 'echo "Loading."; exec "$@"', "sh", *argv]


class CountsWrong(Mutant):
    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        told = super().parse_transcript(path)
        return None if told is None else replace(told, input_tokens=told.input_tokens + 1)


def no(value: Any) -> None:
    """The option is forgotten."""
    return


def _forgets_tools(*names: str) -> Callable[[], Mutant]:
    """Drops these names of tools from the options, as if nobody had given them."""

    def forget(options: RunOptions) -> RunOptions:
        allowed = tuple(each for each in options.allowed_tools if each not in names)
        denied = tuple(each for each in options.denied_tools if each not in names)
        return replace(options, allowed_tools=allowed, denied_tools=denied)

    return mutant(change_options=forget)


MUTANTS: dict[str, Callable[[], ScriptedRuntime]] = {
    "tool_names": _forgets_tools("no_such_tool_at_all"),
    "denied_tool": _forgets_tools("shell"),
    "allowed_tool": _forgets_tools("read_file"),
    "event_order": mutant(after_line=lambda line, r: _skip_number(line, r, at="ink a")),
    "event_order_failed": mutant(
        after_line=lambda line, r: _skip_number(line, r, at="'attempt': 2")
    ),
    "text": line_change("text", with_field("text", lambda text: text.replace("漢字", "??"))),
    "thinking": line_change("thinking", with_field("text", str.upper)),
    "usage": line_change("message_end", _more_input),
    "model": mutant(change_line=_other_model),
    "session_id": mutant(after_line=_forget_id),
    "marker": mutant(after_line=_unsee_marker),
    "marker_not_in_echo": mutant(after_line=lambda line, r: _see_marker(line, r, at="I was told")),
    "marker_not_in_tools": mutant(
        after_line=lambda line, r: _see_marker(line, r, at=f"'result': '{DEFAULT_MARKER}")
    ),
    "tool_call": line_change(
        "tool_end", with_field("is_error", lambda value: True), when=DEFAULT_MARKER
    ),
    "parallel_tools": line_change("tool_start", with_field("args", lambda args: {}), when="echo t"),
    "huge_tool_output": line_change("text", with_field("text", lambda text: text + "!")),
    "huge_text": line_change("text", no, when="0020000 nothing"),
    "error_401": wrong_error("401", status=500),
    "error_403": wrong_error("403", status=500),
    "error_429": wrong_error("429", status=500),
    "error_429_reset": line_change(
        "error", with_field("until", lambda until: "2020-01-01T00:00:00Z")
    ),
    "error_500": wrong_error("500", status=401),
    "error_529": wrong_error("529", status=500),
    "error_context_overflow": wrong_error("too long", status=500),
    "error_refused_connection": wrong_error("refused", status=529),
    "error_cut_stream": wrong_error("broken", status=529),
    "retry": line_change("retry", no),
    "abort": mutant(before_end=_misjudge("aborted")),
    "timeout": mutant(before_end=_misjudge("timeout")),
    "nothing_left": mutant(before_end=_leave_process),
    "odd_prompt": options_change("prompt", lambda prompt: prompt.replace("\u2028", "\n")),
    "long_prompt": options_change("prompt", lambda prompt: prompt[:900_000]),
    "append_system_prompt": options_change("append_system_prompt", no),
    "system_prompt": options_change("system_prompt", no),
    "instruction_file": DeploysNothing,
    "print_command": PrintsMore,
    "resume": line_change(
        "session", with_field("id", lambda value: "scripted-other"), when="'resumed': True"
    ),
    "resume_refused": wrong_error("", status=500),
    "transcript": CountsWrong,
    "options_refused": options_change("settings", no),
    "provider_option_refused": options_change("provider_options", lambda given: {}),
    "home_untouched": mutant(change_plan=_write_home),
    "folders_removed": mutant(change_plan=lambda plan: replace(plan, private_dirs=())),
    "secrets": mutant(change_recorder=_tell_secrets),
    "unknown_messages": mutant(keeps_garbage=False),
    "garbage_only": mutant(before_end=_claim_success),
}
