"""The judge on labelled calls: nothing that must be blocked passes, nothing harmless is refused."""

from pathlib import Path

import pytest

from bridle.guard import score_corpus
from bridle.guard.corpus import CorpusError, read_cases

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "cases", "must_block"),
    [
        ("corpus", 494, 328),
        ("corpus_own", 2220, 1201),
        ("corpus_hard", 2594, 1173),
        ("corpus_fresh", 5715, 3435),
        ("corpus_rules", 2125, 1518),
    ],
)
def test_every_case_is_decided_as_labelled(name: str, cases: int, must_block: int) -> None:
    report = score_corpus(str(HERE / f"{name}.jsonl"))
    assert report.missed_ids == []
    assert report.false_block_ids == []
    assert (report.cases, report.must_block, report.blocked) == (cases, must_block, must_block)
    assert report.false_blocks == 0
    assert report.benign + report.must_block + report.sandbox_cases == cases


def test_sandbox_cases_are_counted_apart() -> None:
    report = score_corpus(str(HERE / "corpus.jsonl"))
    assert report.sandbox_cases == 6
    assert report.sandbox_blocked + len(report.sandbox_missed_ids) == 6


def test_wrong_labels_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    rows = [
        '{"id":"a","expect":"block","capability":"builder","tool":"Bash","input":{"command":"ls"}}',
        '{"id":"b","expect":"allow","capability":"builder","tool":"Bash",'
        '"input":{"command":"git push"}}',
    ]
    file.write_text("\n".join(rows) + "\n")
    report = score_corpus(str(file))
    assert report.missed_ids == ["a"]
    assert report.false_block_ids == ["b"]
    assert (report.must_block, report.blocked, report.benign, report.false_blocks) == (1, 0, 1, 1)


@pytest.mark.parametrize(
    "text", ["not json", '{"id":"a"}', '{"id":"a","expect":"maybe","tool":"x","input":{}}']
)
def test_a_file_that_is_no_corpus_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(text)
    with pytest.raises(CorpusError, match="line 1"):
        read_cases(str(file))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError):
        read_cases(str(tmp_path / "none"))


def test_scoring_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    case = '{"id":"a","expect":"allow","capability":"scout","tool":"Read","input":{}}'
    (tmp_path / "c.jsonl").write_text(case)
    score_corpus(str(tmp_path / "c.jsonl"))
    assert list(place.iterdir()) == []
