"""A conversation with `codex app-server`: one thread, turn after turn.

What is not obvious on this wire:
- a turn can be steered and interrupted only once `turn/started` came, so both wait for it;
- `turn/start` while a turn runs is a steer, and `turn/interrupt` while none does is never
  answered: neither is sent then, and no answer to an interrupt is waited for;
- a message is taken when it comes back as an item, not when its request is answered: what was
  accepted but not yet read is dropped by an interrupt;
- interrupting leaves the running command alone; `thread/backgroundTerminals/clean` ends it;
- older lines tell the end of a quick command a moment after that of its turn;
- threads of sub-agents speak on the same wire.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.core.errors import (
    Aborted,
    AgentError,
    Crashed,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
)
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex import live_wire as wire
from bridle.runtimes.codex.errors import app_server_error, start_error
from bridle.runtimes.codex.live_asking import Desk, refusal
from bridle.runtimes.codex.live_items import ItemPlayer
from bridle.runtimes.codex.live_outbox import Outbox
from bridle.runtimes.codex.live_usage import Tally
from bridle.runtimes.codex.transcript import told_output
from bridle.runtimes.raw import raw_of
from bridle.turns.recorder import Recorder
from bridle.turns.rpc import Requests, encode_line
from bridle.turns.wire import LiveFacts, Outgoing

_RETRY = "Reconnecting... "


class CodexLiveWire:
    """The `LiveWire` of one `codex app-server`. It can change the model and compact."""

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        self._facts = facts
        self._recorder = recorder
        self._line = msgspec.json.Decoder(wire.Line)
        self._outbox = Outbox(
            recorder,
            told_ids=bool(facts.own.get("told_ids")),
            shared=bool(facts.own.get("socket")),
        )
        self._items = ItemPlayer(recorder, self._outbox.read)
        self._desk = Desk(self._items)
        self._requests: Requests[int, wire.Line] = Requests(int)
        self._thread_id = ""
        self._transcript = ""
        self._opening = "thread/start"
        """How the thread is opened."""
        if facts.resume is not None:
            self._opening = "thread/fork" if facts.own.get("fork") else "thread/resume"
        self._tally = Tally("", Usage())
        self._turn_id: str | None = None
        """The turn that Codex plays now."""
        self._prompt: Outgoing | None = None
        """What was sent to begin a turn that has not begun yet."""
        self._held: list[Outgoing] = []
        """Steers that wait for the turn to begin."""
        self._abort = False
        self._interrupted = False
        self._closing = False
        """Codex is done with the turn; it ends when what it left running is gone or told."""
        self._compacting = False
        self._new_model: str | None = None
        self._notice: wire.TurnError | None = None
        self._retries = 0
        self._notifications: dict[str, Callable[[bytes], None]] = {
            **self._items.notifications,
            "item/completed": self._on_item_completed,
            "turn/started": self._on_turn_started,
            "turn/completed": self._on_turn_completed,
            "thread/tokenUsage/updated": self._on_usage,
            "thread/settings/updated": self._on_settings,
            "model/rerouted": self._on_rerouted,
            "serverRequest/resolved": self._on_resolved,
            "error": self._on_error,
        }

    # -- what the driver asks -------------------------------------------------------------------

    def begin(self) -> None:
        """Introduce ourselves; the thread follows when Codex answers."""
        info = {"name": "bridle", "title": "Bridle", "version": __version__}
        abilities = {"experimentalApi": True, "optOutNotificationMethods": list(wire.UNWANTED)}
        self._ask("initialize", {"clientInfo": info, "capabilities": abilities}, self._initialized)

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn. It is open from here on, so that it can be aborted before Codex says so."""
        if self._recorder.turn_open or self._compacting:
            # Codex would take it for a steer.
            self._outbox.refused(message.id, Unavailable("codex plays another turn"))
            return
        params: dict[str, Any] = {**self._facts.own.get("turn", {})}
        if self._new_model is not None:
            params["model"] = self._new_model
        self._prompt = message
        self._begin_turn("turn/start")
        self._say("turn/start", message, params, lambda line: self._prompt_answered(message, line))

    def steer(self, message: Outgoing) -> None:
        """Reach the turn at its next tool boundary."""
        if self._turn_id is not None:
            params = {"expectedTurnId": self._turn_id}
            self._say(
                "turn/steer", message, params, lambda line: self._steer_answered(message, line)
            )
        elif self._prompt is not None:
            self._held.append(message)
        else:
            self._outbox.refused(message.id)

    def abort(self) -> None:
        """Interrupt the turn, as soon as it has begun."""
        self._abort = True
        self._interrupt_if_wanted()

    def leave(self) -> None:
        """Codex leaves, with all its commands, when its input ends."""
        self._recorder.input_done = True

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on; Codex keeps to it."""
        self._new_model = model

    def compact(self) -> None:
        """Shorten the context: Codex plays that as a turn without a message."""
        self._compacting = True
        self._abort = self._interrupted = False
        self._recorder.compaction_started("asked for")
        params = {"threadId": self._thread_id}
        self._ask("thread/compact/start", params, self._compact_answered)

    def abort_compaction(self) -> None:
        """Interrupt that turn."""
        if self._compacting:
            self.abort()

    # -- what Codex says ------------------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take one line of stdout."""
        if not line.strip():
            return
        try:
            message = self._line.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._recorder.unknown(raw_of(line))
            return
        if self._recorder.options.include_raw:
            self._recorder.source(raw_of(line))
        if message.method is None:
            self._answered(message, line)
        elif message.id is not None:
            self._asked(message.id, message.method, bytes(message.params))
        else:
            self._told(message.method, bytes(message.params), line)

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: whatever it did not take is refused."""
        recorder = self._recorder
        if not self._thread_id and recorder.error is None:
            error = start_error(exit, raw_args=bool(recorder.options.raw_args))
            if error is not None:
                recorder.fail(error)
        elif self._notice is not None and recorder.turn_open:
            recorder.fail(self._error_of(self._notice))
        gone = recorder.error or Crashed("codex ended before it took the message")
        self._outbox.gone(gone)
        for message in self._held:
            self._outbox.refused(message.id, gone)
        recorder.finish(exit)

    def _answered(self, message: wire.Line, line: bytes) -> None:
        if not self._requests.respond(message.id, message):
            self._recorder.unknown(raw_of(line))

    def _asked(self, request_id: wire.RequestId, method: str, params: bytes) -> None:
        question = self._desk.question(request_id, method, params)
        if question is not None and self._recorder.turn_open:
            self._recorder.permission_requested(question)
            return
        # Nobody knows it, or an agent that a turn left behind asks while nobody listens.
        self._recorder.unknown({"id": request_id, "method": method, "params": raw_of(params)})
        no = refusal(request_id, method) if question is None else question.answer(False, "")
        self._recorder.reply(no)

    def _told(self, method: str, params: bytes, line: bytes) -> None:
        handle = self._notifications.get(method)
        if handle is None:
            if method not in wire.PASSED_OVER:
                self._recorder.unknown(raw_of(line))
            return
        try:
            handle(params)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # `exec` shows nothing of such items either; their end is enough for a reader.
            if method != "item/started":
                self._recorder.unknown(raw_of(line))

    # -- asking ---------------------------------------------------------------------------------

    def _ask(
        self, method: str, params: dict[str, Any], answered: Callable[[wire.Line], None]
    ) -> None:
        number = self._requests.open(method, answered)
        self._recorder.reply(encode_line({"id": number, "method": method, "params": params}))

    def _say(
        self,
        method: str,
        message: Outgoing,
        params: dict[str, Any],
        answered: Callable[[wire.Line], None],
    ) -> None:
        """Send a message of the caller's. Lines that do not know its id pass over it."""
        content: list[dict[str, Any]] = [{"type": "text", "text": message.text}]
        content += [{"type": "localImage", "path": path} for path in message.images]
        self._outbox.sent(message.id, self._turn_id)
        known = {"threadId": self._thread_id, "clientUserMessageId": message.id}
        self._ask(method, {**known, **params, "input": content}, answered)

    def _interrupt_if_wanted(self) -> None:
        if self._abort and self._turn_id is not None and not self._interrupted:
            self._interrupted = True
            params = {"threadId": self._thread_id, "turnId": self._turn_id}
            self._ask("turn/interrupt", params, _pass)

    # -- the thread -----------------------------------------------------------------------------

    def _initialized(self, answer: wire.Line) -> None:
        if answer.error is not None:
            self._recorder.request_stop(
                ProtocolDrift(f"codex refused to be driven: {answer.error.message}")
            )
            return
        self._recorder.reply(encode_line({"method": "initialized"}))
        params = {**self._facts.own.get("thread", {})}
        if self._facts.resume is None:
            self._ask(self._opening, params, self._thread_opened)
        else:
            params |= {"threadId": self._facts.resume, "excludeTurns": True}
            self._ask(self._opening, params, self._thread_opened)

    def _thread_opened(self, answer: wire.Line) -> None:
        wanted = self._facts.resume
        if answer.error is not None:
            words = answer.error.message
            self._recorder.request_stop(
                ResumeRefused(words) if wanted else app_server_error(words, None)
            )
            return
        try:
            opened = msgspec.json.decode(answer.result, type=wire.ThreadOpened)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            self._recorder.request_stop(ProtocolDrift(f"codex opened no thread: {problem}"))
            return
        self._thread_id = opened.thread.id
        self._transcript = opened.thread.path or ""
        if self._facts.own.get("late_ends") and self._transcript:
            self._items.find_output = self._find_output
        before = msgspec.convert(self._facts.own.get("before", {}), Usage)
        self._tally = Tally(self._thread_id, before)
        self._recorder.session_started(self._thread_id, model=opened.model)
        if wanted and not self._is_wanted(opened.thread, wanted.lower()):
            what = "a copy of " if self._opening == "thread/fork" else ""
            self._recorder.request_stop(
                ResumeRefused(
                    f"codex opened the thread {self._thread_id} instead of {what}{wanted}"
                )
            )
            return
        self._recorder.ready(self._opening)

    def _is_wanted(self, thread: wire.Thread, wanted: str) -> bool:
        """Whether it is the thread that was to be taken up, or a copy of it."""
        if self._opening == "thread/resume":
            return thread.id.lower() == wanted
        return (thread.forked_from_id or "").lower() == wanted != thread.id.lower()

    # -- turns ----------------------------------------------------------------------------------

    def _begin_turn(self, evidence: str) -> None:
        self._notice, self._retries = None, 0
        self._abort = self._interrupted = False
        self._recorder.turn_started(evidence=evidence)

    def _prompt_answered(self, message: Outgoing, answer: wire.Line) -> None:
        if answer.error is None:
            self._outbox.accepted(message.id, turn_runs=True)
            self._recorder.model = self._new_model or self._recorder.model
            self._new_model = None
            return
        error = app_server_error(answer.error.message, None, self._recorder.model)
        self._outbox.refused(message.id, error)
        if self._prompt is message:
            self._prompt = None
            self._recorder.fail(error)
            self._end_turn()

    def _steer_answered(self, message: Outgoing, answer: wire.Line) -> None:
        if answer.error is None:
            self._outbox.accepted(message.id, turn_runs=self._turn_id is not None)
        else:
            self._outbox.refused(message.id)

    def _on_turn_started(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.TurnChanged)
        if told.thread_id != self._thread_id:
            return
        if self._closing:
            self._end_turn()
        self._turn_id = told.turn.id
        self._prompt = None
        if not self._compacting:
            self._items.show(told.thread_id, told.turn.id)
            if not self._recorder.turn_open:
                self._begin_turn("turn/started")
            held, self._held = self._held, []
            for message in held:
                self.steer(message)
        self._interrupt_if_wanted()

    def _on_turn_completed(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.TurnChanged)
        if told.thread_id != self._thread_id or told.turn.id != self._turn_id:
            return
        turn, self._turn_id = told.turn, None
        error = None if turn.error is None else self._error_of(turn.error)
        if self._compacting:
            self._compacted(turn.status, error)
            return
        if turn.status == "failed":
            self._recorder.fail(error or Unavailable("the turn failed without a reason"))
        elif turn.status == "interrupted":
            self._recorder.fail(error or Aborted("the turn was interrupted"))
        self._outbox.turn_over()
        if self._interrupted:
            self._closing = True
            clean = {"threadId": self._thread_id}
            self._ask("thread/backgroundTerminals/clean", clean, self._closed)
        elif self._facts.own.get("late_ends") and self._items.commands_run:
            # Codex's own clock: what really runs on is not waited for any longer than this.
            self._closing = True
            self._ask("command/exec", wire.command("sleep", "1"), self._closed)
        else:
            self._end_turn()

    def _closed(self, answer: wire.Line) -> None:
        if self._closing:
            self._end_turn()

    def _on_item_completed(self, params: bytes) -> None:
        self._items.completed(params)
        self._end_if_told()

    def _find_output(self, call_id: str, found: Callable[[str | None], None]) -> None:
        """Codex itself reads its transcript for us: what it says is said again to a later driver,
        what we read might not be."""

        def answered(answer: wire.Line) -> None:
            lines = ""
            with suppress(msgspec.MsgspecError):
                lines = msgspec.json.decode(answer.result, type=wire.CommandDone).stdout
            found(told_output(lines, call_id))
            self._end_if_told()

        grep = wire.command("grep", "-F", "-e", call_id, "--", self._transcript)
        self._ask("command/exec", grep, answered)

    def _end_if_told(self) -> None:
        if self._closing and not self._interrupted and not self._items.commands_run:
            self._end_turn()

    def _end_turn(self) -> None:
        self._closing = False
        for message in self._held:
            self._outbox.refused(message.id)
        self._held = []
        for answer in self._desk.turn_over(self._thread_id):
            self._recorder.reply(answer)
        self._recorder.questions.clear()
        self._items.turn_over()
        self._recorder.turn_ended()

    def _compact_answered(self, answer: wire.Line) -> None:
        if answer.error is not None:
            self._compacted("refused", None)

    def _compacted(self, status: str, error: AgentError | None) -> None:
        self._compacting = self._abort = self._interrupted = False
        self._recorder.compaction_ended(status if error is None else f"{status}: {error.kind}")

    def _on_error(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.Failure)
        if told.thread_id != self._thread_id:
            return
        if not told.will_retry:
            # `turn/completed` says it again and alone decides; kept for a process that dies before.
            self._notice = told.error
            return
        self._retries += 1
        number = told.error.message.removeprefix(_RETRY).partition("/")[0]
        attempt = int(number) if number.isdigit() else self._retries
        self._items.broken_off()
        words = told.error.additional_details or told.error.message
        error = app_server_error(words, told.error.codex_error_info, self._recorder.model)
        self._recorder.retrying(attempt, None, error)

    def _error_of(self, error: wire.TurnError) -> AgentError:
        return app_server_error(error.message, error.codex_error_info, self._recorder.model)

    # -- what else Codex tells ------------------------------------------------------------------

    def _on_usage(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.UsageUpdated)
        self._tally.take(told.thread_id, told.token_usage.total)
        self._recorder.set_usage(self._tally.usage)

    def _on_settings(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.SettingsUpdated)
        if told.thread_id == self._thread_id:
            self._recorder.model = told.thread_settings.model or self._recorder.model

    def _on_rerouted(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.Rerouted)
        if told.thread_id == self._thread_id:
            self._recorder.model = told.to_model

    def _on_resolved(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.Resolved)
        self._desk.resolved(told.request_id)


def _pass(answer: wire.Line) -> None:
    """An interrupt is judged by the end of its turn, not by its answer."""
