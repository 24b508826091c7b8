"""Checks of what a run must not do: ignore options, touch the user's files, reveal secrets."""

import base64
import os
from typing import Any

from bridle.core.errors import BridleError, UnsupportedOption, WrongUse
from bridle.core.events import encode_event
from bridle.core.ids import new_session_id
from bridle.core.options import ALWAYS_SUPPORTED, ModelServer, Provider, RunOptions
from bridle.process.private_folders import remove_folders
from bridle.testing.conformance.checks.registry import Check, Seen
from bridle.testing.conformance.lab import Place
from bridle.testing.conformance.report import Failed, Unsupported, need, shown

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_CACHES = (".cache/", ".local/state/", ".local/share/bridle/", ".npm/", "Library/Caches/")
"""Folders in which an agent may leave files: they are not configuration."""


def _samples(place: Place) -> dict[str, Any]:
    """A plain value for each option."""
    text, image = os.path.join(place.home, "some.txt"), os.path.join(place.home, "pixel.png")
    with open(text, "w", encoding="utf-8") as file:
        file.write("some words\n")
    with open(image, "wb") as picture:
        picture.write(_PIXEL)
    return {
        "system_prompt": "words",
        "append_system_prompt": "words",
        "append_system_prompt_file": text,
        "model": "some-model",
        "provider": Provider(base_url="http://127.0.0.1:9"),
        "max_turns": 3,
        "allowed_tools": ("some_tool",),
        "denied_tools": ("some_tool",),
        "settings": "{}",
        "mcp_config": '{"mcpServers": {}}',
        "sandbox": "worktree",
        "images": (image,),
        "provider_options": {"some_option": 1},
        "budget_usd": 1.0,
        "resume": "some-conversation",
        "account_dir": place.account,
        "model_server": ModelServer(url="http://127.0.0.1:9", api_key="conformance-none"),
    }


def _options(seen: Seen) -> str:
    lab, place = seen.lab, seen.lab.place("options")
    samples = _samples(place)
    known = [name for name in RunOptions.__struct_fields__ if name not in ALWAYS_SUPPORTED]
    unheard = lab.features.options - set(known)
    need(not unheard, f"features name options that do not exist: {sorted(unheard)}")
    refused = [name for name in known if name not in lab.features.options]
    for name in refused:
        wanted = RunOptions(prompt="x", cwd=place.work, **{name: samples[name]})
        problem = _plan_problem(seen, place, wanted)
        need(
            isinstance(problem, UnsupportedOption) and problem.option == name,
            f"{name} gave {type(problem).__name__ if problem else 'no refusal'}",
        )
    return f"{len(refused)} refused: {', '.join(refused) or 'none'}"


def _unknown_provider_option(seen: Seen) -> str:
    lab, place = seen.lab, seen.lab.place("provider-option")
    if "provider_options" not in lab.features.options:
        raise Unsupported("the runtime has no options of its own")
    wanted = RunOptions(
        prompt="x",
        cwd=place.work,
        provider_options={"no_such_option_at_all": 1},
        model_server=ModelServer(url="http://127.0.0.1:9", api_key="conformance-none"),
        permission_mode="bypass",
    )
    problem = _plan_problem(seen, place, wanted)
    need(isinstance(problem, WrongUse), f"gave {shown(problem) if problem else 'no refusal'}")
    need("no_such_option_at_all" in str(problem), f"is not named: {shown(problem)}")
    return ""


def _plan_problem(seen: Seen, place: Place, options: RunOptions) -> BridleError | None:
    """Why a run is refused; None when it would start."""
    env = seen.lab.environment(place)
    try:
        plan = seen.lab.runtime.plan_run(options, env, new_session_id())
    except BridleError as problem:
        return problem
    remove_folders(plan.private_dirs)
    return None


def _home(seen: Seen) -> str:
    outcome = seen.one("tools")
    need(outcome.refusal is None, f"refused to start: {shown(outcome.refusal)}")
    before, after = outcome.home_before, outcome.home_after
    changed = [name for name in before if after.get(name) != before[name]]
    need(not changed, f"changed: {', '.join(changed[:5])}")
    new = [name for name in after if name not in before and not name.startswith(_CACHES)]
    need(not new, f"{len(new)} new files, such as {', '.join(sorted(new)[:3])}")
    return f"{len(before)} files unchanged"


def _private(seen: Seen) -> str:
    outcome = seen.one("tools")
    need(outcome.refusal is None, f"refused to start: {shown(outcome.refusal)}")
    left = [name for name in outcome.home_after if "/bridle/run/" in f"/{name}"]
    need(not left, f"{len(left)} files of the run are left, such as {', '.join(left[:2])}")
    return ""


def _secrets(seen: Seen) -> str:
    lab = seen.lab
    for name in ("tools", "error_401"):
        outcome = seen.one(name)
        need(outcome.plan is not None, f"refused to start: {shown(outcome.refusal)}")
        assert outcome.plan is not None
        for what, secret in (("the model's key", lab.key), ("a key variable", lab.planted)):
            if any(secret in word for word in outcome.plan.spec.argv):
                raise Failed(f"{what} is in the command line ({name})")
            if any(secret.encode() in encode_event(event) for event in outcome.events):
                raise Failed(f"{what} is in an event ({name})")
            if secret in str(outcome.result):
                raise Failed(f"{what} is in the result ({name})")
    return ""


CHECKS = (
    Check("options_refused", "options it cannot honour are refused before the start", (), _options),
    Check(
        "provider_option_refused",
        "an unknown runtime option is refused",
        (),
        _unknown_provider_option,
    ),
    Check("home_untouched", "the user's own files stay unchanged", ("tools",), _home),
    Check("folders_removed", "private folders of a run are removed", ("tools",), _private),
    Check("secrets", "no key in events or command lines", ("tools", "error_401"), _secrets),
)
