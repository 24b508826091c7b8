"""Sessions by handles: what `AgentRuntime.start`, `resume`, `send_message`, `stop` … do.

The daemon drives them, so a handle works in any program of the user, also after a restart.
"""

import os
from typing import TYPE_CHECKING

from bridle.core.errors import BridleError, WrongUse
from bridle.core.events import Drive
from bridle.core.handles import Message, SessionFilter, SessionHandle, StartOptions
from bridle.process.process_tree import look
from bridle.runs import options_from
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter
from bridle.sessions.manager import SessionManager, default_drive
from bridle.sessions.store import SessionRecord, UnknownSession
from bridle.sessions.verbs import Receipt

if TYPE_CHECKING:
    from bridle.config import Config


def start(runtime: Adapter, options: StartOptions) -> SessionHandle:
    """Start a session and wait until it is ready."""
    from bridle.config import apply_config, load_config

    if options.runtime_name not in (None, "", runtime.id):
        raise WrongUse(
            f"this is runtime {runtime.id}, not {options.runtime_name}",
            hint=f'start it with get_runtime("{options.runtime_name}")',
        )
    config = load_config(options.work_dir)
    if not _is_known(runtime.id, config):
        raise WrongUse(
            f"the daemon does not know runtime {runtime.id}",
            hint="declare it in the configuration, or use bridle.Session for it",
        )
    wanted = options_from(
        options.initial_prompt or "",
        {
            **options.options,
            "cwd": options.work_dir,
            "env": options.env,
            "account_dir": options.account_dir,
        },
    )
    with SessionManager(options.work_dir) as manager:
        record = manager.start(
            runtime,
            apply_config(wanted, config, runtime.id),
            drive=_drive(runtime, options, config),
            name=options.name,
        )
    return handle_of(record)


def _is_known(name: str, config: "Config") -> bool:
    """Whether the daemon of a folder with that configuration knows the runtime."""
    try:
        get_adapter(name, config)
    except BridleError:
        return False
    return True


def _drive(runtime: Adapter, options: StartOptions, config: "Config") -> Drive:
    if options.mode == "tmux":
        return "tmux"
    return config.drive(runtime.id) or default_drive(runtime)


def resume(runtime: Adapter, handle: SessionHandle) -> SessionHandle:
    """Start the next process of a session that is over."""
    with _manager(runtime, handle) as manager:
        return handle_of(manager.resume(handle.session_id))


def send_message(runtime: Adapter, handle: SessionHandle, message: Message) -> Receipt:
    """Give the agent of a session a message."""
    with _manager(runtime, handle) as manager:
        return manager.send(
            handle.session_id, message.text, timeout=message.timeout, delivery=message.delivery
        )


def stop(runtime: Adapter, handle: SessionHandle, reason: str) -> None:
    """End a session."""
    with _manager(runtime, handle) as manager:
        manager.stop(handle.session_id, reason)


def is_ready(runtime: Adapter, handle: SessionHandle) -> bool:
    """Whether the agent waits for a prompt; False for an unknown session."""
    with _manager(runtime, handle) as manager:
        try:
            return manager.show(handle.session_id).state == "ready"
        except UnknownSession:
            return False


def detect_running(runtime: Adapter, handle: SessionHandle) -> bool:
    """Whether the session lives: the agent's process runs, or, with one process for each turn, its
    keeper. False for an unknown session."""
    with _manager(runtime, handle) as manager:
        try:
            record = manager.show(handle.session_id)
        except UnknownSession:
            return False
    if record.is_over:
        return False
    if record.drive == "print" or record.pid is None:
        return True
    # The driver learns of a process's end a moment later than this check shows it.
    return look(record.pid) is not None


def list_sessions(runtime: Adapter, wanted: SessionFilter) -> list[SessionHandle]:
    """The runtime's sessions that match `wanted`."""
    with SessionManager(wanted.work_dir) as manager:
        found = manager.list(everywhere=True)
    return [handle_of(record) for record in found if _fits(runtime, record, wanted)]


def _fits(runtime: Adapter, record: SessionRecord, wanted: SessionFilter) -> bool:
    if record.runtime != runtime.id:
        return False
    if wanted.work_dir is not None and record.workdir != os.path.abspath(wanted.work_dir):
        return False
    if wanted.living is not None and record.is_over == wanted.living:
        return False
    return all(
        getattr(wanted, name) in (None, getattr(record, name))
        for name in ("state", "name", "project", "agent", "task")
    )


def handle_of(record: SessionRecord) -> SessionHandle:
    """The handle of a session."""
    return SessionHandle(
        runtime=record.runtime,
        session_id=record.session_id,
        work_dir=record.workdir,
        pid=record.pid,
        started_at=record.started_at,
        ready_at=record.ready_at,
    )


def _manager(runtime: Adapter, handle: SessionHandle) -> SessionManager:
    if handle.runtime != runtime.id:
        raise WrongUse(
            f"session {handle.session_id} belongs to {handle.runtime}, not to {runtime.id}",
            hint=f'use get_runtime("{handle.runtime}")',
        )
    return SessionManager(handle.work_dir or None)
