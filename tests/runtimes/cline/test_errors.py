"""Early exits become typed errors."""

import pytest

from bridle.process.spec import ProcessExit
from bridle.runtimes.cline.stream import error_of_exit
from tests.runtimes.cline.captures import TESTDATA


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ('{"type":"error","message":"unknown option \'--zz\'"}', "protocol_drift"),
        ("Warning: x\n at y\nCould not find the Cline CLI binary for", "not_installed"),
        ('{"type":"error","message":"Run cline auth first"}', "not_authenticated"),
        ((TESTDATA / "single-word-prompt.txt").read_text(), "crashed"),
    ],
)
def test_a_process_that_began_nothing(stderr: str, kind: str) -> None:
    error = error_of_exit(ProcessExit(code=1, stderr_tail=stderr))
    assert error is not None
    assert error.kind == kind


def test_only_the_exit_tells() -> None:
    assert error_of_exit(ProcessExit(code=-9, stderr_tail="words")) is None
    assert error_of_exit(ProcessExit(code=1, stderr_tail="Warning: only this")) is None
