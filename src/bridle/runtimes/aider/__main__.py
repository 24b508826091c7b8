"""Aider's answer as plain text: `python -m bridle.runtimes.aider AIDER --prompt=TEXT`.

Aider itself prints around every answer what it loads, counts and costs, and no flag prevents that.
This runs it without events: the answer on stdout, an error on stderr.
"""

import argparse
import sys

import anyio

from bridle.core.errors import BridleError
from bridle.core.options import RunOptions
from bridle.runs import run_options
from bridle.runtimes.aider.adapter import AiderRuntime
from bridle.runtimes.contract import AdapterSettings


def main(argv: list[str]) -> int:
    """Ask once; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bridle.runtimes.aider",
        allow_abbrev=False,
        description="Ask Aider once, and print only its answer.",
    )
    parser.add_argument("binary", help="path or name of Aider's command")
    parser.add_argument("--model")
    parser.add_argument("--prompt", required=True)
    words = parser.parse_args(argv)
    runtime = AiderRuntime(AdapterSettings(binary=words.binary))
    try:
        options = RunOptions(prompt=words.prompt, model=words.model)
        result = anyio.run(run_options, runtime, options)
    except BridleError as problem:
        sys.stderr.write(f"aider: {problem.message}\n")
        return problem.exit_code
    failure = result.failure()
    if failure is not None:
        sys.stderr.write(f"aider: {failure.message}\n")
        return failure.exit_code
    sys.stdout.write(f"{result.text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
