"""How a program comes to a session: starts one, opens one that lives, resumes one, forks one.

Everything here waits, so the async face calls it in a thread.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.events import Drive
from bridle.core.options import RunOptions
from bridle.runs import resolve
from bridle.runtimes.contract import Adapter, HasAdapter, adapter_of
from bridle.sessions.clocks import Clocks, configured_clocks
from bridle.sessions.home import StateHome, homes
from bridle.sessions.hosting import host_of, release_by_daemon, return_to_daemon
from bridle.sessions.link import SessionLink
from bridle.sessions.lock import SessionHeld
from bridle.sessions.manager import default_drive
from bridle.sessions.start import (
    Identity,
    fork_session,
    resume_session,
    start_session,
    still_alive,
)
from bridle.sessions.store import SessionRecord, SessionStore, find_record

if TYPE_CHECKING:
    from bridle.config import Config


class Wanted(msgspec.Struct, kw_only=True):
    """A session that is to be started."""

    runtime: str | Adapter | HasAdapter | None
    prompt: str | None
    drive: Drive | None
    name: str | None
    config: "Config | None"
    clocks: Clocks | None
    identity: Identity | None
    options: Mapping[str, Any]


def started(wanted: Wanted) -> SessionLink:
    """A new session, still starting. Raises, before anything is started, what `start_session` and
    `bridle.run` raise."""
    config = wanted.config or _config_of(wanted.options.get("cwd"))
    if wanted.prompt is not None and not wanted.prompt.strip():
        raise WrongUse("the prompt is empty", hint="leave it out to send none")
    runtime, options = resolve(wanted.prompt or "", wanted.runtime, config, wanted.options)
    options = _in_full(options)
    home = homes(options.cwd or os.getcwd(), os.environ)[0]
    store = SessionStore(home)
    try:
        record = start_session(
            home,
            store,
            runtime,
            options,
            env=os.environ,
            drive=wanted.drive or config.drive(runtime.id) or default_drive(runtime),
            name=wanted.name,
            identity=wanted.identity,
            clocks=wanted.clocks or configured_clocks(config),
        )
    finally:
        store.close()
    return SessionLink(host_of(home), record, runtime, options)


def opened(
    name: str, runtime: Adapter | HasAdapter | None, cwd: str | None, config: "Config | None"
) -> SessionLink:
    """A session that there is; raises `UnknownSession`."""
    home, record = find_session(name, cwd)
    return SessionLink(host_of(home), record, _runtime_of(record, runtime, config))


def resumed(
    name: str,
    runtime: Adapter | HasAdapter | None,
    cwd: str | None,
    config: "Config | None",
    clocks: Clocks | None,
    changes: Mapping[str, Any],
) -> SessionLink:
    """The next process of a session that is over; raises what `resume_session` does."""
    home, record = find_session(name, cwd)
    config = config or _config_of(record.workdir)
    runtime = _runtime_of(record, runtime, config)
    if config.model_server is not None:
        changes = {"model_server": config.model_server, **changes}
    checked = _checked(changes)
    store = SessionStore(home)
    try:
        record = _resumed(home, store, runtime, record, clocks, checked)
    finally:
        store.close()
    return SessionLink(host_of(home), record, runtime)


def _resumed(
    home: StateHome,
    store: SessionStore,
    runtime: Adapter,
    record: SessionRecord,
    clocks: Clocks | None,
    changes: dict[str, Any],
) -> SessionRecord:
    def resume() -> SessionRecord:
        return resume_session(
            home, store, runtime, record, env=os.environ, changes=changes, clocks=clocks
        )

    if host_of(home).drives(record.session_id):
        raise still_alive(record)
    try:
        return resume()
    except SessionHeld:
        if not release_by_daemon(home, record.session_id):
            raise
    try:
        return resume()
    except BaseException:
        return_to_daemon(home, record.session_id)
        raise


def forked(parent: SessionLink, name: str | None, changes: Mapping[str, Any]) -> SessionLink:
    """A new session whose agent goes on in a copy of `parent`'s conversation.

    Raises `UnsupportedOption` where the runtime cannot, `WrongUse` while a turn is open or when
    there is no conversation yet.
    """
    home, runtime, kept = parent.host.home, parent.runtime, parent.options
    # Keys are not on disk.
    known = {} if kept is None else {"env": kept.env, "model_server": kept.model_server}
    store = SessionStore(home)
    try:
        new, options = fork_session(
            home,
            store,
            runtime,
            parent.record,
            env=os.environ,
            name=name,
            changes=_checked(changes),
            kept=known,
        )
    finally:
        store.close()
    return SessionLink(parent.host, new, runtime, options)


def find_session(name: str, cwd: str | None) -> tuple[StateHome, SessionRecord]:
    """A session's home and its record, by id, name, or the beginning of an id; looked for in the
    project around `cwd`, then in the user's own place. Raises `UnknownSession`."""
    return find_record(homes(cwd or os.getcwd(), os.environ), name)


def _config_of(cwd: Any) -> "Config":
    from bridle.config import load_config

    return load_config(None if cwd is None else os.fspath(cwd))


def _runtime_of(
    record: SessionRecord, runtime: Adapter | HasAdapter | None, config: "Config | None"
) -> Adapter:
    from bridle.runtimes.registry import get_adapter

    if runtime is not None:
        runtime = adapter_of(runtime)
        if runtime.id != record.runtime:
            raise WrongUse(
                f"session {record.session_id} is one of {record.runtime}, not of {runtime.id}",
                hint="leave the runtime out",
            )
        return runtime
    return get_adapter(record.runtime, config or _config_of(record.workdir))


def _in_full(options: RunOptions) -> RunOptions:
    """The options with a working directory that stays what it is when the program moves."""
    return msgspec.structs.replace(options, cwd=os.path.abspath(options.cwd or os.getcwd()))


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of options, checked as the keywords of a run are."""
    from bridle.runs import options_from

    whole = options_from("", changes)
    return {name: getattr(whole, name) for name in changes}
