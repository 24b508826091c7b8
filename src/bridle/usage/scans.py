"""All session files of all products in a home folder, read and added up.

`scan` returns sums by session, model and quarter of an hour. It reads only what has changed since
the last time (`index`); if nothing has, it loads no reader and no price.
"""

import os
from collections.abc import Iterator, Mapping

import msgspec

from bridle.core import structs
from bridle.core.entry_points import registered
from bridle.runtimes.usage_reader import (
    NotUsage,
    Part,
    Reading,
    UsageReader,
    reader_of,
    tail_fits,
)
from bridle.usage.index import Index, Known
from bridle.usage.prices import PriceList, Prices
from bridle.usage.tally import Row, Tally
from bridle.usage.workers import in_processes


class Skipped(msgspec.Struct, frozen=True):
    """A file, or a part of it, that is not in the sums."""

    path: str
    reason: str


class Found(msgspec.Struct, frozen=True):
    """The sums over all session files, and what is not in them."""

    rows: list[Row]
    skipped: list[Skipped]


class _Watched(Mapping[str, str]):
    """An environment that remembers which variables were read."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.read: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        self.read[name] = self._env.get(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


class _Sources(msgspec.Struct, array_like=True):
    """Where files are, and what that depends on."""

    adapters: dict[str, str]
    variables: dict[str, str | None]
    settings: dict[str, str]
    places: list[tuple[str, str, str, str, tuple[str, ...]]]
    """Runtime, reader, root, pattern, companions."""


class _Kept(msgspec.Struct, array_like=True):
    """A report, and what it depends on."""

    sources: _Sources
    listing: str
    prices: str
    rows: msgspec.Raw
    skipped: msgspec.Raw


class _File(msgspec.Struct, frozen=True):
    runtime: str
    reader: str
    stamp: str
    size: int


def scan(
    env: Mapping[str, str], cache: Mapping[str, str], own: Mapping[str, Prices] | None = None
) -> Found:
    """The sums over the files of every product's home under `env`.

    The index is that of the user under `cache`. `own` are the user's prices.
    """
    prices = PriceList(own)
    index = Index(cache)
    try:
        return _scan(env, index, prices)
    finally:
        index.close()


def _scan(env: Mapping[str, str], index: Index, prices: PriceList) -> Found:
    scope = env.get("HOME") or os.path.expanduser("~")
    fingerprint = prices.fingerprint()
    kept = _kept(index.report(scope))
    sources = kept.sources if kept and _is_current(kept.sources, env) else _sources(env)
    files, unlisted = _list(sources)
    listing = "\n".join(f"{path}\0{file.reader}\0{file.stamp}" for path, file in files.items())
    is_same = kept is not None and sources is kept.sources and not unlisted
    if kept and is_same and listing == kept.listing and fingerprint == kept.prices:
        return Found(
            structs.unpack(kept.rows, list[Row]),
            structs.unpack(kept.skipped, list[Skipped]),
        )
    skipped = [Skipped(path, reason) for path, reason in unlisted]
    rows, failed = _read_changed(files, index, prices, skipped)
    skipped.sort(key=lambda each: (each.path, each.reason))
    # What could not be opened may be readable the next time without having changed.
    if not unlisted and not failed:
        encode = msgspec.msgpack.encode
        report = _Kept(
            sources,
            listing,
            fingerprint,
            msgspec.Raw(encode(rows)),
            msgspec.Raw(encode(skipped)),
        )
        index.keep_report(scope, encode(report))
    return Found(rows, skipped)


def _read_changed(
    files: dict[str, _File], index: Index, prices: PriceList, skipped: list[Skipped]
) -> tuple[list[Row], bool]:
    """The sums over `files`, and whether any of them could not be opened."""
    stamps = index.stamps()
    tally = Tally(prices)
    changed = [
        (path, file.size)
        for path, file in files.items()
        if stamps.get(path) != (file.reader, file.stamp)
    ]
    new = {path for path, _ in changed}
    for path, file in files.items():
        if path in new:
            continue
        known = index.known(path)
        if known is None:
            changed.append((path, file.size))
            continue
        _take(path, file.runtime, known, tally, skipped)
    readers: dict[str, UsageReader | None] = {}

    def read(path: str) -> bytes:
        file = files[path]
        target = file.reader.rpartition("@")[0]
        if target not in readers:
            readers[target] = reader_of(target)
        reader = readers[target]
        old = stamps.get(path)
        known = index.known(path) if old is not None and old[0] == file.reader else None
        return msgspec.msgpack.encode(_read(path, reader, known))

    keep: list[tuple[str, str, str, bytes]] = []
    failed = False
    for path, data in in_processes(changed, read):
        file = files[path]
        known = structs.unpack(data, Known)
        _take(path, file.runtime, known, tally, skipped)
        if known.refused.startswith(_CANNOT):
            failed = True
        else:
            keep.append((path, file.reader, file.stamp, data))
    index.keep(keep, [path for path in stamps if path not in files and not os.path.exists(path)])
    return tally.rows(), failed


_CANNOT = "cannot be read: "


def _read(path: str, reader: UsageReader | None, known: Known | None) -> Known:
    """What `path` says now, of which `known` was known. Never raises."""
    if reader is None:
        return Known(refused=f"{_CANNOT}its reader is gone")
    tail = known.tail if known is not None and not known.refused else None
    try:
        if known is not None and tail is not None and tail_fits(path, tail):
            return known.extended(reader.read(path, tail))
        return _fresh(reader.read(path, None))
    except NotUsage as problem:
        return Known(refused=str(problem))
    except OSError as problem:
        return Known(refused=f"{_CANNOT}{problem.strerror or problem}")
    except Exception as problem:  # one odd file must not end the report over all others
        return Known(refused=f"cannot be understood: {type(problem).__name__}: {problem}")


def _fresh(reading: Reading) -> Known:
    return Known(reading.parts, reading.tail, reading.notes, reading.loose)


def _take(path: str, runtime: str, known: Known, tally: Tally, skipped: list[Skipped]) -> None:
    if known.refused:
        skipped.append(Skipped(path, known.refused))
        return
    skipped += [Skipped(path, note) for note in known.notes]
    tally.add(runtime, known.parts)


def each_reading(env: Mapping[str, str]) -> Iterator[tuple[str, str, list[Part]]]:
    """Every readable file under `env`, read anew: path, runtime, parts."""
    readers: dict[str, UsageReader | None] = {}
    for path, file in _list(_sources(env))[0].items():
        target = file.reader.rpartition("@")[0]
        if target not in readers:
            readers[target] = reader_of(target)
        known = _read(path, readers[target], None)
        if not known.refused:
            yield path, file.runtime, known.parts


# -- which files ----------------------------------------------------------------------------------


def _kept(data: bytes | None) -> _Kept | None:
    if data is None:
        return None
    try:
        return structs.unpack(data, _Kept)
    except msgspec.MsgspecError:
        return None


def _is_current(sources: _Sources, env: Mapping[str, str]) -> bool:
    """Whether the sources would be the same if they were looked for again."""
    return (
        sources.adapters == registered()
        and all(env.get(name) == value for name, value in sources.variables.items())
        and all(_stamp(path) == stamp for path, stamp in sources.settings.items())
    )


def _sources(env: Mapping[str, str]) -> _Sources:
    watched = _Watched(env)
    settings: dict[str, str] = {}
    places: list[tuple[str, str, str, str, tuple[str, ...]]] = []
    seen: set[str] = set()
    for runtime, target in sorted(registered().items()):
        package = target.partition(":")[0]
        reader = reader_of(target) if package not in seen else None
        seen.add(package)
        if reader is None:
            continue
        for path in reader.depends(watched):
            settings[path] = _stamp(path)
        name = f"{package}@{reader.version}"
        places += [(runtime, name, *place) for place in reader.places(watched)]
    return _Sources(dict(registered()), watched.read, settings, places)


def _stamp(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def _list(sources: _Sources) -> tuple[dict[str, _File], list[tuple[str, str]]]:
    """All files, by path, and the folders that could not be listed."""
    files: dict[str, _File] = {}
    problems: list[tuple[str, str]] = []
    for runtime, reader, root, pattern, companions in sources.places:
        for entry in _matches(root, pattern.split("/"), problems):
            try:
                found = entry.stat()
            except OSError:
                continue  # removed meanwhile, or a link to nothing
            if found.st_mode & 0o170000 != 0o100000:
                continue  # not a file
            stamp = f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
            stamp += "".join(f" {_stamp(entry.path + each)}" for each in companions)
            files[entry.path] = _File(runtime, reader, stamp, found.st_size)
    return dict(sorted(files.items())), problems


def _matches(
    folder: str, names: list[str], problems: list[tuple[str, str]]
) -> "Iterator[os.DirEntry[str]]":
    begin, star, end = names[0].partition("*")
    try:
        with os.scandir(folder) as entries:
            fitting = [
                entry
                for entry in entries
                if (
                    entry.name.startswith(begin)
                    and entry.name.endswith(end)
                    and len(entry.name) >= len(begin) + len(end)
                    if star
                    else entry.name == begin
                )
            ]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as problem:
        problems.append((folder, f"{_CANNOT}{problem.strerror or problem}"))
        return
    if len(names) == 1:
        yield from fitting
        return
    for entry in fitting:
        if entry.is_dir():
            yield from _matches(entry.path, names[1:], problems)
