"""How a test asks for a real CLI: installed when missing, skipped only when nobody gives it.

@pytest.mark.parametrize("version", versions("pi"))
def test_it(version: str) -> None:
    binary = real_cli("pi", version)
"""

from pathlib import Path

import pytest

from tests.support.clis import PINS, RegistryRefused, cli_path


def versions(name: str) -> list[str]:
    """The pinned versions of `name`, for `parametrize`."""
    return [pin.version for pin in PINS if pin.name == name]


def real_cli(name: str, version: str) -> Path:
    """The command of a pinned CLI. The test is skipped, with the registry's answer as reason, only
    when the registry refused the package after retries; any other failure fails it."""
    try:
        return cli_path(name, version)
    except RegistryRefused as refusal:
        pytest.skip(f"REAL CLI NOT TESTED: {refusal}")
