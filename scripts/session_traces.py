"""Has one conversation with real agents in live sessions and prints the traces side by side.

`python scripts/session_traces.py [RUNTIME[-VERSION][:DRIVE]]…`; without arguments every agent that
the issue of live sessions names. All of them run offline against the scripted model:

    turn 1   a tool runs; meanwhile a steer and a follow-up are sent
    turn …   the follow-up (and the steer, where an agent takes none in a turn)
    then     a prompt whose tool is aborted, a prompt that works, a stop, a resume, a prompt

An agent without tools is asked for slow answers instead; one that cannot take its conversation up
in another process has one turn in a print session.

Exit status 1 when an agent did not do what the table of the others shows.
"""

import argparse
import sys
import time
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.sessions.conversation import Conversation, trace  # noqa: E402 - path first
from tests.support.clis import PINS, cli_path  # noqa: E402 - path first

from bridle.core.errors import BridleError  # noqa: E402 - path first
from bridle.runtimes.registry import get_adapter  # noqa: E402 - path first

AGENTS = (
    *("scripted", "claude-2.1.325", "codex-0.166.0", "pi-1.5.0", "opencode-acp", "claude-acp"),
    *("claude-2.1.325:tmux", "codex-0.166.0:tmux", "pi-1.5.0:tmux", "copilot-1.0.102:tmux"),
    *("scripted:print", "claude-2.1.325:print", "codex-0.166.0:print", "pi-1.5.0:print"),
    *("copilot-1.0.102:print", "opencode-1.18.33:print", "gemini-0.61.0:print"),
    *("aider-0.86.2:print", "cline-3.0.65:print"),
)


def conversation(label: str) -> Conversation:
    """The conversation with the agent that RUNTIME[-VERSION][:DRIVE] names, on its pinned CLI."""
    name, _, drive = label.partition(":")
    pin = next((each for each in PINS if name == f"{each.name}-{each.version}"), None)
    runtime = get_adapter(pin.name if pin else name)
    versions = {each.name: each.version for each in PINS}
    if pin is None:
        wanted = next((each for each in (name, runtime.binary) if each in versions), "")
        binary = cli_path(wanted, versions[wanted]) if wanted else None
    else:
        binary = cli_path(pin.name, pin.version)
    if binary is not None:
        runtime.use_binary(str(binary))
    return Conversation(runtime, drive or "rpc", ROOT / ".tmp" / "traces")


def main() -> int:
    """Talk to all agents that were named, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("agent", nargs="*", metavar="RUNTIME[-VERSION][:DRIVE]")
    wanted = parser.parse_args().agent or list(AGENTS)
    try:
        agents = {label: conversation(label) for label in wanted}
    except BridleError as problem:
        parser.error(str(problem))
    columns: dict[str, list[str]] = {}
    failed = False
    for label, agent in agents.items():
        began = time.monotonic()
        try:
            columns[label] = trace(agent.talk())
        except Exception as problem:
            failed = True
            columns[label] = [f"FAILED {type(problem).__name__}: {problem}"[:60]]
        print(f"{label}: {time.monotonic() - began:.1f} s, {agent.statuses}", flush=True)
    width = 34
    print("".join(f"{label:<{width}}" for label in columns))
    for row in zip_longest(*columns.values(), fillvalue=""):
        print("".join(f"{cell:<{width}}" for cell in row))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
