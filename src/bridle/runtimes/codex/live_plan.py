"""Plans one `codex app-server`: the options of a run, as flags of the process where they concern
all of it, and as parameters of its thread where the wire has to say them."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption
from bridle.core.git import find_git
from bridle.core.options import RunOptions
from bridle.core.usage import NO_USAGE
from bridle.process.spec import POLITE_STOP, ProcessSpec
from bridle.runtimes.codex import arguments as args
from bridle.runtimes.codex.dialects import codex_dialect
from bridle.runtimes.codex.install import private_folder
from bridle.runtimes.codex.planning import Routing, environment, plan_mcp, route, write_files
from bridle.runtimes.codex.provider_options import CodexOptions, read_options
from bridle.runtimes.codex.sandbox import (
    FULL_ACCESS,
    UNASKED,
    WORKSPACE_WRITE,
    check_sandbox,
    live_mode,
)
from bridle.runtimes.codex.sharing import check_sharing, shared_argv, socket_path, why_not_shared
from bridle.runtimes.codex.transcript import total_of
from bridle.runtimes.codex_trust import trust_flags
from bridle.runtimes.contract import Adapter
from bridle.runtimes.options import added_instructions, json_object
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import check_options, native_options, working_dir


def plan_app_server(
    runtime: Adapter, options: RunOptions, env: Mapping[str, str], session_id: str
) -> RunPlan:
    """The plan of a conversation; raises before anything is written or started."""
    found = runtime.installation()
    dialect, _, warning = codex_dialect(found.version)
    warnings = [warning] if warning else []
    # What comes with a prompt comes by the wire.
    options = msgspec.structs.replace(options, prompt="", images=())
    ignored = check_options(runtime, options, runtime.features_of(dialect))
    options = native_options(runtime, options)
    cwd = working_dir(options)
    own = read_options(options.provider_options)
    if own.profile:
        ignored = (*ignored, _refuse(options, "profile", "the app-server takes no profile"))
        own = msgspec.structs.replace(own, profile=None)
    if "retry_seconds" in options.provider_options:
        reason = "only the log tells how long a pause is, and nobody reads the app-server's"
        ignored = (*ignored, _refuse(options, "retry_seconds", reason))
    mode, policy = live_mode(options)
    if options.resume:
        args.refuse_bad_resume(options.resume)
    folder = private_folder(env, session_id)
    routing = route(options, env, folder, own)
    mcp = plan_mcp(options, folder)
    bypass = options.permission_mode == "bypass"
    approved = mode == FULL_ACCESS or (dialect.mcp_approval and bypass)
    if mcp.flags and policy == "never" and not approved:
        warnings.append("codex: refuses calls of MCP tools that do not say they only read")
    if mode == WORKSPACE_WRITE and policy == "never" and not bypass:
        warnings.append(UNASKED)
    place = find_git(cwd)
    flags = args.settings_flags(options.settings) if options.settings else []
    flags += args.tool_flags(options.denied_tools)
    flags += [*args.own_flags(own), *routing.flags, *mcp.flags]
    if options.model:
        flags += args.config("model", options.model)
    flags += trust_flags(cwd, place, "" if routing.private else routing.home)
    if own.shared_socket and (unshared := why_not_shared(dialect, policy)):
        ignored = (*ignored, _refuse(options, "shared_socket", unshared))
        own = msgspec.structs.replace(own, shared_socket=False)
    if own.shared_socket:
        check_sharing(own, mode)
    roots = args.writable_roots(mode, own, place, args.agent_in(env, options.env))
    flags += args.config("sandbox_workspace_write.writable_roots", roots) if roots else []
    own_facts = _facts(options, own, routing, cwd, mode, policy)
    own_facts |= {"told_ids": dialect.tells_message_ids, "late_ends": dialect.late_command_ends}
    own_facts |= {"fork": True} if own.fork and options.resume else {}
    argv: tuple[str, ...] = (*found.command, "app-server", *args.feature_flags(dialect), *flags)
    argv = (*argv, *options.raw_args)
    folders: tuple[str, ...] = ()
    if own.shared_socket:
        socket = socket_path(env, session_id)
        argv = shared_argv(argv, socket)
        folders = (os.path.dirname(socket),)
        own_facts |= {"socket": socket, "home": routing.home, "command": found.command}
    if mode != FULL_ACCESS:
        check_sandbox(found, dialect, env)
    made = write_files(folder, routing, mcp.files)
    held = args.held_repository(mode, own, place, args.agent_in(env, options.env))
    planned = RunPlan(
        spec=ProcessSpec(
            argv=argv,
            env=environment(found, dialect, options, env, session_id, cwd, routing, mcp),
            cwd=cwd,
            keep_stdin=True,
            # Unlike `exec`, it ends its commands on SIGTERM and leaves them running on SIGINT.
            stop=POLITE_STOP,
        ),
        session_id=session_id,
        installation=found,
        dialect=dialect,
        secrets=(*routing.secrets, *mcp.secrets),
        ignored_options=ignored,
        warnings=tuple(warnings),
        private_dirs=(*((folder,) if made else ()), *folders, *held),
        native_session_id=None if own.fork else options.resume,
    )
    return planned.conversing(runtime.id, resume=options.resume, own=own_facts)


def _refuse(options: RunOptions, name: str, reason: str) -> str:
    if not options.ignore_unsupported:
        raise UnsupportedOption(
            "codex", f"provider option {name}", [], reason=reason, ignorable=True
        )
    return name


def _facts(
    options: RunOptions, own: CodexOptions, routing: Routing, cwd: str, mode: str, policy: str
) -> dict[str, Any]:
    """What the wire says of the thread and of each turn, and what the thread, or the one it
    is a copy of, had used before: its wire goes on counting from there."""
    thread: dict[str, Any] = {"cwd": cwd, "sandbox": mode, "approvalPolicy": policy}
    if options.model:
        thread["model"] = options.model
    if any(flag.startswith("model_provider=") for flag in routing.flags):
        # A resumed thread would else look for the provider it began with.
        thread["modelProvider"] = args.PROVIDER
    if options.system_prompt is not None:
        thread["baseInstructions"] = options.system_prompt
    added = added_instructions(options)
    if added is not None:
        thread["developerInstructions"] = added
    turn: dict[str, Any] = {}
    if own.output_schema:
        turn["outputSchema"] = json_object(os.path.abspath(own.output_schema), "output schema")
    before = total_of(routing.home, options.resume) if options.resume else NO_USAGE
    return {"thread": thread, "turn": turn, "before": msgspec.to_builtins(before)}
