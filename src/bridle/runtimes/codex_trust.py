"""Codex's trust in a folder, told for one run instead of being noted in the user's file.

Here and not in the folder of `codex`, because the agents that embed Codex need it as well.
"""

import os

from bridle.core.git import GitPlace
from bridle.runtimes.toml import toml_string


def trust_roots(folder: str, place: GitPlace | None) -> list[str]:
    """Every folder whose trust Codex may look up for a run in `folder`.

    Codex asks for the main repository's root, also in a linked work tree, and for the folder
    itself outside of git.
    """
    roots = [os.path.realpath(folder), os.path.abspath(folder)]
    if place is not None:
        roots += [place.root, os.path.dirname(place.common_dir)]
    return list(dict.fromkeys(roots))


def trust_flags(folder: str, place: GitPlace | None, home: str) -> list[str]:
    """Tell Codex that the folder is trusted, for this run only.

    In a writable sandbox Codex would otherwise note that in the user's `config.toml`. A decision
    that already stands there is left alone: then Codex writes nothing.
    """
    roots = trust_roots(folder, place)
    if _is_decided(roots, os.path.join(home, "config.toml")):
        return []
    # Only an inline table works here; the dotted form is read and then ignored.
    table = ", ".join(f'{toml_string(root)} = {{trust_level = "trusted"}}' for root in roots)
    return ["-c", f"projects={{{table}}}"]


def _is_decided(roots: list[str], path: str) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    if not any(os.fsencode(root) in data for root in roots):
        return False
    import tomllib

    try:
        projects = tomllib.loads(data.decode()).get("projects", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False
    if not isinstance(projects, dict):
        return False
    decided = [root for root in roots if "trust_level" in (projects.get(root) or {})]
    # Codex looks up one of the roots; which one only it knows, so all but the folder must stand.
    return bool(decided) and roots[-1] in decided
