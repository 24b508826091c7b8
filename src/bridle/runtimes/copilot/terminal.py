"""Copilot's terminal interface as a driven session: its command, and where its events are."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import new_private_dir
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessSpec
from bridle.runtimes.copilot import command, environment
from bridle.runtimes.copilot.provider_options import read_options
from bridle.runtimes.copilot.transcript import copilot_home, sessions_dir
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import check_terminal_options, working_dir
from bridle.turns.wire import LiveFacts

if TYPE_CHECKING:
    from bridle.runtimes.copilot.product import CopilotRuntime

_HEADLESS_ONLY = ("max_turns", "images")


def plan(
    runtime: "CopilotRuntime", options: RunOptions, env: Mapping[str, str], session_id: str
) -> RunPlan:
    """The process of a terminal session whose conversation has the id that Bridle chose."""
    from bridle.runtimes.copilot.product import STOP

    found = runtime.installation()
    dialect, _, warning = runtime.dialect(found.version)
    options, ignored = runtime._checked(options, dialect)
    ignored = (*ignored, *check_terminal_options(runtime, options, _HEADLESS_ONLY))
    own, cwd = read_options(options.provider_options), working_dir(options)
    added = added_instructions(options)
    native = options.resume or session_id
    if options.resume is not None:
        runtime._check_resume(options, env)
    argv = [*found.command, *command.choice_flags(options, own), "--no-auto-update"]
    argv += command.permission_flags(options, own)
    argv += command.tool_flags(options.allowed_tools, options.denied_tools)
    argv += [f"--{'resume' if options.resume else 'session-id'}={native}"]
    folder = new_private_dir(env, runtime.id)
    try:
        argv += command.mcp_flags(options.mcp_config, folder) if options.mcp_config else []
        child = runtime._environment(options, own, env, session_id, cwd, folder, added)
    except BaseException:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        raise
    planned = RunPlan(
        spec=ProcessSpec(argv=(*argv, *options.raw_args), env=child, cwd=cwd, stop=STOP),
        session_id=session_id,
        installation=found,
        dialect=dialect,
        secrets=tuple(child[name] for name in environment.SECRET if child.get(name)),
        ignored_options=ignored,
        warnings=(warning,) if warning else (),
        private_dirs=(folder,),
        native_session_id=native,
    )
    return planned.conversing(
        runtime.id, resume=options.resume, own={"home": copilot_home(child), "session": native}
    )


def transcript_path(facts: LiveFacts) -> str | None:
    """Where the conversation is written down, event by event."""
    return os.path.join(sessions_dir(facts.own["home"]), facts.own["session"], "events.jsonl")
