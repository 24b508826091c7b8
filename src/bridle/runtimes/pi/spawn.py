"""Pi started by others: at the terminal of a person, as a shell command, as a one-shot call."""

import os
import shlex
from collections.abc import Mapping

import msgspec

from bridle.core.ids import new_session_id
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.runtimes.contract import Adapter
from bridle.runtimes.pi import home
from bridle.runtimes.pi.ask import lasting_extension
from bridle.runtimes.pi.choices import expand_model, prompt_words
from bridle.runtimes.pi.dialects import installed_dialect, pi_dialect
from bridle.runtimes.pi.planning import JSON_MODE
from bridle.runtimes.plan import RunPlan


def interactive(runtime: Adapter, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
    """Pi's own terminal interface with the same choices; the prompt is its first message."""
    plan = runtime.plan_run(options, env, new_session_id())
    dialect, _, _ = pi_dialect(plan.installation.version)
    words = list(plan.installation.command)
    # The rest without `--mode json`, which stands first.
    words += plan.spec.argv[len(words) + len(JSON_MODE) :]
    if options.prompt:
        words += prompt_words(options.prompt, dialect)
    spec = msgspec.structs.replace(plan.spec, argv=tuple(words), stdin=None)
    return msgspec.structs.replace(plan, spec=spec)


def spawn_command(runtime: Adapter, options: SpawnOptions) -> str:
    """The shell command of Pi's terminal interface.

    Where Pi would ask whether it may trust the project, it is told not to: a stray Enter in
    that dialog would trust it for good. With permission `ask` it loads the extension that asks
    before each tool that does more than read.
    """
    dialect = installed_dialect(runtime)
    words = [runtime.settings.binary or runtime.binary]
    words += ["--model", expand_model(options.model, runtime.settings.options)]
    if dialect.trust_flags:
        words.append("--no-approve")
    if options.permission_mode == "ask":
        words += ["-e", lasting_extension({**os.environ, **options.env})]
    if options.system_prompt is not None:
        words += ["--system-prompt", options.system_prompt]
    for text in (options.append_system_prompt, options.append_system_prompt_file):
        if text is not None:
            words += ["--append-system-prompt", text]
    if options.initial_prompt is not None:
        words += prompt_words(options.initial_prompt, dialect)
    return " ".join(shlex.quote(word) for word in words)


def print_command(runtime: Adapter, prompt: str, model: str | None) -> list[str]:
    """The argv of a one-shot call whose answer is plain text; the prompt is the last word."""
    words = [*runtime.command_words(), "--print"]
    if model is not None:
        words += ["--model", expand_model(model, runtime.settings.options)]
    return [*words, *prompt_words(prompt, installed_dialect(runtime))]


def provider_env(runtime: Adapter, model: ResolvedModel) -> dict[str, str]:
    """Variables that route Pi to the model's provider.

    Pi takes addresses from a file only, so an address of the provider's own makes a
    configuration folder (links to the user's, and a models.json that holds no key).
    """
    if model.provider is None:
        return dict(model.env)
    env = {**os.environ, **model.env}
    name = expand_model(model.model, runtime.settings.options)
    changes = home.provider_changes(model.provider, name, None, env, installed_dialect(runtime))
    variables = {**model.env, **dict.fromkeys(changes.drop_env, ""), **changes.env}
    if changes.needs_folder:
        variables[home.DIR_VARIABLE] = home.lasting_home(env, changes)
    return variables
