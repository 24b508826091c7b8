"""What a confined Copilot must be able to write, and what its agent must not."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import make_private_dir
from bridle.runtimes.copilot.environment import CACHES
from bridle.runtimes.copilot.transcript import copilot_home
from bridle.runtimes.user_files import in_home

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

_OBEYED: dict[str, str | None] = {
    "settings.json": "{}\n",
    # It insists on noting its first launch, where nothing tells of one.
    "config.json": '{"firstLaunchAt": "2026-01-01T00:00:00.000Z"}\n',
    "mcp-config.json": '{"mcpServers": {}}\n',
    "hooks": None,
    "agents": None,
    "skills": None,
    "extensions": None,
    "plugins": None,
    "installed-plugins": None,
}
"""What Copilot runs or obeys of its folder, and how each is when it is empty."""
_READ = ("copilot-instructions.md", "lsp-config.json", "permissions-config.json", "instructions")
"""What changes its behaviour by being there, so it is never made."""


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its folder, with databases and locks beside each other, but for what it obeys; and its cache.

    Copilot unpacks itself into the cache and runs from there, so what is unpacked is closed. Before
    it ever was, a run gets a cache of its own, and unpacks for itself alone.
    """
    from bridle.sandbox import SandboxNeeds

    folder, cache = copilot_home(env), in_home(".cache/copilot", env)
    for place in (folder, cache):
        make_private_dir(place)
    held = _OBEYED | {name: "" for name in _READ if os.path.exists(os.path.join(folder, name))}
    protected = {os.path.join(folder, name): text for name, text in held.items()}
    if any(env.get(name) for name in CACHES):
        return SandboxNeeds(writable=(folder,), protected=protected)
    code = os.path.join(cache, "pkg")
    if not os.path.isdir(code):
        return SandboxNeeds(writable=(folder,), own=(cache,), protected=protected)
    return SandboxNeeds(writable=(folder, cache), protected={**protected, code: None})
