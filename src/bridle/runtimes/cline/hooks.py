"""Makes Cline ask before each tool call, by a plugin of Bridle's outside of the worktree.

Its hook programs can only end a whole run; a plugin can refuse a single call with a reason. Cline
looks for plugins below its home folder, so the run gets its own: links to what is in the user's,
except the plugins. All plugins run in one process beside Cline, where one could undo another; so
the guard's is the only one, and a project that brings its own is refused.
"""

import os
from collections.abc import Mapping
from shutil import rmtree, which

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.core.git import find_git
from bridle.runtimes.acp.hooks import refuse_unasked
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.cline.product import PRODUCT
from bridle.runtimes.cline.transcript import data_dir
from bridle.runtimes.guard_plugin import (
    PLUGIN_FILE,
    asking_code,
    has_others,
    mechanism_of,
    where_to_ask,
)
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardAddress, GuardHook, GuardMechanism

_PLUGINS = "plugins"
_SECONDS = 2.6
"""How long the plugin waits for a verdict before it refuses. Cline gives a hook three seconds and
ends the run then."""
_LOADING = ("CLINE_PLUGIN_IMPORT_TIMEOUT_MS", "30000")
"""Cline gives plugins four seconds to load; on a busy machine that is too short."""

_RUNTIMES = ("CLINE_JS_RUNTIME_PATH", "BUN_EXEC_PATH", "npm_node_execpath", "NODE")
"""Variables by which Cline finds what runs plugins, before it looks for Node."""
_APPROVE = "--auto-approve"
_PATIENCE = ("--retries", "100")
"""Cline ends a run after a few calls in a row that failed, and a refused one counts as that."""

PLUGIN = GuardMechanism(
    name="plugin in a home folder of its own",
    fails="closed",
    proof="the plugin announces itself when the run begins, before the first model call",
)

LEFT_OUT = "cline: only the guard's plugin is loaded while it is guarded"

_CODE = """\
%(ask)s
export default {
  name: "bridle-guard",
  manifest: { capabilities: ["hooks"] },
  hooks: nobody ? {} : {
    beforeRun: async () => { await tell("SessionStart", {}); },
    beforeTool: async ({ toolCall, input }) => {
      const { toolCallId, toolName } = toolCall;
      const reason = await refusal(toolCallId, toolName, input, process.cwd());
      return reason === undefined ? %(consent)s : { skip: true, reason };
    },
  },
};
"""


def plugin_code(
    where: GuardAddress | str,
    *,
    deployed: bool = False,
    approves: bool = False,
) -> str:
    """The plugin's source; it asks at an address, or by a command.

    One that is `deployed` into a worktree leaves a person's own sessions alone. One that `approves`
    also gives the permission for what is allowed: for a Cline that approves nothing by itself
    (`--auto-approve false`), so that nothing runs where the plugin is missing.
    """
    ask = asking_code(where, _SECONDS, deployed=deployed)
    consent = "{ policy: { autoApprove: true } }" if approves else "undefined"
    return _CODE % {"ask": ask, "consent": consent}


def deploy_plugin(worktree: str, command: str | None, mark: str) -> str:
    """See `Guarded.deploy_guard`. Cline loads a project's plugins without asking."""
    from bridle.runtimes.worktree_hooks import put_plugin

    code = None if command is None else plugin_code(command, deployed=True)
    return put_plugin(worktree, os.path.join(".cline", _PLUGINS, PLUGIN_FILE), code, mark)


def guarded_env(env: Mapping[str, str], cwd: str, folder: str, code: str) -> dict[str, str]:
    """`env` of a Cline that works in `cwd` and loads only the plugin `code`; its home is made in
    `folder`, the guard's own. Raises `GuardRefused` if it would load others, or could load none.

    Cline's own files stay where they are: the home has links to them, a variable names its data.
    """
    _refuse_others(env, cwd, folder)
    if not any(env.get(name) for name in _RUNTIMES) and not which("node", path=env.get("PATH")):
        raise GuardRefused(
            "cline runs the guard's plugin by Node, which was not found",
            hint="install Node, or confine it with --sandbox and pass --unguarded",
            runtime="cline",
        )
    home = os.path.join(folder, "cline")
    # In a session the process before this one had the same; its links may be out of date.
    rmtree(home, ignore_errors=True)
    os.mkdir(home, 0o700)
    theirs = PRODUCT.home_in(env)
    try:
        names = os.listdir(theirs)
    except FileNotFoundError:
        names = []
    for name in names:
        if name != _PLUGINS:
            os.symlink(os.path.join(theirs, name), os.path.join(home, name))
    write_private(home, os.path.join(_PLUGINS, PLUGIN_FILE), code)
    changed = {"CLINE_DIR": home, "CLINE_DATA_DIR": data_dir(env)}
    return {_LOADING[0]: _LOADING[1], **env, **changed}


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    spec = plan.spec
    if isinstance(plan, AcpPlan):
        # It must ask over ACP too, so that nothing runs where the plugin is missing.
        refuse_unasked(plan)
    for flag in ("--config", "--data-dir"):
        if any(word == flag or word.startswith(f"{flag}=") for word in spec.argv):
            raise GuardRefused(
                f"cline cannot be guarded with {flag}: the guard is in a folder that it replaces",
                hint="name the account with account_dir",
                runtime="cline",
            )
    asking, approves = _asking(plan)
    code = plugin_code(where_to_ask(hook), approves=approves)
    env = guarded_env(spec.env, spec.cwd, hook.folder, code)
    return msgspec.structs.replace(
        asking,
        spec=msgspec.structs.replace(asking.spec, env=env),
        guard=mechanism_of(PLUGIN, hook),
        warnings=(*plan.warnings, LEFT_OUT),
    )


def _asking(plan: RunPlan) -> tuple[RunPlan, bool]:
    """The plan of an agent that approves nothing by itself, and whether the plugin must do so for
    it. It goes on however often a call is refused."""
    argv, approves = list(plan.spec.argv), False
    for number, word in enumerate(argv[:-1]):
        if word == _APPROVE and argv[number + 1] == "true":
            argv[number + 1], approves = "false", True
    spec = msgspec.structs.replace(plan.spec, argv=tuple(argv))
    asking = msgspec.structs.replace(plan, spec=spec)
    if any(word.startswith(_PATIENCE[0]) for word in argv):
        return asking, approves
    return asking.with_arguments(*_PATIENCE) or asking, approves


def _refuse_others(env: Mapping[str, str], cwd: str, guard: str) -> None:
    """Plugins that Cline finds in places that no variable moves."""
    place = os.path.realpath(cwd)
    found = find_git(place)
    roots = {place, found.root if found is not None else place}
    home = env.get("HOME") or os.path.expanduser("~")
    folders = [os.path.join(root, ".cline", _PLUGINS) for root in sorted(roots)]
    for folder in (*folders, os.path.join(home, "Documents", "Cline", "Plugins")):
        if has_others(folder, os.path.dirname(os.path.dirname(folder)), "cline", guard):
            raise GuardRefused(
                f"cline would load plugins beside the guard's, which could undo it: {folder}",
                hint="move them away, or confine it with --sandbox and pass --unguarded",
                runtime="cline",
            )
