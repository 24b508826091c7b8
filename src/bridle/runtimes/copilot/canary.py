"""Shows, before a session is started, that Copilot runs the guard's hooks with these settings.

In its terminal interface the first hook comes with the first prompt, and a folder that is trusted
there may bring settings that switch hooks off. So Copilot is started once for a prompt that reaches
no model: in the same folder, trusted, with the user's settings in a home of its own, until its
first hook has asked.
"""

import os
import shutil
import subprocess
import time

from bridle.core.errors import GuardRefused
from bridle.core.files import new_private_dir
from bridle.process.process_tree import kill_marked
from bridle.process.spec import SESSION_MARK
from bridle.runtimes.copilot.environment import BASE_URL, TOKENS
from bridle.runtimes.copilot.transcript import HOME_VARIABLE, copilot_home
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import NOTES

_SECONDS = 30.0
_SETTINGS = ("settings.json", "config.json")
_NOWHERE = "http://127.0.0.1:9/v1"
PROOF = "its SessionStart hook, run on trial"


def prove(plan: RunPlan) -> str:
    """What showed that the hooks of `plan` will run; raises `GuardRefused` when nothing did."""
    argv = plan.spec.argv
    plugin = argv[argv.index("--plugin-dir") + 1]
    notes = os.path.join(os.path.dirname(plugin), NOTES)
    home = new_private_dir(plan.spec.env, "canary")
    mark = os.path.basename(home)
    try:
        _copy_settings(copilot_home(plan.spec.env), home)
        words = [*plan.installation.command, "--plugin-dir", plugin, "--trust-folder"]
        process = subprocess.Popen(
            [*words, "--no-auto-update", "-p", "canary"],
            cwd=plan.spec.cwd,
            env=_environment(plan, home, mark),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait(process, notes)
        finally:
            kill_marked(mark)
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    # What the trial told is no news of the session.
    os.truncate(notes, 0)
    return PROOF


def _wait(process: "subprocess.Popen[bytes]", notes: str) -> None:
    until = time.monotonic() + _SECONDS
    while os.path.getsize(notes) == 0:
        if process.poll() is not None or time.monotonic() > until:
            raise GuardRefused(
                "copilot does not run the guard's hooks here",
                hint="look for a setting that switches hooks off, or run with --unguarded",
                runtime="copilot",
            )
        time.sleep(0.02)


def _environment(plan: RunPlan, home: str, mark: str) -> dict[str, str]:
    """The session's, with no way to a model and no key for one."""
    kept = {
        name: value
        for name, value in plan.spec.env.items()
        if name not in TOKENS and not name.startswith("COPILOT_PROVIDER_")
    }
    return {
        **kept,
        SESSION_MARK: mark,
        HOME_VARIABLE: home,
        BASE_URL: _NOWHERE,
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "none",
        "COPILOT_OFFLINE": "true",
    }


def _copy_settings(source: str, home: str) -> None:
    for name in _SETTINGS:
        if os.path.isfile(os.path.join(source, name)):
            shutil.copyfile(os.path.join(source, name), os.path.join(home, name))
