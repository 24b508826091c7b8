"""Files of the user that a run reads or needs: named files, images, folders below HOME."""

import os
from collections.abc import Mapping

from bridle.core.errors import WrongUse

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_XDG = {
    ".config": "XDG_CONFIG_HOME",
    ".cache": "XDG_CACHE_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
}


def readable_file(path: str, what: str) -> bytes:
    """The bytes of a file that the caller names; `WrongUse` says why it cannot be read."""
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return file.read()
    except OSError as problem:
        raise WrongUse(f"cannot read {what} {path}: {problem.strerror}") from None


def in_home(path: str, env: Mapping[str, str]) -> str:
    """The path below HOME in `env`; the XDG variables may have moved its first folder."""
    for usual, variable in _XDG.items():
        if path.startswith(f"{usual}/") and os.path.isabs(env.get(variable, "")):
            return os.path.join(env[variable], path[len(usual) + 1 :])
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), path)


def check_images(paths: tuple[str, ...], reader: str) -> None:
    """Refuse, with `WrongUse`, a file that cannot be read or is not an image."""
    for path in paths:
        _kind_of(readable_file(path, "image"), path, reader)


def image_data(path: str, reader: str = "an agent") -> tuple[str, str]:
    """The MIME type and the base64 text of an image file; `WrongUse` if it is not an image."""
    data = readable_file(path, "image")
    kind = _kind_of(data, path, reader)
    import base64

    return kind, base64.b64encode(data).decode()


def _kind_of(data: bytes, path: str, reader: str) -> str:
    kind = next((kind for start, kind in _KINDS if data.startswith(start)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise WrongUse(f"not an image {reader} can read: {path}", hint="use PNG, JPEG, GIF or WebP")
    return kind
