"""Pi's events as reports of a terminal session, by a small extension beside those of the user.

It writes files itself, so no process is started, and whatever fails in it is swallowed: Pi would
hold a tool back whose handler throws.
"""

import json

from bridle.core.files import write_private
from bridle.runtimes.plan import RunPlan

FILE_NAME = ".bridle-reports.ts"

_CODE = """\
import { writeFileSync } from "node:fs";
const folder = %(folder)s;
let number = 0;

function tell(event, told) {
  try {
    writeFileSync(`${folder}/${event}.${process.pid}-${++number}`, JSON.stringify(told));
  } catch {}
}

export default function (pi) {
  pi.on("input", (event) => tell("input", { prompt: event.text }));
  pi.on("tool_execution_start", (event) => tell("tool_execution_start", {
    tool_use_id: event.toolCallId, tool_name: event.toolName, tool_input: event.args,
  }));
  pi.on("tool_execution_end", (event) => {
    const text = (event.result?.content ?? []).map((block) => block.text ?? "").join("");
    tell("tool_execution_end", {
      tool_use_id: event.toolCallId, tool_name: event.toolName,
      ...(event.isError ? { error: text } : { tool_response: text }),
    });
  });
  pi.on("agent_settled", () => tell("agent_settled", {}));
  pi.on("session_shutdown", (event) => tell("session_shutdown", { reason: event.reason }));
}
"""


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with an extension that reports; see `Terminal.report_plan`."""
    code = _CODE % {"folder": json.dumps(plan.reports)}
    path = write_private(plan.reports, FILE_NAME, code)
    return plan.with_arguments("-e", path) or plan
