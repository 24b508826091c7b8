"""What Codex asks about a folder's repository."""

import os

from bridle.repository import GitPlace


def trust_roots(folder: str, place: GitPlace | None) -> list[str]:
    """Every folder whose trust Codex may look up for a run in `folder`.

    Codex asks for the main repository's root, also in a linked work tree, and for the folder
    itself outside of git.
    """
    roots = [os.path.realpath(folder), os.path.abspath(folder)]
    if place is not None:
        roots += [place.root, os.path.dirname(place.common_dir)]
    return list(dict.fromkeys(roots))
