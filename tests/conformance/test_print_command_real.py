"""The one-shot call of every product, on its real CLI: stdout is the bare answer."""

from tempfile import TemporaryDirectory

import pytest

from bridle.testing import conformance
from tests.support.clis import PINS, cli_cache
from tests.support.real_cli import pinned

pytestmark = pytest.mark.real_cli

PRODUCTS = ("claude", "codex", "pi", "copilot", "opencode", "gemini", "cline", "aider")
CASES = [(pin.name, pin.version) for pin in PINS if pin.name in PRODUCTS]


@pytest.mark.parametrize(("name", "version"), CASES)
def test_the_print_command_answers_in_plain_text(name: str, version: str) -> None:
    # Not below /tmp: Gemini passes over settings in a folder that everybody can write.
    with TemporaryDirectory(prefix="print-", dir=cli_cache()) as folder:
        report = conformance.check(pinned(name, version), ["print_command"], folder=folder)
    (check,) = report.checks
    assert (check.name, check.status) == ("print_command", "pass"), check.detail
