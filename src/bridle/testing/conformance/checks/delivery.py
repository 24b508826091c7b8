"""Checks that the caller's input really reaches the model."""

import json

from bridle.core.errors import WrongUse
from bridle.testing.conformance.checks.registry import Check, Seen, refuse_too_large
from bridle.testing.conformance.lab import Outcome
from bridle.testing.conformance.report import Unsupported, need, shown
from bridle.testing.conformance.scenarios import (
    APPENDED,
    DEPLOYED,
    ODD_PROMPT,
    PRINT_PROMPT,
    PRINTED,
    PROJECTS_OWN,
    REPLACED,
    long_prompt,
)


def asked(outcome: Outcome) -> str:
    """Everything sent to the model, as one text."""
    return "\n".join(json.dumps(each.body, ensure_ascii=False) for each in outcome.requests)


def _delivered(outcome: Outcome, prompt: str) -> None:
    outcome.completed()
    texts = [
        text for each in outcome.requests if each.question for text in each.question.user_texts
    ]
    need(bool(texts), "the model was not asked")
    if not any(prompt in text for text in texts):
        longest = max(texts, key=len)
        raise_at = _differs(longest, prompt)
        need(False, f"{len(longest)} of {len(prompt)} characters arrived; {raise_at}")


def _differs(came: str, prompt: str) -> str:
    """Where a delivered prompt first differs from the one given."""
    start = max(came.find(prompt[:20]), 0)
    came = came[start:]
    for at, (one, other) in enumerate(zip(came, prompt, strict=False)):
        if one != other:
            return f"first difference at {at}: {one!r} for {other!r}"
    return f"it ends after {min(len(came), len(prompt))}"


def _odd(seen: Seen) -> str:
    _delivered(seen.one("odd_prompt"), ODD_PROMPT)
    return f"{len(ODD_PROMPT)} characters"


def _long(seen: Seen) -> str:
    prompt = long_prompt()
    refuse_too_large(seen, seen.one("big_prompt"), len(prompt))
    _delivered(seen.one("big_prompt"), prompt)
    return f"{len(prompt)} characters"


def _appended(seen: Seen) -> str:
    return _system(seen, "append_system_prompt", APPENDED)


def _replaced(seen: Seen) -> str:
    return _system(seen, "system_prompt", REPLACED)


def _system(seen: Seen, option: str, text: str) -> str:
    if option not in seen.lab.features.options:
        raise Unsupported(f"the agent takes no {option}")
    outcome = seen.one("system_prompts")
    outcome.completed()
    need(text in asked(outcome), "the model was not sent it")
    return ""


def _instructions(seen: Seen) -> str:
    outcome = seen.one("deployed")
    outcome.completed()
    sent = asked(outcome)
    where = shown(seen.lab.runtime.instruction_path)
    need(DEPLOYED in sent, f"the model was not sent what was deployed for {where}")
    need(PROJECTS_OWN in sent, "the project's own instructions are no longer in force")
    times = max(
        json.dumps(each.body, ensure_ascii=False).count(DEPLOYED) for each in outcome.requests
    )
    need(times == 1, f"deployed twice, it was sent {times} times")
    return where


def _print_command(seen: Seen) -> str:
    outcome = seen.one("printed")
    refusal = outcome.refusal
    if isinstance(refusal, WrongUse):
        raise Unsupported(shown(refusal))
    need(refusal is None, f"the one-shot call failed: {shown(refusal)}")
    said = b"\n".join(outcome.lines).decode()
    need(said == PRINTED, f"stdout is not the bare answer: {shown(repr(said))}")
    texts = [
        text for each in outcome.requests if each.question for text in each.question.user_texts
    ]
    need(
        any(text.strip().endswith(PRINT_PROMPT) for text in texts),
        f"the model did not get the prompt unchanged: {shown(repr(texts[-1:]))}",
    )
    return ""


CHECKS = (
    Check("odd_prompt", "odd characters in a prompt arrive unchanged", ("odd_prompt",), _odd),
    Check("long_prompt", "a prompt of 1 MB arrives unchanged", ("big_prompt",), _long),
    Check(
        "append_system_prompt",
        "an appended system prompt reaches the model",
        ("system_prompts",),
        _appended,
    ),
    Check(
        "system_prompt",
        "a replaced system prompt reaches the model",
        ("system_prompts",),
        _replaced,
    ),
    Check(
        "instruction_file",
        "deployed instructions reach the model with the project's own, and can be withdrawn",
        ("deployed",),
        _instructions,
    ),
    Check(
        "print_command",
        "a one-shot call prints the bare answer on stdout",
        ("printed",),
        _print_command,
    ),
)
