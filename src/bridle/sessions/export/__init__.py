"""A session as a document for others: JSON, Markdown, HTML, or an ATIF trajectory."""

from collections.abc import Callable
from importlib import import_module
from typing import BinaryIO, Literal, get_args

from bridle.core.errors import WrongUse
from bridle.core.redaction import Redactor
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import TextCleaner

ExportFormat = Literal["json", "markdown", "html", "atif"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)

Writer = Callable[[StateHome, SessionRecord, TextCleaner, BinaryIO], None]


def export(
    home: StateHome,
    record: SessionRecord,
    format: str,
    out: BinaryIO,
    *,
    redactor: Redactor | None = None,
) -> None:
    """Write a session to `out`, piece by piece, as it is on disk now; it may be running.

    Events are free of secrets already. The user's own texts are cleaned here: of the values that
    `redactor` knows (those of this environment when None) and of what looks like a key. Raises
    `WrongUse` for an unknown format, `Unavailable` for a damaged event file.
    """
    if format not in FORMATS:
        raise WrongUse(f"no export format {format}", hint=f"formats: {', '.join(FORMATS)}")
    writer: Writer = import_module(f"bridle.sessions.export.as_{format}").write
    writer(home, record, TextCleaner(redactor), out)
