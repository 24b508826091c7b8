"""The documentation's tables about runtimes, from their features and kept conformance results."""

from collections.abc import Iterable

from bridle.core import structs
from bridle.core.features import Features
from bridle.core.options import ALWAYS_SUPPORTED, RunOptions
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.testing.conformance.checks import CHECKS
from bridle.testing.conformance.report import Report

_ABILITIES = (
    "interactive",
    "streaming",
    "thinking",
    "message_usage",
    "reports_cost",
    "retries",
    "resume",
    "fork",
    "steer",
    "follow_up",
    "abort",
    "compaction",
    "compact",
)


def check_table() -> str:
    """What each check of the kit proves."""
    return _table(["check", "promise"], ([f"`{each.name}`", each.promise] for each in CHECKS))


def capability_tables(results: bytes) -> str:
    """Abilities and options of every runtime, and what the kit found on each pinned version."""
    reports = structs.decode(results, list[Report])
    names = available_runtimes()
    features = {name: _features(name) for name in names}
    parts = [
        "## Abilities",
        _table(
            ["runtime", *(word.replace("_", " ") for word in _ABILITIES), "asks", "instructions"],
            ([name, *_abilities(features[name])] for name in names),
        ),
        "## Options",
        "Honoured by all: " + ", ".join(f"`{name}`" for name in sorted(ALWAYS_SUPPORTED)) + ".",
        _table(
            ["option", *names],
            (
                [f"`{option}`", *(_yes(option in features[name].options) for name in names)]
                for option in RunOptions.__struct_fields__
                if option not in ALWAYS_SUPPORTED
            ),
        ),
        "## Conformance",
        _table(
            ["runtime", "version", "passed", "not supported by this agent", "failed"],
            (_conformance(report) for report in reports),
        ),
        "## What is not supported, and why",
        _table(
            ["runtime", "version", "check", "reason"],
            (
                [report.runtime, report.version or "", f"`{each.name}`", _plain(each.detail)]
                for report in reports
                for each in report.checks
                if each.status != "pass"
            ),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _features(name: str) -> Features:
    """In the newest dialect: the page must not depend on what is installed."""
    runtime = get_adapter(name)
    return runtime.features_of(runtime.dialect(None)[0])


def _abilities(features: Features) -> list[str]:
    cells = [_yes(bool(getattr(features, word))) for word in _ABILITIES]
    cells.append(", ".join(features.asks) or "no")
    return [*cells, f"`{features.instruction_file}`" if features.instruction_file else ""]


def _conformance(report: Report) -> list[str]:
    by_status = {
        status: [each.name for each in report.checks if each.status == status]
        for status in ("pass", "unsupported", "fail")
    }
    notes = f" ({'; '.join(report.notes)})" if report.notes else ""
    return [
        report.runtime,
        f"{report.version or ''}{notes}",
        f"{len(by_status['pass'])} of {len(report.checks)}",
        ", ".join(f"`{name}`" for name in by_status["unsupported"]),
        ", ".join(f"`{name}`" for name in by_status["fail"]),
    ]


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def tool_name_table() -> str:
    """The table of the neutral tool names: what each means, and the agents' own names."""
    from bridle.runtimes.product import NEUTRAL, ToolTable

    lines = ["| name | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in NEUTRAL.items()]
    lines += ["", f"| runtime | {' | '.join(f'`{name}`' for name in NEUTRAL)} |"]
    lines += ["|" + "---|" * (len(NEUTRAL) + 1)]
    shown: list[ToolTable] = []
    for name in available_runtimes():
        runtime = get_adapter(name)
        # An alias has the tools of its product.
        if runtime.tools is None or any(runtime.tools is table for table in shown):
            continue
        shown.append(runtime.tools)
        cells = []
        for neutral in NEUTRAL:
            own = runtime.tools.neutral[neutral]
            cells.append("refused" if own is None else ", ".join(f"`{n}`" for n in own) or "none")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
