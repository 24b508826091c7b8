"""Prepares a script for the agent process: chosen, checked and compiled to plain data.

The script's format, checks and steps are those of the scripted model (`bridle.testing`), so one
file plays on every runtime.
"""

import os
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import WrongUse

if TYPE_CHECKING:
    from bridle.testing.script import Conversation, Script, Turn
    from bridle.testing.steps import Step

_NO_USAGE = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "reasoning_tokens": 0,
}


def built_in() -> dict[str, Any]:
    """What the agent plays when it is given no script: that it is scripted, and nothing more. The
    agent itself fills in the length of the prompt."""
    text = (
        "I am Bridle's scripted agent: I play a script, there is no model behind me, and I was "
        "given no script. Your prompt has {characters} characters. Nothing was done."
    )
    reply = {
        "text": [text],
        "thinking": [],
        "calls": [],
        "usage": _NO_USAGE,
        "stop_reason": "end_turn",
        "model": None,
        "manner": None,
    }
    return {"digest": "built-in", "steps": [{"faults": [], "reply": reply}]}


def ended() -> dict[str, Any]:
    """The reply after the last one of a script: the same as the scripted model's."""
    from bridle.testing.script import ENDED_TEXT, Usage

    reply: dict[str, Any] = built_in()["steps"][0]["reply"]
    return {**reply, "text": [ENDED_TEXT], "usage": msgspec.to_builtins(Usage())}


def compiled(
    source: Any, *, prompt: str, system: str, model: str | None, conversation: str | None
) -> dict[str, Any]:
    """The steps of the conversation in `source` that fits; `WrongUse` says what is wrong.

    `source` is a path, the script's text, or the script as plain data.
    """
    script = _loaded(source)
    for each in _chosen(script, conversation):
        if _fits(each, prompt, system, model):
            return _compiled(each.turns)
    if conversation is None and script.turns:
        return _compiled(script.turns)
    names = ", ".join(each.name for each in script.conversations)
    raise WrongUse(
        "no conversation of the script fits the prompt",
        hint=f"choose one with provider option conversation: {names}",
    )


def candidates(source: Any, *, conversation: str | None) -> list[dict[str, Any]]:
    """The conversations in `source`, each with the conditions under which the agent plays it; for
    prompts that are not known yet. `WrongUse` says what is wrong with the script."""
    script = _loaded(source)
    found = [
        {**_compiled(each.turns), "match": msgspec.to_builtins(each.match)}
        for each in _chosen(script, conversation)
    ]
    if conversation is None and script.turns:
        found.append({**_compiled(script.turns), "match": None})
    return found


def _loaded(source: Any) -> "Script":
    from bridle.testing.script import ScriptError
    from bridle.testing.script_load import load_script

    if isinstance(source, str):
        source = os.path.expanduser(source)
    if not isinstance(source, str | list | dict):
        raise WrongUse("provider option script must be a file's path, or a list of turns")
    try:
        return load_script(source)
    except ScriptError as problem:
        lines = [str(each) for each in problem.problems]
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise WrongUse(
            f"wrong script: {lines[0]}{more}", hint="see docs/scripted-model.md for the format"
        ) from None


def _chosen(script: "Script", wanted: str | None) -> "list[Conversation]":
    """The conversation that is wanted by name, else those that may fit a prompt."""
    if wanted is None:
        # No request is sent, so a condition on its headers cannot hold.
        return [
            each
            for each in script.conversations
            if (match := each.match) is not None
            and not match.header
            and (match.prompt_contains or match.system_contains or match.model)
        ]
    names = [each.name for each in script.conversations]
    if wanted not in names:
        raise WrongUse(
            f"the script has no conversation {wanted!r}",
            hint=f"it has: {', '.join(names) or 'only its own turns'}",
        )
    chosen = script.conversations[names.index(wanted)]
    return [msgspec.structs.replace(chosen, match=None)]


def _fits(each: "Conversation", prompt: str, system: str, model: str | None) -> bool:
    match = each.match
    return match is None or (
        (match.prompt_contains or "") in prompt
        and (match.system_contains or "") in system
        and match.model in (None, model)
    )


def _compiled(turns: "tuple[Turn, ...]") -> dict[str, Any]:
    from bridle.testing.steps import compile_steps

    steps = compile_steps(turns)
    return {
        "digest": steps.digest,
        "steps": [_step(step, index, steps.digest) for index, step in enumerate(steps.steps)],
    }


def _step(step: "Step", index: int, digest: str) -> dict[str, Any]:
    return {
        "faults": [
            {"fault": msgspec.to_builtins(stage.fault), "times": stage.times}
            for stage in step.faults
        ],
        "reply": None if step.reply is None else _reply(step.reply, index, digest),
    }


def _reply(turn: "Turn", index: int, digest: str) -> dict[str, Any]:
    from bridle.testing.steps import split_text

    fault = turn.fault
    waits = {"delay": fault.delay, "until": fault.until, "slow": fault.slow} if fault else None
    return {
        "text": split_text(turn.text, turn.chunks, turn.chunk_size),
        "thinking": split_text(turn.thinking, turn.chunks, turn.chunk_size),
        "calls": [
            {
                "id": call.id or f"call_{digest}s{index}c{place}",
                "name": call.name,
                "args": call.args,
            }
            for place, call in enumerate(turn.tool_calls)
        ],
        "usage": msgspec.to_builtins(turn.usage),
        "stop_reason": turn.stop_reason,
        "model": turn.model,
        "manner": waits,
    }
