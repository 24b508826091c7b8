"""The files that a patch changes: in Codex's `*** Begin Patch` form, or a unified diff."""

import re

_HEADERS = (
    ("*** Add File: ", False),
    ("*** Update File: ", False),
    ("*** Delete File: ", True),
    ("*** Move to: ", False),
    ("*** Move File: ", True),
)


def patch_paths(text: str) -> list[tuple[str, bool]]:
    """Each path the patch names, with whether the file is removed there.

    An added or removed line (`+`, `-`) that looks like a header is content. Blanks before a header
    do not hide it: the real parser trims them. Unified diffs are read by their file lines.
    """
    found: list[tuple[str, bool]] = []
    envelope = "*** Begin Patch" in text
    for line in text.splitlines():
        stripped = line.strip() if line[:1] not in ("+", "-") else ""
        for header, gone in _HEADERS:
            if stripped.startswith(header):
                path = stripped[len(header) :].strip()
                found.append((path, gone))
        if not envelope and line.startswith(("+++ ", "--- ")):
            path = line[4:].split("\t")[0].strip()
            if path != "/dev/null":
                found.append((path[2:] if path[:2] in ("a/", "b/") else path, False))
    return found


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMES = ("--- ", "+++ ", "rename from ", "rename to ", "copy to ")


def diff_paths(text: str, strip: int | None) -> list[str]:
    """The paths that a unified diff changes, without their first `strip` components; None keeps
    the last one only, as patch does by itself. Lines of a hunk are content, whatever they look
    like.
    """
    found: dict[str, None] = {}
    old = new = 0
    for line in text.splitlines():
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            continue
        hunk = _HUNK.match(line)
        if hunk is not None:
            old, new = (int(n) if n is not None else 1 for n in hunk.groups())
            continue
        name = next((n for n in _NAMES if line.startswith(n)), None)
        if name is None:
            continue
        path = line[len(name) :].split("\t")[0].strip().strip('"')
        if path == "/dev/null":
            continue
        # Each run of slashes ends a component, the one at the start too.
        parts = re.sub(r"/+", "/", path).split("/")
        cut = strip if name[0] in "-+" else max((strip or 0) - 1, 0)
        found["/".join(parts[-1:] if cut is None else parts[cut:]) or path] = None
    return list(found)
