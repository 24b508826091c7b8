"""The files that a patch in Codex's `*** Begin Patch` form changes."""

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
