"""An app-server that is shared with a person: where it listens, and how their terminal joins it."""

import os
import sys
from collections.abc import Mapping

from bridle.core.errors import NotInstalled, WrongUse
from bridle.process.spec import ProcessSpec
from bridle.runtimes.codex.arguments import config
from bridle.runtimes.codex.dialects import CodexDialect, codex_dialect
from bridle.runtimes.codex.install import private_folder
from bridle.runtimes.codex.provider_options import SHARED_SOCKET, CodexOptions
from bridle.runtimes.codex.sandbox import FULL_ACCESS
from bridle.runtimes.codex.spawn import terminal_flags
from bridle.turns.wire import LiveFacts

RELAY = "bridle.runtimes.codex.relay"
EXTRA = "codex-attach"
_LIBRARY = "websockets"
_LONGEST_SOCKET = 90
"""Longest path of a Unix socket that every system takes, with some room."""


def require_library() -> None:
    """Raise `NotInstalled` in an installation without the WebSocket library."""
    from importlib.util import find_spec

    if find_spec(_LIBRARY) is not None:
        return
    raise NotInstalled(
        f"codex: {SHARED_SOCKET} needs the package {_LIBRARY}, which is not installed",
        hint=f"pip install 'bridle[{EXTRA}]', or leave {SHARED_SOCKET} out",
        runtime="codex",
    )


def why_not_shared(dialect: CodexDialect, policy: str) -> str:
    """Why an app-server of this line, with this approval policy, cannot be shared; empty when it
    can."""
    if not dialect.shares_socket:
        return f"not with {dialect.name}"
    if policy != "never":
        # Both sides are asked, and the wire tells the other one that the question is settled, but
        # not how: what was allowed would stand in the events as refused, or the reverse.
        return "not where it asks: Codex does not tell what a person at its terminal answered"
    return ""


def check_sharing(own: CodexOptions, mode: str) -> None:
    """Raise unless sharing is safe, and possible here."""
    if own.network_access and mode != FULL_ACCESS:
        # With the network come the sockets: the agent would drive its own app-server from inside
        # the sandbox, and have it run commands outside.
        raise WrongUse(
            f"codex: {SHARED_SOCKET} and network_access together would open the sandbox",
            hint="leave one of them out",
        )
    require_library()


def socket_path(env: Mapping[str, str], session_id: str) -> str:
    """Where the app-server of a session listens: alone in a folder, private to the user, that the
    relay makes and removes. Below the state folder, unless that path is too long for a socket."""
    from bridle.drives.tmux.server import server_folder

    own = private_folder(env, session_id)
    name = os.path.basename(server_folder({}, own))
    path = os.path.join(os.path.dirname(own), f"s-{name}", "app.sock")
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    return os.path.join(server_folder(env, own), "app.sock")


def shared_argv(argv: tuple[str, ...], path: str) -> tuple[str, ...]:
    """The relay of the app-server that `argv` starts, which listens at `path`."""
    # Nothing is imported from the working directory (`-P`): it is the agent's.
    relay = (sys.executable, "-P", "-m", RELAY, path, "--")
    # Last, whatever the user's own configuration says: see `check_sharing`.
    closed = config("sandbox_workspace_write.network_access", False)
    return (*relay, *argv, *closed, "--listen", f"unix://{path}")


def remote_terminal(facts: LiveFacts, thread_id: str, env: Mapping[str, str]) -> ProcessSpec | None:
    """Codex's terminal interface, joined to the thread of a session that shares its socket; None
    for one that does not."""
    path = facts.own.get("socket")
    if not path:
        return None
    dialect = codex_dialect(facts.runtime_version)[0]
    home = facts.own["home"]
    # Codex refuses `--no-daemon` beside `--remote`, with which it starts none.
    flags = [word for word in terminal_flags(dialect, facts.cwd, home) if word != "--no-daemon"]
    # The same program as the app-server, whatever was installed since.
    argv = (*facts.own["command"], "--remote", f"unix://{path}", *flags, "resume", thread_id)
    # The session's own home: the person's settings are not changed by joining.
    return ProcessSpec(argv=argv, env={**env, "CODEX_HOME": home}, cwd=facts.cwd)
