"""Permission mode `ask` for an agent that asks for nothing by itself: a small extension of Pi.

In Pi's terminal interface it asks the person there. In the JSON mode nobody can be asked, since
Pi reads its stdin to the end before it starts; there it refuses, with a reason the model reads. In
a live conversation it asks Bridle, by a dialog that carries the whole call and brings back the
reason too.
"""

import os
from collections.abc import Mapping

from bridle.core.files import make_private_dir, state_dir, write_atomic

FILE_NAME = "bridle-ask.ts"

REFUSAL = (
    "Nobody is there to give permission for this tool."
    " Do without it, or ask to be run with permission bypass."
)
"""What the model is told; also how a refusal is recognised on the wire."""

_FREE_TOOLS = ("read", "grep", "find", "ls")
"""Tools that only read."""

_CODE = """\
const free = new Set(%(free)s);
const refusal = %(refusal)s;
export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    if (free.has(event.toolName)) return undefined;
    if (!ctx.hasUI) return { block: true, reason: refusal };
    const what = JSON.stringify(event.input).slice(0, 2000);
    const allowed = await ctx.ui.confirm(`Allow ${event.toolName}?`, what);
    return allowed ? undefined : { block: true, reason: "The person at the terminal refused." };
  });
}
"""

LIVE_TITLE = "bridle permission request"
"""The title of the dialog by which a live conversation asks."""

_LIVE_CODE = """\
const free = new Set(%(free)s);
export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    if (free.has(event.toolName)) return undefined;
    if (!ctx.hasUI) return { block: true, reason: %(refusal)s };
    const call = { id: event.toolCallId, tool: event.toolName, args: event.input };
    const said = await ctx.ui.input(%(title)s, JSON.stringify(call), { signal: ctx.signal });
    let answer = {};
    try { answer = JSON.parse(said) || {}; } catch {}
    if (answer.allow === true) return undefined;
    return { block: true, reason: String(answer.reason || "Permission was refused.") };
  });
}
"""


def lasting_extension(env: Mapping[str, str]) -> str:
    """The extension as a file that stays, for a session that outlives this call; its path."""
    from hashlib import sha256

    code = extension_code()
    folder = os.path.join(state_dir(env), "pi", f"ask-{sha256(code.encode()).hexdigest()[:16]}")
    make_private_dir(folder)
    path = os.path.join(folder, FILE_NAME)
    if not os.path.exists(path):
        # Whole at once: another session may be about to load it.
        write_atomic(path, code)
    return path


def extension_code(*, live: bool = False) -> str:
    """The extension's source."""
    import json

    words = {"free": _FREE_TOOLS, "refusal": REFUSAL, "title": LIVE_TITLE}
    return (_LIVE_CODE if live else _CODE) % {
        name: json.dumps(text) for name, text in words.items()
    }
