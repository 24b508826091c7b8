"""The kit as ordinary tests: one test for each check.

test_conformance = conformance.as_test(MyRuntime)
"""

from collections.abc import Callable
from typing import Any

from bridle.runtimes.contract import Adapter
from bridle.testing.conformance.runner import NAMES, Kit


def as_test(factory: Callable[[], Adapter], **settings: Any) -> Callable[[str], None]:
    """A test function with one case for each check of the runtime that `factory` makes.

    A failed check fails its case; what the agent does not support is skipped, with the reason.
    Scenarios are played once for all cases of a process. `settings` are those of `Kit`.
    """
    import atexit

    import pytest

    kits: list[Kit] = []

    def kit() -> Kit:
        if not kits:
            kits.append(Kit(factory(), **settings))
            atexit.register(kits[0].lab.close)
        return kits[0]

    @pytest.mark.parametrize("check_name", NAMES)
    def test_conformance(check_name: str) -> None:
        result = kit().result(check_name)
        if result.status == "unsupported":
            pytest.skip(f"not supported by this agent: {result.detail}")
        assert result.status == "pass", f"{result.name}: {result.detail}"

    return test_conformance
