"""The one place where JSON, MessagePack and plain data become structs.

msgspec examines a struct type when it is first decoded. While it does so, another thread that
decodes the same type, or one that contains it, ends the process with a segmentation fault (msgspec
0.22). Here a type is examined under a lock before anything is decoded as it, so programs can start
runs in threads. Encoding, creating and copying structs need no such care.

`tests/core/test_structs.py` checks that no other module of Bridle decodes or converts to a type by
itself.
"""

import os
from _thread import allocate_lock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_decoders: "dict[Any, msgspec.json.Decoder[Any]]" = {}
_lock = allocate_lock()
# A child gets a copy of this lock and of a type that is half examined, so a fork waits for it.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@overload
def decoder(kind: type[T]) -> "msgspec.json.Decoder[T]": ...
@overload
def decoder(kind: Any) -> "msgspec.json.Decoder[Any]": ...
def decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    """The JSON decoder of a type, the same one for all callers. Any thread may use it."""
    known = _decoders.get(kind)
    if known is not None:
        return known
    with _lock:
        if kind not in _decoders:
            _decoders[kind] = msgspec.json.Decoder(kind)
        return _decoders[kind]


@overload
def decode(data: bytes | bytearray | memoryview | str, kind: type[T]) -> T: ...
@overload
def decode(data: bytes | bytearray | memoryview | str, kind: Any) -> Any: ...
def decode(data: Any, kind: Any) -> Any:
    """JSON as a value of a type; raises `msgspec.DecodeError` for what is not JSON and
    `msgspec.ValidationError` for what does not fit."""
    return (_decoders.get(kind) or decoder(kind)).decode(data)


@overload
def convert(
    value: Any, kind: type[T], *, strict: bool = True, from_attributes: bool = False
) -> T: ...
@overload
def convert(
    value: Any, kind: Any, *, strict: bool = True, from_attributes: bool = False
) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True, from_attributes: bool = False) -> Any:
    """Plain data as a value of a type; raises `msgspec.ValidationError` for what does not fit.
    `strict` and `from_attributes` are those of `msgspec.convert`."""
    if kind not in _decoders:
        decoder(kind)
    return msgspec.convert(value, kind, strict=strict, from_attributes=from_attributes)


@overload
def unpack(data: bytes, kind: type[T]) -> T: ...
@overload
def unpack(data: bytes, kind: Any) -> Any: ...
def unpack(data: Any, kind: Any) -> Any:
    """MessagePack as a value of a type; raises as `decode`."""
    if kind not in _decoders:
        decoder(kind)
    return msgspec.msgpack.decode(data, type=kind)
