"""What the plans of all adapters share: checks of options, the environment, the folder."""

import os
from collections.abc import Mapping

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.options import RunOptions, SpawnOptions, options_in_use
from bridle.process.spec import SESSION_MARK
from bridle.runtimes.contract import Adapter
from bridle.runtimes.supporting import supporters

COMMON_OPTIONS = frozenset(
    {
        "append_system_prompt",
        "append_system_prompt_file",
        "model",
        "provider",
        "provider_options",
        "account_dir",
        "model_server",
    }
)
"""Options that every adapter to a coding agent supports."""


def check_options(runtime: Adapter, options: RunOptions, features: Features) -> tuple[str, ...]:
    """Names of the options that `runtime` does not support and the caller allows to be ignored.

    Raises `UnsupportedOption` for the first one if the caller does not, and `WrongUse` for a tool
    that the agent does not have.
    """
    missing = {name: "" for name in options_in_use(options) if name not in features.options}
    if options.allowed_tools or options.denied_tools:
        from bridle.runtimes.tool_names import unsupported_tools

        missing = {**missing, **unsupported_tools(runtime, options, features)}
    if missing and not options.ignore_unsupported:
        name, reason = next(iter(missing.items()))
        able = supporters(name, runtime.id)
        raise UnsupportedOption(runtime.id, name, able, reason=reason, ignorable=True)
    return tuple(missing)


def check_terminal_options(
    runtime: Adapter, options: RunOptions, names: tuple[str, ...]
) -> tuple[str, ...]:
    """As `check_options`, for the options `names` that a runtime supports only in runs."""
    default = RunOptions(prompt="")
    missing = tuple(each for each in names if getattr(options, each) != getattr(default, each))
    if missing and not options.ignore_unsupported:
        raise UnsupportedOption(
            runtime.id, missing[0], [], reason="not in a terminal session", ignorable=True
        )
    return missing


def native_options(runtime: Adapter, options: RunOptions) -> RunOptions:
    """`options` with the agent's native tool names; `check_options` comes first."""
    if not (options.allowed_tools or options.denied_tools):
        return options
    from bridle.runtimes.tool_names import native_tools

    return native_tools(runtime, options)


def agent_env(
    env: Mapping[str, str], options: RunOptions, session_id: str, cwd: str
) -> dict[str, str]:
    """The agent's environment: the caller's, the canonical variables, those of the options.

    Every process of the agent inherits the session's mark; by it all are found and ended.
    """
    return {
        **env,
        SESSION_MARK: session_id,
        "BRIDLE_WORKTREE_PATH": cwd,
        **options.env,
    }


def refuse_system_prompts(runtime: Adapter, options: RunOptions | SpawnOptions) -> None:
    """Raise `WrongUse` for a system prompt: this terminal interface has no flag for one."""
    if options.system_prompt or options.append_system_prompt or options.append_system_prompt_file:
        raise WrongUse(
            f"{runtime.id} takes no system prompt at the terminal",
            hint=f"deploy it as {runtime.instruction_path}",
        )


def working_dir(options: RunOptions) -> str:
    """The run's working directory, absolute; `WrongUse` if it does not exist."""
    cwd = os.path.abspath(options.cwd or os.getcwd())
    if not os.path.isdir(cwd):
        raise WrongUse(f"no such directory: {cwd}", hint="give an existing folder with --cwd")
    return cwd
