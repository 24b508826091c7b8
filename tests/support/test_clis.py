"""The installer of pinned CLIs, against an npm of the test's own (the registry is not asked)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import clis, real_cli

_NPM = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$(wc -l < "{log}")" -le {refusals} ]; then
  echo "npm error code {code}" >&2
  exit 1
fi
mkdir -p node_modules/.bin
printf '#!/bin/sh\\n' > node_modules/.bin/pi
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRIDLE_CLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "bin").mkdir()
    return tmp_path


def _write_npm(folder: Path, *, refusals: int, code: str = "E503") -> Path:
    log = folder / "npm.log"
    script = folder / "bin" / "npm"
    script.write_text(_NPM.format(log=log, refusals=refusals, code=code))
    script.chmod(0o755)
    log.touch()
    return log


def test_a_refusing_registry_is_asked_again(npm: Path) -> None:
    log = _write_npm(npm, refusals=2)
    assert clis.cli_path("pi", "0.74.2") == npm / "cache/pi-0.74.2/node_modules/.bin/pi"
    assert len(log.read_text().splitlines()) == 3
    clis.cli_path("pi", "0.74.2")
    assert len(log.read_text().splitlines()) == 3, "what is complete is not installed again"


def test_a_registry_that_keeps_refusing_is_named(npm: Path) -> None:
    log = _write_npm(npm, refusals=9)
    with pytest.raises(clis.RegistryRefused, match="E503"):
        clis.ensure("pi", "0.74.2")
    assert len(log.read_text().splitlines()) == clis.ATTEMPTS
    left = [path.name for path in (npm / "cache").iterdir()]
    assert left == [".pi-0.74.2.lock"], "nothing half-installed stays"


def test_a_registry_that_does_not_have_the_package_is_asked_once(npm: Path) -> None:
    log = _write_npm(npm, refusals=9, code="ETARGET")
    with pytest.raises(clis.RegistryRefused, match="ETARGET"):
        clis.ensure("pi", "0.74.2")
    assert len(log.read_text().splitlines()) == 1


def test_any_other_failure_is_not_the_registrys(npm: Path) -> None:
    _write_npm(npm, refusals=9, code="ENOSPC")
    with pytest.raises(clis.InstallFailed, match="ENOSPC"):
        clis.ensure("pi", "0.74.2")


def test_an_install_without_the_command_is_not_complete(npm: Path) -> None:
    _write_npm(npm, refusals=0)
    with pytest.raises(clis.InstallFailed, match="no node_modules"):
        clis.ensure("claude", "2.1.197")
    assert not (npm / "cache/claude-2.1.197").exists()


def test_a_release_whose_native_program_is_not_published_is_refused(npm: Path) -> None:
    _write_npm(npm, refusals=0)
    machine = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x64"
    native = f"@github/copilot-{sys.platform}-{machine}"
    manifest = json.dumps({"optionalDependencies": {native: "1.0.77", "other-win32": "1.0.77"}})
    script = npm / "bin" / "npm"
    script.write_text(
        f"#!/bin/sh\nmkdir -p node_modules/@github/copilot\n"
        f"echo '{manifest}' > node_modules/@github/copilot/package.json\n"
    )
    with pytest.raises(clis.RegistryRefused, match=f"the registry has no {native}"):
        clis.installed(clis.release("copilot", "1.0.77"))
    assert not (npm / "cache/copilot-1.0.77").exists()


def test_any_release_of_a_cli_can_be_installed(npm: Path) -> None:
    log = _write_npm(npm, refusals=0)
    pin = clis.release("pi", "0.70.0", "@mariozechner/pi-coding-agent")
    assert clis.installed(pin) == npm / "cache/pi-0.70.0/node_modules/.bin/pi"
    assert "@mariozechner/pi-coding-agent@0.70.0" in log.read_text()


def test_an_unknown_pin_is_refused(npm: Path) -> None:
    with pytest.raises(clis.InstallFailed, match="no pin for pi"):
        clis.cli_path("pi", "9.9.9")


def test_parallel_processes_install_once(npm: Path) -> None:
    log = _write_npm(npm, refusals=0)
    code = "from tests.support.clis import cli_path; cli_path('pi', '0.74.2')"
    workers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    assert len(log.read_text().splitlines()) == 1


def test_a_refusal_alone_has_an_exit_status_of_its_own(
    npm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_npm(npm, refusals=99)
    assert clis.main(["pi-0.74.2"]) == clis.REFUSED
    assert "pi-0.74.2: REFUSED" in capsys.readouterr().out
    _write_npm(npm, refusals=99, code="ENOSPC")
    assert clis.main(["pi-0.74.2"]) == clis.FAILED


def test_a_name_that_is_not_pinned_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        clis.main(["cluade"])
    assert "cluade" in capsys.readouterr().err


def test_uv_is_found_whatever_path_and_home_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run([clis.uv(), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("uv ")


def test_a_run_can_be_limited_to_some_clis(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_npm(npm, refusals=0)
    monkeypatch.setattr(real_cli, "chosen", frozenset({"pi", "claude-2.1.325"}))
    assert real_cli.real_cli("pi", "0.74.2").name == "pi"
    for name, version in (("claude", "2.1.197"), ("codex", "0.166.0")):
        with pytest.raises(pytest.skip.Exception, match="not among the chosen"):
            real_cli.real_cli(name, version)
