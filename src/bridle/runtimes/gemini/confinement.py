"""What a confined Gemini must be able to write, and what its agent must not."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import make_private_dir
from bridle.runtimes.gemini.home import config_dir, user_config_dir

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

_OBEYED: dict[str, str | None] = {
    "settings.json": "{}\n",
    "trustedFolders.json": "{}\n",
    "extensions": None,
    "policies": None,
    "commands": None,
    "skills": None,
    "agents": None,
    "hooks": None,
}
"""What Gemini runs or obeys of its folder, and how each is when it is empty."""
_READ = ("GEMINI.md", ".env", "oauth_creds.json", "google_accounts.json", "acknowledgments")
"""What changes its behaviour by being there, so it is never made."""


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its folders, where it replaces a list of projects, but for what it obeys."""
    from bridle.sandbox import SandboxNeeds

    folder, own = user_config_dir(env), config_dir(env)
    make_private_dir(folder)
    held = _OBEYED | {name: "" for name in _READ if os.path.exists(os.path.join(folder, name))}
    protected: dict[str, str | None] = {
        os.path.join(folder, name): text for name, text in held.items()
    }
    # What Gemini obeys now, the guard's hooks among it; the links beside it lead to the above.
    protected[os.path.join(own, "settings.json")] = "{}\n"
    return SandboxNeeds(writable=(folder, own), protected=protected)
