"""What a confined Cline must be able to write, and what its agent must not."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import make_private_dir
from bridle.runtimes.cline.settings import GLOBAL, MCP, PROVIDERS
from bridle.runtimes.cline.transcript import data_dir

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

_OBEYED = {
    os.path.join("settings", MCP[1]): '{"mcpServers": {}}\n',
    os.path.join("settings", GLOBAL[1]): "{}\n",
    "connectors": None,
}
"""What later sessions of the user's obey or run."""


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its data, but for the settings. A login that renews itself stays open, or it would be lost;
    any other is used by a copy and is closed."""
    from bridle.sandbox import SandboxNeeds

    data = data_dir(env)
    make_private_dir(os.path.join(data, "settings"))
    held: dict[str, str | None] = {os.path.join(data, name): _OBEYED[name] for name in _OBEYED}
    login = os.path.join(data, "settings", PROVIDERS[1])
    if env.get(PROVIDERS[0], login) != login and os.path.exists(login):
        held[login] = ""
    return SandboxNeeds(writable=(data,), protected=held)
