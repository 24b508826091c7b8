"""A conversation with `codex app-server`: one thread, turn after turn.

What is not obvious on this wire:
- a turn can be steered and interrupted only once `turn/started` came, so both wait for it;
- `turn/start` while a turn runs is a steer, and `turn/interrupt` while none does is never
  answered: neither is sent then, and no response to an interrupt is waited for;
- a message is taken when it comes back as an item, not when its request is answered: an interrupt
  drops what was accepted but not yet read;
- interrupting leaves the running command alone; `thread/backgroundTerminals/clean` ends it;
- older versions report the end of a quick command a moment after that of its turn;
- threads of sub-agents speak on the same wire.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    Aborted,
    AgentError,
    Crashed,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
)
from bridle.core.usage import NO_USAGE, Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex import app_server, wire
from bridle.runtimes.codex.stream import RETRY, record_end, start_error, turn_error
from bridle.runtimes.codex.transcript import printed_output, usage_of
from bridle.runtimes.wire import raw_of, read_line
from bridle.turns.recorder import Recorder
from bridle.turns.rpc import Requests, encode_line
from bridle.turns.wire import LiveFacts, Outgoing, Question


class CodexLiveWire:
    """The `LiveWire` of one `codex app-server`. It can change the model and compact."""

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        self._facts = facts
        self._recorder = recorder
        self._line = structs.decoder(app_server.Line)
        self._messages = Messages(
            recorder,
            returns_ids=bool(facts.own.get("told_ids")),
            shared=bool(facts.own.get("socket")),
        )
        self._items = Items(recorder, self._messages.read)
        self._approvals = Approvals(self._items)
        self._requests: Requests[int, app_server.Line] = Requests(int)
        self._thread_id = ""
        self._transcript = ""
        self._opening = "thread/start"
        """How the thread is opened."""
        if facts.resume is not None:
            self._opening = "thread/fork" if facts.own.get("fork") else "thread/resume"
        self._usage = UsageTotal("", Usage())
        self._turn_id: str | None = None
        """The turn that Codex plays now."""
        self._prompt: Outgoing | None = None
        """What was sent to begin a turn that has not started yet."""
        self._held: list[Outgoing] = []
        """Steers that wait for the turn to begin."""
        self._abort = False
        self._interrupted = False
        self._closing = False
        """Codex has finished the turn; it ends when its commands have ended or are reported."""
        self._compacting = False
        self._new_model: str | None = None
        self._notice: app_server.TurnError | None = None
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
        """Introduce Bridle; the thread follows when Codex answers."""
        params = app_server.introduction(optOutNotificationMethods=list(app_server.UNWANTED))
        self._ask("initialize", params, self._initialized)

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn. It is open from here on, so that it can be aborted before Codex says so."""
        if self._recorder.turn_open or self._compacting:
            # Codex would take it for a steer.
            self._messages.refused(message.id, Unavailable("codex plays another turn"))
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
            self._messages.refused(message.id)

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
        """Compact the context: Codex plays that as a turn without a message."""
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
        message = read_line(self._recorder, line, self._line.decode)
        if message is None:
            return
        if message.method is None:
            self._answered(message, line)
        elif message.id is not None:
            self._asked(message.id, message.method, bytes(message.params))
        else:
            self._notified(message.method, bytes(message.params), line)

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended: whatever it did not take is refused."""
        recorder = self._recorder
        if not self._thread_id and recorder.error is None:
            error = start_error(exit, raw_args=bool(recorder.options.raw_args))
            if error is not None:
                recorder.fail(error)
        elif self._notice is not None and recorder.turn_open:
            recorder.fail(self._error_of(self._notice))
        gone = recorder.error or Crashed("codex ended before it took the message")
        self._messages.gone(gone)
        for message in self._held:
            self._messages.refused(message.id, gone)
        recorder.finish(exit)

    def _answered(self, message: app_server.Line, line: bytes) -> None:
        if not self._requests.respond(message.id, message):
            self._recorder.unknown(raw_of(line))

    def _asked(self, request_id: app_server.RequestId, method: str, params: bytes) -> None:
        question = self._approvals.question(request_id, method, params)
        if question is not None and self._recorder.turn_open:
            self._recorder.permission_requested(question)
            return
        # An unknown request, or one of an agent that a turn left behind, while nobody listens.
        self._recorder.unknown({"id": request_id, "method": method, "params": raw_of(params)})
        no = refusal(request_id, method) if question is None else question.answer(False, "")
        self._recorder.reply(no)

    def _notified(self, method: str, params: bytes, line: bytes) -> None:
        handle = self._notifications.get(method)
        if handle is None:
            if method not in app_server.IGNORED:
                self._recorder.unknown(raw_of(line))
            return
        try:
            handle(params)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # `exec` does not show the start of such items either; their end is enough.
            if method != "item/started":
                self._recorder.unknown(raw_of(line))

    # -- asking ---------------------------------------------------------------------------------

    def _ask(
        self, method: str, params: dict[str, Any], answered: Callable[[app_server.Line], None]
    ) -> None:
        number = self._requests.open(method, answered)
        self._recorder.reply(encode_line({"id": number, "method": method, "params": params}))

    def _say(
        self,
        method: str,
        message: Outgoing,
        params: dict[str, Any],
        answered: Callable[[app_server.Line], None],
    ) -> None:
        """Send a message of the caller's. Versions that do not know its id ignore it."""
        content: list[dict[str, Any]] = [{"type": "text", "text": message.text}]
        content += [{"type": "localImage", "path": path} for path in message.images]
        self._messages.sent(message.id, self._turn_id)
        known = {"threadId": self._thread_id, "clientUserMessageId": message.id}
        self._ask(method, {**known, **params, "input": content}, answered)

    def _interrupt_if_wanted(self) -> None:
        if self._abort and self._turn_id is not None and not self._interrupted:
            self._interrupted = True
            params = {"threadId": self._thread_id, "turnId": self._turn_id}
            self._ask("turn/interrupt", params, _pass)

    # -- the thread -----------------------------------------------------------------------------

    def _initialized(self, answer: app_server.Line) -> None:
        if answer.error is not None:
            self._recorder.request_stop(
                ProtocolDrift(f"codex refused to be driven: {answer.error.message}")
            )
            return
        self._recorder.reply(encode_line({"method": "initialized"}))
        params = {**self._facts.own.get("thread", {})}
        if self._facts.resume is not None:
            params |= {"threadId": self._facts.resume, "excludeTurns": True}
        self._ask(self._opening, params, self._thread_opened)

    def _thread_opened(self, answer: app_server.Line) -> None:
        wanted = self._facts.resume
        if answer.error is not None:
            words = answer.error.message
            self._recorder.request_stop(ResumeRefused(words) if wanted else turn_error(words))
            return
        try:
            opened = structs.decode(answer.result, app_server.ThreadOpened)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            self._recorder.request_stop(ProtocolDrift(f"codex opened no thread: {problem}"))
            return
        self._thread_id = opened.thread.id
        self._transcript = opened.thread.path or ""
        if self._facts.own.get("late_ends") and self._transcript:
            self._items.find_output = self._find_output
        before = structs.convert(self._facts.own.get("before", {}), Usage)
        self._usage = UsageTotal(self._thread_id, before)
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

    def _is_wanted(self, thread: app_server.Thread, wanted: str) -> bool:
        """Whether it is the thread to resume, or a copy of it."""
        if self._opening == "thread/resume":
            return thread.id.lower() == wanted
        return (thread.forked_from_id or "").lower() == wanted != thread.id.lower()

    # -- turns ----------------------------------------------------------------------------------

    def _begin_turn(self, evidence: str) -> None:
        self._notice, self._retries = None, 0
        self._abort = self._interrupted = False
        self._recorder.turn_started(evidence=evidence)

    def _prompt_answered(self, message: Outgoing, answer: app_server.Line) -> None:
        if answer.error is None:
            self._messages.accepted(message.id, turn_runs=True)
            self._recorder.model = self._new_model or self._recorder.model
            self._new_model = None
            return
        error = turn_error(answer.error.message, self._recorder.model)
        self._messages.refused(message.id, error)
        if self._prompt is message:
            self._prompt = None
            self._recorder.fail(error)
            self._end_turn()

    def _steer_answered(self, message: Outgoing, answer: app_server.Line) -> None:
        if answer.error is None:
            self._messages.accepted(message.id, turn_runs=self._turn_id is not None)
        else:
            self._messages.refused(message.id)

    def _on_turn_started(self, params: bytes) -> None:
        note = structs.decode(params, app_server.TurnChanged)
        if note.thread_id != self._thread_id:
            return
        if self._closing:
            self._end_turn()
        self._turn_id = note.turn.id
        self._prompt = None
        if not self._compacting:
            self._items.show(note.thread_id, note.turn.id)
            if not self._recorder.turn_open:
                self._begin_turn("turn/started")
            held, self._held = self._held, []
            for message in held:
                self.steer(message)
        self._interrupt_if_wanted()

    def _on_turn_completed(self, params: bytes) -> None:
        note = structs.decode(params, app_server.TurnChanged)
        if note.thread_id != self._thread_id or note.turn.id != self._turn_id:
            return
        turn, self._turn_id = note.turn, None
        error = None if turn.error is None else self._error_of(turn.error)
        if self._compacting:
            self._compacted(turn.status, error)
            return
        if turn.status == "failed":
            self._recorder.fail(error or Unavailable("the turn failed without a reason"))
        elif turn.status == "interrupted":
            self._recorder.fail(error or Aborted("the turn was interrupted"))
        self._messages.turn_over()
        if self._interrupted:
            self._closing = True
            clean = {"threadId": self._thread_id}
            self._ask("thread/backgroundTerminals/clean", clean, self._closed)
        elif self._facts.own.get("late_ends") and self._items.commands_run:
            # Codex's own clock: a command that really runs on is waited for no longer than this.
            self._closing = True
            self._ask("command/exec", app_server.own_command("sleep", "1"), self._closed)
        else:
            self._end_turn()

    def _closed(self, answer: app_server.Line) -> None:
        if self._closing:
            self._end_turn()

    def _on_item_completed(self, params: bytes) -> None:
        self._items.completed(params)
        self._end_if_complete()

    def _find_output(self, call_id: str, found: Callable[[str | None], None]) -> None:
        """Codex itself reads its transcript for us: a later driver gets the same answer from the
        journal, and might not from the file."""

        def answered(answer: app_server.Line) -> None:
            lines = ""
            with suppress(msgspec.MsgspecError):
                lines = structs.decode(answer.result, app_server.CommandDone).stdout
            found(printed_output(lines, call_id))
            self._end_if_complete()

        grep = app_server.own_command("grep", "-F", "-e", call_id, "--", self._transcript)
        self._ask("command/exec", grep, answered)

    def _end_if_complete(self) -> None:
        if self._closing and not self._interrupted and not self._items.commands_run:
            self._end_turn()

    def _end_turn(self) -> None:
        self._closing = False
        for message in self._held:
            self._messages.refused(message.id)
        self._held = []
        for answer in self._approvals.turn_over(self._thread_id):
            self._recorder.reply(answer)
        self._recorder.questions.clear()
        self._items.turn_over()
        self._recorder.turn_ended()

    def _compact_answered(self, answer: app_server.Line) -> None:
        if answer.error is not None:
            self._compacted("refused", None)

    def _compacted(self, status: str, error: AgentError | None) -> None:
        self._compacting = self._abort = self._interrupted = False
        self._recorder.compaction_ended(status if error is None else f"{status}: {error.kind}")

    def _on_error(self, params: bytes) -> None:
        note = structs.decode(params, app_server.Failure)
        if note.thread_id != self._thread_id:
            return
        if not note.will_retry:
            # `turn/completed` says it again and alone decides; kept for a process that dies before.
            self._notice = note.error
            return
        self._retries += 1
        number = note.error.message.removeprefix(RETRY).partition("/")[0]
        attempt = int(number) if number.isdigit() else self._retries
        self._items.broken_off()
        words = note.error.additional_details or note.error.message
        error = turn_error(words, self._recorder.model, note.error.codex_error_info)
        self._recorder.retrying(attempt, None, error)

    def _error_of(self, error: app_server.TurnError) -> AgentError:
        return turn_error(error.message, self._recorder.model, error.codex_error_info)

    # -- other notifications --------------------------------------------------------------------

    def _on_usage(self, params: bytes) -> None:
        note = structs.decode(params, app_server.UsageUpdated)
        self._usage.take(note.thread_id, note.token_usage.total)
        self._recorder.set_usage(self._usage.usage)

    def _on_settings(self, params: bytes) -> None:
        note = structs.decode(params, app_server.SettingsUpdated)
        if note.thread_id == self._thread_id:
            self._recorder.model = note.thread_settings.model or self._recorder.model

    def _on_rerouted(self, params: bytes) -> None:
        note = structs.decode(params, app_server.Rerouted)
        if note.thread_id == self._thread_id:
            self._recorder.model = note.to_model

    def _on_resolved(self, params: bytes) -> None:
        note = structs.decode(params, app_server.Resolved)
        self._approvals.resolved(note.request_id)


def _pass(answer: app_server.Line) -> None:
    """An interrupt is judged by the end of its turn, not by its answer."""


# -- messages -------------------------------------------------------------------------------------


class Messages:
    """Messages that were sent and not yet read.

    Codex answers a request before the message is read; a message is part of the conversation only
    when it comes back as an item. Between the two an interrupt makes Codex forget it.
    """

    def __init__(self, recorder: Recorder, *, returns_ids: bool, shared: bool) -> None:
        self._recorder = recorder
        self._shared = shared
        """Whether a person can join the session, and type."""
        self._returns_ids = returns_ids
        """Whether items carry our ids; else messages come back in the order of sending, each in
        the turn it was meant for."""
        self._waiting: dict[str, bool] = {}
        """Message id -> whether its request was accepted."""
        self._turns: dict[str, str | None] = {}

    def sent(self, message_id: str, turn_id: str | None) -> None:
        """A message went out, for a turn that runs or to begin one."""
        self._waiting[message_id] = False
        self._turns[message_id] = turn_id

    def accepted(self, message_id: str, *, turn_runs: bool) -> None:
        """Its request succeeded; without a turn that could read it, that means nothing."""
        if message_id in self._waiting:
            self._waiting[message_id] = True
            if not turn_runs:
                self.refused(message_id)

    def read(self, given_id: str | None, turn_id: str, text: str) -> None:
        """A message came back in a turn. In a shared session, a message that was not sent from here
        was typed by a person."""
        meant = (each for each in self._waiting if self._turns[each] in (None, turn_id))
        message_id = given_id if self._returns_ids else next(meant, None)
        if message_id is not None and message_id in self._waiting:
            del self._waiting[message_id]
            self._recorder.message_taken(message_id)
        elif self._shared and self._returns_ids and message_id not in self._turns:
            self._recorder.typed(text)

    def refused(self, message_id: str, error: AgentError | None = None) -> None:
        """Codex does not have the message and will not get it."""
        self._waiting.pop(message_id, None)
        self._recorder.message_refused(message_id, error or _too_late())

    def turn_over(self) -> None:
        """What was accepted and not read is forgotten; other responses are still to come."""
        for message_id, accepted in list(self._waiting.items()):
            if accepted:
                self.refused(message_id)

    def gone(self, error: AgentError) -> None:
        """The process has ended."""
        for message_id in list(self._waiting):
            self.refused(message_id, error)


def _too_late() -> AgentError:
    return Unavailable("the turn ended before codex read the message", hint="send it as a prompt")


# -- items ----------------------------------------------------------------------------------------


class Items:
    """The items of the turn that is shown, from `show` to `turn_over`.

    That is a moment longer than Codex plays it. Items of other turns and threads are ignored: a
    command that was left running ends in a later turn, and sub-agents have their own messages.

    Texts come as they are written, tools as they run. The events are those of `exec` for the same
    turn, with the text in pieces and with what commands print meanwhile.
    """

    def __init__(
        self, recorder: Recorder, message_read: Callable[[str | None, str, str], None]
    ) -> None:
        self.notifications: dict[str, Callable[[bytes], None]] = {
            "item/started": self._on_started,
            "item/completed": self.completed,
            "item/agentMessage/delta": self._on_text,
            "item/reasoning/summaryTextDelta": self._on_thinking,
            "item/commandExecution/outputDelta": self._on_output,
            "item/mcpToolCall/progress": self._on_output,
            "turn/plan/updated": self._on_plan,
        }
        """Method -> the handler of its parameters; may raise `msgspec.MsgspecError`."""
        self.find_output: Callable[[str, Callable[[str | None], None]], None] | None = None
        """Looks up what a command printed, for versions that do not always report it."""
        self._recorder = recorder
        self._message_read = message_read
        self._shown: tuple[str, str] | None = None
        self._written: dict[str, list[str]] = {}
        self._parts: dict[str, int] = {}
        self._tools: dict[str, wire.Tool] = {}
        self._plan: wire.TodoList | None = None
        self._asked: set[str] = set()

    def show(self, thread_id: str, turn_id: str) -> None:
        """Show this turn from here on."""
        self._shown = (thread_id, turn_id)

    @property
    def commands_run(self) -> bool:
        """Whether the end of a command was not reported yet."""
        return "command_execution" in self._recorder.tools.names

    def turn_over(self) -> None:
        """The turn is about to end."""
        if self._plan is not None:
            self._tool_completed(self._plan)
        self._shown = None
        self._plan = None
        self._written.clear()
        self._parts.clear()
        self._tools.clear()
        self._asked.clear()

    # -- what Codex says ------------------------------------------------------------------------

    def _on_started(self, params: bytes) -> None:
        note = structs.decode(params, app_server.ItemChanged)
        if (note.thread_id, note.turn_id) != self._shown:
            return
        item = note.item
        if isinstance(item, app_server.UserMessage):
            self._message_read(item.client_id, note.turn_id, item.text)
        elif isinstance(item, app_server.Compaction):
            self._recorder.compaction_started("automatic")
        elif not isinstance(item, app_server.AgentMessage | app_server.Reasoning):
            self._tool_started(item.as_exec())

    def completed(self, params: bytes) -> None:
        """Take an `item/completed`."""
        note = structs.decode(params, app_server.ItemChanged)
        if (note.thread_id, note.turn_id) != self._shown:
            return
        item = note.item
        if isinstance(item, app_server.AgentMessage):
            self._text_completed(item)
        elif isinstance(item, app_server.Reasoning):
            self._thinking_completed(item)
        elif isinstance(item, app_server.Compaction):
            self._recorder.compaction_ended("automatic")
        elif not isinstance(item, app_server.UserMessage):
            self._tool_ended(item)

    def _on_output(self, params: bytes) -> None:
        note = structs.decode(params, app_server.Delta)
        if (note.thread_id, note.turn_id) == self._shown:
            self._recorder.tool_updated(note.item_id, note.delta or note.message)

    # -- text -----------------------------------------------------------------------------------

    def _on_text(self, params: bytes) -> None:
        note = structs.decode(params, app_server.Delta)
        if (note.thread_id, note.turn_id) == self._shown and note.delta:
            self._open(note.item_id)
            self._written[note.item_id].append(note.delta)
            self._recorder.text_delta(note.delta)

    def _on_thinking(self, params: bytes) -> None:
        note = structs.decode(params, app_server.Delta)
        if (note.thread_id, note.turn_id) != self._shown or not note.delta:
            return
        text, part = note.delta, note.summary_index
        self._open(note.item_id)
        if part != self._parts.setdefault(note.item_id, part):
            # As `exec` joins the parts of a summary.
            self._parts[note.item_id] = part
            text = "\n" + text
        self._written[note.item_id].append(text)
        self._recorder.thinking_delta(text)

    def _text_completed(self, item: app_server.AgentMessage) -> None:
        """The model's text is whole: add what no piece brought, and close the message."""
        written = "".join(self._written.get(item.id, ()))
        self._open(item.id)
        if item.text.startswith(written):
            self._recorder.text_delta(item.text[len(written) :], synthetic=True)
        self._recorder.block_ended()
        self._recorder.message_ended()

    def _thinking_completed(self, item: app_server.Reasoning) -> None:
        """The summary is whole; the text that follows it belongs to the same message."""
        written = "".join(self._written.get(item.id, ()))
        text = "\n".join(item.summary)
        if not text.strip():
            return
        self._open(item.id)
        if text.startswith(written):
            self._recorder.thinking_delta(text[len(written) :], synthetic=True)
        self._recorder.block_ended()

    def broken_off(self) -> None:
        """The model call failed in the middle of a text: the next text is a new message."""
        self._recorder.message_ended(synthetic=True)

    def _open(self, item_id: str) -> None:
        self._written.setdefault(item_id, [])
        if not self._recorder.message_open:
            self._recorder.message_started(item_id)

    # -- tools ----------------------------------------------------------------------------------

    def _tool_started(self, item: wire.Tool) -> None:
        """A tool runs, or is about to ask whether it may."""
        self._tools[item.id] = item
        self._recorder.tool_started(item.id, item.name, item.input)

    def _tool_completed(self, item: wire.Tool) -> None:
        """A tool ended."""
        record_end(self._recorder, item, asked=item.id in self._asked)

    def _tool_ended(self, item: app_server.ToolItem) -> None:
        """A tool ended. Older versions give the output of many commands to the model only: then it
        is looked up first."""
        lacking = isinstance(item, app_server.CommandExecution) and item.aggregated_output is None
        if not lacking or self.find_output is None or item.id not in self._tools:
            self._tool_completed(item.as_exec())
            return
        shown = self._shown

        def found(output: str | None) -> None:
            if self._shown == shown:
                whole = msgspec.structs.replace(item, aggregated_output=output)
                self._tool_completed(whole.as_exec())

        self.find_output(item.id, found)

    def asked_about(self, item_id: str) -> wire.Tool | None:
        """Note that a permission request names a tool call; the call, if it was announced."""
        self._asked.add(item_id)
        return self._tools.get(item_id)

    def mcp_call(self, server: str) -> wire.McpToolCall | None:
        """The latest call of a tool of an MCP server."""
        calls = [item for item in self._tools.values() if isinstance(item, wire.McpToolCall)]
        return next((item for item in reversed(calls) if item.server == server), None)

    def _on_plan(self, params: bytes) -> None:
        """The agent's plan, which `exec` shows as a tool that ends with the turn."""
        note = structs.decode(params, app_server.PlanUpdated)
        if (note.thread_id, note.turn_id) != self._shown:
            return
        items = [{"text": each.step, "completed": each.status == "completed"} for each in note.plan]
        known = self._plan is not None
        self._plan = plan = wire.TodoList(id=f"plan_{note.turn_id}", items=items)
        if known:
            self._recorder.tool_updated(plan.id, msgspec.json.encode(items).decode())
        else:
            self._tool_started(plan)


# -- permission -----------------------------------------------------------------------------------

_COMMAND = "item/commandExecution/requestApproval"
_PATCH = "item/fileChange/requestApproval"
_PERMISSIONS = "item/permissions/requestApproval"
_ELICITATION = "mcpServer/elicitation/request"
_TOOL_CALL = "mcp_tool_call"

Answers = Callable[[bool], dict[str, Any]]
_Asked = tuple[str, str, str | None, Any, Answers]
"""Thread, tool, tool call, arguments, answers."""


def refusal(request_id: app_server.RequestId, method: str) -> bytes:
    """The response to a request that Bridle does not support."""
    error = {"code": -32601, "message": f"{method} is not supported by this client"}
    return encode_line({"id": request_id, "error": error})


class Approvals:
    """Permission requests of Codex that are open. A response that comes too late is not sent.

    Every other request gets an error at once: Codex waits for ever for a response, and takes an
    error for a no.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._open: dict[app_server.RequestId, tuple[str, Answers]] = {}
        """Request -> the thread that asks, and how it is answered."""

    def question(
        self, request_id: app_server.RequestId, method: str, params: bytes
    ) -> Question | None:
        """The permission request in a request of Codex's; None when it is something else."""
        try:
            found = self._read(method, params)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if found is None:
            return None
        thread_id, name, call_id, args, answers = found
        self._open[request_id] = (thread_id, answers)
        return Question(
            request_id=str(request_id),
            tool_name=name,
            args=args,
            answer=lambda allowed, reason: self._answer(request_id, allowed),
            tool_call_id=call_id,
        )

    def _answer(self, request_id: app_server.RequestId, allowed: bool) -> bytes:
        """The wire has no place for a reason: to the model, the user refused."""
        known = self._open.pop(request_id, None)
        if known is None:
            return b""
        return encode_line({"id": request_id, "result": known[1](allowed)})

    def resolved(self, request_id: app_server.RequestId) -> None:
        """A request needs no response any more."""
        self._open.pop(request_id, None)

    def turn_over(self, thread_id: str) -> list[bytes]:
        """Nobody is asked any more. Codex drops the requests of the thread whose turn it was; those
        of its sub-agents are refused."""
        others = [each for each, (thread, _) in self._open.items() if thread != thread_id]
        refusals = [self._answer(each, False) for each in others]
        self._open.clear()
        return refusals

    def _read(self, method: str, params: bytes) -> _Asked | None:
        if method == _ELICITATION:
            return self._tool_call(structs.decode(params, app_server.Elicitation))
        if method not in (_COMMAND, _PATCH, _PERMISSIONS):
            return None
        asked = structs.decode(params, app_server.Approval)
        known = self._items.asked_about(asked.item_id)
        if method == _PERMISSIONS:
            args: dict[str, Any] = {"permissions": asked.permissions}
            answers: Answers = _grant(asked.permissions)
            name = "request_permissions"
        else:
            args = dict(known.input) if known is not None else {}
            answers = _decide
            name = "command_execution" if method == _COMMAND else "file_change"
        more = {"command": asked.command, "cwd": asked.cwd, "reason": asked.reason}
        more["grant_root"] = asked.grant_root
        args |= {key: value for key, value in more.items() if value is not None}
        return asked.thread_id, name, asked.item_id, args, answers

    def _tool_call(self, asked: app_server.Elicitation) -> _Asked | None:
        """Codex asks whether a tool may be called; what servers ask is not supported."""
        if asked.meta is None or asked.meta.codex_approval_kind != _TOOL_CALL:
            return None
        call = self._items.mcp_call(asked.server_name)
        if call is None:
            args: Any = {"server": asked.server_name, "arguments": asked.meta.tool_params}
            args |= {"reason": asked.message}
            return asked.thread_id, _TOOL_CALL, None, args, _elicit
        self._items.asked_about(call.id)
        return asked.thread_id, call.name, call.id, call.input, _elicit


def _decide(allowed: bool) -> dict[str, Any]:
    return {"decision": "accept" if allowed else "decline"}


def _grant(permissions: Any) -> Answers:
    return lambda allowed: {"permissions": permissions if allowed else {}}


def _elicit(allowed: bool) -> dict[str, Any]:
    return {"action": "accept", "content": {}} if allowed else {"action": "decline"}


# -- usage ----------------------------------------------------------------------------------------


class UsageTotal:
    """Sums up what this process used.

    A total is repeated, continues that of an earlier process, and falls back to zero when the
    context overflows, so only its growth counts.
    """

    def __init__(self, thread_id: str, before: Usage) -> None:
        self.usage = NO_USAGE
        self._totals = {thread_id: before}

    def take(self, thread_id: str, total: app_server.Tokens) -> None:
        """Take the running total of a thread: ours, or that of a sub-agent."""
        now = usage_of(total.as_exec())
        growth = now - self._totals.get(thread_id, NO_USAGE)
        self._totals[thread_id] = now
        if growth.total > 0:
            self.usage += growth
