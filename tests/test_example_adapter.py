"""The adapter that lives outside of Bridle: installed as a plugin, run, and checked by the kit."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridle import adapter
from bridle.adapter import version_numbers
from bridle.testing import ScriptedModel
from tests.support.clis import uv

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "adapter"
CODE = {
    name: (EXAMPLE / f"src/bridle_parrot/{name}.py").read_text()
    for name in ("product", "adapter", "stream")
}
PAGE = (ROOT / "docs" / "writing-an-adapter.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = [block for block in BLOCKS if not block.startswith(" ") and "import" in block]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user who installed the example beside Bridle."""
    folder = tmp_path_factory.mktemp("plugin")
    # A copy: building in the source tree would leave files there.
    source = shutil.copytree(EXAMPLE, folder / "source")
    target = folder / "site"
    done = subprocess.run(
        [
            *(uv(), "pip", "install", "--offline", "--no-deps", "--quiet"),
            *("--python", sys.executable, "--target", str(target), str(source)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder / "home").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(target),
    }


def bridle(plugin: dict[str, str], *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bridle", *words],
        cwd=cwd,
        env=plugin,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_it_is_listed_and_runs(plugin: dict[str, str], tmp_path: Path) -> None:
    listed = bridle(plugin, "runtime", "list", "--json", cwd=tmp_path)
    assert '"parrot"' in listed.stdout, listed.stderr
    script = [{"text": "Writing.", "shell": "echo hi > hi.txt"}, {"text": "Done."}]
    with ScriptedModel(script) as model:
        env = plugin | {
            "BRIDLE_MODEL_SERVER": model.url,
            "BRIDLE_MODEL_SERVER_KEY": model.api_key,
        }
        words = ("run", "--runtime", "parrot", "--json", "--permission", "bypass", "Write it.")
        done = bridle(env, *words, cwd=tmp_path)
        model.assert_finished()
    result = json.loads(done.stdout)
    assert (result["status"], result["text"], done.returncode) == ("completed", "Done.", 0)
    assert result["usage"]["input_tokens"] == 200
    assert (tmp_path / "hi.txt").read_text() == "hi\n"


def test_its_settings_are_read_and_checked(plugin: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / ".bridle/config.yaml"
    file.parent.mkdir()
    section = "runtime:\n  default: parrot\n  adapters:\n    parrot:\n      options:\n"
    with ScriptedModel([{"text": "Done."}]) as model:
        file.write_text(f"{section}        apiBase: {model.url}/v1\n        model: small\n")
        env = plugin | {"PARROT_KEY": model.api_key}
        done = bridle(env, "run", "--json", "Go.", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert (result["status"], result["model"]) == ("completed", "small"), done.stderr
    file.write_text(f"{section}        apiBsae: x\n        model: 3\n")
    done = bridle(plugin, "runtime", "list", cwd=tmp_path)
    key = "runtime.adapters.parrot.options"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == [
        f"bridle: error: {file}:6: unknown key `{key}.apiBsae`; did you mean `apiBase`?",
        f"bridle: error: {file}:7: {key}.model: must be a string, not 3",
    ]


@pytest.mark.timeout(700)
def test_it_passes_the_kit(plugin: dict[str, str], tmp_path: Path) -> None:
    done = bridle(plugin, "conformance", "parrot", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    failed = {each["name"]: each["detail"] for each in report["checks"] if each["status"] == "fail"}
    assert failed == {}, done.stderr
    assert done.returncode == 0
    passed = {each["name"] for each in report["checks"] if each["status"] == "pass"}
    assert passed >= {"text", "usage", "tool_call", "error_401", "nothing_left", "instruction_file"}


def test_it_imports_nothing_of_bridle_but_the_module_for_authors() -> None:
    files = list((EXAMPLE / "src").rglob("*.py"))
    imported = {
        name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        for name in imported_by(node)
        if name.split(".")[0] == "bridle"
    }
    assert imported == {"bridle.adapter"}


def imported_by(node: ast.AST) -> list[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_the_module_for_authors_says_what_it_has() -> None:
    assert sorted(adapter.__all__) == adapter.__all__
    assert [name for name in adapter.__all__ if not hasattr(adapter, name)] == []
    here = {name for name, value in vars(adapter).items() if not name.startswith("_")}
    assert here - set(adapter.__all__) <= {"TYPE_CHECKING"}


def test_its_dialect_has_a_capture() -> None:
    (capture,) = re.findall(r'capture="(.*?)"', CODE["product"])
    (seen,) = re.findall(r'seen=\("(.*?)",\)', CODE["product"])
    lines = (EXAMPLE / "src/bridle_parrot/testdata" / capture).read_text().splitlines()
    assert version_numbers(json.loads(lines[0])["version"]) == version_numbers(seen)
    assert json.loads(lines[-1]) == {"type": "bye"}


def test_the_page_is_short_and_its_code_is_the_examples() -> None:
    assert len(PAGE.splitlines()) < 320
    assert sum(len(code.splitlines()) for code in CODE.values()) < 300
    taken = [block for block in BLOCKS if block not in PROGRAMS]
    assert len(taken) >= 4
    for block in taken:
        assert any(block.strip("\n") in code for code in CODE.values()), block
    tests = (EXAMPLE / "tests/test_parrot.py").read_text()
    (on_the_bench,) = [block for block in PROGRAMS if "agent_bench" in block]
    assert on_the_bench[on_the_bench.index("def ") :] in tests


def test_its_own_tests_pass_on_the_bench(plugin: dict[str, str], tmp_path: Path) -> None:
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "t"))
    done = subprocess.run(
        [sys.executable, *words, str(EXAMPLE / "tests")],
        cwd=tmp_path,
        env=plugin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page(number: int, plugin: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[number]],
        cwd=tmp_path,
        env=plugin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
