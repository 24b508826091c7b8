"""Conversations: which one a request belongs to, its place in the script, and the reply.

The place in the script is read from the request itself, from the replies that it repeats as
history. So a request that is sent again gets the same turn again, agents do not disturb each
other, and a resumed conversation continues where it was. State is needed only to count faults and
for the turns that a compaction has hidden.
"""

import hashlib
import threading
from collections.abc import Mapping

import msgspec

from bridle.testing.script import ENDED_TEXT, Conversation, Fault, Match, Script, Turn, Usage
from bridle.testing.side_requests import (
    COMPACTION,
    Mark,
    find_mark,
    side_kind,
    side_text,
    summary_text,
)
from bridle.testing.steps import (
    FaultStage,
    Step,
    Steps,
    compile_steps,
    is_refusal,
    make_reply,
    say,
)
from bridle.testing.tools import UntranslatableError
from bridle.testing.wire.base import Question, Reply

DEFAULT = "default"
"""The name of the conversation that the script's own `turns` make."""


_NO_TURN = Turn(text="This reply has no turn in the script.")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request, and the reason."""

    outcome: str
    """`turn`, `fault`, `side`, `overrun`, `untranslatable` or `unmatched`."""
    conversation: str | None = None
    identity: str | None = None
    step: int | None = None
    turn: int | None = None
    side: str | None = None
    reply: Reply | None = None
    fault: Fault | None = None
    error: str | None = None


class _Talk:
    """The state of one conversation with one agent."""

    def __init__(self, name: str, steps: Steps, prompt: str) -> None:
        self.name = name
        self.steps = steps
        self.prompt = prompt
        self.order = 0
        self.overflowed = False
        self.foreign = 0
        self.next_step = 0
        self.fault_counts: dict[tuple[int, int], int] = {}
        self.answered: dict[int, int] = {}
        """Steps that were played, with the number of prompts there were by then."""
        self.overruns = 0

    def advance(self, step: int, question: Question) -> None:
        """Note that a step was played."""
        self.answered.setdefault(step, len(question.prompts))
        self.next_step = max(self.next_step, step + 1)

    def skip_lost(self, step: int, question: Question) -> int:
        """Skip replies that were given but are not in the history.

        An interrupted agent may forget the reply. A retry has no new prompt.
        """
        while step in self.answered and len(question.prompts) > self.answered[step]:
            step += 1
        return step


class Conversations:
    """Plays one script to any number of agents. Safe to call from several threads."""

    def __init__(self, script: Script) -> None:
        self._lock = threading.Lock()
        self._talks: dict[str, _Talk] = {}
        self._order = 0
        self._named = {each.name: each for each in script.conversations}
        self._steps = {name: compile_steps(each.turns) for name, each in self._named.items()}
        if script.turns or not script.conversations:
            self._steps[DEFAULT] = compile_steps(script.turns)

    def decide(
        self, question: Question, *, named: str | None, headers: Mapping[str, str], id_prefix: str
    ) -> Decision:
        """Choose the answer to a request and update the counts."""
        with self._lock:
            side = side_kind(question)
            talk_id = self._identify(question, named, headers, side)
            if side is not None:
                return self._side_reply(question, side, talk_id)
            if talk_id is None:
                return self._unmatched(question)
            return self._answer(question, talk_id, id_prefix)

    def unfinished(self) -> list[str]:
        """The parts of the script that were not played, or not as written."""
        with self._lock:
            played = {talk.name for talk in self._talks.values()}
            missing = [
                f"conversation {name!r} never started" for name in self._steps if name not in played
            ]
            for talk in self._talks.values():
                left = [i for i in range(len(talk.steps.steps)) if i not in talk.answered]
                if left:
                    turn = talk.steps.steps[left[0]].turn
                    missing.append(
                        f"conversation {talk.name!r} stopped before turn {turn + 1} "
                        f"({len(left)} of {len(talk.steps.steps)} steps not played)"
                    )
                if talk.overruns:
                    missing.append(
                        f"conversation {talk.name!r} was asked for {talk.overruns} turns more "
                        "than its script has"
                    )
            return missing

    # Whose request is it?

    def _identify(
        self, question: Question, named: str | None, headers: Mapping[str, str], side: str | None
    ) -> str | None:
        known = self._known_by_history(question)
        if known is not None:
            return known
        name = self._conversation_name(question, named, headers)
        prompt = question.prompts[0] if question.prompts else ""
        whose = question.session or f"system:{question.system}"
        raw = "\0".join((named or "", name or "", whose, prompt))
        identity = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:16]
        if side is not None:
            return identity if identity in self._talks else self._quoted_in(question)
        if name is None:
            return None
        if identity not in self._talks:
            self._talks[identity] = _Talk(name, self._steps[name], prompt)
        return identity

    def _known_by_history(self, question: Question) -> str | None:
        """Recognise a conversation by our own tool-call ids, or by the mark in a summary."""
        for reply in reversed(question.replies):
            for steps in self._steps.values():
                identity = steps.identity_of(reply)
                if identity in self._talks:
                    return identity
        mark = find_mark(question.user_texts)
        return mark.identity if mark is not None and mark.identity in self._talks else None

    def _conversation_name(
        self, question: Question, named: str | None, headers: Mapping[str, str]
    ) -> str | None:
        if named is not None and named in self._named:
            return named
        for name, conversation in self._named.items():
            if _matches(conversation, question, headers):
                return name
        return DEFAULT if DEFAULT in self._steps else None

    def _quoted_in(self, question: Question) -> str | None:
        """Find the conversation that a request quotes; a summary request may carry only that."""
        text = "\n".join(question.user_texts)
        talks = self._talks.items()
        quoted = [(t.order, identity) for identity, t in talks if t.prompt and t.prompt in text]
        if quoted:
            return max(quoted)[1]
        # An empty summary quotes nothing; then it is for the agent that just had to compact.
        overflowed = [(t.order, identity) for identity, t in talks if t.overflowed]
        return max(overflowed)[1] if overflowed else None

    # Where is it in its script?

    def _place(self, question: Question, talk: _Talk, *, is_new: bool) -> int:
        replies = question.replies
        for back, reply in enumerate(reversed(replies)):
            step = talk.steps.step_of(reply)
            if step is not None:
                return max(step + 1 + back, self._hidden(question))
        hidden = self._hidden(question)
        if hidden:
            # Replies kept from before the compaction come before those after it.
            for reply in replies:
                hidden += talk.steps.says(hidden, reply)
            return hidden
        count = len(replies)
        if is_new:
            # Some agents add replies that the model never gave; those are not turns.
            played = 0
            for reply in replies:
                played += talk.steps.says(played, reply)
            talk.foreign = count - played
        talk.foreign = min(talk.foreign, count)
        return count - talk.foreign

    def _hidden(self, question: Question) -> int:
        mark = find_mark(question.user_texts)
        return mark.step if mark is not None else 0

    # What is the answer?

    def _answer(self, question: Question, identity: str, id_prefix: str) -> Decision:
        talk = self._talks[identity]
        self._order += 1
        talk.order = self._order
        talk.overflowed = False
        is_new = not talk.answered and not talk.fault_counts
        index = talk.skip_lost(self._place(question, talk, is_new=is_new), question)
        base = Decision(outcome="turn", conversation=talk.name, identity=identity, step=index)
        if index >= len(talk.steps.steps):
            return self._overrun(question, talk, base)
        step = talk.steps.steps[index]
        for stage in step.faults:
            count = talk.fault_counts.get((index, stage.turn), 0) + 1
            if count <= stage.times:
                talk.fault_counts[index, stage.turn] = count
                return self._faulty(question, talk, base, stage, step.reply, id_prefix)
        if step.reply is None:
            return self._overrun(question, talk, base)
        return self._spoken(question, talk, base, step, step.reply, id_prefix)

    def _overrun(self, question: Question, talk: _Talk, base: Decision) -> Decision:
        talk.overruns += 1
        reply = say(ENDED_TEXT, model=question.model, usage=Usage())
        return msgspec.structs.replace(base, outcome="overrun", reply=reply)

    def _spoken(
        self,
        question: Question,
        talk: _Talk,
        base: Decision,
        step: Step,
        turn: Turn,
        id_prefix: str,
    ) -> Decision:
        index = base.step or 0
        try:
            reply = self._reply(question, talk, turn, base, id_prefix)
        except UntranslatableError as error:
            return msgspec.structs.replace(
                base, outcome="untranslatable", turn=step.turn, error=str(error)
            )
        talk.advance(index, question)
        manner = turn.fault if turn.fault is not None and not is_refusal(turn.fault) else None
        if manner is not None:
            # The damage was served before; a wait applies every time.
            manner = Fault(delay=manner.delay, until=manner.until, slow=manner.slow)
        return msgspec.structs.replace(base, turn=step.turn, reply=reply, fault=manner)

    def _faulty(
        self,
        question: Question,
        talk: _Talk,
        base: Decision,
        stage: FaultStage,
        turn: Turn | None,
        id_prefix: str,
    ) -> Decision:
        fault, index = stage.fault, base.step or 0
        talk.overflowed = fault.kind == "context_overflow"
        decision = msgspec.structs.replace(base, outcome="fault", turn=stage.turn, fault=fault)
        if turn is None or not (is_refusal(fault) or fault.cut is not False or fault.malformed):
            talk.advance(index, question)
        if is_refusal(fault):
            return decision
        try:
            damaged = turn if turn is not None else _NO_TURN
            reply = self._reply(question, talk, damaged, base, id_prefix)
        except UntranslatableError as error:
            return msgspec.structs.replace(decision, outcome="untranslatable", error=str(error))
        return msgspec.structs.replace(decision, reply=reply)

    def _reply(
        self, question: Question, talk: _Talk, turn: Turn, base: Decision, id_prefix: str
    ) -> Reply:
        return make_reply(
            turn,
            model=question.model,
            tools=question.tools,
            digest=talk.steps.digest,
            step=base.step or 0,
            identity=base.identity or "",
            id_prefix=id_prefix,
        )

    def _side_reply(self, question: Question, side: str, identity: str | None) -> Decision:
        text = side_text(side, question)
        # An agent may count its side requests: what it reports stays the sum of the script's turns.
        usage = Usage(input_tokens=0, output_tokens=0)
        talk = self._talks.get(identity) if identity is not None else None
        if side == COMPACTION:
            step = 0
            if talk is not None:
                step = max(talk.next_step, self._place(question, talk, is_new=False))
            text = summary_text(Mark(identity=identity or "unknown", step=step))
            usage = Usage()
        return Decision(
            outcome="side",
            conversation=talk.name if talk is not None else None,
            identity=identity,
            side=side,
            reply=say(text, model=question.model, usage=usage),
        )

    def _unmatched(self, question: Question) -> Decision:
        prompt = question.prompts[0][:80] if question.prompts else ""
        names = ", ".join(sorted(self._named))
        return Decision(
            outcome="unmatched",
            error=f"no conversation of the script matches the prompt {prompt!r}; known: {names}",
        )


def _matches(conversation: Conversation, question: Question, headers: Mapping[str, str]) -> bool:
    match = conversation.match
    if match is None or match == Match():
        return False
    prompt = question.prompts[0] if question.prompts else ""
    if match.prompt_contains is not None and match.prompt_contains not in prompt:
        return False
    if match.system_contains is not None and match.system_contains not in question.system:
        return False
    if match.model is not None and match.model != question.model:
        return False
    return all(headers.get(key.lower()) == value for key, value in match.header.items())
