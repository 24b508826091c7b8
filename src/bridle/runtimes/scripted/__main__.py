"""The scripted agent for people and pipes: `python -m bridle.runtimes.scripted chat|print`."""

import argparse
import os
import sys
from typing import NoReturn

import msgspec

from bridle.config.environment import MODEL_SERVER, model_server
from bridle.core.errors import BridleError
from bridle.core.options import RunOptions
from bridle.runtimes.scripted.product import ScriptedRuntime


def main(argv: list[str]) -> NoReturn:
    """Read the command line, then become the agent process."""
    parser = argparse.ArgumentParser(
        prog="python -m bridle.runtimes.scripted",
        allow_abbrev=False,
        description="An agent that plays the script named by BRIDLE_SCRIPT, or a scripted model's.",
    )
    parser.add_argument("face", choices=("chat", "print"))
    parser.add_argument("--model")
    parser.add_argument("--permission", choices=("ask", "bypass"), default="ask")
    parser.add_argument("--system-prompt")
    parser.add_argument("--append-system-prompt")
    parser.add_argument("--append-system-prompt-file")
    parser.add_argument("--prompt", default="")
    words = parser.parse_args(argv)
    options = RunOptions(
        prompt=words.prompt,
        model=words.model,
        permission_mode=words.permission,
        system_prompt=words.system_prompt,
        append_system_prompt=words.append_system_prompt,
        append_system_prompt_file=words.append_system_prompt_file,
    )
    face = "text" if words.face == "print" else "chat"
    try:
        if url := os.environ.get(MODEL_SERVER):
            options = msgspec.structs.replace(options, model_server=model_server(url, os.environ))
        spec = ScriptedRuntime().plan_face(options, os.environ, face)
    except BridleError as problem:
        sys.stderr.write(f"scripted: {problem.message}\n")
        sys.exit(problem.exit_code)
    os.execve(spec.argv[0], spec.argv, spec.env)


if __name__ == "__main__":
    main(sys.argv[1:])
