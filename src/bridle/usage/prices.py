"""What a request to a model costs, by published prices.

Three tables are asked in turn: the user's own (`prices` in the configuration), a few additions
(`overlay.json`), and the prices that the package genai-prices collects (`prices.json`; see
`scripts/generate_prices.py`). A model that none of them knows has no price: its cost is unknown,
never 0. The overlay says which models the short names mean in the newest CLIs that were run.
Session files record whole names, so only callers who ask by a short name depend on it.

A price with tiers applies to a whole request: the number of all its input tokens decides. Without a
separate price, tokens that are read from the cache or written to it cost what input costs.
"""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from bridle.core import structs

_HERE = os.path.dirname(__file__)
_MILLION = 1_000_000
_MARKS = re.compile(r"\[[^\]]*\]$|:[a-z]+$")
"""What follows a model's name and does not change its price: `[1m]`, `:thinking`."""
_REGIONS = re.compile(r"^(?:(?:us|eu|apac|jp|au|ca|global|us-gov)\.)?(?:[a-z0-9]+)\.(?=[a-z])")
"""Bedrock's prefixes: a region and a vendor."""
_BEDROCK_END = re.compile(r"-v\d+(?::\d+)?$")
_COMPACT_DATE = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=$|[^0-9])")


class Tiers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price that depends on the size of the request."""

    base: float
    tiers: tuple[tuple[int, float], ...] = ()
    """Pairs: above so many input tokens, this price."""

    def at(self, size: int) -> float:
        """The price of a request with `size` input tokens."""
        price = self.base
        for start, above in self.tiers:
            if size > start:
                price = above
        return price


Rate = float | Tiers


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens."""

    input: Rate | None = None
    output: Rate | None = None
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    cache_write_1h: Rate | None = None
    since: str | None = None
    """The day (UTC) from which they apply."""
    hours: tuple[str, str] | None = None
    """The time of day (UTC) at which they apply."""

    def applies(self, at: float) -> bool:
        """Whether they apply to a request at that time."""
        moment = datetime.fromtimestamp(at, UTC)
        if self.since is not None:
            return moment.date().isoformat() >= self.since
        if self.hours is not None:
            first, last = self.hours
            now = moment.strftime("%H:%M:%S")
            return first <= now < last if first <= last else now >= first or now < last
        return True

    @property
    def is_flat(self) -> bool:
        """Whether the price of a sum is the sum of the prices."""
        rates = (self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h)
        return not any(isinstance(rate, Tiers) for rate in rates)

    def cost(
        self,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cache_write_1h_tokens: int = 0,
    ) -> float:
        """What a request costs, in US dollars."""
        size = input_tokens + cache_read_tokens + cache_write_tokens
        fresh = _at(self.input, size, 0.0)
        read = _at(self.cache_read, size, fresh)
        write = _at(self.cache_write, size, fresh)
        hour = _at(self.cache_write_1h, size, write)
        return (
            input_tokens * fresh
            + output_tokens * _at(self.output, size, 0.0)
            + cache_read_tokens * read
            + (cache_write_tokens - cache_write_1h_tokens) * write
            + cache_write_1h_tokens * hour
        ) / _MILLION


def _at(rate: Rate | None, size: int, otherwise: float) -> float:
    if rate is None:
        return otherwise
    return rate.at(size) if isinstance(rate, Tiers) else rate


class _Clause(msgspec.Struct, frozen=True):
    starts: str | None = None
    ends: str | None = None
    contains: str | None = None
    regex: str | None = None
    equals: str | None = None
    any: "tuple[_Clause, ...] | None" = None
    all: "tuple[_Clause, ...] | None" = None

    def fits(self, text: str) -> bool:
        if self.equals is not None:
            return text == self.equals
        if self.starts is not None:
            return text.startswith(self.starts)
        if self.contains is not None:
            return self.contains in text
        if self.ends is not None:
            return text.endswith(self.ends)
        if self.regex is not None:
            return re.search(self.regex, text) is not None
        if self.any is not None:
            return any(each.fits(text) for each in self.any)
        return all(each.fits(text) for each in self.all or ())


class _Model(msgspec.Struct, frozen=True):
    match: _Clause
    prices: tuple[Prices, ...]


class _Provider(msgspec.Struct):
    id: str
    named: _Clause | None
    match: _Clause | None
    fallback: tuple[str, ...]
    models: msgspec.Raw
    decoded: tuple[_Model, ...] = ()

    def find(self, name: str) -> tuple[Prices, ...] | None:
        """The prices of the model `name`."""
        if not self.decoded:
            self.decoded = structs.decode(self.models, tuple[_Model, ...])
        for candidate in dict.fromkeys((name, _COMPACT_DATE.sub(r"-\1-\2-\3", name))):
            for model in self.decoded:
                if model.match.fits(candidate):
                    return model.prices
        return None


class _Table(msgspec.Struct):
    source: str
    providers: tuple[_Provider, ...]


class _Overlay(msgspec.Struct):
    aliases: dict[str, str]
    prices: dict[str, Prices]


class PriceList:
    """The prices of all known models.

    Contract: `own` are the user's prices by model name and come first. A name may have the prefix
    of a provider (`openrouter/anthropic/…`), a region (`us.anthropic.…`) or a mark (`…[1m]`).
    """

    def __init__(self, own: Mapping[str, Prices] | None = None) -> None:
        self._own = {name.lower(): each for name, each in (own or {}).items()}
        self._known: dict[str, tuple[Prices, ...] | None] = {}
        self._table: _Table | None = None
        self._overlay: _Overlay | None = None

    def fingerprint(self) -> str:
        """Changes when any price may have changed."""
        import hashlib

        own = msgspec.json.encode(self._own, order="sorted")
        files = [os.stat(os.path.join(_HERE, name)) for name in ("prices.json", "overlay.json")]
        shipped = repr([(each.st_size, each.st_mtime_ns) for each in files]).encode()
        return hashlib.sha256(own + shipped).hexdigest()[:16]

    def rows(self, model: str) -> tuple[Prices, ...] | None:
        """All prices of a model, of which the last that applies counts; None if it has none."""
        if model not in self._known:
            self._known[model] = self._find(model.lower()) if model else None
        return self._known[model]

    def at(self, model: str, at: float) -> Prices | None:
        """The prices of a model for a request at that time; None if it has none."""
        rows = self.rows(model)
        if not rows:
            return None
        return next((row for row in reversed(rows) if row.applies(at)), rows[0])

    def flat(self, model: str) -> Prices | None:
        """The prices of a model that has the same ones for every request; None for others."""
        rows = self.rows(model)
        if rows and len(rows) == 1 and rows[0].is_flat:
            return rows[0]
        return None

    def _find(self, name: str) -> tuple[Prices, ...] | None:
        overlay = self._additions()
        for spelling in _spellings(name):
            own = self._own.get(spelling)
            if own is not None:
                return (own,)
        for spelling in _spellings(name):
            spelling = overlay.aliases.get(spelling, spelling)
            known = overlay.prices.get(spelling)
            if known is not None:
                return (known,)
            found = self._listed(spelling)
            if found is not None:
                return found
        return None

    def _listed(self, name: str) -> tuple[Prices, ...] | None:
        if self._table is None:
            with open(os.path.join(_HERE, "prices.json"), "rb") as file:
                self._table = structs.decode(file.read(), _Table)
        providers = self._table.providers
        prefix, slash, rest = name.partition("/")
        if slash:
            for provider in providers:
                if provider.id == prefix or (provider.named and provider.named.fits(prefix)):
                    return self._of(provider, rest)
            return None
        for provider in providers:
            if provider.match is not None and provider.match.fits(name):
                return self._of(provider, name)
        return None

    def _of(self, provider: _Provider, name: str) -> tuple[Prices, ...] | None:
        found = provider.find(name)
        if found is None and self._table is not None:
            others = {each.id: each for each in self._table.providers}
            for other in provider.fallback:
                found = others[other].find(name) if other in others else None
                if found is not None:
                    break
        return found

    def _additions(self) -> _Overlay:
        if self._overlay is None:
            with open(os.path.join(_HERE, "overlay.json"), "rb") as file:
                self._overlay = structs.decode(file.read(), _Overlay)
        return self._overlay


def _spellings(name: str) -> list[str]:
    """The names under which a model may be listed, the most exact first."""
    found = [name]
    bare = _MARKS.sub("", name)
    found.append(bare)
    while "/" in bare:
        bare = bare.partition("/")[2]
        found += [bare]
    found.append(_BEDROCK_END.sub("", _REGIONS.sub("", _MARKS.sub("", bare))))
    found.append(bare.replace("@", "-"))
    return list(dict.fromkeys(each for each in found if each))
