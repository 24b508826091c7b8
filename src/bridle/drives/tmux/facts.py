"""How a terminal interface takes input: data that each runtime states, with captures as proof."""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from bridle.drives.tmux.reports import ReportShape

Strategy = Literal["prompt", "warmup"]


def last_lines(pane: str) -> str:
    """The lower part of a pane, for an interface whose input line nobody described."""
    return "\n".join([line for line in pane.splitlines() if line.strip()][-12:])


def no_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """For an interface whose permission dialogs nobody described."""
    return None


class TerminalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a terminal interface needs beside `detect_ready`."""

    ready: Strategy = "prompt"
    """`prompt`: its pane shows when it is ready. `warmup`: it does not, so a fixed time is waited
    and the first message is tried."""
    warmup: float = 5.0
    """Seconds for `warmup`."""
    retries: int = 3
    """How often a text that did not show is pasted again where that is known to be needed, each
    time after twice the wait."""
    steady: float = 0.4
    """Seconds that a prompt must have stood there: some flash up before a dialog."""
    dialog_settled: float = 1.0
    """Seconds that a dialog must have looked the same before its key is sent."""
    paste_settled: float = 0.3
    """Seconds between the text's arrival in the input line and Enter."""
    input_line: Callable[[str], str | None] = last_lines
    """What stands in the input line of a captured pane; None when there is none."""
    hints: tuple[str, ...] = ()
    """Texts that an empty input line shows."""
    placeholder: str = ""
    """Pattern of what a long paste is shown as."""
    interrupt: tuple[str, ...] = ("Escape",)
    """Keys that end the running turn."""
    clear: tuple[str, ...] = ("C-u",)
    """Keys that empty a line of the input."""
    leave: tuple[str, ...] = ("C-d",)
    """Keys that end the program when it waits for a prompt."""
    queues: bool = False
    """Whether a message that is submitted while it works reaches the running turn."""
    busy_title: str = ""
    """Pattern of the pane's title while it works, where the pane itself does not always tell."""
    permission_keys: Callable[[str, bool], tuple[str, ...] | None] = no_keys
    """The keys that answer the permission dialog in a captured pane, by whether it is allowed; None
    when none is known to be safe there."""
    reports: ReportShape | None = None
    """What its hooks tell; None when it has none that report."""

    def typed(self, pane: str) -> str | None:
        """What somebody typed into the input line; empty for a hint of the interface's own."""
        shown = self.input_line(pane)
        if shown is None:
            return None
        shown = shown.strip()
        return "" if any(shown.startswith(hint) for hint in self.hints) else shown

    def holds(self, pane: str, text: str) -> bool:
        """Whether `text` stands in the input line, whole or as a placeholder."""
        shown = self.typed(pane)
        if not shown:
            return False
        if self.placeholder and re.search(self.placeholder, shown):
            return True
        return squeezed(text)[-_TAIL:] in squeezed(shown)


_TAIL = 60
"""Characters from a text's end by which it is known again."""


def squeezed(text: str) -> str:
    """`text` without what wrapping and frames put between its letters."""
    return "".join(char for char in text if not char.isspace() and char not in "│┃|─❯›>")
