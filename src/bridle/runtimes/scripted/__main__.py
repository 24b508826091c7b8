"""The scripted agent for people and pipes: `python -m bridle.runtimes.scripted chat|print`."""

import argparse
import os
import sys
from typing import NoReturn

import msgspec

from bridle.config.environment import MODEL_SERVER, model_server
from bridle.core.errors import BridleError
from bridle.core.options import RunOptions
from bridle.process.private_folders import claim_folders
from bridle.process.spec import SESSION_MARK
from bridle.runtimes.scripted.adapter import ScriptedRuntime


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
    try:
        if url := os.environ.get(MODEL_SERVER):
            options = msgspec.structs.replace(options, model_server=model_server(url, os.environ))
        plan = ScriptedRuntime().plan_interactive(options, os.environ)
    except BridleError as problem:
        sys.stderr.write(f"scripted: {problem.message}\n")
        sys.exit(problem.exit_code)
    # Nobody is left to remove the folder of a model server's run; the next run does.
    claim_folders(plan.private_dirs if options.model_server is not None else ())
    as_text = ("--face", "text") if words.face == "print" else ()
    command, env = (*plan.spec.argv, *as_text), plan.spec.env
    # The program that started this one finds the agent's processes by its own mark.
    mark = os.environ.get(SESSION_MARK) or env[SESSION_MARK]
    os.execve(command[0], command, {**env, SESSION_MARK: mark})


if __name__ == "__main__":
    main(sys.argv[1:])
