"""The call of a declared program: its flags, and the prompt as an argument or on stdin."""

from typing import TYPE_CHECKING

from bridle.core.errors import WrongUse
from bridle.runtimes.planner import Command, Launch

if TYPE_CHECKING:
    from bridle.config.schema import AdapterSection

_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes; Linux refuses to start a program with a longer argument."""


def build(launch: Launch, section: "AdapterSection") -> Command:
    """The call in `launch.mode` of the program that `section` declares."""
    options, mode = launch.options, launch.mode
    words = [*section.flags]
    if options.permission_mode == "bypass" and mode != "print":
        words += section.bypass_flags
    if section.model_flag is not None and options.model is not None:
        words += [section.model_flag, options.model]
    words += options.raw_args
    if mode == "spawn":
        return Command(words=(*words, *([options.prompt] if options.prompt else [])))
    if section.prompt != "stdin":
        return Command(words=(*words, _as_argument(options.prompt, launch.runtime)))
    if mode == "print":
        raise WrongUse(
            f"runtime {launch.runtime} takes its prompt on stdin", hint="run it with `bridle run`"
        )
    return Command(words=tuple(words), stdin=options.prompt.encode())


def _as_argument(prompt: str, runtime: str) -> str:
    """The prompt; `WrongUse` when it cannot be an argument."""
    if len(prompt.encode()) > _LONGEST_ARGUMENT:
        why = "the prompt is longer than an argument may be (128 KiB)"
    elif prompt.startswith("-"):
        why = "a prompt that begins with `-` would be taken for a flag"
    elif "\0" in prompt:
        why = "a prompt with a null character cannot be an argument"
    else:
        return prompt
    raise WrongUse(
        f"runtime {runtime}: {why}",
        hint=f"set runtime.adapters.{runtime}.prompt to stdin, if the program can read it",
    )
