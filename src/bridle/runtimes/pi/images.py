"""Images for Pi: which files are some, and how a live conversation carries them."""

import os
from base64 import b64encode

_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class NotAnImage(Exception):
    """A file that cannot be sent as an image; the text says why."""


def media_type(data: bytes) -> str | None:
    """The kind of image that `data` is, by its first bytes; None for what Pi cannot send."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS if data.startswith(start)), None)


def image_blocks(cwd: str, paths: tuple[str, ...]) -> list[dict[str, str]]:
    """The files as Pi's rpc mode takes them; raises `NotAnImage`."""
    blocks = []
    for path in paths:
        try:
            with open(os.path.join(cwd, path), "rb") as file:
                data = file.read()
        except OSError as problem:
            raise NotAnImage(f"cannot read image {path}: {problem.strerror}") from None
        kind = media_type(data)
        if kind is None:
            raise NotAnImage(f"{path} is not an image Pi can send")
        blocks.append({"type": "image", "data": b64encode(data).decode(), "mimeType": kind})
    return blocks
