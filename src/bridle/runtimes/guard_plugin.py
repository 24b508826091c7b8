"""The guard's plugin inside a JavaScript agent: the part that the plugins of all products share.

It asks over loopback TCP, or by a hook process where the agent outlives the process that answers.
Anything except a clear consent is a refusal.
"""

import json
import os

import msgspec

from bridle.turns.guard_contract import REASON, GuardAddress, GuardHook, GuardMechanism, HookShape

PLUGIN_FILE = "bridle-guard.js"
"""The file of Bridle's plugin, in the guard's own folder or in a worktree."""
SECONDS = 25.0
"""How long a plugin waits for a verdict before it refuses, unless its agent waits less."""
PROCESS_SECONDS = 60.0
"""The same for a hook process, which has its own limit within that time."""

BY_PROCESS = HookShape(consent={"allow": True}, refusal={"allow": False, "reason": REASON})
"""The shape of a hook process that a plugin runs."""

_BY_PROCESS = """\
import { spawn } from "node:child_process";
const command = %(where)s;

function ask(payload) {
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command], { stdio: ["pipe", "pipe", "ignore"] });
    const late = () => { child.kill("SIGKILL"); reject(new Error("late")); };
    const clock = setTimeout(late, %(milliseconds)d);
    let said = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text) => { said += text; });
    child.stdin.on("error", () => undefined);
    child.on("error", (error) => { clearTimeout(clock); reject(error); });
    child.on("close", () => {
      clearTimeout(clock);
      try { resolve(JSON.parse(said)); } catch (error) { reject(error); }
    });
    child.stdin.end(JSON.stringify(payload));
  });
}
"""

_BY_SOCKET = """\
import net from "node:net";
const where = %(where)s;
let number = 0;

function ask(payload) {
  return new Promise((resolve, reject) => {
    const id = ++number;
    const socket = net.connect(where.port, where.host);
    const late = () => { socket.destroy(); reject(new Error("late")); };
    const clock = setTimeout(late, %(milliseconds)d);
    let said = "";
    socket.setEncoding("utf8");
    socket.on("connect", () => {
      socket.write(JSON.stringify({ token: where.token, id, payload }) + "\\n");
    });
    socket.on("data", (text) => {
      said += text;
      if (!said.includes("\\n")) return;
      clearTimeout(clock);
      socket.destroy();
      try {
        const answer = JSON.parse(said);
        answer.id === id ? resolve(answer) : reject(new Error("another call's answer"));
      } catch (error) { reject(error); }
    });
    socket.on("error", (error) => { clearTimeout(clock); reject(error); });
    socket.on("close", () => { clearTimeout(clock); reject(new Error("closed")); });
  });
}
"""

_VERDICT = """\
const silent = "the guard does not answer; the call is refused. Report it if it stays so.";
const tell = (event, fields) => ask({ hook_event_name: event, ...fields }).catch(() => undefined);

async function refusal(tool_use_id, tool_name, tool_input, cwd) {
  const call = { hook_event_name: "PreToolUse", tool_name, tool_input, tool_use_id, cwd };
  try {
    const answer = await ask(call);
    return answer.allow === true ? undefined : answer.reason || silent;
  } catch {
    return silent;
  }
}
"""


FOR_AGENTS = """\
const nobody = !process.env.BRIDLE_CAPABILITY && !process.env.BRIDLE_AGENT_NAME;
"""
"""The beginning of a plugin that is deployed in a worktree: `nobody` is true in a person's own
session."""
FOR_ALL = "const nobody = false;\n"


def where_to_ask(hook: GuardHook) -> GuardAddress | str:
    """What a plugin of this session asks: an address, or a command where no address lasts."""
    return hook.command(BY_PROCESS) if hook.lasting else hook.address()


def mechanism_of(plugin: GuardMechanism, hook: GuardHook) -> GuardMechanism:
    """The mechanism of this session; `plugin` is the mechanism with an address."""
    if not hook.lasting:
        return plugin
    name = f"{plugin.name} that runs a hook"
    return msgspec.structs.replace(plugin, name=name, shape=BY_PROCESS)


def has_others(plugins: str, root: str, runtime: str, guard: str) -> bool:
    """Whether the folder `plugins` of the worktree `root` contains any file except the guard's own,
    which `bridle guard deploy` put there. `guard` is the folder of a guard that is about to
    start."""
    names = os.listdir(plugins) if os.path.isdir(plugins) else []
    if names != [PLUGIN_FILE]:
        return bool(names)
    from bridle.guard.deploy import is_deployed

    return not is_deployed(os.path.join(plugins, PLUGIN_FILE), root, runtime, guard)


def asking_code(
    where: GuardAddress | str, seconds: float | None = None, *, deployed: bool = False
) -> str:
    """JavaScript that defines `refusal(id, tool, input, cwd)`, which resolves to the reason why a
    call may not run or to undefined, and `tell(event, fields)`; neither ever rejects.

    A plugin in a worktree (`deployed`) must do nothing when `nobody` is true.
    """
    process = isinstance(where, str)
    code = _BY_PROCESS if process else _BY_SOCKET
    limit = seconds or (PROCESS_SECONDS if process else SECONDS)
    values = {
        "where": json.dumps(where if process else msgspec.to_builtins(where)),
        "milliseconds": int(limit * 1000),
    }
    return (FOR_AGENTS if deployed else FOR_ALL) + code % values + _VERDICT
