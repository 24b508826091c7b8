"""What the tests of Codex's plans start from."""

from pathlib import Path

import pytest

from tests.runtimes.codex.fake_install import VERSIONS, FakeInstall


@pytest.fixture(params=VERSIONS)
def fake(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FakeInstall:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return FakeInstall(tmp_path, request.param)
