"""The environment OpenCode runs in: whose folders, and what of the user's is in it."""

import os
from collections.abc import Mapping

from bridle.runtimes.routing import NO_PROXY, PROXIES


def own_folders(home: str) -> dict[str, str]:
    """Variables that put all of OpenCode's folders below `home`. HOME stays: the agent's tools are
    the user's."""
    return {
        **{
            f"XDG_{name}_HOME": os.path.join(home, name.lower())
            for name in ("CONFIG", "DATA", "CACHE", "STATE")
        },
        "OPENCODE_TEST_HOME": os.path.join(home, "home"),
    }


def server_env(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with nothing of the user's OpenCode in it.

    Packages are not looked for, since OpenCode fetches its plugin kit from the registry at every
    first start otherwise.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith("OPENCODE") and name not in PROXIES
    }
    return {
        **kept,
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_CLAUDE_CODE": "1",
        "NPM_CONFIG_OFFLINE": "true",
        **NO_PROXY,
    }
