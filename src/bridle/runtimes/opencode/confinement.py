"""What a confined OpenCode must be able to write, and what its agent must not."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import make_private_dir
from bridle.runtimes.user_files import in_home

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

_OPEN = (".local/share/opencode", ".local/state/opencode", ".cache/opencode")
_RUN = ("bin", "packages", "node_modules")
"""Programs and plugins in its cache, which every session of the user's runs."""
_IGNORED = "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore\n"


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its conversations, with the login beside them, and its cache but for what it runs from there.

    Its configuration stays closed. OpenCode writes a list of ignored files there when that is
    missing, and gives up when it cannot; so the list is made for it.
    """
    from bridle.sandbox import SandboxNeeds

    config, cache = in_home(".config/opencode", env), in_home(".cache/opencode", env)
    for folder in (config, cache):
        make_private_dir(folder)
    held: dict[str, str | None] = {os.path.join(cache, name): None for name in _RUN}
    held[os.path.join(config, ".gitignore")] = _IGNORED
    return SandboxNeeds(writable=tuple(in_home(path, env) for path in _OPEN), protected=held)
