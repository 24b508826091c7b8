"""A conversation with one agent: prompt after prompt in one session of one process.

The protocol has no way to reach a running turn: a second prompt cancels the first, waits, or never
runs, depending on the agent. So there is no `steer`, and the driver queues messages.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import Aborted, AgentError, Crashed, Unavailable, WrongUse
from bridle.core.files import new_private_dir, write_private
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import protocol
from bridle.runtimes.acp.plan import AcpPlan, SessionPlan, content_blocks
from bridle.runtimes.acp.product import AcpProduct
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.acp.session import AcpMachine, asked_no_model, no_model_choice
from bridle.runtimes.acp.updates import begins_work, is_known, is_silent, shows_receipt
from bridle.runtimes.history import Span, Spent, count_prompts, spent_on
from bridle.runtimes.wire import raw_of
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Outgoing

COMPACTION = "asked for"
"""The reason of a compaction that a caller requested."""
CANCEL_GRACE = 45.0
"""Seconds that a cancelled turn has to end; one agent gives itself 30."""

PromptHistory = Callable[[str, Span], Spent | None]
"""What some prompts of a session used; None if the files do not say."""


class AcpWire(AcpMachine):
    """The `LiveWire` of every agent that speaks the protocol; it can also change the model.

    Contract: that of `LiveWire`. A message counts as taken when the agent reports anything of its
    turn, or answers it. `history` is called at the end of each turn, if only the agent's files say
    what it used; `earlier` is the number of prompts that the session had before this process.
    """

    def __init__(
        self,
        recorder: Recorder,
        quirks: AcpQuirks,
        plan: SessionPlan,
        *,
        history: PromptHistory | None = None,
        earlier: int = 0,
    ) -> None:
        if plan.silence_timeout is None and not recorder.live:
            # A session has timers for its turns; a run of one prompt has none for inactivity.
            plan = msgspec.structs.replace(plan, silence_timeout=quirks.silence)
        super().__init__(recorder, quirks, plan)
        self._history = history
        self._earlier = earlier
        self._played = 0
        self._message: str | None = None
        """Id of the message whose turn is open, until the turn ends."""
        self._prompted = False
        """Whether a prompt was sent and is not answered."""
        self._maybe_command = False
        """Whether that may be a command, which the agent's files would not contain."""
        self._held: dict[str, Any] | None = None
        """A prompt that waits for the change of the model."""
        self._own_turn = False
        self._compacting = False
        self._compact_failure = ""
        self._changing: str | None = None
        """The requested model, until the agent confirms it."""
        self._refusal: AgentError | None = None
        """Why the agent did not change its model; the next prompt is refused with it."""

    # -- what the driver calls ------------------------------------------------------------------

    def begin(self) -> None:
        """Send `initialize`."""
        self._recorder.reply(self._client.request("initialize", protocol.initialize_params()))
        self._await_first()

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn, or refuse the message."""
        recorder = self._recorder
        blocks = self._blocks(message)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            recorder.message_refused(message.id, refusal)
        elif isinstance(blocks, AgentError):
            recorder.message_refused(message.id, blocks)
        else:
            self._message = message.id
            self._maybe_command = message.text.lstrip().startswith(self._quirks.unrecorded)
            recorder.turn_started(evidence="session/prompt")
            params = {**self._opening.params, "prompt": blocks}
            if self._changing is None:
                self._send(params)
            else:
                self._held = params

    def steer(self, message: Outgoing) -> None:
        """Refused: the protocol cannot do it, and the driver does not call this."""
        self._recorder.message_refused(
            message.id, Unavailable("the protocol has no way to reach a running turn")
        )

    def abort(self) -> None:
        """Cancel the turn. A turn that the agent began itself ends at once: no answer ends it."""
        self._held = None
        if self._prompted or self._own_turn:
            self._recorder.reply(self._client.notify("session/cancel", self._opening.params))
            self._turns.withdraw("the turn was aborted")
            self._turns.cancelled = True
        if self._prompted:
            error = Unavailable(f"the agent did not end its turn in {CANCEL_GRACE:g} s")
            self._recorder.expect(CANCEL_GRACE, error)
        else:
            self._refuse_message(Aborted("aborted before the agent had it"))
            self._end_turn()

    def leave(self) -> None:
        """Close the session, then stdin."""
        self._close_session()

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on; if the agent refuses, so is the next prompt, with the
        reason."""
        change = self._opening.model_change(model)
        if change is None:
            self._refusal = no_model_choice(model)
            return
        self._refusal = None
        self._changing = model
        self._call(*change)

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone."""
        recorder = self._recorder
        self._explain_exit(exit)
        # Every session begins with this event, also one that failed.
        recorder.session_started(None, synthetic=True)
        self._refuse_message(recorder.error or Crashed("the agent ended before it took the prompt"))
        if recorder.turn_open:
            self._turns.close()
            self._played += self._prompted
            self._count_from_files()
        recorder.finish(exit)

    # -- turns ----------------------------------------------------------------------------------

    def _blocks(self, message: Outgoing) -> list[dict[str, Any]] | AgentError:
        """The message as content blocks, or why that is impossible."""
        if message.images and not self._opening.takes_images:
            return Unavailable("this agent takes no images")
        try:
            message.text.encode()
            return content_blocks(message.text, message.images)
        except UnicodeEncodeError:
            return Unavailable("the message contains characters that are not Unicode text")
        except WrongUse as problem:
            return Unavailable(problem.message, hint=problem.hint)

    def _send(self, params: dict[str, Any]) -> None:
        self._prompted = True
        self._call("session/prompt", params)
        self._turns.goes_on()

    def _end_turn(self, *, recorded: bool = True) -> None:
        self._played += self._prompted and recorded
        self._prompted = self._own_turn = False
        self._message = None
        self._turns.close()
        self._count_from_files()
        self._recorder.expect(None)
        self._recorder.turn_ended()

    def _taken(self) -> None:
        if self._message is not None and self._prompted:
            self._recorder.message_taken(self._message)

    def _refuse_message(self, error: AgentError) -> None:
        """The message of the open turn probably never reached the agent."""
        if self._message is not None:
            self._recorder.message_refused(self._message, error)
            self._message = None

    def _count_from_files(self) -> None:
        """Record what only the agent's own files say: the usage of this process's prompts so far.
        Later prompts do not count, so that replaying a journal gives the same."""
        session_id = self._opening.session_id
        if self._history is None or not session_id or not self._played:
            return
        spent = self._history(session_id, Span(self._earlier, self._played))
        if spent is None:
            return
        self._recorder.set_usage(spent.usage)
        self._recorder.model = spent.model or self._recorder.model
        if spent.cost_usd:
            self._recorder.set_cost(spent.cost_usd, "provider")

    # -- what the agent sends -------------------------------------------------------------------

    def _session_ready(self) -> None:
        self._recorder.expect(None)
        self._recorder.ready(self._opening.method)

    def _updated(self, update: protocol.Update, line: bytes) -> None:
        self._turns.cost(update)
        if self._compacting and is_known(update):
            # The agent's comments or the summary; neither is an answer.
            self._note_failure(protocol.text_of(update.content).strip())
            return
        if self._prompted and shows_receipt(update):
            self._taken()
        if self._own_turn and update.cost is not None:
            self._end_turn()
        elif self._recorder.turn_open:
            self._turns.take(update, line)
        elif self._quirks.own_turns and begins_work(update):
            self._begin_own_turn(f"session/update {update.session_update}")
            self._turns.take(update, line)
        elif not is_silent(update):
            # The rest of a turn that has ended, or something unknown.
            self._recorder.unknown(raw_of(line))

    def _begin_own_turn(self, evidence: str) -> None:
        self._own_turn = True
        self._turns.unhurried = True
        self._recorder.turn_started(evidence=evidence)

    def _asked(self, call: protocol.Call, line: bytes) -> None:
        if not self._recorder.turn_open and self._quirks.own_turns:
            self._begin_own_turn("session/request_permission")
        if self._recorder.turn_open:
            self._taken()
            self._turns.asked(call)
            return
        # It belongs to no turn, and it must not wait.
        self._recorder.reply(protocol.permission_cancelled(call.id))
        self._recorder.unknown(raw_of(line))

    def _answered(self, answer: protocol.Answer) -> None:
        if answer.method == "session/prompt" and self._compacting:
            self._compacted(answer)
        elif answer.method == "session/prompt":
            self._taken()
            self._turns.judge(answer)
            self._end_turn(recorded=not self._was_command(answer))
        elif self._changing is not None:
            self._model_changed(answer)

    def _was_command(self, answer: protocol.Answer) -> bool:
        """Whether the agent's files do not contain the answered prompt."""
        if not self._maybe_command or answer.error is not None:
            return False
        return asked_no_model(protocol.result_of(answer, protocol.PromptDone))

    def _note_failure(self, text: str) -> None:
        start = self._quirks.compact_failure
        if start and text.startswith(start):
            self._compact_failure = text

    def _compacted(self, answer: protocol.Answer) -> None:
        self._played += 1
        failure = self._turns.settle(answer)
        self._count_from_files()
        self._compaction_over(failure or self._compact_failure)

    def _compaction_over(self, failure: str) -> None:
        self._compacting = False
        self._compact_failure = ""
        self._recorder.expect(None)
        self._recorder.compaction_ended(failure or COMPACTION)

    def _model_changed(self, answer: protocol.Answer) -> None:
        model, self._changing = self._changing, None
        held, self._held = self._held, None
        self._recorder.expect(None)
        if answer.error is None:
            self._recorder.model = model
            if held is not None:
                self._send(held)
            return
        error = protocol.error_of_call(answer.error, model=model)
        if held is None:
            self._refusal = error
            return
        self._recorder.fail(error)
        self._refuse_message(error)
        self._end_turn()

    def _give_up(self, error: AgentError) -> None:
        if not self._opening.over:
            self._recorder.request_stop(error)
        elif self._prompted and "session/prompt" not in self._client.pending:
            # The answer is malformed; the next prompt may get a better one.
            self._taken()
            self._recorder.fail(error)
            self._end_turn()
        elif self._compacting:
            self._compaction_over(error.message)


class CompactingWire(AcpWire):
    """A wire whose agent compacts its context on a prompt with a command of its own."""

    def compact(self) -> None:
        """Compact the context. The agent answers as it answers a prompt; there is no turn."""
        self._compacting = True
        self._recorder.compaction_started(COMPACTION)
        blocks = content_blocks(self._quirks.compact_command, ())
        self._call("session/prompt", {**self._opening.params, "prompt": blocks})

    def abort_compaction(self) -> None:
        """Cancel it; the agent then answers."""
        if self._compacting:
            self._recorder.reply(self._client.notify("session/cancel", self._opening.params))


# -- plans and wires of conversations -------------------------------------------------------------

_SERVERS = "mcp-servers.json"


class AcpFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`LiveFacts.own` of a conversation."""

    session: SessionPlan
    servers: str = ""
    """File with the MCP servers, which may contain keys."""
    places: dict[str, str] = {}
    """Variables that say where the agent keeps its files, if these say what a turn used."""
    earlier: int = 0
    """Prompts of the session before this process."""


def conversation(adapter: AcpProduct, plan: AcpPlan, env: Mapping[str, str]) -> AcpPlan:
    """`plan` as that of a conversation, with the facts that its wire needs."""

    session, folders = plan.session, plan.private_dirs
    servers = ""
    if session.mcp_servers:
        folder = folders[0] if folders else new_private_dir(env, adapter.id)
        folders = (folder,)
        servers = write_private(folder, _SERVERS, msgspec.json.encode(session.mcp_servers))
    places: dict[str, str] = {}
    earlier = 0
    if plan.quirks.history:
        places = adapter.history_places(plan.spec.env)
        if session.resume:
            earlier = count_prompts(adapter, places, session.resume)
    own = AcpFacts(
        session=msgspec.structs.replace(session, prompt=[], mcp_servers=[]),
        servers=servers,
        places=places,
        earlier=earlier,
    )
    live = plan.conversing(adapter.id, resume=session.resume, own=msgspec.to_builtins(own))
    return msgspec.structs.replace(live, private_dirs=folders)


def wire_of(adapter: AcpProduct, facts: LiveFacts, recorder: Recorder) -> AcpWire:
    """The wire of the conversation that `facts` describe."""

    own = structs.convert(facts.own, AcpFacts)
    session, quirks = own.session, adapter.quirks_of(facts.runtime_version or None)[0]
    if own.servers:
        session = msgspec.structs.replace(session, mcp_servers=_stored_servers(own.servers))
    history = partial(spent_on, adapter, own.places) if quirks.history else None
    cls = CompactingWire if quirks.compact_command else AcpWire
    return cls(recorder, quirks, session, history=history, earlier=own.earlier)


def _stored_servers(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            return structs.decode(file.read(), list[dict[str, Any]])
    except (OSError, msgspec.MsgspecError) as problem:
        raise Unavailable(f"the conversation's MCP servers cannot be read: {problem}") from None
