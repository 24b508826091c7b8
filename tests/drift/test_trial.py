"""What a trial makes of what it sees."""

import json
import shlex
from pathlib import Path

from bridle.runtimes.registry import get_adapter
from bridle.testing.conformance import CheckResult
from tests.drift.results import BASIC
from tests.drift.trial import Trial, hidden, kind_of, shortened_lines


def test_an_unknown_message_is_named_by_its_kind() -> None:
    assert kind_of({"type": "system", "subtype": "thinking_tokens", "n": 1}) == (
        "system/thinking_tokens"
    )
    assert kind_of(b'{"method": "item/new", "params": {}}') == "item/new"
    update = {"method": "session/update", "params": {"update": {"sessionUpdate": "usage"}}}
    assert kind_of(update) == "session/update/usage"
    assert kind_of({"b": 1, "a": 2}) == "with a, b"
    assert kind_of("not json") == "not json"


def test_paths_and_random_names_do_not_make_a_difference() -> None:
    said = CheckResult(
        name="text", status="fail", detail="no /x/lab/run/copilot-aa2e399e69dbd0c7/u.json\n here"
    )
    assert hidden(said, {"/x/lab": "<lab>"}).detail == "no <lab>/run/copilot-…/u.json here"


def test_a_capture_has_the_first_and_the_last_lines() -> None:
    found = shortened_lines([str(number) for number in range(1000)], most=4)
    assert found == ["0", "1", "… 996 lines …", "998", "999"]
    assert shortened_lines(["x" * 50], longest=5) == ["xxxx…"]


def test_the_scripted_agent_is_tried_to_the_end(tmp_path: Path) -> None:
    kept: list[int] = []
    binary = tmp_path / "agent"
    command = shlex.join(get_adapter("scripted").installation().command)
    binary.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    binary.chmod(0o755)
    trial = Trial("scripted", str(binary), tmp_path, tmp_path / "captures")
    found = trial.run([*BASIC, "guard:a", "guard:c", "session"], lambda so_far: kept.append(1))
    assert {each.status for each in found.checks} == {"pass"}
    assert len(found.checks) == len(BASIC) + 3
    assert len(kept) >= 4, "every part is kept when it is known"
    (run,) = json.loads((tmp_path / "captures" / "talk.json").read_text())
    assert run["status"] == "completed"
    assert str(tmp_path) not in (tmp_path / "captures" / "session.json").read_text()


def test_a_release_that_does_not_work_can_be_asked_for_its_flags(tmp_path: Path) -> None:
    binary = tmp_path / "agent"
    binary.write_text("#!/bin/sh\necho '  --output-format=X  how  --not-all'\n")
    binary.chmod(0o755)
    trial = Trial("pi", str(binary), tmp_path, tmp_path / "captures")
    words = ["flag:--output-format", "flag:--not", "flag:how"]
    found = trial.run(words, lambda so_far: None)
    assert [each.status for each in found.checks] == ["pass", "fail", "pass"]
