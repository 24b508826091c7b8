"""A survey installs, tries and keeps; the command says what it found."""

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from bridle.testing.conformance import CheckResult
from tests.drift import __main__ as command
from tests.drift import releases as registry
from tests.drift import survey as surveys
from tests.drift.boundaries import boundaries
from tests.drift.fakes import npm, result
from tests.drift.releases import Release
from tests.drift.results import ALL, Result, Store
from tests.drift.survey import NoRoom, Survey, difference, judgement, packed
from tests.support.clis import PINS, RegistryRefused
from tests.support.real_cli import real_cli

PI = Release(name="pi", version="0.74.2", package="@earendil-works/pi-coding-agent")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "drift")


def _survey(store: Store, lines: list[str] | None = None) -> Survey:
    return Survey(store, lines.append if lines is not None else lambda line: None)


def test_what_the_registry_refuses_is_kept_and_not_asked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(release: Release) -> None:
        asked.append(release)
        raise RegistryRefused("E404")

    monkeypatch.setattr(registry, "pins_of", refuse)
    other = Release(name="pi", version="0.1.0", package="p")
    survey = _survey(store)
    assert survey.probe(other, ALL).refused == "E404"
    assert survey.probe(other, ALL).refused == "E404"
    assert len(asked) == 1
    assert judgement(store.of(other)).verdict == "not_installed"


def test_known_checks_are_not_run_again(store: Store) -> None:
    known = Result(name="pi", version="0.74.2", package="p")
    known.add([CheckResult(name="text", status="pass")])
    store.keep(known)
    lines: list[str] = []
    assert _survey(store, lines).probe(PI, ["text"]).status("text") == "pass"
    assert lines == []


def test_a_full_disk_is_an_error_before_anything_is_installed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "clis"
    for name in ("pi-0.1.0", PINS[0].names[1]):
        (cache / name).mkdir(parents=True)
        (cache / name / ".complete").touch()
    monkeypatch.setenv("BRIDLE_CLI_CACHE", str(cache))
    with pytest.raises(NoRoom, match="are free"):
        Survey(store, lambda line: None, keep_free=1e9).probe(PI, ["text"])
    left = [path.name for path in cache.iterdir()]
    assert left == [PINS[0].names[1]], "pinned releases stay"


def test_every_tested_cli_has_a_version_to_compare_with() -> None:
    for name in registry.names():
        assert surveys.tested(name)["text"] == "pass", name


def test_a_boundary_has_words_flags_and_captures(store: Store) -> None:
    for version, status, flags in (("1.0.0", "pass", "--old"), ("1.0.1", "fail", "--new")):
        known = result(version)
        known.add([CheckResult(name="text", status=status, detail=f"{status} it")])  # type: ignore[arg-type]
        store.keep(known)
        captures = store.captures("claude", version)
        captures.mkdir()
        (captures / "help.txt").write_text(flags)
    every = [Release(name="claude", version=each, package="p") for each in ("1.0.0", "1.0.1")]
    (found,) = boundaries(every, store.all("claude"))
    shown = difference(store, "claude", found)
    assert shown["detail"] == "fail it"
    assert (shown["words_removed"], shown["words_added"]) == (["--old"], ["--new"])
    with tarfile.open(packed(store, "claude", "1.0.1")) as archive:
        assert sorted(archive.getnames()) == [
            "claude-1.0.1/captures",
            "claude-1.0.1/captures/help.txt",
            "claude-1.0.1/result.json",
        ]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry with two releases of Claude, of which the newer one does not work."""
    times = {"2.1.0": "2026-01-01", "2.2.0": "2026-02-01"}
    monkeypatch.setattr(registry, "asked", npm({"@anthropic-ai/claude-code": times}))

    def probe(self: Survey, release: Release, checks: Sequence[str]) -> Result:
        found = self.store.of(release)
        works = release.version == "2.1.0"
        found.add(
            [
                CheckResult(name=each, status="pass" if works else "fail", detail="said so")
                for each in (checks if works else ["text"])
            ]
        )
        self.store.keep(found)
        return found

    monkeypatch.setattr(Survey, "probe", probe)


@pytest.mark.usefixtures("fake")
def test_the_newest_release_gets_a_sentence_and_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--newest", "claude", "--results", str(tmp_path)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "claude 2.2.0 does not work, because said so"
    assert Path(second.partition(": ")[2]).exists()


@pytest.mark.usefixtures("fake")
def test_a_survey_prints_a_table_with_the_boundary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["claude", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "fails since 2.2.0, not yet in 2.1.0: text" in said
    assert command.main(["claude", "2.1.0", "--json", "--results", str(tmp_path)]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["clis"]
    assert [each["verdict"] for each in shown["releases"]] == ["differences", "broken"]
    assert shown["boundaries"][0]["before"] == "2.1.0"
    assert command.main(["--show", "claude", "--results", str(tmp_path)]) == 1
    assert "2.2.0" in capsys.readouterr().out


def test_what_was_not_tried_between_two_releases_is_counted_without_the_registry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    every = [Release(name="claude", version=f"1.0.{each}", package="p") for each in range(5)]
    store.keep_list("claude", every)
    store.keep(result("1.0.0", text="pass"))
    store.keep(result("1.0.4", text="fail"))
    assert command.main(["--show", "claude", "--results", str(tmp_path)]) == 1
    assert "(3 releases between are not tried): text" in capsys.readouterr().out


@pytest.mark.usefixtures("fake")
def test_a_sample_may_begin_with_a_named_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["claude", "--since", "2.2.0", "--results", str(tmp_path)]
    assert command.main(words) == 1
    assert "2.1.0" not in capsys.readouterr().out


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["cluade"], 2, "did you mean claude?"),
        (["claude", "2.1.5"], 2, "has no release 2.1.5: the nearest are 2.1.0, 2.2.0"),
        (["codex"], 3, "E404"),
    ],
)
def test_a_wrong_word_is_one_line(
    words: list[str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*words, "--results", str(tmp_path)]) == status
    assert said in capsys.readouterr().err


def test_an_unknown_check_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["claude", "--only", "txt"])
    assert "there is no check txt" in capsys.readouterr().err


@pytest.mark.real_cli
@pytest.mark.timeout(300)
def test_a_release_is_tried_for_real(store: Store) -> None:
    real_cli("pi", "0.74.2")
    found = _survey(store).probe(PI, ["text", "tool_call", "guard:c"])
    assert {each.name: each.status for each in found.checks} == {
        "text": "pass",
        "tool_call": "pass",
        "guard:c": "pass",
    }
    captures = store.captures("pi", "0.74.2")
    assert "--model" in (captures / "help.txt").read_text()
    (run,) = json.loads((captures / "talk.json").read_text())
    assert run["status"] == "completed"
    assert str(store.folder) not in (captures / "talk.json").read_text()
    assert [path.name for path in store.folder.iterdir()] == ["pi"], "no scratch folder is left"
