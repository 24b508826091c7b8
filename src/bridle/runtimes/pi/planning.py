"""Plans Pi's processes: its flags, the conversation it takes up, and the files made for it."""

import os
import signal
from collections.abc import Mapping

import msgspec

from bridle.core.errors import ResumeRefused
from bridle.core.files import new_private_dir, write_private
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessSpec, StopStep
from bridle.runtimes.contract import Adapter
from bridle.runtimes.json_settings import merged
from bridle.runtimes.pi import home
from bridle.runtimes.pi.choices import (
    ProviderOptions,
    image_arguments,
    mcp_servers,
    provider_options,
    settings_object,
    thinking_flags,
    tool_flags,
    trust_flags,
    wanted_model,
)
from bridle.runtimes.pi.dialects import KEY_VARIABLES, PiDialect, pi_dialect
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import agent_env, check_options, native_options, working_dir
from bridle.runtimes.user_files import readable_file

JSON_MODE = ("--mode", "json")
_RPC_MODE = ("--mode", "rpc")
_SCRIPTED_RETRIES = 3
_ALL_KEY_VARIABLES = frozenset(name for names in KEY_VARIABLES.values() for name in names)

STOP = (
    StopStep(signal=signal.SIGTERM, grace=5.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""SIGTERM ends Pi and its tools (exit 143). SIGINT and SIGKILL leave tools running, in sessions of
their own; the holder finds those by the session's mark."""


def plan(
    runtime: Adapter,
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    *,
    live: bool,
) -> RunPlan:
    """The process of a run, or of a conversation in the rpc mode (`live`).

    Checks everything, then makes the private files that it needs.
    """
    installation = runtime.installation()
    dialect, _, warning = pi_dialect(installation.version)
    ignored = check_options(runtime, options, runtime.features_of(dialect))
    options = native_options(runtime, options)
    choices = provider_options(options.provider_options, dialect)
    cwd = working_dir(options)
    model = wanted_model(options, runtime.settings.options)
    changes = _changes(options, choices, model, env, dialect)
    alone = options.model_server is not None and options.account_dir is None
    user_dir = None if alone else home.agent_dir(env, options.account_dir)
    native, session_flags = _session(
        options, user_dir, cwd, env, dialect, session_id, fork=choices.fork
    )
    trust, trust_warning = trust_flags(dialect, cwd, choices.trust_project)
    flags = [
        *(_RPC_MODE if live else JSON_MODE),
        *(("--model", model) if model else ()),
        *thinking_flags(choices, options),
        *session_flags,
        *trust,
        *tool_flags(options, dialect),
    ]
    tail = [*options.raw_args, *image_arguments(options.images)]
    if options.append_system_prompt_file is not None:
        readable_file(options.append_system_prompt_file, "system prompt")
    # There a choice of model is saved, which must not reach the user's own folder.
    own_home = live and dialect.saves_model
    private, files, agent_home = _files(
        options, changes, user_dir, env, live=live, own_home=own_home
    )
    child = {
        name: value
        for name, value in agent_env(env, options, session_id, cwd).items()
        if name not in changes.drop_env
    }
    child |= {"PI_SKIP_VERSION_CHECK": "1", **changes.env}
    if agent_home is not None:
        child[home.DIR_VARIABLE] = agent_home
    return RunPlan(
        spec=ProcessSpec(
            argv=(*installation.command, *flags, *files, *tail),
            env=child,
            cwd=cwd,
            stdin=options.prompt.encode(errors="surrogateescape"),
            stop=STOP,
        ),
        session_id=session_id,
        installation=installation,
        dialect=dialect,
        secrets=tuple(
            value
            for name, value in changes.env.items()
            if name == home.KEY_VARIABLE or name in _ALL_KEY_VARIABLES
        ),
        ignored_options=ignored,
        warnings=tuple(text for text in (warning, trust_warning) if text),
        private_dirs=private,
        native_session_id=native,
    )


def _changes(
    options: RunOptions,
    choices: ProviderOptions,
    model: str | None,
    env: Mapping[str, str],
    dialect: PiDialect,
) -> home.Changes:
    """How this run's configuration folder differs from the user's."""
    asked = settings_object(options.settings) if options.settings else {}
    servers = mcp_servers(options.mcp_config) if options.mcp_config and dialect.mcp else {}
    if options.model_server is not None:
        retries = _SCRIPTED_RETRIES if choices.max_retries is None else choices.max_retries
        changes = home.server_changes(options.model_server, model or "", retries, dialect)
    else:
        if choices.max_retries is not None:
            asked = merged(asked, home.retry_settings(choices.max_retries))
        changes = (
            home.provider_changes(
                options.provider, model, choices.api, {**env, **options.env}, dialect
            )
            if options.provider is not None
            else home.Changes()
        )
    return msgspec.structs.replace(
        changes,
        settings=merged(changes.settings, asked),
        mcp_servers=servers,
    )


def _session(
    options: RunOptions,
    user_dir: str | None,
    cwd: str,
    env: Mapping[str, str],
    dialect: PiDialect,
    session_id: str,
    *,
    fork: bool,
) -> tuple[str | None, list[str]]:
    """The conversation's id, where it is known before, and the flags that choose it."""
    if options.resume is None:
        if dialect.session_id_flag:
            return session_id, ["--session-id", session_id]
        return None, []
    from bridle.runtimes.pi.transcript import find_session, session_dir

    found = None
    if user_dir is not None:
        folder = session_dir(user_dir, cwd, {**env, **options.env})
        found = find_session(folder, options.resume)
    if found is None:
        raise ResumeRefused(
            f"pi has no conversation {options.resume} in {cwd}",
            hint="resume it in the folder where it began, by its whole id",
            runtime="pi",
        )
    path, header = found
    if os.path.realpath(header.cwd) != os.path.realpath(cwd):
        raise ResumeRefused(
            f"conversation {options.resume} belongs to {header.cwd}, not to {cwd}",
            hint="resume it in the folder where it began",
            runtime="pi",
        )
    # The file, not the id: Pi takes the beginning of an id for the whole, and asks on stdin
    # whether it may copy a conversation of another folder.
    return (None, ["--fork", path]) if fork else (options.resume, ["--session", path])


def _files(
    options: RunOptions,
    changes: home.Changes,
    user_dir: str | None,
    env: Mapping[str, str],
    *,
    live: bool,
    own_home: bool,
) -> tuple[tuple[str, ...], list[str], str | None]:
    """Private folders, flags that name files, and the configuration folder if not the user's.

    System prompts go by file: an argument is limited in size, shows in the process list, and a
    text that happens to name a file would be taken for it.
    """
    texts = [
        (flag, text)
        for flag, text in (
            ("--system-prompt", options.system_prompt),
            ("--append-system-prompt", options.append_system_prompt),
        )
        if text
    ]
    needs_home = user_dir is None or changes.needs_folder or own_home
    asks = options.permission_mode == "ask"
    private = new_private_dir(env, "pi") if needs_home or texts or asks else None
    flags: list[str] = []
    if asks:
        from bridle.runtimes.pi.ask import FILE_NAME, extension_code

        assert private is not None
        flags += ["-e", write_private(private, FILE_NAME, extension_code(live=live))]
    for flag, text in texts:
        assert private is not None
        flags += [flag, write_private(private, f"{flag.strip('-')}.md", text)]
    if options.append_system_prompt_file is not None:
        path = os.path.abspath(os.path.expanduser(options.append_system_prompt_file))
        flags += ["--append-system-prompt", path]
    agent_home = options.account_dir and user_dir
    if needs_home:
        assert private is not None
        agent_home = os.path.join(private, "agent")
        os.mkdir(agent_home, 0o700)
        home.fill_home(agent_home, user_dir, changes)
    return (private,) if private else (), flags, agent_home or None
