"""Ids of sessions and messages."""

import os


def new_session_id() -> str:
    """A new random UUID (version 4). The standard library's `uuid` costs too much to import."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
