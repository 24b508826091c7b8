"""Plans one `codex exec`: every check first, then the files of the run, then the command."""

import os
import signal
from collections.abc import Mapping

import msgspec

from bridle.core.files import make_private_dir, write_new
from bridle.core.git import find_git
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessSpec, StopStep
from bridle.runtimes.codex import arguments as args
from bridle.runtimes.codex.dialects import CodexDialect, codex_dialect
from bridle.runtimes.codex.install import chosen_home, helper_dir, private_folder
from bridle.runtimes.codex.logs import LOG_VARIABLE, QUIET
from bridle.runtimes.codex.mcp import McpPlan, plan_servers, read_servers
from bridle.runtimes.codex.provider_options import CodexOptions, read_options, refuse_shared
from bridle.runtimes.codex.sandbox import (
    FULL_ACCESS,
    UNASKED,
    WORKSPACE_WRITE,
    check_sandbox,
    sandbox_mode,
)
from bridle.runtimes.codex_trust import trust_flags
from bridle.runtimes.contract import Adapter
from bridle.runtimes.install import Installation
from bridle.runtimes.options import added_instructions, provider_key
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import agent_env, check_options, native_options, working_dir
from bridle.runtimes.provider_options import refuse_fork
from bridle.runtimes.routing import CODEX, NO_PROXY
from bridle.runtimes.user_files import readable_file

STOP = (
    # SIGINT ends the running command too; SIGTERM would leave it behind.
    StopStep(signal=signal.SIGINT, grace=3.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)

_NO_NOISE = ("analytics.enabled", "check_for_update_on_startup")


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Which home, model service and key a run uses."""

    home: str
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    private: bool = False
    """Whether the home is the run's own and still has to be made."""


def plan_exec(
    runtime: Adapter, options: RunOptions, env: Mapping[str, str], session_id: str
) -> RunPlan:
    """The plan of a run; raises before anything is written or started."""

    found = runtime.installation()
    dialect, _, warning = codex_dialect(found.version)
    warnings = [warning] if warning else []
    ignored = check_options(runtime, options, runtime.features_of(dialect))
    options = native_options(runtime, options)
    cwd = working_dir(options)
    own = read_options(options.provider_options)
    ignored = (*ignored, *refuse_shared(options, own, "a run has no app-server"))
    mode, bypass = sandbox_mode(options), options.permission_mode == "bypass"
    if options.sandbox == "off" and mode != FULL_ACCESS:
        ignored = (*ignored, "sandbox")
    if options.resume:
        args.refuse_bad_resume(options.resume)
    if not dialect.exec_fork:
        refuse_fork(runtime.id, options, own.fork, f"not in a run with {dialect.name}")
    folder = private_folder(env, session_id)
    routing = route(options, env, folder, own)
    mcp = plan_mcp(options, folder)
    if mcp.flags and mode != FULL_ACCESS and not (dialect.mcp_approval and bypass):
        warnings.append("codex: refuses calls of MCP tools that do not say they only read")
    prompt, files, before = _instructions(options, folder, warnings)
    place = find_git(cwd)
    before += args.settings_flags(options.settings) if options.settings else []
    before += args.tool_flags(options.denied_tools)
    before += [*args.own_flags(own), *routing.flags, *mcp.flags]
    if options.model:
        before += args.config("model", options.model)
    if mode == WORKSPACE_WRITE and not bypass:
        warnings.append(UNASKED)
    before += trust_flags(cwd, place, "" if routing.private else routing.home)
    agent = args.agent_in(env, options.env)
    after = [*args.sandbox_flags(mode, own, place, agent), "--skip-git-repo-check"]
    if options.output_schema is not None:
        path = os.path.join(folder, "output-schema.json")
        files[path] = msgspec.json.encode(options.output_schema).decode()
        after += ["--output-schema", path]
    elif own.output_schema:
        readable_file(own.output_schema, "output schema")
        after += ["--output-schema", os.path.abspath(own.output_schema)]
    after += [*options.raw_args, *args.image_flags(options.images), "--json"]
    verb = "fork" if own.fork else "resume"
    after += [verb, options.resume, "-"] if options.resume else ["-"]
    if mode != FULL_ACCESS:
        check_sandbox(found, dialect, env)
    # All on one side of `exec`: a `-c` after it makes older lines forget every one before it.
    argv = (*found.command, "exec", *args.feature_flags(dialect), *before, *after)
    made = write_files(folder, routing, {**files, **mcp.files})
    whole = environment(found, dialect, options, env, session_id, cwd, routing, mcp)
    if dialect.log_filter:
        # Only here: the log of an app-server has no reader, and would hide what it ended with.
        whole[LOG_VARIABLE] = f"{whole.get(LOG_VARIABLE) or QUIET},{dialect.log_filter}"
    return RunPlan(
        spec=ProcessSpec(
            argv=argv,
            env=whole,
            cwd=cwd,
            stdin=prompt.encode(errors="replace"),
            watch_stderr=bool(dialect.log_filter),
            stop=STOP,
        ),
        session_id=session_id,
        installation=found,
        dialect=dialect,
        secrets=(*routing.secrets, *mcp.secrets),
        ignored_options=ignored,
        warnings=tuple(warnings),
        private_dirs=(
            *((folder,) if made else ()),
            *args.held_repository(mode, own, place, agent),
        ),
        native_session_id=None if own.fork else options.resume,
    )


def route(options: RunOptions, env: Mapping[str, str], folder: str, own: CodexOptions) -> Routing:
    """Where the run finds its settings and its model."""
    server, provider = options.model_server, options.provider
    if server is not None:
        to_server = args.provider_flags(f"{server.url.rstrip('/')}/v1", args.KEY_VARIABLE, own)
        for name in _NO_NOISE:
            to_server += args.config(name, False)
        kept = options.account_dir is not None
        home = chosen_home(options, env) if kept else os.path.join(folder, "home")
        return Routing(
            home=home,
            flags=tuple(to_server),
            env={
                "CODEX_HOME": home,
                args.KEY_VARIABLE: server.api_key,
                **NO_PROXY,
            },
            unset=("CODEX_HOME", *(name for name in env if CODEX.holds(name))),
            secrets=(server.api_key,),
            private=not kept,
        )
    home = chosen_home(options, env)
    variables = {"CODEX_HOME": home} if options.account_dir is not None else {}
    if provider is None:
        by_env = args.environment_flags(options.env, own)
        return Routing(home=home, flags=tuple(by_env), env=variables)
    flags: list[str] = []
    key = provider_key(provider, {**env, **options.env}, "codex")
    if provider.base_url:
        flags += args.provider_flags(provider.base_url, args.KEY_VARIABLE if key else None, own)
        variables |= {args.KEY_VARIABLE: key} if key else {}
    elif key:
        variables["CODEX_API_KEY"] = key
    return Routing(home=home, flags=tuple(flags), env=variables, secrets=(key,) if key else ())


def plan_mcp(options: RunOptions, folder: str) -> McpPlan:
    """What the MCP servers of `options` need."""
    if options.mcp_config is None:
        return McpPlan()
    approve = options.permission_mode == "bypass"
    return plan_servers(read_servers(options.mcp_config), folder, approve=approve)


def _instructions(
    options: RunOptions, folder: str, warnings: list[str]
) -> tuple[str, dict[str, str], list[str]]:
    """The prompt, the files and the flags that carry the caller's instructions."""
    files: dict[str, str] = {}
    flags: list[str] = []
    prompt = options.prompt
    if options.system_prompt is not None:
        path = os.path.join(folder, "instructions.md")
        files[path] = options.system_prompt
        flags += args.config("model_instructions_file", path)
    added = added_instructions(options)
    if added is not None:
        words = args.config("developer_instructions", added)
        if len(words[1].encode(errors="replace")) <= args.LONGEST_ARGUMENT:
            flags += words
        else:
            warnings.append(
                "codex: the added instructions are too long for it; put before the prompt"
            )
            prompt = f"<instructions>\n{added}\n</instructions>\n\n{prompt}"
    return prompt, files, flags


def write_files(folder: str, routing: Routing, files: dict[str, str]) -> bool:
    """Make the run's private folder, when it needs one; whether it did."""
    if not files and not routing.private:
        return False
    make_private_dir(os.path.dirname(folder))
    os.mkdir(folder, 0o700)
    if routing.private:
        os.mkdir(routing.home, 0o700)
    for path, text in files.items():
        write_new(path, text.encode(errors="replace"))
    return True


def environment(
    found: Installation,
    dialect: CodexDialect,
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    cwd: str,
    routing: Routing,
    mcp: McpPlan,
) -> dict[str, str]:
    """The agent's environment. Routing wins over the caller's own variables: it was asked for."""
    base = {name: value for name, value in env.items() if name not in routing.unset}
    whole = {**agent_env(base, options, session_id, cwd), **routing.env, **mcp.env}
    helpers = helper_dir(found, dialect.path_dir)
    if helpers:
        whole["PATH"] = f"{whole.get('PATH', os.defpath)}{os.pathsep}{helpers}"
    return whole
