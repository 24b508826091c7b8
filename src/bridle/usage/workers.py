"""Reading many files in several processes.

Readers work with the interpreter's lock held, so threads would not help. A process is forked only
from a program with one thread: another thread might hold a lock that nobody would release in the
copy.
"""

import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence

_LEAST = 32 << 20
"""Bytes for each process, below which a fork does not pay."""
_MOST = 8
_FRAME = struct.Struct("!II")


def in_processes(
    works: Sequence[tuple[str, int]], do: Callable[[str], bytes]
) -> Iterator[tuple[str, bytes]]:
    """`do` for each work (a path and its size in bytes), in no particular order.

    `do` must not raise, and must not depend on other works.
    """
    count = min(_MOST, _cores(), sum(size for _, size in works) // _LEAST)
    if count < 2 or len(works) < 2 or not _may_fork():
        for path, _ in works:
            yield path, do(path)
        return
    shares: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for path, size in sorted(works, key=lambda work: -work[1]):
        least = loads.index(min(loads))
        shares[least].append(path)
        loads[least] += size
    yield from _collect(shares, do)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _may_fork() -> bool:
    threading = sys.modules.get("threading")
    return hasattr(os, "fork") and (threading is None or threading.active_count() == 1)


def _collect(shares: list[list[str]], do: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    import select

    sys.stdout.flush()
    sys.stderr.flush()
    children: list[int] = []
    pipes: dict[int, tuple[list[str], bytearray]] = {}
    finished: set[str] = set()
    try:
        for share in shares:
            out, into = os.pipe()
            child = os.fork()
            if child == 0:
                _serve(share, do, into)
            os.close(into)
            children.append(child)
            pipes[out] = (share, bytearray())
        poll = select.poll()
        for out in pipes:
            poll.register(out, select.POLLIN)
        while pipes:
            for out, _ in poll.poll():
                share, buffer = pipes[out]
                data = os.read(out, 1 << 18)
                if not data:
                    poll.unregister(out)
                    os.close(out)
                    del pipes[out]
                    continue
                buffer += data
                for path, result in _frames(share, buffer):
                    finished.add(path)
                    yield path, result
    finally:
        for out in pipes:
            os.close(out)
        for child in children:
            os.waitpid(child, 0)
    for share in shares:  # a process that was killed leaves the rest of its share to us
        for path in share:
            if path not in finished:
                yield path, do(path)


def _frames(share: list[str], buffer: bytearray) -> Iterator[tuple[str, bytes]]:
    while len(buffer) >= _FRAME.size:
        number, size = _FRAME.unpack_from(buffer)
        end = _FRAME.size + size
        if len(buffer) < end:
            return
        result = bytes(buffer[_FRAME.size : end])
        del buffer[:end]
        yield share[number], result


def _serve(share: list[str], do: Callable[[str], bytes], into: int) -> None:
    """In the forked process: work, and end without running anything of the parent's."""
    try:
        for number, path in enumerate(share):
            result = do(path)
            data = memoryview(_FRAME.pack(number, len(result)) + result)
            while data:
                data = data[os.write(into, data) :]
    except BaseException:
        os._exit(1)
    os._exit(0)
