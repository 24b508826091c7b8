"""The calls of the scripted agent: the request that it reads, its environment and its files.

A request is a JSON object: on stdin for a run, by the wire for a conversation, in a private file
for a person at a terminal.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.config.environment import MODEL_SERVER, MODEL_SERVER_KEY
from bridle.core.errors import WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.runtimes.options import added_instructions, provider_key, readable_file
from bridle.runtimes.planner import Command, Environment, Launch
from bridle.runtimes.scripted.product import BEHAVIOURS, PRODUCT, TOOLS, ScriptedOptions
from bridle.runtimes.scripted.transcript import state_dir
from bridle.runtimes.scripted.wire import image_part

SCRIPT_VARIABLE = "BRIDLE_SCRIPT"
KEY_VARIABLE = "BRIDLE_SCRIPTED_API_KEY"
"""Holds the key of the model server of a conversation; the agent passes it to no tool."""

_BY_BRIDLE = (sys.executable, "-m", "bridle.runtimes.scripted")
"""Starts the agent for another program (`__main__`): it makes the request."""


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of the agent in `launch.mode`, for a process that gets `env`."""
    options, mode = launch.options, launch.mode
    if mode == "print":
        named = ("--model", options.model) if options.model else ()
        return Command(program=_BY_BRIDLE, words=("print", *named, f"--prompt={options.prompt}"))
    if mode == "spawn":
        return Command(program=_BY_BRIDLE, words=("chat", *_spawn_words(options)))
    native = options.resume or f"scripted-{os.urandom(8).hex()}"
    request = _request(launch, env, native)
    words = options.raw_args
    if mode == "interactive":
        path = launch.write("request.json", msgspec.json.encode(request))
        words = (*words, "--face", "chat", "--request", path)
        return Command(words=words, native_session_id=native)
    if mode == "live":
        return Command(
            words=(*words, "--face", "live"),
            keep_stdin=True,
            native_session_id=native,
            wire={"request": request},
        )
    return Command(
        words=words,
        stdin=msgspec.json.encode(request) + b"\n",
        keep_stdin=options.permission_mode == "ask",
        native_session_id=native,
    )


def _spawn_words(options: RunOptions) -> list[str]:
    words = ["--model", options.model or "", "--permission", options.permission_mode]
    for flag, value in (
        ("--system-prompt", options.system_prompt),
        ("--append-system-prompt", options.append_system_prompt),
        ("--append-system-prompt-file", options.append_system_prompt_file),
        ("--prompt", options.prompt or None),
    ):
        words += [f"{flag}={value}"] if value is not None else []
    return words


def _request(launch: Launch, env: Mapping[str, str], native: str) -> dict[str, Any]:
    """What the agent is asked to do, as it reads it."""
    options, own = launch.options, launch.own
    texts = (options.system_prompt, added_instructions(options))
    system = "\n\n".join(text for text in texts if text)
    request: dict[str, Any] = {
        "version": __version__,
        "native_id": native,
        "resume": options.resume is not None,
        "prompt": options.prompt,
        # What was not text on the command line is replaced.
        "system": system.encode("utf-8", "replace").decode(),
        "model": options.model,
        "images": [_image(path) for path in options.images],
        "permission": options.permission_mode,
        "tools": _permitted(options),
        "max_turns": options.max_turns,
        "cost_per_turn": own.cost_per_turn,
        "max_retries": own.max_retries,
        "behave": behaviours(own),
        "state_dir": _state_dir(launch, env),
    }
    server = options.model_server
    if server is not None:
        # In a conversation the key is a variable: the request is written to disk.
        key = {} if launch.mode == "live" else {"api_key": server.api_key}
        return {**request, "server": {"url": server.url, **key}}
    return {**request, **_scripts(launch, env, system)}


def _scripts(launch: Launch, env: Mapping[str, str], system: str) -> dict[str, Any]:
    """The scripts of a request: the one that fits the prompt, all for a conversation."""
    from bridle.runtimes.scripted import script

    options, own = launch.options, launch.own
    source = own.script if own.script is not None else env.get(SCRIPT_VARIABLE) or None
    if source is None:
        scripts = []
    elif launch.mode == "live":
        scripts = script.candidates(source, conversation=own.conversation)
    else:
        one = script.compiled(
            source,
            prompt=options.prompt,
            system=system,
            model=options.model,
            conversation=own.conversation,
        )
        scripts = [one]
    return {"built_in": script.built_in(), "ended": script.ended(), "scripts": scripts}


def _image(path: str) -> dict[str, str]:
    readable_file(path, "image")
    return image_part(os.path.abspath(os.path.expanduser(path)))


def _permitted(options: RunOptions) -> list[str]:
    own = TOOLS.names()
    allowed = options.allowed_tools or own
    return [name for name in own if name in allowed and name not in options.denied_tools]


def _state_dir(launch: Launch, env: Mapping[str, str]) -> str:
    """The folder of its transcripts: the caller's choice, a throw-away one for a scripted model,
    else the user's."""
    options = launch.options
    if options.account_dir is not None:
        return os.path.abspath(os.path.expanduser(options.account_dir))
    return launch.folder() if options.model_server is not None else state_dir(env)


def check(options: RunOptions, own: ScriptedOptions) -> None:
    """Raise `WrongUse` for a behaviour that the agent does not have, and for a budget without a
    price."""
    behaviours(own)
    if options.budget_usd is not None and own.cost_per_turn is None:
        raise WrongUse(
            "scripted has no price, so a budget cannot be kept",
            hint="give the provider option cost_per_turn, or drop the budget",
        )


def behaviours(own: ScriptedOptions) -> list[str]:
    """The behaviours that `own` names; `WrongUse` for a wrong one."""
    chosen = [each.strip() for each in own.behave]
    for each in chosen:
        name, colon, number = each.partition(":")
        if name not in BEHAVIOURS:
            raise WrongUse(
                f"the scripted agent has no behaviour {name!r}",
                hint=f"it has: {', '.join(BEHAVIOURS)}",
            )
        if colon and not (BEHAVIOURS[name] and number.isdigit()):
            raise WrongUse(f"wrong number in behaviour {each!r}")
        if name == "exit" and not colon:
            raise WrongUse("behaviour exit needs a number, as in exit:3")
    return chosen


def environment(launch: Launch) -> Environment:
    """The caller's variables, and the key of a conversation's model server."""
    server = launch.options.model_server
    if server is None:
        return Environment(dict(launch.env))
    key = {KEY_VARIABLE: server.api_key} if launch.mode == "live" else {}
    return Environment(dict(launch.env), (server.api_key,), key)


def provider_env(provider: Provider, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that name a scripted model, which `provider` must be: the agent calls no other
    service."""
    if provider.base_url is None:
        return {}
    key = provider_key(provider, env, PRODUCT.id)
    return {MODEL_SERVER: provider.base_url, MODEL_SERVER_KEY: key or ""}
