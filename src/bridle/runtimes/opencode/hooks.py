"""Makes OpenCode ask before each tool call: by a plugin outside of the worktree.

The configuration in the environment names the plugin after all others: it judges a call as the tool
will get it. A tool does not run if the plugin throws. A plugin runs inside of OpenCode, where it
could undo another, and an agent may have left one behind. So the project's configuration is left
out, with its tools and commands; its instructions are kept. OpenCode 1.18 loads the project's
plugins in any case, so the agent is not started if there are any.
"""

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.core.git import find_git
from bridle.runtimes.guard_plugin import (
    PLUGIN_FILE,
    asking_code,
    has_others,
    mechanism_of,
    where_to_ask,
)
from bridle.runtimes.opencode.command import CONFIG, PURE
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardAddress, GuardHook, GuardMechanism

CLOSED = "**"
"""A rule that forbids every tool, written as nobody else writes it. The plugin removes it, so that
nothing runs if the plugin is missing."""
_FILES = ("opencode.json", "opencode.jsonc")
_PLUGIN_FOLDERS = ("plugin", "plugins")
_OTHER_CONFIG = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR")
_NO_PROJECT = "OPENCODE_DISABLE_PROJECT_CONFIG"
_NO_CLAUDE = ("OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT")

PLUGIN = GuardMechanism(
    name="plugin given by environment",
    fails="closed",
    proof="the plugin announces itself when it is loaded, before the first model call",
)

LEFT_OUT = "opencode: the project's own configuration is left out while it is guarded"

_CODE = """\
%(ask)s
export const BridleGuard = async ({ directory }) => {
  if (nobody) return {};
  await tell("SessionStart", {});
  return {
    config: async (config) => { delete config.permission?.[%(closed)s]; },
    "tool.execute.before": async (call, output) => {
      const reason = await refusal(call.callID, call.tool, output.args, directory);
      if (reason !== undefined) throw new Error(reason);
    },
  };
};
"""


def plugin_code(where: GuardAddress | str, *, deployed: bool = False) -> str:
    """The plugin's source; it asks at an address, or by a command. A plugin that is `deployed` into
    a worktree ignores a person's own sessions."""
    ask = asking_code(where, deployed=deployed)
    return _CODE % {"ask": ask, "closed": json.dumps(CLOSED)}


def deploy_plugin(worktree: str, command: str | None, mark: str) -> str:
    """See `Guarded.deploy_guard`. OpenCode loads a project's plugins without asking."""
    from bridle.runtimes.worktree_hooks import put_plugin

    code = None if command is None else plugin_code(command, deployed=True)
    return put_plugin(worktree, os.path.join(".opencode", "plugins", PLUGIN_FILE), code, mark)


def guarded_env(env: Mapping[str, str], cwd: str, plugin: str) -> dict[str, str]:
    """`env` of an OpenCode that works in `cwd` and loads `plugin`, a file in the guard's own
    folder, and no plugin of the project's. `GuardRefused` if the project has some, or if the
    configuration in `env` is unreadable.

    It names the project's instructions one by one: OpenCode leaves them out with the rest.
    """
    _refuse_others(env, cwd, os.path.dirname(plugin))
    given = env.get(CONFIG)
    try:
        config = structs.decode(given, dict[str, Any]) if given else {}
    except msgspec.MsgspecError as problem:
        raise GuardRefused(f"opencode: {CONFIG} is unreadable: {problem}") from None
    lists = {
        "plugin": [f"file://{quote(plugin)}"],
        "instructions": _instructions(env, cwd),
    }
    for name, ours in lists.items():
        theirs = config.get(name)
        config[name] = [*(theirs if isinstance(theirs, list) else []), *ours]
    rules = config.get("permission", {})
    # At the end, because the last rule that matches decides.
    config["permission"] = {**({"*": rules} if isinstance(rules, str) else rules), CLOSED: "deny"}
    kept = {name: value for name, value in env.items() if name != PURE}
    return {**kept, _NO_PROJECT: "1", CONFIG: msgspec.json.encode(config).decode()}


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    env, argv = plan.spec.env, plan.spec.argv
    if "--pure" in argv or (env.get(PURE) and not _has_bare_home(env)):
        raise GuardRefused(
            "opencode cannot be guarded without plugins: the guard is one",
            hint="run it without plugins=false",
            runtime="opencode",
        )
    for word in argv:
        if word == "--attach" or word.startswith("--attach="):
            raise GuardRefused(
                "an OpenCode server that runs already cannot be guarded", runtime="opencode"
            )
    code = plugin_code(where_to_ask(hook))
    path = write_private(hook.folder, PLUGIN_FILE, code)
    spec = msgspec.structs.replace(plan.spec, env=guarded_env(env, plan.spec.cwd, path))
    mechanism = mechanism_of(PLUGIN, hook)
    return msgspec.structs.replace(
        plan, spec=spec, guard=mechanism, warnings=(*plan.warnings, LEFT_OUT)
    )


def _has_bare_home(env: Mapping[str, str]) -> bool:
    """Whether its home and configuration were made for this process, without plugins: then it loads
    only the guard's."""
    home, config = env.get("OPENCODE_TEST_HOME"), env.get("XDG_CONFIG_HOME")
    if not home or not config or any(env.get(name) for name in _OTHER_CONFIG):
        return False
    places = (os.path.join(config, "opencode"), os.path.join(home, ".opencode"))
    folders = [os.path.join(place, name) for place in places for name in _PLUGIN_FOLDERS]
    files = [os.path.join(place, name) for place in places for name in (*_FILES, "config.json")]
    return not any(os.path.isdir(path) and os.listdir(path) for path in folders) and not any(
        _names_plugins(path) for path in files
    )


def _refuse_others(env: Mapping[str, str], cwd: str, guard: str) -> None:
    """Plugins that OpenCode finds from `cwd` upwards; those in the user's home are the user's."""
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    folder = os.path.realpath(cwd)
    while True:
        own = os.path.join(folder, ".opencode")
        places = [folder] if folder == home else [folder, own]
        found = [os.path.join(own, name) for name in _PLUGIN_FOLDERS if folder != home]
        found = [path for path in found if has_others(path, folder, "opencode", guard)]
        files = [os.path.join(place, name) for place in places for name in _FILES]
        found += [path for path in files if _names_plugins(path)]
        if found:
            raise GuardRefused(
                f"opencode would load plugins beside the guard's, which could undo it: {found[0]}",
                hint="move them away, or confine it with --sandbox and pass --unguarded",
                runtime="opencode",
            )
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _names_plugins(path: str) -> bool:
    """Whether a configuration may name plugins; one with comments is searched for the word."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b"plugin" in text or b"\\u" in text
    return isinstance(config, dict) and any(config.get(name) for name in _PLUGIN_FOLDERS)


def _instructions(env: Mapping[str, str], cwd: str) -> list[str]:
    """The files that OpenCode would read as the project's instructions: those of the first name
    that exists, from `cwd` up to the root of its work tree."""
    names = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"]
    if any(env.get(name) for name in _NO_CLAUDE):
        names.remove("CLAUDE.md")
    place = os.path.realpath(cwd)
    found = find_git(place)
    top = found.root if found is not None else place
    folders = [place]
    while place != top and place != os.path.dirname(place):
        place = os.path.dirname(place)
        folders.append(place)
    for name in names:
        files = [os.path.join(folder, name) for folder in folders]
        files = [file for file in files if os.path.isfile(file)]
        if files:
            return files
    return []
