"""Codex's terminal interface as a driven session: its command, and finding its rollout.

Codex lets nobody choose a thread's id, and writes its file only with the first prompt. The process
holds the file open, which tells it from those of other agents in the same folder.
"""

import os
import time
from collections.abc import Mapping

import msgspec

from bridle.core.git import find_git
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessSpec
from bridle.runtimes.codex import arguments as args
from bridle.runtimes.codex import planning
from bridle.runtimes.codex.dialects import codex_dialect
from bridle.runtimes.codex.install import private_folder
from bridle.runtimes.codex.mcp import McpPlan
from bridle.runtimes.codex.provider_options import read_options, refuse_shared
from bridle.runtimes.codex.sandbox import UNASKED, terminal_mode
from bridle.runtimes.codex.spawn import instruction_flags, mode_flags, terminal_flags
from bridle.runtimes.codex.transcript import find_rollout
from bridle.runtimes.contract import Adapter
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import (
    check_options,
    check_terminal_options,
    native_options,
    working_dir,
)
from bridle.runtimes.provider_options import refuse_fork
from bridle.turns.wire import LiveFacts

_NOT_HERE = ("mcp_config", "images")


def plan(runtime: Adapter, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
    """The process of a terminal session."""

    found = runtime.installation()
    dialect, _, warning = codex_dialect(found.version)
    ignored = check_options(runtime, options, runtime.features_of(dialect))
    ignored = (*ignored, *check_terminal_options(runtime, options, _NOT_HERE))
    options = native_options(runtime, options)
    if options.resume:
        args.refuse_bad_resume(options.resume)
    cwd, own = working_dir(options), read_options(options.provider_options)
    refuse_fork("codex", options, own.fork, "not in a terminal session")
    ignored = (*ignored, *refuse_shared(options, own, "a terminal session has no app-server"))
    folder = private_folder(env, session_id)
    routing = planning.route(options, env, folder, own)
    mode, policy = terminal_mode(options)
    unasked = options.permission_mode == "ask" and options.sandbox == "worktree"
    argv = [*found.command, *terminal_flags(dialect, cwd, routing.home), *routing.flags]
    argv += args.settings_flags(options.settings) if options.settings else []
    argv += args.tool_flags(options.denied_tools)
    argv += [*args.own_flags(own), *(args.config("model", options.model) if options.model else [])]
    argv += instruction_flags(dialect, options.system_prompt, added_instructions(options))
    argv += ["resume", options.resume] if options.resume else []
    agent = args.agent_in(env, options.env)
    argv += [*options.raw_args, *mode_flags(mode, policy, own, cwd, agent)]
    made = planning.write_files(folder, routing, {})
    planned = RunPlan(
        spec=ProcessSpec(
            argv=tuple(argv),
            env=planning.environment(
                found, dialect, options, env, session_id, cwd, routing, McpPlan()
            ),
            cwd=cwd,
            stop=planning.STOP,
        ),
        session_id=session_id,
        installation=found,
        dialect=dialect,
        secrets=routing.secrets,
        ignored_options=ignored,
        warnings=tuple(text for text in (warning, UNASKED if unasked else "") if text),
        private_dirs=(
            *((folder,) if made else ()),
            *args.held_repository(mode, own, find_git(cwd), agent),
        ),
        native_session_id=options.resume,
    )
    return planned.conversing(
        runtime.id, resume=options.resume, own={"home": routing.home, "began": time.time() - 1.0}
    )


def transcript_path(facts: LiveFacts, pid: int | None = None) -> str | None:
    """The rollout of the thread: the one a resumed id names, else the one that the process holds
    open, else the only new one of this folder."""
    if facts.resume:
        return find_rollout(facts.own["home"], facts.resume)
    held = _held_open(pid) if pid is not None else []
    if held:
        return held[0]
    return None if _tells_files(pid) else _only_new(facts)


def _tells_files(pid: int | None) -> bool:
    """Whether the system shows which files the process has open."""
    return pid is not None and os.path.isdir(f"/proc/{pid}/fd")


def _held_open(pid: int) -> list[str]:
    """Rollouts that the process has open; the first was opened first. Sub-agents' come later."""
    folder = f"/proc/{pid}/fd"
    found = []
    try:
        for name in sorted(os.listdir(folder), key=int):
            path = os.readlink(os.path.join(folder, name))
            base = os.path.basename(path)
            if base.startswith("rollout-") and base.endswith(".jsonl"):
                found.append(path)
    except OSError:
        pass
    return sorted(set(found), key=os.path.basename)


def _only_new(facts: LiveFacts) -> str | None:
    """The one rollout of this folder that is younger than the session; None when there are
    several, for then it cannot be told whose they are."""
    fitting = []
    for folder, _, names in os.walk(os.path.join(facts.own["home"], "sessions")):
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith("rollout-") and os.stat(path).st_mtime >= facts.own["began"]:
                header = header_of(path)
                if header is not None and header.cwd == facts.cwd:
                    fitting.append(path)
    return fitting[0] if len(fitting) == 1 else None


class _Header(msgspec.Struct, frozen=True):
    cwd: str = ""


class _HeaderLine(msgspec.Struct, frozen=True):
    type: str = ""
    payload: _Header = _Header()


def header_of(path: str) -> _Header | None:
    """The first line of a rollout; None when it is something else."""
    try:
        with open(path, "rb") as file:
            line = msgspec.json.decode(file.readline(), type=_HeaderLine)
    except (OSError, msgspec.MsgspecError):
        return None
    return line.payload if line.type == "session_meta" else None
