"""Where a session's pane is, and the connection to the server it is in."""

import os

import msgspec

from bridle.drives.tmux.server import TmuxServer
from bridle.process.run_files import read_word

_servers: dict[str, TmuxServer] = {}
"""One connection for all panes of a server that this process drives."""


class PanePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pane is."""

    server: str
    """Folder of the tmux server."""
    name: str


def server_in(folder: str) -> TmuxServer:
    """The server of a folder."""
    if folder not in _servers:
        _servers[folder] = TmuxServer(folder)
    return _servers[folder]


def read_place(folder: str) -> PanePlace | None:
    """Where the pane is whose process has its files in `folder`; None when there is none."""
    word = read_word(os.path.join(folder, "pane"))
    return None if word is None else msgspec.json.decode(word, type=PanePlace)


def attach_argv(place: PanePlace) -> tuple[str, ...]:
    """The command by which a person attaches to the pane."""
    return server_in(place.server).attach_argv(place.name)
