"""Conversations with the real Claude Code, and checks that hold for every one of them."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.process_tree import marked_processes, send_signal
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from bridle.turns.wire import CompactionControl, Outgoing
from tests.support.conversation import AttachedConversation
from tests.support.driving import check_order
from tests.support.live import DEADLINE, conversing
from tests.support.real_cli import pinned
from tests.support.replaying import record_wires

KEY = "sk-ant-scripted-0123456789abcdefghij"


def options_for(bench: AgentBench, model: ScriptedModel, **options: Any) -> RunOptions:
    """Options of a conversation with a scripted model that can be resumed later."""
    account = bench.home / "account"
    account.mkdir(exist_ok=True)
    wanted: dict[str, Any] = {
        "prompt": "",
        "timeout": None,
        "model": "claude-sonnet-4-5",
        "account_dir": str(account),
        "model_server": ModelServer(url=model.url, api_key=KEY),
        "provider_options": {"max_retries": 0},
    }
    return bench.options(**{**wanted, **options})


@contextmanager
def talking(
    version: str,
    bench: AgentBench,
    model: ScriptedModel,
    permission: PermissionPolicy = refuse_all,
    **options: Any,
) -> Iterator[AttachedConversation]:
    """A conversation; when it is over, its events are in order, nothing was unknown, no process is
    left, and its wire can be built again."""
    runtime = pinned("claude", version)
    logs = record_wires(runtime)
    wanted = options_for(bench, model, **options)
    with conversing(runtime, wanted, bench.env, permission) as talk:
        yield talk
    logs.check_repeatable()
    check_order(talk.events)
    unknown = [event.raw for event in talk.events if isinstance(event, ev.Unknown)]
    assert not unknown, unknown
    assert marked_processes(talk.recorder.session_id) == []
    assert KEY not in str(talk.events)


def outgoing(text: str, **fields: Any) -> Outgoing:
    """A message with a fresh id."""
    return Outgoing(id=new_session_id(), text=text, **fields)


def seen(talk: AttachedConversation, kind: type[ev.Event], count: int = 1) -> bool:
    """Whether `count` events of a kind came."""
    return sum(isinstance(event, kind) for event in talk.events) >= count


def of(talk: AttachedConversation, kind: type[ev.Event]) -> list[Any]:
    """The events of a kind."""
    return [event for event in talk.events if isinstance(event, kind)]


def wait_for(talk: AttachedConversation, kind: type[ev.Event], count: int = 1) -> None:
    """Pump until `count` events of a kind came."""
    talk.wait(lambda: seen(talk, kind, count), DEADLINE / 2)


def wait_until(talk: AttachedConversation, holds: Callable[[], bool]) -> None:
    """Pump until something holds that the agent does not tell of."""
    until = time.monotonic() + DEADLINE / 2
    while not holds():
        assert time.monotonic() < until
        assert talk.pump(time.monotonic() + 0.05)


def wait_file(talk: AttachedConversation, path: Path) -> None:
    """Pump until a tool of the agent's has made a file."""
    wait_until(talk, path.exists)


def wait_ready(talk: AttachedConversation) -> None:
    """Pump until the agent can take a prompt."""
    talk.wait_ready(DEADLINE / 2)


def only_the_agent(talk: AttachedConversation) -> bool:
    """Whether of the session's processes the agent alone is left."""
    return marked_processes(talk.recorder.session_id) == [talk.process.pid]


def compact(talk: AttachedConversation) -> None:
    """Shorten the context, and wait until that is done."""
    assert isinstance(talk.wire, CompactionControl)
    talk.wire.compact()
    assert talk.recorder.state == "compacting"
    talk.pump(time.monotonic())
    wait_ready(talk)


def leave(talk: AttachedConversation) -> None:
    """Bring the agent to leave by itself, and wait until it is gone."""
    talk.leave()
    until = time.monotonic() + DEADLINE / 2
    while talk.pump(until):
        assert time.monotonic() < until


def kill(talk: AttachedConversation) -> None:
    """End the agent without a word."""
    assert talk.process.pid is not None
    send_signal(talk.process.pid, signal.SIGKILL)


def messages_of(model: ScriptedModel, index: int = -1) -> str:
    """The messages of a request, as the model is shown them."""
    return msgspec.json.encode(model.requests[index].body["messages"]).decode()


def statuses(talk: AttachedConversation) -> list[str]:
    """How the turns ended."""
    return [end.status for end in of(talk, ev.AgentEnd)]
