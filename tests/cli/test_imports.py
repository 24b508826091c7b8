"""The run path stays light: what it must not import, and that nothing undoes the quick start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import asker
from tests.support.preset_agent import Place

HEAVY = {
    "anyio",
    "asyncio",
    "cyclopts",
    "dataclasses",
    "genai_prices",
    "importlib.metadata",
    "inspect",
    "logging",
    "pathlib",
    "platformdirs",
    "psutil",
    "rich",
    "ruamel.yaml",
    "socket",
    "ssl",
    "tempfile",
    "typing_extensions",
    "urllib.request",
}
CODE = """
import json, sys
from bridle.cli import run
status = run(["run", "1", "--runtime", "asker", "--json"])
print(json.dumps([status, sorted(sys.modules)]))
"""


def test_a_run_imports_nothing_heavy(place: Place, tmp_path: Path) -> None:
    (place.project / ".bridle/config.yaml").unlink()
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        cwd=place.project,
        env=place.environment(PYTHONPATH=asker.install(tmp_path / "lib")),
        check=True,
    )
    result, last = done.stdout.splitlines()
    assert json.loads(result)["status"] == "completed"
    status, modules = json.loads(last)
    assert status == 0
    assert set(modules) & HEAVY == set()


@pytest.mark.parametrize(
    ("before", "said", "status"),
    [
        ("", "", 3),
        ("atexit.register(print, 'bye')", "bye\n", 3),
        ("atexit.register(lambda: 1 / 0)", "", 3),
        (
            "import threading; stop = threading.Event();"
            "threading.Thread(target=stop.wait).start(); atexit.register(print, 'bye');"
            "threading.Timer(0.1, stop.set).start()",
            "usual way\nbye\n",
            0,
        ),
    ],
)
def test_the_quick_way_out_leaves_nothing_undone(before: str, said: str, status: int) -> None:
    code = f"import atexit\nfrom bridle.cli.startup import leave\n{before}\nleave(3)\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print('usual way')"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == (said, status)


def test_typing_extensions_can_be_imported_afterwards(place: Place) -> None:
    code = (
        "import sys; from bridle.cli.startup import import_msgspec; import_msgspec();"
        "assert 'typing_extensions' not in sys.modules; import typing_extensions, msgspec;"
        "print(msgspec.json.decode(b'[1]', type=tuple[int, ...]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=place.environment()
    )
    assert (done.stdout, done.stderr) == ("(1,)\n", "")
