"""One question, one plain answer: the CLI's own one-shot call, without events or a session.

For work that needs a text and nothing else (a conflict to resolve, a failure to sort). Everything
that watches, limits or guards an agent belongs to runs; see `bridle.run`.
"""

import os
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.errors import Crashed, TimedOut
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions
from bridle.core.redaction import Redactor, secrets_in
from bridle.process.process_tree import kill_marked
from bridle.runtimes.planner import agent_env, working_dir
from bridle.runtimes.routing import NO_PROXY

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.runtimes.contract import Adapter, HasAdapter

_KEY = "BRIDLE_ONE_SHOT_KEY"
"""The variable that passes a scripted model's key to the adapter."""
_LAST_WORDS = 500
"""Characters of standard error that an error repeats."""


def print_once(
    prompt: str,
    model: str | None = None,
    *,
    runtime: "str | Adapter | HasAdapter | None" = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300.0,
    model_server: ModelServer | None = None,
) -> str:
    """The answer of a one-shot call, as plain text without surrounding white space. Blocks.

    The runtime is the named one, else the configuration's `runtime.printCommand`, else its default.
    The model goes through the configuration's aliases and providers, and a provider is isolated as
    in a run. `env` is the environment that the agent is started in (the caller's own when None).
    With a scripted model the agent has a throw-away home, and of `env` only PATH and the language.

    Raises `NotInstalled`, `WrongUse` for a runtime that has no such call, `TimedOut`, and `Crashed`
    for a call that failed or answered nothing.
    """
    from bridle.config import load_config
    from bridle.core.files import new_private_dir
    from bridle.runtimes.contract import adapter_of
    from bridle.runtimes.registry import get_adapter

    given = dict(os.environ if env is None else env)
    folder = working_dir(RunOptions(prompt=prompt, cwd=cwd))
    config = load_config(folder, given)
    if runtime is None or isinstance(runtime, str):
        runtime = get_adapter(runtime or config.print_runtime(), config)
    runtime = adapter_of(runtime)
    runtime.installation()
    server = model_server or config.model_server
    home = None
    if server is None:
        wanted = model or config.default_model(runtime.id)
        resolved, given = _routed(runtime, config, wanted, given) if wanted else (None, given)
    else:
        home = new_private_dir(given, runtime.id)
        given = {**_bare(given), "HOME": home, "TMPDIR": given.get("TMPDIR", "/tmp")}
        resolved = _scripted(runtime, server, model, home)
    leading = runtime.build_env(resolved) if resolved is not None else {}
    session_id = new_session_id()
    child = agent_env({**given, **leading}, RunOptions(prompt=prompt), session_id, folder)
    argv = runtime.build_print_command(prompt, resolved.model if resolved else None, leading)
    try:
        return _answer(runtime.id, argv, child, folder, timeout)
    finally:
        kill_marked(session_id)
        if home is not None:
            import shutil

            shutil.rmtree(home, ignore_errors=True)


def _routed(
    runtime: "Adapter", config: "Config", wanted: str, env: dict[str, str]
) -> tuple[ResolvedModel, dict[str, str]]:
    """The model that `wanted` means to `runtime`, and `env` without what must not reach its
    service, as for a run."""
    from bridle.runtimes.routing import routed

    meant = config.resolve_model(wanted, runtime.id)
    options = RunOptions(prompt="", model=meant.model, provider=meant.provider, env=meant.env)
    options, env, _ = routed(runtime, options, env)
    key = options.provider.auth_token_env if options.provider is not None else None
    # `build_env` looks for the key in our own environment, which need not be the agent's.
    around = {key: env[key], **options.env} if key is not None and key in env else options.env
    model = options.model or meant.model
    return ResolvedModel(model=model, env=around, provider=options.provider), env


def _answer(runtime: str, argv: list[str], env: Mapping[str, str], cwd: str, timeout: float) -> str:
    """What the process prints; it and its group are gone afterwards."""
    from bridle.process.process_tree import send_group_signal

    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{runtime}: no answer after {timeout:g} s", runtime=runtime) from None
        finally:
            if process.poll() is None:
                send_group_signal(process.pid, 9)
    text = out.decode(errors="replace").strip()
    if process.returncode == 0 and text:
        return text
    said = Redactor(secrets_in(env)).text(err.decode(errors="replace").strip() or text)
    what = "answered nothing" if process.returncode == 0 else f"exited {process.returncode}"
    raise Crashed(f"{runtime} {what}: {said[-_LAST_WORDS:]}".rstrip(": "), runtime=runtime)


def _bare(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of `env` that reveal nothing about the user."""
    names = ("PATH", "LANG", "LC_ALL", "TERM", "BRIDLE_SCRIPT")
    return {name: env[name] for name in names if name in env}


def _scripted(
    runtime: "Adapter", server: ModelServer, model: str | None, home: str
) -> ResolvedModel:
    """A scripted model as a provider for this runtime. Adapters that make files for a provider make
    them below the throw-away home."""
    places = {"HOME": home, "XDG_STATE_HOME": os.path.join(home, "state"), _KEY: server.api_key}
    provider = Provider(
        base_url=f"{server.url.rstrip('/')}{runtime.provider_path}", auth_token_env=_KEY
    )
    env = {**places, **NO_PROXY}
    return ResolvedModel(model=model or runtime.scripted_model, env=env, provider=provider)
