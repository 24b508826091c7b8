"""How a person joins a session by the agent's own terminal interface."""

from collections.abc import Mapping

from bridle.process.spec import ProcessSpec
from bridle.runtimes.contract import Adapter, Live
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Begin
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import ledger_entries


def remote_terminal(
    home: StateHome, record: SessionRecord, runtime: Adapter, env: Mapping[str, str]
) -> ProcessSpec | None:
    """The process that shows the session's conversation and takes a person's prompts, beside its
    driver; None when the session is over, has no conversation yet, or cannot be joined so.

    It is the person's, not the session's: it is started at their terminal, and ends when they like.
    """
    if record.is_over or record.drive != "rpc" or record.native_session_id is None:
        return None
    entries = ledger_entries(home.folder(record.session_id))
    begins = [entry for entry in entries if isinstance(entry, Begin)]
    if not begins or not isinstance(runtime, Live):
        return None
    return runtime.remote_terminal(begins[-1].facts, record.native_session_id, env)
