"""A private tmux server and the connection to it.

The server belongs to Bridle: its socket is in a folder that only this user can enter, it reads no
configuration of the user, and its environment is empty. A process per command would cost ten times
as much, so one control client stays connected and is replaced when it is lost.
"""

import contextlib
import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bridle.core import structs
from bridle.core.errors import NotInstalled, TimedOut, WrongUse
from bridle.core.files import write_new
from bridle.drives.tmux.control import Block, ControlConnection, Disconnected, quoted, unexpanded
from bridle.drives.tmux.errors import ConnectionLost, PaneGone, ServerGone
from bridle.process.run_files import read_word

WIDTH, HEIGHT = 220, 50
"""The size of every window. What a pane shows must not depend on the client that is attached."""
OLDEST_TMUX, NEWEST_SEEN_TMUX = (3, 2), (3, 3)
"""The first version with all features in use (`-N`, client flags, session environments), and the
newest version that the tests have run on."""
HISTORY = 50_000
"""Lines that a pane keeps."""
ASK_SECONDS = 10.0
"""How long a response may take, unless the caller says otherwise."""
_LONGEST_SOCKET = 100
"""Length in bytes of a socket path that every system accepts."""
_AGAIN = 0.01
"""Seconds between checks of a server that starts or ends."""
_NEEDED = f"install tmux {'.'.join(map(str, OLDEST_TMUX))} or newer"
_READ_ALL = "exec cat >/dev/null"
_CLIENTS = "bridle-clients"
"""The session of the control clients; it ends with the last of them."""
_BOOT = "bridle-boot"
_BOOT_SECONDS = 30
"""How long a started server waits for its first connection; without sessions it ends."""
_OWN = (_CLIENTS, _BOOT)
_CLIENT_FLAGS = "no-output,ignore-size"
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_FACTS = "#{pane_pid} #{pane_dead} #{pane_dead_status} #{pane_dead_signal}"


class PaneState(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a pane. The pane stays when its process ends, so that the exit is known."""

    pid: int
    closed: bool = False
    """The process closed the terminal: it has ended, or is about to."""
    dead: bool
    exit_code: int | None = None
    """If dead: its exit status, negative if a signal killed it."""


class TmuxServer:
    """One tmux server and the connection to it.

    Contract: `start` may be called while the server runs, also from several programs. Every method
    may be called from any thread, ends in bounded time, and raises `ServerGone` if the server does
    not run, `PaneGone` if the named session does not exist, `TimedOut` if there is no response. A
    lost connection is restored; a command that may have had its effect and must not be repeated
    then raises `ConnectionLost`. `close` ends the connection, not the server. A server without
    sessions ends by itself when no client is connected, even after a crash.
    """

    def __init__(self, folder: str, *, tmux: str = "tmux", seconds: float = ASK_SECONDS) -> None:
        """`folder` is private to this server; see `server_folder`."""
        self.folder = folder
        self.socket = os.path.join(folder, "tmux")
        if len(os.fsencode(self.socket)) > _LONGEST_SOCKET:
            raise WrongUse(
                f"the path of the tmux socket is too long: {self.socket}",
                hint="set XDG_RUNTIME_DIR to a folder with a shorter path",
            )
        self._tmux = tmux
        self._seconds = seconds
        self._connection: ControlConnection | None = None
        self._lock = threading.RLock()

    # -- the server -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server unless it runs."""
        make_private(self.folder)
        commands = [
            ("start-server",),
            ("set-option", "-s", "escape-time", "10"),
            ("set-option", "-g", "remain-on-exit", "on"),
            ("set-option", "-g", "history-limit", str(HISTORY)),
            ("set-option", "-g", "status", "off"),
            ("set-option", "-g", "default-shell", "/bin/sh"),
            ("set-option", "-g", "default-size", f"{WIDTH}x{HEIGHT}"),
            ("new-session", "-d", "-s", _BOOT, f"exec sleep {_BOOT_SECONDS}"),
            ("set-option", "-w", "-t", f"={_BOOT}:", "remain-on-exit", "off"),
        ]
        words = [word for command in commands for word in (*command, ";")][:-1]
        until = time.monotonic() + self._seconds
        while True:
            try:
                # A server that died leaves its socket behind, which does no harm.
                if not self.runs():
                    self._refuse_too_old()
                    self._once(words)
                for name in ("HOME", "LANG", "PATH", "PWD", "SHLVL", "OLDPWD", "_"):
                    # Panes get their environment only from their session.
                    self._run_command(f"set-environment -gu {name}", repeatable=True)
                self._run_command(f"kill-session -t ={_BOOT}", repeatable=True)
                return
            except ServerGone:
                # The server that answered was about to end.
                if time.monotonic() > until:
                    raise
                time.sleep(_AGAIN)

    def runs(self) -> bool:
        """Whether the server answers."""
        with self._lock:
            if self._connection is not None and self._connection.alive():
                return True
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(self._seconds)
            try:
                probe.connect(self.socket)
            except OSError:
                return False
        return True

    def kill(self) -> None:
        """End the server and every pane in it; no effect if it does not run."""
        with contextlib.suppress(ServerGone, ConnectionLost, TimedOut):
            self._run_command("kill-server")
        self.close()
        until = time.monotonic() + self._seconds
        while self.runs() and time.monotonic() < until:
            time.sleep(_AGAIN)

    def close(self) -> None:
        """Close the connection. The server and its panes keep running."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def notices(self) -> list[str]:
        """The notifications since the last call, as tmux writes them; the newest few hundred."""
        with self._lock:
            if self._connection is None:
                return []
            self._connection.alive()
            found = list(self._connection.notices)
            self._connection.notices.clear()
            return found

    def attach_argv(self, name: str, *, read_only: bool = False) -> tuple[str, ...]:
        """The command with which a person attaches to a session."""
        flags = ("-r",) if read_only else ()
        target = ("attach-session", *flags, "-t", f"={_checked(name)}")
        return (self._tmux, "-S", self.socket, "-u", *target)

    # -- sessions -------------------------------------------------------------------------------

    def new_session(
        self, name: str, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]
    ) -> PaneState:
        """Start `argv` in a new session with this folder and environment.

        Raises `WrongUse` if the name is in use or the folder does not exist.
        """
        if not os.path.isdir(cwd):
            # tmux would silently use another one.
            raise WrongUse(f"no such folder: {cwd}")
        if not argv:
            raise WrongUse("no command was given")
        # tmux passes a single word to a shell.
        command = list(argv) if len(argv) > 1 else ["/usr/bin/env", *argv]
        size = f"-x {WIDTH} -y {HEIGHT}"
        words = [f"new-session -d -s {_checked(name)} {size} -c {quoted(unexpanded(cwd))}"]
        words += [f"-e {quoted(f'{key}={value}')}" for key, value in env.items() if key != "TERM"]
        words += ["--", *(quoted(word) for word in command)]
        block = self._run_command(" ".join(words))
        if block.failed:
            raise WrongUse(f"tmux started no session: {block.text}")
        # tmux drops what a program printed right before its end, unless the pane has a pipe: then
        # it reads everything first. The last output of an agent must be on its last screen.
        self._run_command(f"pipe-pane -t ={name}: {quoted(_READ_ALL)}", repeatable=True)
        # Fixes the size: otherwise a client that attaches would change it.
        self._run_command(f"resize-window -t ={name}: {size}", repeatable=True)
        return self.pane(name)

    def sessions(self) -> dict[str, PaneState]:
        """The process of every session's pane, by session name."""
        block = self._run_command(f"list-panes -a -F '#{{session_name}} {_FACTS}'", repeatable=True)
        found = {}
        for line in block.text.splitlines():
            name, _, facts = line.partition(" ")
            state = _pane_state(facts)
            if name not in _OWN and state is not None:
                found[name] = state
        return found

    def pane(self, name: str) -> PaneState:
        """The process of a session's pane."""
        command = f"list-panes -t ={_checked(name)}: -F '{_FACTS}'"
        block = self._run_command(command, repeatable=True)
        state = _pane_state(block.text)
        if state is not None and state.dead and state.exit_code is None:
            # tmux may have learned how the process ended after it answered.
            block = self._run_command(command, repeatable=True)
            state = _pane_state(block.text)
        if block.failed or state is None:
            raise PaneGone(f"there is no terminal session {name}")
        if state.closed and not state.dead:
            # tmux 3.3 may miss a child's end. The end of another child makes it check all of them.
            self._run_command("run-shell -b true", repeatable=True)
        return state

    def title(self, name: str) -> str:
        """The title that the program in the pane has set."""
        return self._foreign(name, f"list-panes -t ={_checked(name)}: -F '#{{pane_title}}'")

    def capture(self, name: str, *, history: bool = False) -> str:
        """What the pane shows, line by line; with `history`, also its history."""
        start = " -S -" if history else ""
        return self._foreign(name, f"capture-pane -p -t ={_checked(name)}:{start}")

    def send_keys(self, name: str, *keys: str) -> None:
        """Press keys, given by their tmux names (`Enter`, `Escape`, `C-c`, `y`)."""
        words = " ".join(quoted(key) for key in keys)
        self._needs(name, f"send-keys -t ={_checked(name)}: -- {words}")

    def paste(self, name: str, text: str) -> None:
        """Paste text of any length, bracketed if the program asked for that, so that no line of it
        counts as a key.

        Raises `WrongUse` for control characters: the terminal would obey them, and one of them ends
        the bracketed paste.
        """
        refuse_controls(text)
        buffer = f"bridle-{os.urandom(8).hex()}"
        with self._file(buffer, text.encode(errors="replace")) as path:
            loaded = self._run_command(f"load-buffer -b {buffer} {quoted(path)}", repeatable=True)
        if loaded.failed:
            raise WrongUse(f"tmux did not load the text: {loaded.text}")
        try:
            self._needs(name, f"paste-buffer -p -d -b {buffer} -t ={_checked(name)}:")
        except PaneGone:
            self._run_command(f"delete-buffer -b {buffer}")
            raise

    def kill_session(self, name: str) -> None:
        """End a session and its process (by SIGHUP); no effect if it does not exist."""
        self._run_command(f"kill-session -t ={_checked(name)}", repeatable=True)

    # -- the connection -------------------------------------------------------------------------

    def _needs(self, name: str, command: str) -> None:
        """Run a command that must not be repeated, on a session that must exist."""
        block = self._run_command(command)
        if block.failed:
            raise PaneGone(f"there is no terminal session {name}: {block.text}")

    def _foreign(self, name: str, command: str) -> str:
        """The response to a command that shows the output of the program in a pane."""
        block = self._run_command(command, repeatable=True, foreign=True)
        if block.failed:
            raise PaneGone(f"there is no terminal session {name}: {block.text}")
        return block.text

    def _run_command(
        self, command: str, *, repeatable: bool = False, foreign: bool = False
    ) -> Block:
        until = time.monotonic() + self._seconds
        with self._lock:
            for attempt in (1, 2):
                connection = self._connected(until)
                try:
                    ask = connection.ask_foreign if foreign else connection.ask
                    return ask(command, until)
                except Disconnected:
                    self.close()
                    if not self.runs():
                        raise ServerGone("the tmux server is gone") from None
                    if not repeatable or attempt == 2:
                        break
        raise ConnectionLost("the connection to tmux broke")

    def _connected(self, until: float) -> ControlConnection:
        if self._connection is not None and self._connection.alive():
            return self._connection
        self.close()
        if not self.runs():
            raise ServerGone("the tmux server is gone")
        connection = self._client()
        try:
            connection.wait_opened(until)
            connection.ask(f"set-option -t ={_CLIENTS}: destroy-unattached on", until)
        except Disconnected:
            if self.runs():
                # No evidence that its panes are gone.
                raise ConnectionLost("tmux closed a new connection") from None
            raise ServerGone("the tmux server is gone") from None
        self._connection = connection
        return connection

    def _client(self) -> ControlConnection:
        """A control client in a separate session, whose pane's process ends at once. It must never
        start a server: that one would not have the right settings."""
        argv = [self._tmux, "-N", "-S", self.socket, "-f", os.devnull, "-u", "-C", "new-session"]
        argv += ["-A", "-s", _CLIENTS, "-f", _CLIENT_FLAGS, "exec true"]
        try:
            return ControlConnection(argv, _own_env())
        except FileNotFoundError:
            raise _no_tmux(self._tmux) from None

    def _refuse_too_old(self) -> None:
        output = self._run([self._tmux, "-V"]).stdout.decode(errors="replace").strip()
        if (version := version_of(output)) and version < OLDEST_TMUX:
            raise NotInstalled(f"{output} is too old", hint=_NEEDED)

    def _once(self, words: Sequence[str]) -> None:
        done = self._run([self._tmux, "-S", self.socket, "-f", os.devnull, "-u", *words])
        if done.returncode != 0 and not self.runs():
            raise ServerGone(f"tmux did not start: {done.stderr.decode(errors='replace').strip()}")

    def _run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run tmux as a separate process, while there is no server to connect to."""
        try:
            return subprocess.run(
                argv,
                env=_own_env(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._seconds,
                check=False,
            )
        except FileNotFoundError:
            raise _no_tmux(self._tmux) from None
        except subprocess.TimeoutExpired:
            raise TimedOut("the tmux server did not start in time") from None

    @contextlib.contextmanager
    def _file(self, name: str, data: bytes) -> Iterator[str]:
        """A private file that exists during the block."""
        path = os.path.join(self.folder, name)
        write_new(path, data)
        try:
            yield path
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


# -- parts ----------------------------------------------------------------------------------------


def server_folder(env: Mapping[str, str], owner: str) -> str:
    """The folder of the server that belongs to `owner` (the path of a state folder). It is always
    the same one, so that it is found after a crash, and its path is short."""
    import tempfile
    import zlib

    name = f"{zlib.crc32(os.fsencode(os.path.realpath(owner))):08x}"
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime and len(os.fsencode(runtime)) < _LONGEST_SOCKET - 40 and os.path.isdir(runtime):
        return os.path.join(runtime, "bridle", name)
    return os.path.join(tempfile.gettempdir(), f"bridle-{os.getuid()}", name)


def version_of(output: str) -> tuple[int, ...]:
    """The version in the output of `tmux -V` (`tmux 3.3a`); empty if it has none (`master`)."""
    import re

    found = re.search(r"(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2])) if found else ()


def make_private(folder: str) -> None:
    """Create `folder` and its parent so that only this user can enter; raises `WrongUse` if it
    belongs to another user, who could run a server there."""
    for path in (os.path.dirname(folder), folder):
        with contextlib.suppress(FileExistsError):
            os.makedirs(path, mode=0o700)
    about = os.lstat(folder)
    above = os.lstat(os.path.dirname(folder))
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise WrongUse(f"{folder} is not a folder of this user", hint="remove it")
    if above.st_uid not in (os.getuid(), 0):
        raise WrongUse(f"{os.path.dirname(folder)} belongs to another user", hint="remove it")
    if stat.S_IMODE(about.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def refuse_controls(text: str) -> None:
    """Raise `WrongUse` if `text` contains characters that a terminal would obey."""
    for char in text:
        if (char < " " and char not in "\n\t") or "\x7f" <= char <= "\x9f":
            raise WrongUse(
                f"the text contains the control character U+{ord(char):04X}",
                hint="a terminal would obey it; remove it, or use a drive without a terminal",
            )


def _checked(name: str) -> str:
    if not name or name in _OWN or not all(char in _NAME for char in name):
        raise WrongUse(
            f"not a name for a terminal session: {name!r}", hint="use letters, digits, - and _"
        )
    return name


def _pane_state(facts: str) -> PaneState | None:
    words = facts.split(" ")
    if len(words) < 4 or not words[0].isdigit():
        return None
    pid, closed, status, killer = words[:4]
    code = -int(killer) if killer.isdigit() else int(status) if status.isdigit() else None
    # A pane closes a moment before the exit of its process is known.
    dead = closed == "1" and (code is not None or not _exists(int(pid)))
    return PaneState(
        pid=int(pid), closed=closed == "1", dead=dead, exit_code=code if dead else None
    )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _own_env() -> dict[str, str]:
    """The environment of tmux itself: minimal, because every pane would inherit it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


def _no_tmux(tmux: str) -> NotInstalled:
    return NotInstalled(f"`{tmux}` was not found", hint=_NEEDED)


# -- panes ----------------------------------------------------------------------------------------

_servers: dict[str, TmuxServer] = {}
"""One connection per server, shared by all panes that this process drives."""


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
    """Where the pane is whose process has its files in `folder`; None if there is none."""
    word = read_word(os.path.join(folder, "pane"))
    return None if word is None else structs.decode(word, PanePlace)


def attach_argv(place: PanePlace) -> tuple[str, ...]:
    """The command with which a person attaches to the pane."""
    return server_in(place.server).attach_argv(place.name)
