"""Images of a message, copied to where they last as long as the session."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.files import make_private_dir, write_private
from bridle.sessions.home import StateHome

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter

Image = str | os.PathLike[str] | Mapping[str, Any]
"""A file, or `{"type": "image", "media_type": "image/png", "data": …}`: bytes or base64 text."""

_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def refuse_images(runtime: "Adapter", drive: str, images: Sequence[Image]) -> None:
    """Raise `UnsupportedOption` for images where the runtime takes none in a session of `drive`."""
    if not images or "images" in runtime.features.in_session(drive).options:
        return
    from bridle.runtimes.alternatives import supporters

    raise UnsupportedOption(runtime.id, "images", supporters("images", runtime.id))


def kept_images(
    home: StateHome, session_id: str, message_id: str, images: Sequence[Image]
) -> tuple[str, ...]:
    """Copy the images into the session's folder, private; returns their paths.

    Raises `WrongUse` for a file that cannot be read or data that is not an image.
    """
    made = [_content(image) for image in images]
    if not made:
        return ()
    folder = os.path.join(home.folder(session_id), "images")
    make_private_dir(folder)
    kept = []
    for number, (data, ending) in enumerate(made):
        kept.append(write_private(folder, f"{message_id}-{number}{ending}", data))
    return tuple(kept)


def _content(image: Image) -> tuple[bytes, str]:
    from bridle.runtimes.options import readable_file

    if not isinstance(image, Mapping):
        path = os.fspath(image)
        return readable_file(path, "the image"), os.path.splitext(path)[1]
    kind = image.get("media_type")
    if kind not in _ENDINGS:
        raise WrongUse(
            f"an image of media type {kind!r} cannot be sent", hint=f"use {', '.join(_ENDINGS)}"
        )
    data = image.get("data")
    if isinstance(data, str):
        import base64
        import binascii

        try:
            data = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise WrongUse("the data of an image is not base64") from None
    if not isinstance(data, bytes) or not data:
        raise WrongUse("an image has no data", hint="give it as bytes or as base64 text")
    return data, _ENDINGS[kind]
