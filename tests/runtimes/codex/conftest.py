"""What the tests of Codex's plans start from."""

from pathlib import Path

import pytest

from tests.runtimes.codex.desk import VERSIONS, Desk


@pytest.fixture(params=VERSIONS)
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Desk(tmp_path, request.param)
