"""Claude Code's terminal interface as a driven session: its command, its transcript's place."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.options import RunOptions
from bridle.process.spec import ProcessSpec
from bridle.runtimes.claude.command import PrivateFiles, run_flags
from bridle.runtimes.claude.environment import config_home
from bridle.runtimes.claude.provider_options import read_options
from bridle.runtimes.claude.transcript import transcript_dir
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import check_terminal_options, working_dir
from bridle.turns.wire import LiveFacts

if TYPE_CHECKING:
    from bridle.runtimes.claude.product import ClaudeRuntime

_HEADLESS_ONLY = ("max_turns", "budget_usd", "images")


def plan(
    runtime: "ClaudeRuntime", options: RunOptions, env: Mapping[str, str], session_id: str
) -> RunPlan:
    """The process of a terminal session whose conversation has the id that Bridle chose."""
    from bridle.runtimes.claude import product as adapter

    found = runtime.installation()
    dialect, _, warning = runtime.dialect(found.version)
    options, ignored = runtime._checked(options, dialect)
    ignored = (*ignored, *check_terminal_options(runtime, options, _HEADLESS_ONLY))
    own, cwd = read_options(options.provider_options), working_dir(options)
    new = options.resume is None or own.fork
    native = session_id if new else options.resume
    files = PrivateFiles(adapter._run_folder(env))
    try:
        started_in = runtime._environment(options, own, env, session_id, cwd, files)
        adapter._check_root(options.permission_mode, started_in)
        flags = run_flags(options, own, files, started_in, cwd)
        flags += ["--session-id", session_id] if new else []
        mode = adapter._mode(options.permission_mode, dialect)
    except BaseException:
        files.discard()
        raise
    planned = RunPlan(
        spec=ProcessSpec(
            # The mode stands last: some flags before it take any number of words.
            argv=(*found.command, *flags, *options.raw_args, "--permission-mode", mode),
            env=started_in,
            cwd=cwd,
            stop=adapter.STOP,
        ),
        session_id=session_id,
        installation=found,
        dialect=dialect,
        secrets=adapter._secrets(options, env),
        ignored_options=ignored,
        warnings=(warning,) if warning else (),
        private_dirs=tuple(files.folders),
        native_session_id=native,
    )
    return planned.conversing(
        runtime.id, resume=options.resume, own={"home": config_home(started_in), "session": native}
    )


def transcript_path(facts: LiveFacts) -> str | None:
    """Where the conversation is written down; the file appears with the first prompt."""
    folder = transcript_dir(facts.cwd, facts.own["home"])
    return None if folder is None else os.path.join(folder, f"{facts.own['session']}.jsonl")
