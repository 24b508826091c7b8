"""How Pi is made to ask before each tool call: an extension of ours, outside of the worktree.

It is loaded by flag, and only it: what a repository brings is left out, since an extension that
runs later could change a call that was already judged. The extension asks over loopback TCP, or by
a hook process where it outlives whoever answers, and takes anything but a clear consent for a
refusal.
"""

import json

import msgspec

from bridle.core.errors import GuardRefused
from bridle.drives.guarding import REASON, GuardAddress, GuardHook, GuardMechanism, HookShape
from bridle.runtimes.base import RunPlan
from bridle.runtimes.private import write_private

FILE_NAME = "bridle-guard.ts"
SECONDS = 25
"""How long the extension waits for a verdict before it refuses."""

EXTENSION = GuardMechanism(
    name="extension by -ne -e",
    fails="closed",
    proof="the extension announces itself when the session starts",
    proves_at_start=True,
)
BY_PROCESS = msgspec.structs.replace(
    EXTENSION,
    name="extension by -ne -e that runs a hook",
    shape=HookShape(consent={"allow": True}, refusal={"allow": False, "reason": REASON}),
)

_BY_PROCESS = """\
import { spawn } from "node:child_process";
const command = %(command)s;

function ask(payload) {
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command], { stdio: ["pipe", "pipe", "ignore"] });
    const clock = setTimeout(() => { child.kill("SIGKILL"); reject(new Error("late")); }, 60000);
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
    const clock = setTimeout(() => socket.destroy(new Error("late")), %(seconds)d000);
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
      const answer = JSON.parse(said);
      answer.id === id ? resolve(answer) : reject(new Error("another call's answer"));
    });
    socket.on("error", (error) => { clearTimeout(clock); reject(error); });
    socket.on("close", () => { clearTimeout(clock); reject(new Error("closed")); });
  });
}
"""

_CODE = """\
%(ask)s
const silent = "the guard does not answer; the call is refused. Report it if it stays so.";
const tell = (event, fields) => ask({ hook_event_name: event, ...fields }).catch(() => undefined);

export default function (pi) {
  pi.on("session_start", () => tell("SessionStart", {}));
  pi.on("tool_call", async (event, ctx) => {
    try {
      const answer = await ask({
        hook_event_name: "PreToolUse",
        tool_name: event.toolName,
        tool_input: event.input,
        tool_use_id: event.toolCallId,
        cwd: ctx?.cwd ?? process.cwd(),
      });
      if (answer.allow === true) return undefined;
      return { block: true, reason: answer.reason || silent };
    } catch {
      return { block: true, reason: silent };
    }
  });
%(events)s}
"""

_EVENTS = """\
  pi.on("tool_execution_end", (event) => {
    const end = { tool_name: event.toolName, tool_use_id: event.toolCallId };
    const text = JSON.stringify(event.result?.content ?? null);
    tell(event.isError ? "PostToolUseFailure" : "PostToolUse",
      { ...end, ...(event.isError ? { error: text } : { tool_response: text }) });
  });
  pi.on("agent_end", () => tell("Stop", {}));
  pi.on("session_shutdown", () => tell("SessionEnd", {}));
"""


def extension_code(where: GuardAddress | str, *, log_events: bool) -> str:
    """The extension's source; it asks at an address, or by a command."""
    if isinstance(where, str):
        ask = _BY_PROCESS % {"command": json.dumps(where)}
    else:
        told = json.dumps(msgspec.to_builtins(where))
        ask = _BY_SOCKET % {"where": told, "seconds": SECONDS}
    return _CODE % {"ask": ask, "events": _EVENTS if log_events else ""}


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `AgentRuntime.guard_plan`."""
    mechanism = BY_PROCESS if hook.lasting else EXTENSION
    where = hook.command(mechanism.shape) if hook.lasting else hook.address()
    code = extension_code(where, log_events=hook.log_events)
    path = write_private(hook.folder, FILE_NAME, code)
    argv, command = list(plan.spec.argv), list(plan.installation.command)
    starts = [i for i in range(len(argv)) if argv[i : i + len(command)] == command]
    if not starts:
        raise GuardRefused("pi: its command was not found in the plan", runtime="pi")
    place = starts[0] + len(command)
    if "--approve" in argv:
        raise GuardRefused(
            "pi cannot be guarded in a project whose extensions are trusted",
            hint="run without trust_project",
            runtime="pi",
        )
    # Pi reads a repeated flag twice without harm, but once is what is meant.
    alone = [] if {"-ne", "--no-extensions"} & set(argv) else ["-ne"]
    argv[place:place] = [*alone, "-e", path]
    spec = msgspec.structs.replace(plan.spec, argv=tuple(argv))
    warnings = (*plan.warnings, "pi: only the guard's extension is loaded while it is guarded")
    return msgspec.structs.replace(plan, spec=spec, guard=mechanism, warnings=warnings)
