"""Images that go with a prompt."""

from bridle.core.errors import WrongUse
from bridle.runtimes.planner import readable_file

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def check_images(paths: tuple[str, ...], reader: str) -> None:
    """Refuse, with `WrongUse`, a file that cannot be read or is not an image."""
    for path in paths:
        _kind_of(readable_file(path, "image"), path, reader)


def image_data(path: str, reader: str = "an agent") -> tuple[str, str]:
    """The MIME type and the base64 text of an image file; `WrongUse` for a file that is none."""
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
