"""A guard for agents that a person starts by hand in a worktree, without Bridle around them.

The worktree gets hooks and nothing else; the hook's script and the policy are in Bridle's own state
folder, which the agent cannot write. The hook does nothing unless the environment names an agent,
so a person's own sessions in the same folder are not guarded.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from bridle.core import structs
from bridle.core.errors import WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.options import CAPABILITY
from bridle.guard.agent_policy import AGENT_NAME, policy_of
from bridle.guard.hooks.guard_folder import GuardFolder, ask_hook
from bridle.guard.hooks.hook_script import SECONDS
from bridle.process.spec import ProcessSpec
from bridle.turns.guard_contract import HookShape

if TYPE_CHECKING:
    from bridle.config import Config


class Deployable(Protocol):
    """What a deployment needs of an adapter; see `bridle.runtimes.contract.Adapter`."""

    @property
    def id(self) -> str:
        """The runtime's name."""

    def guard_shape(self) -> HookShape:
        """How its hooks ask. Raises `GuardRefused` if a worktree cannot contain a guard."""

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """Write the hook that runs `command` into the worktree, or remove it (None); returns the
        path of its file. Its content holds `mark`."""


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """What `deploy` or `undo` did."""

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
    """What is recorded about a deployment."""

    runtime: str
    capability: str
    file: str


def deploy(
    runtime: Deployable,
    config: "Config",
    worktree: str,
    *,
    capability: str,
    agent: str | None = None,
    gates: tuple[str, ...] = (),
    boundary: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Deployed:
    """Guard every agent of `runtime` that is started by hand in `worktree`. May be repeated.

    `gates` are the agent's own quality gates. `boundary` is the worktree that the agent may write
    in; by default `worktree` itself.

    Raises `GuardRefused` if a worktree cannot contain a guard that holds, `ConfigError` for a wrong
    policy, `WrongUse` for a path that is not a directory or settings that cannot be changed;
    nothing is left behind then.
    """
    environment = os.environ if env is None else env
    root = _root(worktree)
    named = {**environment, **({AGENT_NAME: agent} if agent else {})}
    inside = ProcessSpec(argv=(), env=named, cwd=_root(boundary or root))
    policy = policy_of(config, capability, inside, gates)
    shape = runtime.guard_shape()
    folder = deployed_folder(environment, root, runtime.id)
    fresh = not os.path.isdir(folder)
    make_private_dir(folder)
    try:
        files = GuardFolder(folder)
        files.write_settings(policy, shape)
        # No process answers: the fallback judge does, each time.
        files.write_script(shape, patience=SECONDS, hosted=False)
        file = runtime.deploy_guard(root, _command(files, shape), folder)
        record = _Record(runtime=runtime.id, capability=capability, file=file)
        write_private(folder, "record.json", msgspec.json.encode(record))
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Deployed(runtime=runtime.id, worktree=root, guarded=True, files=(file, files.script))


def _command(files: GuardFolder, shape: HookShape) -> str:
    """The command of the agent's hook. For a person's own session it allows at once, before it
    looks whether the script exists.

    It names no variable after a dollar sign: Gemini puts the values of variables into its settings
    by itself, and `$A$B` with only B set then names another variable. If the test cannot be made,
    the guard applies.
    """
    consent = shlex.quote(shape.allowed().decode()) if shape.consent is not None else ""
    says = f"printf '%s\\n' {consent}; " if consent else ""
    named = f"""printf '[ -n "\\44%s\\44%s" ]' {CAPABILITY} {AGENT_NAME}"""
    nobody = f'eval "$({named})" || {{ {says}exit 0; }}'
    return f"{nobody}; {files.command(shape)}"


def undo(runtime: Deployable, worktree: str, env: Mapping[str, str] | None = None) -> Deployed:
    """Remove the guard from a worktree; other settings stay. May be repeated."""
    root = _root(worktree)
    folder = deployed_folder(os.environ if env is None else env, root, runtime.id)
    runtime.guard_shape()
    file = runtime.deploy_guard(root, None, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return Deployed(runtime=runtime.id, worktree=root, guarded=False, files=(file,))


def is_there(runtime: str, worktree: str) -> bool:
    """Whether a guard of `runtime` was deployed into `worktree`."""
    return os.path.isdir(deployed_folder(os.environ, os.path.realpath(worktree), runtime))


def status(worktree: str, env: Mapping[str, str] | None = None) -> Status:
    """Whether each guard that was deployed into `worktree` works: runs its hook."""
    root = _root(worktree)
    base = os.path.join(state_dir(os.environ if env is None else env), "guard")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    guards = [
        _state(os.path.join(base, name), root) for name in names if name.startswith(_key(root))
    ]
    return Status(worktree=root, guards=guards)


def _state(folder: str, root: str) -> GuardState:
    try:
        with open(os.path.join(folder, "record.json"), "rb") as file:
            record = structs.decode(file.read(), _Record)
        detail = _problem(GuardFolder(folder), root, record.file)
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as problem:
        name = os.path.basename(folder).partition("-")[2]
        return GuardState(runtime=name, capability="", fires=False, detail=str(problem))
    return GuardState(
        runtime=record.runtime, capability=record.capability, fires=not detail, detail=detail
    )


def _problem(files: GuardFolder, root: str, file: str) -> str:
    """What is wrong with a deployed guard; empty when it works."""
    with open(file, encoding="utf-8") as opened:
        if json.dumps(files.path)[1:-1] not in opened.read():
            return f"{file} no longer names it"
    shape = files.read_settings().shape
    if not _refuses(files, shape, root, agent="canary"):
        return "it lets a write outside pass"
    if _refuses(files, shape, root, agent=""):
        return "it also guards sessions that belong to no agent"
    return ""


def _refuses(files: GuardFolder, shape: HookShape, root: str, *, agent: str) -> bool:
    """Whether the hook refuses a write outside."""
    done = ask_hook(_command(files, shape), shape, root, {AGENT_NAME: agent})
    return done.stdout.strip() not in (b"", shape.allowed()) or done.returncode != 0


def _root(worktree: str) -> str:
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    return root


def _key(root: str) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


def deployed_folder(env: Mapping[str, str], root: str, runtime: str) -> str:
    """The folder of the files of the guard that was deployed into the worktree `root`."""
    return os.path.join(state_dir(env), "guard", f"{_key(root)}-{runtime}")


def is_deployed(path: str, root: str, runtime: str, beside: str) -> bool:
    """Whether the file at `path` is the plugin that `deploy` put into the worktree `root`, and is
    unchanged. `beside` is the folder of any run's guard: deployed guards are in the same state
    folder, whatever the agent's environment says."""
    state = os.path.dirname(os.path.dirname(beside))
    copy = os.path.join(state, "guard", f"{_key(root)}-{runtime}", os.path.basename(path))
    try:
        with open(path, "rb") as found, open(copy, "rb") as kept:
            return found.read() == kept.read()
    except OSError:
        return False
