"""The calls of Aider: words, environment, files, and where its models are served.

Prompts and instructions go by private files; a key is a variable, never an argument.
"""

import os
import sys
from collections.abc import Mapping

import msgspec

from bridle.core.errors import ResumeRefused, WrongUse
from bridle.core.files import home_dir, make_private_dir, write_private
from bridle.core.git import find_git
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.aider.product import (
    ALIASES,
    APIS,
    DEPLOYED,
    KEY_VARIABLES,
    PRODUCT,
    AiderOptions,
)
from bridle.runtimes.aider.transcript import history_file, project_dir
from bridle.runtimes.options import added_instructions, provider_key, readable_file
from bridle.runtimes.planner import Command, Environment, Launch
from bridle.runtimes.routing import NO_PROXY, PROXIES

_NO_TO_ALL = b"n\n" * 1000
"""Answers when nobody is there: no, for more questions than come."""
_WIDE = "10000000"
"""Columns of the terminal that Aider believes in: it must not break lines."""
_GIT_DEFAULTS = "GIT_CONFIG_SYSTEM"
_PRICE_CACHE = ".aider/caches/model_prices_and_context_window.json"
_SPAWN_FLAGS = (
    *("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings"),
    *("--no-gitignore", "--no-analytics", "--no-auto-commits", "--no-dirty-commits"),
)


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of Aider in `launch.mode`, for a process that gets `env`."""
    options, mode = launch.options, launch.mode
    named = ("--model", options.model) if options.model is not None else ()
    if mode == "print":
        # Aider prints more than its answer, so Bridle's own reader (`__main__`) starts it.
        reader = (sys.executable, "-m", "bridle.runtimes.aider")
        return Command(around=reader, words=(*named, f"--prompt={options.prompt}"))
    bypass = options.permission_mode == "bypass"
    agreed = ("--yes-always",) if bypass else ()
    if mode == "spawn":
        added = options.append_system_prompt_file
        shown = ("--read", added) if added is not None else ()
        return Command(words=(*named, *_SPAWN_FLAGS, *agreed, *shown))
    words = [*agreed, *_git_flags(launch), *_route(launch).words, *_own_flags(launch)]
    if commands := _load_commands(launch):
        words += ["--load", launch.write("load", commands)]
    if mode == "interactive":
        return Command(words=(*words, *options.raw_args))
    native = options.resume or launch.session_id
    logs = (word for flag in launch.dialect.log_flags for word in (flag, "/dev/stdout"))
    return Command(
        words=(
            *launch.dialect.flags,
            *logs,
            *_history_flags(launch, env["HOME"], native),
            *words,
            *("--message-file", launch.write("prompt", _as_message(options.prompt))),
            *options.raw_args,
        ),
        stdin=None if bypass else _NO_TO_ALL,
        native_session_id=native,
    )


def _git_flags(launch: Launch) -> list[str]:
    """Aider works from the top of a repository; with `--yes-always` it would make one of any
    folder."""
    repository, cwd = find_git(launch.cwd), launch.cwd
    if repository is None:
        asked = launch.mode == "interactive" and launch.options.permission_mode != "bypass"
        return [] if asked else ["--no-git"]
    if repository.root != os.path.realpath(cwd):
        launch.warnings.append(
            f"aider takes file names from {repository.root}, the top of the repository, not {cwd}"
        )
    return []


def _own_flags(launch: Launch) -> list[str]:
    """The flags of Aider's own options."""
    own: AiderOptions = launch.own
    commits = "--auto-commits" if own.auto_commits else "--no-auto-commits"
    # Dirty commits would commit the user's own unfinished work.
    flags = [commits, "--no-dirty-commits"]
    if not own.auto_lint:
        flags.append("--no-auto-lint")
    for flag, value in (
        ("--edit-format", own.edit_format),
        ("--timeout", own.request_timeout),
        ("--weak-model", own.weak_model),
        ("--map-tokens", own.map_tokens),
        ("--reasoning-effort", own.reasoning_effort),
        ("--test-cmd", own.test_cmd),
    ):
        if value is not None:
            flags += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    if own.test_cmd is not None:
        flags.append("--auto-test")
    for path in _readable(own.files, launch.cwd):
        flags += ["--file", path]
    return flags


def _readable(paths: tuple[str, ...], cwd: str) -> list[str]:
    """The files that an option names, absolute; `WrongUse` for one that cannot be read."""
    found = [os.path.join(cwd, os.path.expanduser(path)) for path in paths]
    for path in found:
        readable_file(path, "file")
    return found


def _load_commands(launch: Launch) -> str:
    """Commands that show the model what it must know.

    Not by `--read`: that would override the `read` of the user's own configuration.
    """
    own: AiderOptions = launch.own
    files = _readable(own.read, launch.cwd)
    if own.instructions:
        deployed = (os.path.join(launch.cwd, name) for name in ("AGENTS.md", DEPLOYED))
        files += [path for path in deployed if os.path.isfile(path)]
    added = added_instructions(launch.options)
    if added is not None:
        files.append(launch.write("instructions.md", f"{added}\n"))
    return "".join(f'/read-only "{path}"\n' for path in files)


def _history_flags(launch: Launch, home: str, native: str) -> list[str]:
    """The files of the conversation: a new one, or that of `resume`, which must exist."""
    options, cwd = launch.options, launch.cwd
    inputs = ["--input-history-file", os.path.join(launch.folder(), "input")]
    if options.resume is None:
        folder = project_dir(home, cwd)
        make_private_dir(folder)
        # Made here, so that only this user can read it.
        path = write_private(folder, f"{native}.md", "")
        return ["--chat-history-file", path, *inputs]
    known = history_file(home, cwd, options.resume)
    if known is None or not os.path.isfile(known):
        raise ResumeRefused(
            f"aider has no conversation {options.resume} in {cwd}",
            hint="only conversations that Bridle began, in the folder where they began",
            runtime=PRODUCT.id,
        )
    return ["--chat-history-file", known, *inputs, "--restore-chat-history"]


def _as_message(prompt: str) -> str:
    """A prompt that Aider takes for a prompt: `/` and `!` would begin a command, `!` of a shell."""
    return f" {prompt}" if prompt.startswith(("/", "!")) else prompt


def environment(launch: Launch) -> Environment:
    """The user's variables, a home, and the way to the model service."""
    options, headless = launch.options, launch.mode == "run"
    base = dict(launch.env)
    route = _route(launch)
    home = _home(launch)
    if options.model_server is not None:
        base = {name: value for name, value in base.items() if not _leads_elsewhere(name)}
        _seed_prices(home)
    # With `--yes-always` Aider opens pages about errors in the user's browser.
    final = {**route.env, "BROWSER": "true", "PYTHONIOENCODING": "utf-8"}
    if headless:
        final["COLUMNS"] = _WIDE
        final[_GIT_DEFAULTS] = launch.write("gitconfig", _git_defaults(launch.env))
    users = {**base, **options.env}.get("HOME")
    if home != users:
        config = os.path.join(users or "", ".gitconfig")
        if os.path.isfile(config):
            base.setdefault("GIT_CONFIG_GLOBAL", config)
        final["HOME"] = home
    return Environment(base, route.secrets, final)


def _leads_elsewhere(name: str) -> bool:
    return name.startswith("AIDER_") or PRODUCT.routing.holds(name) or name in PROXIES


def _home(launch: Launch) -> str:
    """The folder that Aider keeps its files in: the caller's choice, a throw-away one for a
    scripted model, else the user's."""
    options = launch.options
    if options.account_dir is not None:
        return os.path.abspath(os.path.expanduser(options.account_dir))
    if options.model_server is None:
        return home_dir(launch.env)
    home = os.path.join(launch.folder(), "home")
    os.makedirs(home, mode=0o700, exist_ok=True)
    return home


def _seed_prices(home: str) -> None:
    """Put a list of prices where Aider would otherwise load one from the internet. It must be
    young, and not empty."""
    path = os.path.join(home, _PRICE_CACHE)
    if os.path.exists(path):
        os.utime(path)
    else:
        make_private_dir(os.path.dirname(path))
        write_private(home, _PRICE_CACHE, '{"none": {}}')


def _git_defaults(env: Mapping[str, str]) -> str:
    """Git's system-wide settings with a user name, for users who have set none: Aider would write
    one into the repository's own configuration. Every other file takes precedence."""
    system = env.get(_GIT_DEFAULTS) or "/etc/gitconfig"
    return f'[user]\n\tname = Aider\n\temail = aider@localhost\n[include]\n\tpath = "{system}"\n'


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What sends model calls to the service that the caller wants."""

    model: str | None
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The model and the flags, as arguments."""
        return (*(("--model", self.model) if self.model else ()), *self.flags)


def _route(launch: Launch) -> Route:
    options: RunOptions = launch.options
    if options.model_server is not None:
        return _to_server(options.model_server, options.model)
    if options.provider is not None:
        env = {**launch.env, **options.env}
        return _to_provider(options.provider, options.model, launch.own.api, env)
    return Route(model=options.model)


def provider_env(provider: Provider, model: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that lead Aider to `provider`; `NotAuthenticated` when its key is missing."""
    route = _to_provider(provider, model, None, env)
    flagged = {"ANTHROPIC_API_BASE": provider.base_url or ""} if route.flags else {}
    return {**route.env, **flagged}


def _to_provider(
    provider: Provider, model: str | None, api: str | None, env: Mapping[str, str]
) -> Route:
    """Send `model` to `provider`, by Aider's own variables: they take precedence over an `.env`
    file in the project."""
    if model is None:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    api = api or _usual_api(model)
    key = provider_key(provider, env, PRODUCT.id)
    variables: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    if provider.base_url:
        if api == "anthropic":
            flags = ("--set-env", f"ANTHROPIC_API_BASE={provider.base_url.rstrip('/')}")
        else:
            variables["AIDER_OPENAI_API_BASE"] = provider.base_url.rstrip("/")
        if model not in ALIASES and model.partition("/")[0] != api:
            model = f"{api}/{model}"
    if key is not None:
        name, _, _ = model.partition("/")
        if provider.base_url or name in APIS or model in ALIASES:
            variables[f"AIDER_{KEY_VARIABLES[api]}"] = key
        else:
            variables[KEY_VARIABLES.get(name, KEY_VARIABLES[api])] = key
    return Route(model=model, flags=flags, env=variables, secrets=(key,) if key else ())


def _usual_api(model: str) -> str:
    """The wire protocol of a model's usual service."""
    bare = model.rpartition("/")[2]
    is_claude = model in ALIASES or model.startswith("anthropic/") or bare.startswith("claude")
    return "anthropic" if is_claude else "openai"


def _to_server(server: ModelServer, model: str | None) -> Route:
    """Send every model to the scripted one, whatever its name is."""
    url = server.url.rstrip("/")
    model = model or PRODUCT.scripted_model
    if model not in ALIASES and model.partition("/")[0] not in APIS:
        model = f"{_usual_api(model)}/{model}"
    return Route(
        model=model,
        flags=(
            *("--set-env", f"ANTHROPIC_API_BASE={url}"),
            *("--weak-model", model, "--editor-model", model),
        ),
        env={
            "AIDER_OPENAI_API_BASE": f"{url}/v1",
            "AIDER_OPENAI_API_KEY": server.api_key,
            "AIDER_ANTHROPIC_API_KEY": server.api_key,
            # Without it, the library behind Aider fetches its list of prices.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            **NO_PROXY,
        },
        secrets=(server.api_key,),
    )
