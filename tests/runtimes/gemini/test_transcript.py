"""Session files of Gemini: where they are, and the usage that they record."""

import json
from pathlib import Path

from bridle.runtimes.gemini.transcript import chats_dir, parse_transcript
from tests.runtimes.gemini.captures import TESTDATA


def test_half_a_line_is_passed_over_and_patches_count(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    told = {"id": "x", "type": "gemini", "model": "m", "tokens": {"input": 7, "output": 2}}
    text = (TESTDATA / "transcript.jsonl").read_text()
    again = {"id": "39dfa1c9-25a0-4620-81f7-d764d832f84b", "type": "gemini", "content": "…"}
    patch = json.dumps({"$set": {"messages": [told, again]}})
    path.write_text(f'{text}{patch}\n{{"id":"y","type":"gem')
    summary = parse_transcript(str(path))
    assert summary is not None
    assert summary.input_tokens == 147
    path.write_text('{"something": "else"}\n')
    assert parse_transcript(str(path)) is None
    assert parse_transcript(str(tmp_path / "missing")) is None


def test_the_folder_of_a_projects_sessions(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    assert chats_dir(str(tmp_path), str(project)) is None
    (tmp_path / "projects.json").write_text(json.dumps({"projects": {str(project): "p-1"}}))
    assert chats_dir(str(tmp_path), str(project)) == str(tmp_path / "tmp" / "p-1" / "chats")


def test_a_project_that_is_not_in_the_list_is_found_by_its_mark(tmp_path: Path) -> None:
    project = tmp_path / "work"
    project.mkdir()
    for name, owner in (("other", "/elsewhere"), ("work-1", str(project))):
        (tmp_path / "tmp" / name).mkdir(parents=True)
        (tmp_path / "tmp" / name / ".project_root").write_text(owner)
    assert chats_dir(str(tmp_path), str(project)) == str(tmp_path / "tmp" / "work-1" / "chats")
    assert chats_dir(str(tmp_path), str(tmp_path)) is None
