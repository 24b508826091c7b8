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
    "bridle.config.consistency",
    "copy",
    "cyclopts",
    "dataclasses",
    "genai_prices",
    "gettext",
    "importlib.metadata",
    "inspect",
    "locale",
    "logging",
    "msgspec.inspect",
    "pathlib",
    "platform",
    "platformdirs",
    "psutil",
    "rich",
    "ruamel.yaml",
    "socket",
    "ssl",
    "tempfile",
    "textwrap",
    "typing_extensions",
    "urllib.request",
}
MOST_MODULES = 74
"""Modules of Bridle that a run with a small adapter may load."""
CODE = """
import sys
from bridle.cli import run
status = run(["run", "1", "--runtime", "asker", "--json"])
modules = sorted(
    name for name, module in sys.modules.items() if type(module).__name__ != "_Postponed"
)
import json
print(json.dumps([status, modules]))
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
    own = [name for name in modules if name.split(".")[0] == "bridle"]
    assert len(own) <= MOST_MODULES, own


def test_what_only_reads_the_agent_is_imported_when_the_agent_runs() -> None:
    code = (
        "import sys; from bridle.runtimes.registry import get_adapter; get_adapter('claude');"
        "print([name for name in sys.modules if name.startswith('bridle.runtimes.claude')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "claude.adapter" in done.stdout
    assert "claude.stream" not in done.stdout
    assert "claude.wire" not in done.stdout


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


def test_a_postponed_module_is_the_real_one_when_it_is_used(place: Place) -> None:
    code = """
import sys, threading
from bridle.cli import startup
startup.postpone_unused()
startup.import_msgspec()
startup.import_argparse()
import locale, platform, textwrap, msgspec, argparse, gettext, uuid, subprocess
assert platform.system() and type(platform) is not type(sys), platform
assert type(locale) is type(textwrap) is type(msgspec.inspect) is type(platform)
found = []
threads = [
    threading.Thread(target=lambda: found.append(locale.normalize("en_US"))) for _ in range(8)
]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == ["en_US.ISO8859-1"] * 8, found
assert platform.machine() and platform.system() == platform.uname().system
assert textwrap.dedent("  a") == "a" and textwrap.__spec__.name == "textwrap"
assert msgspec.inspect.type_info(int) == msgspec.inspect.IntType()
assert sys.modules["locale"] is locale and type(locale) is type(sys)
assert gettext.find("nothing") is None
try:
    locale.nothing
except AttributeError as problem:
    print(problem)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=place.environment()
    )
    assert (done.stdout, done.stderr) == ("module 'locale' has no attribute 'nothing'\n", "")
