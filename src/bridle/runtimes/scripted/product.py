"""What the scripted agent is: its facts, its wire, its tools, its own options."""

import os
import sys
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.core.errors import AGENT_ERRORS, NotInstalled, ProtocolDrift
from bridle.core.features import Features
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import Installation, find_executable
from bridle.runtimes.product import Credentials, Product, ToolTable

DIALECTS = (Dialect(name="scripted-1", since=(0,), seen=(__version__,), capture="tools.jsonl"),)
"""One wire, which changes with Bridle itself."""

TOOLS = ToolTable(
    neutral={
        **{name: (name,) for name in ("shell", "read_file", "write_file", "edit_file")},
        **dict.fromkeys(("search", "web", "subagent"), ()),
    }
)

BEHAVIOURS = {
    **dict.fromkeys(("garbage", "half-lines", "die-mid-line", "never-answer"), False),
    **dict.fromkeys(("ignore-sigterm", "no-result", "stamp"), False),
    **dict.fromkeys(("long-line", "flood-stderr", "exit"), True),
}
"""How the agent misbehaves on request, and whether a number may follow after a colon."""


class ScriptedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `scripted` runtime."""

    script: Any = None
    """A file's path, a script's text, or a list of turns; None for the variable `BRIDLE_SCRIPT`,
    and without that for the built-in script."""
    conversation: str | None = None
    """The script's conversation to play; chosen by the prompt when unset."""
    cost_per_turn: float | None = None
    """Dollars that each reply costs; unknown when unset."""
    max_retries: int = 3
    """How often a failed model call is made again."""
    behave: tuple[str, ...] = ()
    """How to misbehave: names of `BEHAVIOURS`."""


_AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent", "start.py")
_OWN_PYTHON = "python"


def _find(wanted: str) -> Installation | None:
    """The agent that comes with Bridle, or the program that the configuration names."""
    if wanted != _OWN_PYTHON:
        other = find_executable(wanted)
        return None if other is None else Installation(binary=other, version=None)
    # Isolated and without site packages: it must start fast and import nothing by accident.
    launcher = (sys.executable, "-I", "-S")
    return Installation(binary=_AGENT, version=__version__, launcher=launcher)


PRODUCT = Product(
    id="scripted",
    binary=_OWN_PYTHON,
    find=_find,
    install_hint="nothing: it comes with Bridle",
    dialects=DIALECTS,
    instruction_path="AGENTS.md",
    # It needs no login.
    credentials=Credentials(otherwise="present"),
    provider_path="",
    options_type=ScriptedOptions,
    list_options=("behave",),
    list_separator=",",
    tools=TOOLS,
    tells_version=False,
    features=Features(
        options=frozenset(
            (
                *("system_prompt", "append_system_prompt", "append_system_prompt_file", "model"),
                *("max_turns", "allowed_tools", "denied_tools", "images", "provider_options"),
                *("budget_usd", "resume", "account_dir", "model_server"),
            )
        ),
        interactive=True,
        streaming=True,
        thinking=True,
        message_usage=True,
        reports_cost=True,
        retries=True,
        limit_end=True,
        resume=True,
        abort=True,
        steer=True,
        follow_up=True,
        drives=("print", "rpc"),
        asks=("print", "rpc"),
        instruction_file="AGENTS.md",
    ),
    errors=ErrorTable(
        # Its wire has Bridle's own names of errors.
        calls=tuple(ErrorRow(cls, tags=(kind,)) for kind, cls in AGENT_ERRORS.items()),
        exits=(
            ErrorRow(
                ProtocolDrift,
                ("unknown argument",),
                statuses=(2,),
                hint="the scripted agent takes no raw arguments",
            ),
            ErrorRow(
                NotInstalled,
                statuses=(126, 127),
                message="the agent could not be started (status {code})",
            ),
        ),
        noise=("usage:",),
        complaint="last",
    ),
)
