"""Starts Codex's terminal interface: as a shell command for a pane, or for the person here.

Every dialog of its start is answered in advance by `-c`, because the answers would otherwise be
asked of nobody, and written into the user's `config.toml`.
"""

import os
from collections.abc import Mapping, Sequence

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.git import find_git
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions, SpawnOptions
from bridle.process.spec import ProcessSpec
from bridle.runtimes.codex import arguments as args
from bridle.runtimes.codex.dialects import CodexDialect, codex_dialect
from bridle.runtimes.codex.install import codex_home
from bridle.runtimes.codex.planning import route
from bridle.runtimes.codex.provider_options import CodexOptions, read_options, refuse_shared
from bridle.runtimes.codex.sandbox import terminal_mode
from bridle.runtimes.codex_trust import trust_flags
from bridle.runtimes.contract import Adapter
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import agent_env, check_options, native_options, working_dir
from bridle.runtimes.provider_options import refuse_fork
from bridle.runtimes.user_files import readable_file


def terminal_flags(dialect: CodexDialect, folder: str, home: str) -> list[str]:
    """Flags that every terminal session gets: no dialogs, no daemon, no downloads."""
    flags = [*args.feature_flags(dialect), *(["--no-daemon"] if dialect.daemon else [])]
    flags += args.config("check_for_update_on_startup", False)
    if dialect.model_migrations:
        flags += args.config("notice.model_migrations", dict(dialect.model_migrations))
    return [*flags, *trust_flags(folder, find_git(folder), home)]


def mode_flags(
    mode: str, policy: str, own: CodexOptions, folder: str, agent: str | None
) -> list[str]:
    """Sandbox and approval policy, as `terminal_mode` says them."""
    return [*args.sandbox_flags(mode, own, find_git(folder), agent), "-a", policy]


def instruction_flags(
    dialect: CodexDialect, system_prompt: str | None, added: str | None
) -> list[str]:
    """Instructions as flags; `WrongUse` for what a command line cannot carry."""
    flags: list[str] = []
    if system_prompt is not None:
        if not dialect.inline_instructions:
            raise UnsupportedOption(
                "codex", "system_prompt", [], reason=f"not in the terminal of {dialect.name}"
            )
        flags += args.config("instructions", system_prompt)
    if added is not None:
        flags += args.config("developer_instructions", added)
    if any(len(flag.encode(errors="replace")) > args.LONGEST_ARGUMENT for flag in flags):
        raise WrongUse("the instructions are too long for a command line", hint="use AGENTS.md")
    return flags


def spawn_command(
    words: Sequence[str], dialect: CodexDialect, options: SpawnOptions, env: Mapping[str, str]
) -> str:
    """The shell command of `build_spawn_command`.

    The trust of `options.cwd` goes into it; the folder itself is set on the terminal.
    """
    from shlex import join, quote

    folder = os.path.abspath(options.cwd)
    home = codex_home({**env, **options.env})
    argv = [*words, *terminal_flags(dialect, folder, home), "-m", options.model]
    argv += args.environment_flags(options.env, CodexOptions())
    mode, policy = terminal_mode(RunOptions(prompt="", permission_mode=options.permission_mode))
    agent = args.agent_in(env, options.env)
    argv += mode_flags(mode, policy, CodexOptions(), folder, agent)
    added = options.append_system_prompt
    if options.append_system_prompt_file:
        data = readable_file(options.append_system_prompt_file, "system prompt file")
        added = "\n\n".join(part for part in (added, data.decode(errors="replace")) if part)
    argv += instruction_flags(dialect, options.system_prompt, added)
    command = join(argv)
    return f"{command} -- {quote(options.initial_prompt)}" if options.initial_prompt else command


def plan_terminal(runtime: Adapter, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
    """The terminal interface for the person at this terminal, with the options of a run."""

    found = runtime.installation()
    dialect = codex_dialect(found.version)[0]
    check_options(runtime, options, runtime.features_of(dialect))
    options = native_options(runtime, options)
    for name in ("model_server", "mcp_config"):
        if getattr(options, name) is not None and not options.ignore_unsupported:
            raise UnsupportedOption(
                "codex", name, [], reason="not in an interactive run", ignorable=True
            )
    if options.resume:
        args.refuse_bad_resume(options.resume)
    cwd, own = working_dir(options), read_options(options.provider_options)
    refuse_fork("codex", options, own.fork, "not in an interactive run")
    refuse_shared(options, own, "an interactive run has no app-server")
    routing = route(options, env, "", own)
    mode, policy = terminal_mode(options)
    argv = [*found.command, *terminal_flags(dialect, cwd, routing.home), *routing.flags]
    argv += args.settings_flags(options.settings) if options.settings else []
    argv += args.tool_flags(options.denied_tools)
    argv += [*args.own_flags(own), *(args.config("model", options.model) if options.model else [])]
    added = added_instructions(options)
    argv += instruction_flags(dialect, options.system_prompt, added)
    argv += ["resume", options.resume] if options.resume else []
    argv += [*options.raw_args, *args.image_flags(options.images)]
    argv += mode_flags(mode, policy, own, cwd, args.agent_in(env, options.env))
    prompt = ["--", options.prompt] if options.prompt.strip() else []
    whole = agent_env(env, options, new_session_id(), cwd)
    spec = ProcessSpec(argv=(*argv, *prompt), env={**whole, **routing.env}, cwd=cwd)
    return interactive_plan(spec, found, dialect)
