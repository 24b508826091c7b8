"""The calls of Codex: words, environment, sandbox and private files, from Bridle's options.

Everything that Codex would read from, or write into, the user's `config.toml` is given by `-c`, so
that the file stays unchanged. No secret goes on a command line: keys go by variables, the variables
of an MCP server by a private script that starts it.

What is not obvious about its flags:
- `-i` takes every word that follows, so images never come last;
- all flags of `exec` come after that word: a `-c` after it makes older versions forget every one
  before it;
- only an inline table sets the trust in a folder; the dotted form is read and then ignored.
"""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import (
    GuardRefused,
    NotInstalled,
    ResumeRefused,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.files import cached_text, make_private_dir, new_private_dir, run_dir
from bridle.core.git import GitPlace, find_git, own_branches
from bridle.core.git_hold import hold, open_folders
from bridle.core.options import Provider, RunOptions
from bridle.core.redaction import secrets_in
from bridle.core.usage import NO_USAGE
from bridle.process.spec import POLITE_STOP, ProcessSpec
from bridle.runtimes.alternatives import refuse_fork
from bridle.runtimes.codex.product import PRODUCT, SEARCHES, SHELLS, CodexDialect, CodexOptions
from bridle.runtimes.options import (
    McpServer,
    added_instructions,
    check_images,
    check_range,
    json_object,
    provider_key,
    read_servers,
    readable_file,
)
from bridle.runtimes.planner import Command, Environment, Launch, account_folder
from bridle.runtimes.product import Mode, Service, ServicePieces
from bridle.runtimes.routing import CODEX, NO_PROXY
from bridle.runtimes.toml import toml_key, toml_string, toml_value
from bridle.turns.wire import LiveFacts

LONGEST_ARGUMENT = 96 * 1024
"""Linux takes 128 KiB in one argument; longer texts go another way."""
HOME = PRODUCT.home_variable
SERVICE = "bridle"
"""The name of the model provider that Bridle declares."""
KEY_VARIABLE = "BRIDLE_MODEL_KEY"
LOG_VARIABLE = "RUST_LOG"
_LOG_DEFAULT = "error"
_UNASKED = "codex: nobody is asked before it changes files in its worktree"
"""The warning about a named sandbox with permission `ask`."""
_MCP_REFUSED = "codex: refuses calls of MCP tools that do not say they only read"


def check(options: RunOptions, own: CodexOptions, dialect: CodexDialect, mode: Mode) -> None:
    """Refuse what Codex cannot honour in `mode`, and files that cannot be read, before anything is
    made."""
    check_range("retry_seconds", own.retry_seconds, 1, 86400)
    if options.resume:
        _check_thread_id(options.resume)
    unforked = {"tmux": "not in a terminal session", "interactive": "not in an interactive run"}
    if not dialect.exec_fork:
        unforked["run"] = f"not in a run with {dialect.name}"
    if mode in unforked:
        refuse_fork(PRODUCT.id, options, own.fork, unforked[mode])
    if options.settings:
        _settings_flags(options.settings)
    _servers(options)
    check_images(options.images, PRODUCT.id)
    added_instructions(options)
    if own.output_schema:
        readable_file(own.output_schema, "output schema")


def _check_thread_id(resume: str) -> None:
    """Refuse anything but a thread's id. Codex takes it for a name, and if it finds no thread of
    that name it silently begins a new one."""
    shape = [len(part) for part in resume.split("-")]
    digits = resume.replace("-", "").lower()
    if shape != [8, 4, 4, 4, 12] or any(char not in "0123456789abcdef" for char in digits):
        raise ResumeRefused(
            f"{resume!r} is not a codex thread id", hint="give the id that a run reported"
        )


def _ignore(launch: Launch, name: str, reason: str) -> None:
    """Refuse a provider option, or report it as ignored where the caller allows that."""
    if not launch.options.ignore_unsupported:
        raise UnsupportedOption(
            launch.runtime, f"provider option {name}", [], reason=reason, ignorable=True
        )
    launch.ignored.append(name)


# -- environment ----------------------------------------------------------------------------------


def environment(launch: Launch) -> Environment:
    """The user's variables, a home for a scripted model, the key of the model service, and what its
    MCP servers need. These win over the variables of the caller's options."""
    options, server, provider = launch.options, launch.options.model_server, launch.options.provider
    around = {**launch.env, **options.env}
    base, final, secrets = dict(launch.env), {}, []
    if options.account_dir is not None:
        final[HOME] = account_folder(options.account_dir)
    if server is not None:
        base = {key: value for key, value in base.items() if key != HOME and not CODEX.holds(key)}
        if options.account_dir is None:
            folder = launch.folder(launch.session_id)
            final[HOME] = make_private_dir(os.path.join(folder, "home"))
        final |= {KEY_VARIABLE: server.api_key, **NO_PROXY}
        secrets.append(server.api_key)
    elif provider is not None and (key := provider_key(provider, around, PRODUCT.id)):
        final[KEY_VARIABLE if provider.base_url else PRODUCT.key_variable] = key
        secrets.append(key)
    for name, each in _servers(options).items():
        headers = _header_variables(name, each)
        final |= {variable: each.headers[header] for header, variable in headers.items()}
        secrets += [*each.headers.values(), *secrets_in(each.env)]
    if launch.mode == "run" and launch.dialect.log_filter:
        # Only here: nobody reads the log of an app-server, and it would hide the last error.
        level = around.get(LOG_VARIABLE) or _LOG_DEFAULT
        final[LOG_VARIABLE] = f"{level},{launch.dialect.log_filter}"
    if helpers := _helpers(launch):
        final["PATH"] = f"{around.get('PATH', os.defpath)}{os.pathsep}{helpers}"
    return Environment(base, tuple(secrets), final)


def _helpers(launch: Launch) -> str | None:
    """The folder of helper programs beside the native binary, if the version has one."""
    name = launch.dialect.path_dir
    folder = os.path.join(os.path.dirname(os.path.dirname(launch.installation.binary)), name)
    return folder if name and os.path.isdir(folder) else None


def provider_env(provider: Provider, env: Mapping[str, str]) -> dict[str, str]:
    """The address and the key of `provider`. Codex reads no address from its environment, so runs
    and commands that get these variables turn the address into a flag."""
    routed = {"OPENAI_BASE_URL": provider.base_url} if provider.base_url else {}
    key = provider_key(provider, env, PRODUCT.id)
    return routed | (dict.fromkeys(("OPENAI_API_KEY", "CODEX_API_KEY"), key) if key else {})


# -- calls ----------------------------------------------------------------------------------------


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of Codex in `launch.mode`, for a process that gets `env`."""
    if launch.own.shared_socket and launch.mode != "live":
        _ignore(launch, "shared_socket", "only a live session has an app-server")
    if launch.mode == "print":
        return Command(words=tuple(_print_words(launch)))
    if launch.mode == "run":
        return _exec(launch, env)
    if launch.mode == "live":
        return _app_server(launch, env)
    return _terminal(launch, env)


def _print_words(launch: Launch) -> list[str]:
    """A one-shot call that only reads. Its stdin must be closed or /dev/null: Codex waits for the
    end of a pipe before it begins."""
    prompt, model = launch.options.prompt, launch.options.model
    if len(prompt.encode()) > LONGEST_ARGUMENT:
        raise WrongUse("the prompt is too long for a command line", hint="use `bridle run`")
    return [
        *_feature_flags(launch.dialect),
        *_variable_flags(launch.env, launch.own),
        *("exec", "--ephemeral", "--skip-git-repo-check", "-s", READ_ONLY),
        *(("-m", model) if model else ()),
        *("--", prompt),
    ]


def _exec(launch: Launch, env: Mapping[str, str]) -> Command:
    options, own, dialect = launch.options, launch.own, launch.dialect
    mode, _ = _confined(launch)
    place = find_git(launch.cwd)
    prompt, words = _run_instructions(launch)
    words = ["exec", *_feature_flags(dialect), *words, *_option_flags(launch)]
    words += trust_flags(launch.cwd, place, PRODUCT.home_in(env))
    words += ["-s", mode]
    words += [word for each in _roots(launch, mode, place) for word in ("--add-dir", each)]
    words.append("--skip-git-repo-check")
    if options.output_schema is not None:
        schema = msgspec.json.encode(options.output_schema)
        words += ["--output-schema", launch.write("output-schema.json", schema)]
    elif own.output_schema:
        words += ["--output-schema", os.path.abspath(own.output_schema)]
    words += [*options.raw_args, *_image_flags(options.images), "--json"]
    if options.resume:
        words += ["fork" if own.fork else "resume", options.resume]
    _hold_repository(launch, mode, place)
    return Command(
        words=(*words, "-"),
        stdin=prompt.encode(errors="replace"),
        watch_stderr=bool(dialect.log_filter),
        native_session_id=None if own.fork else options.resume,
    )


def _app_server(launch: Launch, env: Mapping[str, str]) -> Command:
    options, own, dialect = launch.options, launch.own, launch.dialect
    mode, policy = _confined(launch)
    if own.profile:
        _ignore(launch, "profile", "the app-server takes no profile")
    if "retry_seconds" in options.provider_options:
        reason = "only the log says how long a pause is, and nobody reads the app-server's"
        _ignore(launch, "retry_seconds", reason)
    shared = own.shared_socket
    if shared and (unshared := _why_not_shared(dialect, policy)):
        _ignore(launch, "shared_socket", unshared)
        shared = False
    place = find_git(launch.cwd)
    words = ["app-server", *_feature_flags(dialect), *_option_flags(launch)]
    words += trust_flags(launch.cwd, place, PRODUCT.home_in(env))
    roots = _roots(launch, mode, place)
    words += config("sandbox_workspace_write.writable_roots", roots) if roots else []
    words += options.raw_args
    facts = _wire_facts(launch, env, mode, policy)
    around: tuple[str, ...] = ()
    if shared:
        _check_sharing(own, mode)
        socket = socket_path(launch.env, launch.session_id)
        # Nothing is imported from the working directory (`-P`): it belongs to the agent.
        around = (sys.executable, "-P", "-m", RELAY, socket, "--")
        # Last, to win over the user's own configuration: see `_check_sharing`.
        words += config("sandbox_workspace_write.network_access", False)
        words += ["--listen", f"unix://{socket}"]
        facts |= {"socket": socket, "home": PRODUCT.home_in(env)}
        facts["command"] = launch.installation.command
        launch.folders.append(os.path.dirname(socket))
    _hold_repository(launch, mode, place)
    return Command(
        words=tuple(words),
        around=around,
        keep_stdin=True,
        # Unlike `exec`, it ends its commands on SIGTERM and leaves them running on SIGINT.
        stop=POLITE_STOP,
        native_session_id=None if own.fork else options.resume,
        wire=facts,
    )


def _wire_facts(launch: Launch, env: Mapping[str, str], mode: str, policy: str) -> dict[str, Any]:
    """What the wire says of the thread and of each turn, and what the thread, or the one that it
    copies, had used before: the wire continues counting from there."""
    from bridle.runtimes.codex.transcript import total_of

    options, own, dialect = launch.options, launch.own, launch.dialect
    thread: dict[str, Any] = {"cwd": launch.cwd, "sandbox": mode, "approvalPolicy": policy}
    if options.model:
        thread["model"] = options.model
    if service_flags(launch):
        # Otherwise a resumed thread would look for the provider it began with.
        thread["modelProvider"] = SERVICE
    if options.system_prompt is not None:
        thread["baseInstructions"] = options.system_prompt
    added = added_instructions(options)
    if added is not None:
        thread["developerInstructions"] = added
    turn: dict[str, Any] = {}
    if own.output_schema:
        turn["outputSchema"] = json_object(os.path.abspath(own.output_schema), "output schema")
    before = total_of(PRODUCT.home_in(env), options.resume) if options.resume else NO_USAGE
    facts = {"thread": thread, "turn": turn, "before": msgspec.to_builtins(before)}
    facts |= {"told_ids": dialect.tells_message_ids, "late_ends": dialect.late_command_ends}
    return facts | ({"fork": True} if own.fork and options.resume else {})


def _terminal(launch: Launch, env: Mapping[str, str]) -> Command:
    """The terminal interface: in a pane, for the person here, or for another program to start."""
    options = launch.options
    mode, policy = _confined(launch)
    place, home = find_git(launch.cwd), PRODUCT.home_in(env)
    words = [*terminal_flags(launch.dialect, launch.cwd, place, home), *_option_flags(launch)]
    words += _terminal_instructions(launch)
    words += ["resume", options.resume] if options.resume else []
    words += [*options.raw_args, *_image_flags(options.images), "-s", mode]
    words += [word for each in _roots(launch, mode, place) for word in ("--add-dir", each)]
    words += ["-a", policy]
    if launch.mode != "tmux" and options.prompt.strip():
        words += ["--", options.prompt]
    if launch.mode != "spawn":
        # Nobody would release the hold of a command that another program starts.
        _hold_repository(launch, mode, place)
    return Command(
        words=tuple(words),
        native_session_id=options.resume,
        wire={"home": home, "began": time.time() - 1.0},
    )


def terminal_flags(
    dialect: CodexDialect, folder: str, place: GitPlace | None, home: str
) -> list[str]:
    """Flags of every terminal session: no daemon, no downloads, and no dialogs, because nobody
    would answer them and the answers would go into the user's `config.toml`."""
    flags = [*_feature_flags(dialect), *(["--no-daemon"] if dialect.daemon else [])]
    flags += config("check_for_update_on_startup", False)
    if dialect.model_migrations:
        flags += config("notice.model_migrations", dict(dialect.model_migrations))
    return [*flags, *trust_flags(folder, place, home)]


# -- flags ----------------------------------------------------------------------------------------


def config(name: str, value: Any) -> list[str]:
    """One `-c` flag; `name` is a path of bare keys."""
    return ["-c", f"{name}={toml_value(value, name)}"]


def _feature_flags(dialect: CodexDialect) -> list[str]:
    """Switch off what must not happen in a run."""
    return [word for name in dialect.disabled_features for word in ("--disable", name)]


def _option_flags(launch: Launch) -> list[str]:
    """The flags that every mode shares. Bridle's come after the caller's settings, which must
    neither give a tool back nor lead to another service."""
    options, own = launch.options, launch.own
    flags = _settings_flags(options.settings) if options.settings else []
    flags += tool_flags(options.denied_tools)
    flags += ["-p", own.profile] if own.profile and launch.mode != "live" else []
    flags += config("model_reasoning_effort", own.effort) if own.effort else []
    if own.network_access:
        flags += config("sandbox_workspace_write.network_access", True)
    flags += [*service_flags(launch), *_mcp_flags(launch)]
    return flags + (config("model", options.model) if options.model else [])


def _settings_flags(settings: str) -> list[str]:
    """Codex's own settings (JSON text, or a TOML or JSON file) as `-c` flags, key by key."""
    if settings.lstrip().startswith("{") or settings.endswith(".json"):
        table = json_object(settings, "settings table")
    else:
        table = _toml_table(readable_file(settings, "settings"), settings)
    return [
        word
        for name, value in table.items()
        for word in ("-c", f"{toml_key(name)}={toml_value(value, name)}")
    ]


def _toml_table(data: bytes, path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise WrongUse(f"{path}: not TOML: {problem}") from None


def tool_flags(denied: tuple[str, ...]) -> list[str]:
    """What takes tools from the model; of Codex's own names of one kind, each means all."""
    flags: list[str] = []
    if not set(denied).isdisjoint(SHELLS):
        flags += config("features.shell_tool", False)
    if not set(denied).isdisjoint(SEARCHES):
        flags += config("web_search", "disabled")
    return flags


def _image_flags(images: tuple[str, ...]) -> list[str]:
    paths = (os.path.abspath(os.path.expanduser(each)) for each in images)
    return [word for path in paths for word in ("-i", path)]


def service_flags(launch: Launch) -> list[str]:
    """Lead Codex to the model service of the caller's choice; empty for its own."""
    options, own = launch.options, launch.own
    if options.model_server is not None:
        address = f"{options.model_server.url.rstrip('/')}/v1"
        flags = provider_flags(address, KEY_VARIABLE, own.max_retries)
        return [*flags, *QUIET]
    if options.provider is None:
        return _variable_flags(options.env, own)
    if not options.provider.base_url:
        return []
    key = KEY_VARIABLE if options.provider.auth_token_env else None
    return provider_flags(options.provider.base_url, key, own.max_retries)


QUIET = (*config("analytics.enabled", False), *config("check_for_update_on_startup", False))
"""No traffic but that to the model."""


def _variable_flags(env: Mapping[str, str], own: CodexOptions) -> list[str]:
    """The flags for the variables of `provider_env`."""
    address = env.get("OPENAI_BASE_URL")
    key = "OPENAI_API_KEY" if env.get("OPENAI_API_KEY") else None
    return provider_flags(address, key, own.max_retries) if address else []


def provider_flags(address: str, key_variable: str | None, retries: int) -> list[str]:
    """Lead Codex to the service at `address`, whose key is in `key_variable`, with bounded
    retries."""
    table: dict[str, Any] = {"name": SERVICE, "base_url": address, "wire_api": "responses"}
    if key_variable:
        table["env_key"] = key_variable
    table |= {"request_max_retries": retries, "stream_max_retries": retries}
    return [*config("model_provider", SERVICE), *config(f"model_providers.{SERVICE}", table)]


def service_pieces(service: Service) -> ServicePieces:
    """What leads Codex to `service` when another program starts it."""
    env: dict[str, str] = {}
    cwd = service.cwd
    flags = trust_flags(cwd, find_git(cwd), service.account) if cwd else []
    if service.url is not None:
        key = KEY_VARIABLE if service.key else None
        flags += provider_flags(service.api or service.url, key, service.max_retries)
        env |= {KEY_VARIABLE: service.key} if service.key else {}
    elif service.key is not None:
        env[PRODUCT.key_variable] = service.key
    if service.home is None:
        return ServicePieces(env=env, flags=tuple(flags))
    flags += [*QUIET, *config("model", service.model or PRODUCT.scripted_model)]
    drop = ("OPENAI_API_KEY", "OPENAI_BASE_URL", PRODUCT.key_variable)
    return ServicePieces(env={**env, HOME: service.home}, drop=drop, flags=tuple(flags))


def trust_roots(folder: str, place: GitPlace | None) -> list[str]:
    """Every folder whose trust Codex may look up for a run in `folder`: the root of the main
    repository, also in a linked work tree, and outside of git the folder itself."""
    roots = [os.path.realpath(folder), os.path.abspath(folder)]
    if place is not None:
        roots += [place.root, os.path.dirname(place.common_dir)]
    return list(dict.fromkeys(roots))


def trust_flags(folder: str, place: GitPlace | None, home: str) -> list[str]:
    """Tell Codex that the folder is trusted, for this run only.

    In a writable sandbox Codex would otherwise note that in the user's `config.toml`. A decision
    that is already there is left alone: then Codex writes nothing.
    """
    roots = trust_roots(folder, place)
    if _is_decided(roots, os.path.join(home, "config.toml")):
        return []
    table = ", ".join(f'{toml_string(root)} = {{trust_level = "trusted"}}' for root in roots)
    return ["-c", f"projects={{{table}}}"]


def _is_decided(roots: list[str], path: str) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    if not any(os.fsencode(root) in data for root in roots):
        return False
    try:
        projects = _toml_table(data, path).get("projects", {})
    except WrongUse:
        return False
    if not isinstance(projects, dict):
        return False
    # Codex looks up one of the roots; only it knows which, so the last one must be there.
    return "trust_level" in (projects.get(roots[-1]) or {})


# -- instructions ---------------------------------------------------------------------------------


def _run_instructions(launch: Launch) -> tuple[str, list[str]]:
    """The prompt of a run, and the flags with the caller's instructions."""
    options, flags = launch.options, []
    if options.system_prompt is not None:
        path = launch.write("instructions.md", options.system_prompt.encode(errors="replace"))
        flags += config("model_instructions_file", path)
    added = added_instructions(options)
    if added is None:
        return options.prompt, flags
    words = config("developer_instructions", added)
    if len(words[1].encode(errors="replace")) <= LONGEST_ARGUMENT:
        return options.prompt, [*flags, *words]
    launch.warnings.append(
        "codex: the added instructions are too long for a flag; put before the prompt"
    )
    return f"<instructions>\n{added}\n</instructions>\n\n{options.prompt}", flags


def _terminal_instructions(launch: Launch) -> list[str]:
    """Instructions as flags; raises `WrongUse` for what a command line cannot carry."""
    options, flags = launch.options, []
    if options.system_prompt is not None:
        if not launch.dialect.inline_instructions:
            reason = f"not in the terminal of {launch.dialect.name}"
            raise UnsupportedOption(PRODUCT.id, "system_prompt", [], reason=reason)
        flags += config("instructions", options.system_prompt)
    added = added_instructions(options)
    if added is not None:
        flags += config("developer_instructions", added)
    if any(len(flag.encode(errors="replace")) > LONGEST_ARGUMENT for flag in flags):
        raise WrongUse("the instructions are too long for a command line", hint="use AGENTS.md")
    return flags


# -- MCP servers ----------------------------------------------------------------------------------

_SERVER_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _servers(options: RunOptions) -> dict[str, McpServer]:
    """The MCP servers of a run; raises `WrongUse` for what Codex does not take."""
    if options.mcp_config is None:
        return {}
    servers = read_servers(options.mcp_config)
    for name, server in servers.items():
        if not name or not _SERVER_NAME.issuperset(name):
            raise WrongUse(f"MCP server {name!r}: codex takes letters, digits, - and _ as a name")
        if server.type == "sse":
            reason = f"{name} uses sse transport"
            raise UnsupportedOption(PRODUCT.id, "mcp_config", [], reason=reason)
        for key in server.env:
            if not (key.isascii() and key.isidentifier()):
                raise WrongUse(f"MCP server {name!r}: {key!r} is not the name of a variable")
    return servers


def _mcp_flags(launch: Launch) -> list[str]:
    """The servers as Codex declares them. Only with `bypass` are their tools approved: a run has
    nobody to ask."""
    flags: list[str] = []
    for name, server in _servers(launch.options).items():
        entry: dict[str, Any] = {}
        if server.url is not None:
            entry |= {"url": server.url, "env_http_headers": _header_variables(name, server)}
        elif server.env:
            script = launch.write(f"mcp-{name}.sh", _script(server))
            entry |= {"command": "/bin/sh", "args": [script]}
        else:
            entry |= {"command": server.command, "args": server.args}
        entry["cwd"] = server.cwd
        if launch.options.permission_mode == "bypass":
            entry["default_tools_approval_mode"] = "approve"
        value = toml_value({k: v for k, v in entry.items() if v}, f"mcpServers.{name}")
        flags += ["-c", f"mcp_servers.{name}={value}"]
    return flags


def _header_variables(name: str, server: McpServer) -> dict[str, str]:
    """The variable that holds the value of each header."""
    start = f"BRIDLE_MCP_{name.upper().replace('-', '_')}"
    return {header: f"{start}_{number}" for number, header in enumerate(server.headers)}


def _script(server: McpServer) -> str:
    from shlex import quote

    lines = [f"export {key}={quote(value)}" for key, value in server.env.items()]
    words = " ".join(quote(word) for word in (server.command or "", *server.args))
    return "\n".join([*lines, f"exec {words}", ""])


# -- Codex's own sandbox --------------------------------------------------------------------------

READ_ONLY = "read-only"
WORKSPACE_WRITE = "workspace-write"
FULL_ACCESS = "danger-full-access"


def sandbox_mode(options: RunOptions) -> str:
    """The value of Codex's `-s` where it asks nobody.

    What its sandbox does not allow is refused. So `ask` may only read, unless the caller names a
    wider sandbox, and never runs without one.
    """
    bypass = options.permission_mode == "bypass"
    if options.sandbox == "commit" and not options.ignore_unsupported:
        raise UnsupportedOption(
            PRODUCT.id,
            "sandbox=commit",
            [],
            reason="its sandbox opens the worktree or nothing",
            ignorable=True,
        )
    if options.sandbox == "off" and not bypass and not options.ignore_unsupported:
        raise UnsupportedOption(
            PRODUCT.id,
            "sandbox=off with permission ask",
            [],
            reason="here Codex asks at most about what its sandbox does not allow, so nothing "
            "would hold it; give permission bypass with it",
            ignorable=True,
        )
    if options.sandbox == "off" and bypass:
        return FULL_ACCESS
    if options.sandbox == "worktree" or (options.sandbox is None and bypass):
        return WORKSPACE_WRITE
    return READ_ONLY


def confinement(options: RunOptions, mode: Mode) -> tuple[str, str]:
    """The sandbox and the approval policy.

    A yes of the person lets a command leave the sandbox, so where the caller named a sandbox
    nothing is asked and it holds. With `ask` a conversation asks about everything that does more
    than read. The terminal interface asks only about what its sandbox does not allow: there it gets
    one in which it can only read.
    """
    asks = options.permission_mode == "ask"
    if mode == "live" and asks and options.sandbox in (None, "off"):
        return (FULL_ACCESS if options.sandbox == "off" else WORKSPACE_WRITE), "untrusted"
    asks = asks and options.sandbox is None and mode in ("tmux", "interactive", "spawn")
    return sandbox_mode(options), "on-request" if asks else "never"


def _confined(launch: Launch) -> tuple[str, str]:
    """As `confinement`, with warnings; raises `GuardRefused` where the sandbox cannot work."""
    options, dialect = launch.options, launch.dialect
    mode, policy = confinement(options, launch.mode)
    bypass = options.permission_mode == "bypass"
    if options.sandbox == "commit" or (options.sandbox == "off" and mode != FULL_ACCESS):
        launch.ignored.append("sandbox")
    if mode == WORKSPACE_WRITE and policy == "never" and not bypass:
        launch.warnings.append(_UNASKED)
    approved = mode == FULL_ACCESS or (dialect.mcp_approval and bypass)
    if options.mcp_config is not None and policy == "never" and not approved:
        launch.warnings.append(_MCP_REFUSED)
    if mode != FULL_ACCESS and launch.mode in ("run", "live"):
        check_sandbox(launch)
    return mode, policy


def _agent(launch: Launch) -> str | None:
    name = "BRIDLE_AGENT_NAME"
    return launch.options.env.get(name) or launch.env.get(name)


def _opens_git(launch: Launch, mode: str, place: GitPlace | None) -> bool:
    # Only where the repository knows this work tree: the agent can change what its `.git` says.
    opened = mode == WORKSPACE_WRITE and launch.own.git_write
    return opened and place is not None and place.proven()


def _roots(launch: Launch, mode: str, place: GitPlace | None) -> list[str]:
    """The folders that may be written beside the working directory; of the branches only those of
    the agent's own (`own_branches`)."""
    if mode != WORKSPACE_WRITE:
        return []
    dirs = [os.path.abspath(os.path.expanduser(each)) for each in launch.own.add_dirs]
    if place is not None and _opens_git(launch, mode, place):
        dirs += open_folders(place, own_branches(place.root, _agent(launch)))
    return dirs


def _hold_repository(launch: Launch, mode: str, place: GitPlace | None) -> None:
    """Add a hold on the repository that `_roots` opens to the folders of the process: what git
    obeys there is restored when the agent has ended, since Codex's own sandbox holds folders, not
    single files. Comes last: a hold must not be left behind by a plan that is refused."""
    if place is not None and place.linked and _opens_git(launch, mode, place):
        prefix = own_branches(place.root, _agent(launch))
        held = hold(place, os.urandom(8).hex(), mounts=False, branch_prefix=prefix)
        launch.folders.append(held.folder)


_SANDBOX_WORDS = ("bwrap", "bubblewrap", "namespace", "landlock", "seccomp")


def check_sandbox(launch: Launch) -> None:
    """Raise `GuardRefused` when Codex's sandbox cannot work on this machine.

    Without it every command of the agent fails while the run still ends "well". A machine that
    passed is remembered; one that did not is tried again each time.
    """
    if sys.platform != "linux":
        return
    complaint = ""

    def ask() -> str | None:
        nonlocal complaint
        complaint = _sandbox_complaint(launch)
        return None if complaint else "works"

    cached_text(_machine_key(launch), ask)
    if complaint:
        raise GuardRefused(
            f"codex cannot build its sandbox here: {complaint}",
            hint="allow unprivileged user namespaces, or run with --sandbox off where the machine "
            "itself is the sandbox",
            runtime=PRODUCT.id,
        )


def _sandbox_complaint(launch: Launch) -> str:
    """What the sandbox complains of; empty when it works or something else is wrong, which the run
    itself reports better. Asked in an empty home, so that the user's is neither read nor written.
    """
    import shutil
    import subprocess

    try:
        home = new_private_dir(launch.env, launch.runtime)
    except OSError:
        return ""
    try:
        done = subprocess.run(
            (*launch.installation.command, *launch.dialect.sandbox_probe),
            env={**launch.env, HOME: home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    finally:
        shutil.rmtree(home, ignore_errors=True)
    text = (done.stderr + done.stdout).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if done.returncode != 0]
    about = (line for line in lines if any(word in line.lower() for word in _SANDBOX_WORDS))
    return next(about, "")[:300]


def _machine_key(launch: Launch) -> str:
    """Changes when the binary, the boot, or the container around us does."""
    found = launch.installation
    facts = ["codex-sandbox", os.path.realpath(found.binary), found.version or ""]
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            facts.append(file.read().strip())
        facts += [os.readlink("/proc/self/ns/user"), os.readlink("/proc/self/ns/mnt")]
    except OSError:
        pass
    return ":".join(facts)


# -- an app-server that a person joins ------------------------------------------------------------

RELAY = "bridle.runtimes.codex.relay"
_EXTRA = "codex-attach"
_LIBRARY = "websockets"
_LONGEST_SOCKET = 90
"""Longest path of a Unix socket that every system takes, with some room."""


def require_library() -> None:
    """Raise `NotInstalled` in an installation without the WebSocket library."""
    from importlib.util import find_spec

    if find_spec(_LIBRARY) is None:
        raise NotInstalled(
            f"codex: shared_socket needs the package {_LIBRARY}, which is not installed",
            hint=f"pip install 'bridle[{_EXTRA}]', or leave shared_socket out",
            runtime=PRODUCT.id,
        )


def _why_not_shared(dialect: CodexDialect, policy: str) -> str:
    """Why an app-server with this approval policy cannot be shared; empty when it can."""
    if not dialect.shares_socket:
        return f"not with {dialect.name}"
    if policy != "never":
        # Both sides are asked, and the wire says to the other one that the question is answered,
        # but not how: the events would show an allowed call as refused, or the reverse.
        return "not where it asks: Codex does not say what a person at its terminal answered"
    return ""


def _check_sharing(own: CodexOptions, mode: str) -> None:
    """Raise unless sharing is safe, and possible here."""
    if own.network_access and mode != FULL_ACCESS:
        # With the network come the sockets: from inside the sandbox the agent would drive its own
        # app-server, and have it run commands outside.
        raise WrongUse(
            "codex: shared_socket and network_access together would open the sandbox",
            hint="leave one of them out",
        )
    require_library()


def socket_path(env: Mapping[str, str], session_id: str) -> str:
    """Where the app-server of a session listens: alone in a folder, private to the user, that the
    relay makes and removes. Below the state folder, unless that path is too long for a socket."""
    from bridle.drives.tmux.server import server_folder

    parent = run_dir(env)
    own = os.path.join(parent, f"codex-{session_id}")
    path = os.path.join(parent, f"s-{os.path.basename(server_folder({}, own))}", "app.sock")
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    return os.path.join(server_folder(env, own), "app.sock")


def remote_terminal(
    facts: LiveFacts, dialect: CodexDialect, thread_id: str, env: Mapping[str, str]
) -> ProcessSpec | None:
    """Codex's terminal interface, joined to the thread of a session that shares its socket; None
    for one that does not."""
    path = facts.own.get("socket")
    if not path:
        return None
    home = facts.own["home"]
    # Codex refuses `--no-daemon` beside `--remote`, with which it starts none.
    dialect = msgspec.structs.replace(dialect, daemon=False)
    flags = terminal_flags(dialect, facts.cwd, find_git(facts.cwd), home)
    # The same program as the app-server, even if another was installed since.
    argv = (*facts.own["command"], "--remote", f"unix://{path}", *flags, "resume", thread_id)
    # The session's own home: joining does not change the person's settings.
    return ProcessSpec(argv=argv, env={**env, HOME: home}, cwd=facts.cwd)
