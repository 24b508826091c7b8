"""How a terminal interface takes input: data that each runtime declares, proved by captures."""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from bridle.drives.tmux.hook_reports import ReportShape

Strategy = Literal["prompt", "warmup"]


def last_lines(pane: str) -> str:
    """The lower part of a pane, for an interface without a described input line."""
    return "\n".join([line for line in pane.splitlines() if line.strip()][-12:])


def no_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """For an interface without described permission dialogs."""
    return None


class TerminalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a terminal interface needs in addition to `detect_ready`."""

    ready: Strategy = "prompt"
    """`prompt`: the pane shows when it is ready. `warmup`: it does not, so Bridle waits for a fixed
    time and tries the first message."""
    warmup: float = 5.0
    """Seconds for `warmup`."""
    retries: int = 3
    """How often a text that did not show is pasted again, if that is known to be needed; the wait
    doubles each time."""
    steady: float = 0.4
    """Seconds that a prompt must be visible: some appear briefly before a dialog."""
    dialog_settled: float = 1.0
    """Seconds that a dialog must not change before its key is sent."""
    paste_settled: float = 0.3
    """Seconds between the text's arrival in the input line and Enter."""
    input_line: Callable[[str], str | None] = last_lines
    """The content of the input line in a captured pane; None if there is no input line."""
    hints: tuple[str, ...] = ()
    """Texts that an empty input line shows."""
    placeholder: str = ""
    """Pattern of the placeholder that is shown for a long paste."""
    interrupt: tuple[str, ...] = ("Escape",)
    """Keys that end the running turn."""
    clear: tuple[str, ...] = ("C-u",)
    """Keys that clear a line of the input."""
    leave: tuple[str, ...] = ("C-d",)
    """Keys that end the program while it waits for a prompt."""
    queues: bool = False
    """Whether a message that is submitted during a turn reaches that turn."""
    busy_title: str = ""
    """Pattern of the pane's title during a turn, if the pane itself does not always show it."""
    permission_keys: Callable[[str, bool], tuple[str, ...] | None] = no_keys
    """The keys that allow or refuse in the permission dialog of a captured pane; None if no key is
    known to be safe."""
    reports: ReportShape | None = None
    """What its hooks report; None if it has no reporting hooks."""

    def typed(self, pane: str) -> str | None:
        """What was typed into the input line; empty for a hint of the interface."""
        shown = self.input_line(pane)
        if shown is None:
            return None
        shown = shown.strip()
        return "" if any(shown.startswith(hint) for hint in self.hints) else shown

    def holds(self, pane: str, text: str) -> bool:
        """Whether the input line contains `text`, in full or as a placeholder."""
        shown = self.typed(pane)
        if not shown:
            return False
        if self.placeholder and re.search(self.placeholder, shown):
            return True
        return squeezed(text)[-_TAIL:] in squeezed(shown)


_TAIL = 60
"""Characters at the end of a text that identify it."""


def squeezed(text: str) -> str:
    """`text` without the spaces and frame characters that an interface inserts."""
    return "".join(char for char in text if not char.isspace() and char not in "│┃|─❯›>")
