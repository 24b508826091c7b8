"""What a run costs with a CLI version that was never tested, as a ratio to a tested one.

python -m benchmarks.untested_version [--rounds N]

Three times the same program, Codex 0.166.0 from the cache of the pinned CLIs: under its own
version, under one that no dialect names and whose list of features is not cached (the first start),
and under that version again (every later start). A run has one scripted answer; the best of N
rounds counts, in wall time.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.clis import cli_path

from bridle.core.options import ModelServer, RunOptions
from bridle.runs import prepare
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.testing import ScriptedModel

TESTED, UNTESTED = "0.166.0", "0.166.99"


@contextlib.contextmanager
def installed(version: str) -> Iterator[str]:
    """The program under another version: npm's folders around a link to it."""
    program = cli_path("codex", TESTED)
    package = next(each for each in program.parents if each.parent.name == "@openai")
    with tempfile.TemporaryDirectory(dir=package.parents[2]) as root:
        copy = Path(root) / "node_modules" / "@openai" / package.name
        shutil.copytree(package, copy, copy_function=os.link)
        manifest = copy / "package.json"
        text = manifest.read_text(encoding="utf-8")
        manifest.unlink()
        manifest.write_text(text.replace(TESTED, version), encoding="utf-8")
        yield str(copy / program.relative_to(package))


def seconds(binary: str, home: Path) -> float:
    """The wall time of one run."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    with ScriptedModel([{"text": "ok"}]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        runtime = CodexRuntime(AdapterSettings(binary=binary))
        options = RunOptions(
            prompt="go", cwd=str(work), model_server=server, sandbox="off", permission_mode="bypass"
        )
        env = {"PATH": os.environ["PATH"], "HOME": str(home)}
        began = time.perf_counter()
        prepared = prepare(runtime, options, env=env)
        for _ in prepared.run.events():
            pass
        result = prepared.run.result
        spent = time.perf_counter() - began
    if result.error is not None:
        raise SystemExit(f"the run failed: {result.error.message}")
    return spent


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.untested_version")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as root, installed(UNTESTED) as untested:
        tested = str(cli_path("codex", TESTED))
        for number in range(rounds):
            home = Path(root) / str(number)
            home.mkdir()
            os.environ["XDG_CACHE_HOME"] = str(home / "cache")
            seconds(tested, home)
            times = {"tested": tested, "untested, first": untested, "untested, later": untested}
            for name, binary in times.items():
                spent = seconds(binary, home)
                best[name] = min(spent, best.get(name, spent))
    for name, spent in best.items():
        sys.stdout.write(f"{name:<16}{spent:7.3f} s  {spent / best['tested']:5.2f}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
