"""A guard for agents that are started by hand in a worktree, without Bridle around them.

The worktree gets hooks, nothing else: the hook's script and the policy live in Bridle's own state,
out of the agent's reach. The hook does nothing unless the environment names an agent, so a person's
own sessions in the same folder are left alone.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.options import CAPABILITY
from bridle.guard.hooks.hook_script import SECONDS, hook_command, hook_script
from bridle.guard.hooks.service import alone_command, alone_settings
from bridle.process.spec import ProcessSpec
from bridle.runtimes.contract import Adapter, Guarded, no_worktree_guard
from bridle.runtimes.guarded import AGENT_NAME, policy_of
from bridle.turns.guard_contract import HookShape

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.guard.policy import Policy

_OUTSIDE = "/bridle-guard-canary"
"""A path that no policy lets an agent write; nothing is ever written there."""


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """What `deploy` or `undo` left behind."""

    runtime: str
    worktree: str
    guarded: bool
    files: tuple[str, ...] = ()


class GuardState(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime's guard in a worktree."""

    runtime: str
    capability: str
    fires: bool
    detail: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Every guard that was deployed into a worktree."""

    worktree: str
    guards: list[GuardState]


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is noted down about a deployment."""

    runtime: str
    capability: str
    file: str


def deploy(
    runtime: Adapter,
    config: "Config",
    worktree: str,
    *,
    capability: str,
    agent: str | None = None,
    gates: tuple[str, ...] = (),
    boundary: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Deployed:
    """Guard whatever agent of `runtime` is started by hand in `worktree`. May be repeated.

    `gates` are the agent's own quality gates. `boundary` is the worktree that the agent may write
    in; `worktree` itself unless given.

    Raises `GuardRefused` where a worktree cannot bring a guard that holds, `ConfigError` for a
    wrong policy, `WrongUse` for what is not a folder, or settings that cannot be changed; nothing
    is left behind then.
    """
    environment = os.environ if env is None else env
    root = _root(worktree)
    told = {**environment, **({AGENT_NAME: agent} if agent else {})}
    inside = ProcessSpec(argv=(), env=told, cwd=_root(boundary or root))
    policy = policy_of(config, capability, inside, gates)
    adapter = _with_guard(runtime)
    shape = adapter.guard_shape()
    folder = deployed_folder(environment, root, runtime.id)
    fresh = not os.path.isdir(folder)
    make_private_dir(folder)
    try:
        return _put(adapter, root, folder, capability, policy, shape)
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _put(
    runtime: Guarded,
    root: str,
    folder: str,
    capability: str,
    policy: "Policy",
    shape: HookShape,
) -> Deployed:
    """Write the guard's own files into `folder`, and the hook into the worktree."""
    settings = write_private(folder, "alone.json", json.dumps(alone_settings(policy, shape)))
    script = hook_script(
        shape,
        # There is no judge to ask: these paths never exist.
        fifo=os.path.join(folder, "ask"),
        answers=os.path.join(folder, "answer"),
        pid=0,
        born="",
        alone=alone_command(settings),
        seconds=SECONDS,
    )
    path = write_private(folder, "hook.sh", script)
    file = runtime.deploy_guard(root, _command(path, shape), folder)
    record = _Record(runtime=runtime.id, capability=capability, file=file)
    write_private(folder, "record.json", msgspec.json.encode(record))
    return Deployed(runtime=runtime.id, worktree=root, guarded=True, files=(file, path))


def _command(path: str, shape: HookShape) -> str:
    """What the agent runs for its hook. Before anything else, also before the look whether the
    script is there: to a person's own session it says what it says to allow.

    It names no variable after a dollar sign: Gemini puts the values of variables into its settings
    by itself, and `$A$B` of which only B is set then names another variable. Where the test cannot
    be made the guard is in force.
    """
    consent = shlex.quote(shape.allowed().decode()) if shape.consent is not None else ""
    says = f"printf '%s\\n' {consent}; " if consent else ""
    named = f"""printf '[ -n "\\44%s\\44%s" ]' {CAPABILITY} {AGENT_NAME}"""
    nobody = f'eval "$({named})" || {{ {says}exit 0; }}'
    return f"{nobody}; {hook_command(path, shape)}"


def undo(runtime: Adapter, worktree: str, env: Mapping[str, str] | None = None) -> Deployed:
    """Take the guard out of a worktree; what else its settings hold stays. May be repeated."""
    root = _root(worktree)
    folder = deployed_folder(os.environ if env is None else env, root, runtime.id)
    adapter = _with_guard(runtime)
    adapter.guard_shape()
    file = adapter.deploy_guard(root, None, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return Deployed(runtime=runtime.id, worktree=root, guarded=False, files=(file,))


def _with_guard(runtime: Adapter) -> Guarded:
    if not isinstance(runtime, Guarded):
        raise no_worktree_guard(runtime)
    return runtime


def is_there(runtime: Adapter, worktree: str) -> bool:
    """Whether a guard of `runtime` was deployed into `worktree`."""
    return os.path.isdir(deployed_folder(os.environ, os.path.realpath(worktree), runtime.id))


def status(worktree: str, env: Mapping[str, str] | None = None) -> Status:
    """Whether each guard that was deployed into `worktree` really holds: it is run."""
    environment = os.environ if env is None else env
    root = _root(worktree)
    guards = []
    base = os.path.join(state_dir(environment), "guard")
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        folder = os.path.join(base, name)
        if name.startswith(_key(root)):
            guards.append(_state(folder, root))
    return Status(worktree=root, guards=guards)


def _state(folder: str, root: str) -> GuardState:
    try:
        with open(os.path.join(folder, "record.json"), "rb") as file:
            record = msgspec.json.decode(file.read(), type=_Record)
        detail = _complaint(folder, root, record.file)
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as problem:
        name = os.path.basename(folder).partition("-")[2]
        return GuardState(runtime=name, capability="", fires=False, detail=str(problem))
    return GuardState(
        runtime=record.runtime, capability=record.capability, fires=not detail, detail=detail
    )


def _complaint(folder: str, root: str, file: str) -> str:
    """What is wrong with a deployed guard; empty when it holds."""
    with open(file, encoding="utf-8") as opened:
        if json.dumps(folder)[1:-1] not in opened.read():
            return f"{file} no longer names it"
    with open(os.path.join(folder, "alone.json"), encoding="utf-8") as opened:
        shape = json.load(opened)["shape"]
    if not _asked(folder, shape, root, _OUTSIDE, agent="canary"):
        return "it lets a write outside pass"
    if _asked(folder, shape, root, _OUTSIDE, agent=""):
        return "it also holds sessions that belong to no agent"
    return ""


def _asked(folder: str, shape: Mapping[str, Any], root: str, path: str, *, agent: str) -> bool:
    """Whether the hook says anything against a write to `path`, which nobody makes."""
    payload = {
        shape["event"]: shape["asks"][0],
        shape["tool"]: "Write",
        shape["input"]: {"file_path": path, "content": ""},
        shape["cwd"]: root,
    }
    command = _command(os.path.join(folder, "hook.sh"), msgspec.convert(shape, HookShape))
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(payload).encode(),
        env={"PATH": os.environ.get("PATH", os.defpath), AGENT_NAME: agent},
        cwd=root,
        capture_output=True,
        timeout=2 * SECONDS,
        check=False,
    )
    consent = msgspec.convert(shape, HookShape).allowed()
    return done.stdout.strip() not in (b"", consent) or done.returncode != 0


def _root(worktree: str) -> str:
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    return root


def _key(root: str) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


def deployed_folder(env: Mapping[str, str], root: str, runtime: str) -> str:
    """Where the guard that was deployed into the worktree `root` has its own files."""
    return os.path.join(state_dir(env), "guard", f"{_key(root)}-{runtime}")


def is_deployed(path: str, root: str, runtime: str, beside: str) -> bool:
    """Whether the file at `path` is the plugin that `deploy` put into the worktree `root`, and
    nobody has changed it since. `beside` is any guard's folder of a run: the deployed ones are in
    the same state folder, whatever the agent's environment says."""
    from bridle.runtimes.deployed_files import is_copy

    state = os.path.dirname(os.path.dirname(beside))
    return is_copy(path, os.path.join(state, "guard", f"{_key(root)}-{runtime}"))
