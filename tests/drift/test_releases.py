"""Which releases there are, and which of them are tried."""

import datetime
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.drift import releases
from tests.drift.fakes import line, npm, release
from tests.support.clis import NODE, RegistryRefused

CLAUDE = "@anthropic-ai/claude-code"
TODAY = datetime.date(2026, 11, 18)


def test_releases_are_in_the_order_of_their_numbers_without_previews() -> None:
    times = {"2.0.10": "2026-03-01", "2.0.9": "2026-02-01", "2.1.0-beta.1": "2026-04-01"}
    found = releases.listed("claude", npm({CLAUDE: times}))
    assert [each.version for each in found] == ["2.0.9", "2.0.10"]
    assert found[0].date == "2026-02-01"


def test_a_release_is_not_dated_later_than_those_after_it() -> None:
    times = {"2.0.0": "2026-09-01", "2.0.1": "2026-03-01T10:00:00", "2.0.2": "2026-05-01"}
    found = releases.listed("claude", npm({CLAUDE: times}))
    assert [each.date for each in found] == ["2026-03-01", "2026-03-01", "2026-05-01"]


def test_a_release_that_was_taken_back_is_left_out() -> None:
    def ask(command: Sequence[str]) -> str:
        return json.dumps(
            {"time": {"1.0.0": "2026-01-01", "1.0.1": "2026-01-02"}, "versions": ["1.0.1"]}
        )

    assert [each.version for each in releases.listed("claude", ask)] == ["1.0.1"]


def test_a_cli_that_moved_has_the_releases_of_both_packages() -> None:
    new, old = "@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent"
    found = releases.listed(
        "pi", npm({new: {"0.74.0": "2026-05-16"}, old: {"0.73.1": "2026-05-01"}})
    )
    assert [(each.version, each.package) for each in found] == [("0.73.1", old), ("0.74.0", new)]


def test_releases_of_a_python_package_have_no_dates() -> None:
    def ask(command: Sequence[str]) -> str:
        assert "aider-chat" in command
        return "aider-chat (0.2.0)\nAvailable versions: 0.2.0, 0.1.0\n  INSTALLED: 0.1.0\n"

    found = releases.listed("aider", ask)
    assert [(each.version, each.date) for each in found] == [("0.1.0", None), ("0.2.0", None)]


def test_a_registry_without_the_package_refuses() -> None:
    with pytest.raises(RegistryRefused, match="E404"):
        releases.listed("claude", npm({}))


def test_the_clients_own_words_say_why_a_registry_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "npm"
    script.write_text(
        "#!/bin/sh\necho 'npm error code E503' >&2\necho 'a log is there' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RegistryRefused, match="npm view x: npm error code E503"):
        releases.asked(["npm", "view", "x"])


def test_a_registry_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*args: object, **more: object) -> None:
        raise subprocess.TimeoutExpired("npm", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    with pytest.raises(RegistryRefused, match="no answer within"):
        releases.asked(["npm", "view", "x"])


def test_an_unknown_cli_is_refused_with_the_nearest() -> None:
    with pytest.raises(releases.UnknownRelease, match="did you mean claude"):
        releases.known("cluade")
    with pytest.raises(releases.UnknownRelease, match="there are aider, claude"):
        releases.known("zzz")


def test_an_unknown_version_is_refused_with_those_around_it() -> None:
    some = [release(number) for number in (1, 4, 9)]
    with pytest.raises(releases.UnknownRelease, match=r"1\.0\.7: the nearest are 1\.0\.4, 1\.0\.9"):
        releases.find(some, "1.0.7")
    assert releases.find(some, "1.0.4") is some[1]


def test_a_year_begins_with_the_release_that_was_current_then() -> None:
    dates = ["2025-06-01", "2025-10-01", "2025-12-01", "2026-11-01"]
    some = [release(number, date) for number, date in enumerate(dates)]
    assert releases.of_the_last_year(some, TODAY) == some[1:]
    assert releases.of_the_last_year(some[:1], TODAY) == some[:1]


def test_a_year_without_dates_is_a_number_of_releases() -> None:
    some = line(40)
    assert releases.of_the_last_year(some, TODAY) == some[-releases.UNDATED :]


def test_a_sample_has_both_ends_and_is_spread_evenly() -> None:
    some = line(22)
    found = releases.sampled(some, 8)
    assert [each.version for each in found] == [
        f"1.0.{number}" for number in (0, 3, 6, 9, 12, 15, 18, 21)
    ]
    assert releases.sampled(some[:5], 8) == some[:5]
    assert releases.sampled(some, 1) == some[-1:]


def test_a_sample_is_spread_in_time_as_well() -> None:
    # Twenty releases in one month, then one a month: neither half may be all of the sample.
    days = [f"2026-01-{day:02}" for day in range(1, 21)]
    days += [f"2026-{month:02}-01" for month in range(2, 12)]
    found = releases.sampled([release(n, day) for n, day in enumerate(days)], 8)
    early = [each for each in found if (each.date or "") < "2026-02"]
    assert 2 <= len(early) <= 5
    assert len(found) == 8


def test_a_release_that_asks_for_a_newer_node_gets_it() -> None:
    each = release(1)

    def ask(command: Sequence[str]) -> str:
        return json.dumps({"engines": {"node": ">=99.0.0"}, "bin": {"claude": "cli.js"}})

    assert [pin.node for pin in releases.pins_of(each, ask)] == [NODE]
    assert [pin.node for pin in releases.pins_of(each, lambda command: '{"node": ">=4"}')] == [""]
    assert releases.pins_of(each, lambda command: "")[0].packages == ("p@1.0.1",)


def test_a_release_in_one_file_can_be_unpacked_where_it_cannot_be_installed() -> None:
    each = releases.Release(name="pi", version="0.90.0", package="x/pi")
    first, second = releases.pins_of(
        each, lambda command: '{"bin": {"pi": "dist/bundle/cli.js"}, "engines": {}}'
    )
    assert first.packages == ("x/pi@0.90.0",)
    assert second.unpacked == "x/pi@0.90.0"
    assert second.commands == ("node_modules/x/pi/dist/bundle/cli.js",)


def test_parts_of_the_same_project_come_in_the_releases_own_version() -> None:
    each = releases.Release(name="pi", version="0.80.3", package="@x/pi")
    wanted = {"@x/ai": "^0.80.3", "@x/other": "^1.0.0", "chalk": "^0.80.3"}
    (pin,) = releases.pins_of(each, lambda command: json.dumps({"dependencies": wanted, "bin": {}}))
    assert pin.packages == ("@x/pi@0.80.3", "@x/ai@0.80.3")
