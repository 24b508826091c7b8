"""A live conversation with a real or scripted agent, for the tests of its wire."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from bridle.core.events import AgentEnd, Event
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor, secrets_in
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.runtimes.alternatives import as_live
from bridle.runtimes.contract import Adapter
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Outgoing
from tests.support.conversation import AttachedConversation

E = TypeVar("E", bound=Event)
DEADLINE = 120.0
"""Seconds for each wait; far more than any needs, so only a hang meets it."""


@contextmanager
def conversing(
    runtime: Adapter,
    options: RunOptions,
    env: Mapping[str, str],
    permission: PermissionPolicy = refuse_all,
) -> Iterator[AttachedConversation]:
    """A conversation that is ready for its first prompt."""
    plan = as_live(runtime).plan_live(options, env, new_session_id())
    assert plan.live is not None
    recorder = Recorder(
        runtime=runtime.id,
        session_id=plan.session_id,
        options=options,
        cwd=plan.spec.cwd,
        runtime_version=plan.installation.version or "",
        redactor=Redactor([*secrets_in(plan.spec.env), *plan.secrets]),
        drive="rpc",
    )
    wire = as_live(runtime).live_wire(plan.live, recorder)
    talk = AttachedConversation(
        plan.spec, wire, recorder, private_dirs=plan.private_dirs, permission=permission
    )
    try:
        talk.start()
        talk.wait_ready(DEADLINE)
        yield talk
    finally:
        talk.close()


def say(talk: AttachedConversation, text: str, **fields: tuple[str, ...]) -> AgentEnd:
    """Prompt, wait until the turn is over, and return its end."""
    message = Outgoing(id=new_session_id(), text=text, **fields)
    turn = talk.recorder.turn
    talk.prompt(message)
    talk.wait(lambda: talk.recorder.turn > turn and talk.recorder.is_ready, DEADLINE)
    assert talk.deliveries[message.id].taken
    return last_end(talk.events)


def events_of(talk: AttachedConversation, kind: type[E]) -> list[E]:
    """The events of one type so far."""
    return [event for event in talk.events if isinstance(event, kind)]


def last_end(events: list[Event]) -> AgentEnd:
    """The end of the last turn."""
    return next(event for event in reversed(events) if isinstance(event, AgentEnd))
