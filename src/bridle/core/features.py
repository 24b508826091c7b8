"""The abilities of a runtime, known before it starts."""

import msgspec


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Abilities of one runtime in one dialect. `options` is checked before anything starts."""

    options: frozenset[str] = frozenset()
    """Names of the `RunOptions` fields it honours, in addition to those that every runtime must."""
    interactive: bool = False
    """Has a terminal interface that a person can use."""
    streaming: bool = False
    """Text arrives in pieces while the model writes."""
    thinking: bool = False
    """Reasoning text is shown."""
    exact_thinking: bool = True
    """The reasoning is shown as the model wrote it, white space included."""
    message_usage: bool = False
    """Each message reports its own token counts; otherwise only totals come at the end."""
    cache_usage: bool = True
    """Token counts report cached input and reasoning separately."""
    reports_cost: bool = False
    """The runtime itself reports what a run cost."""
    retries: bool = False
    """Reports when it retries a failed model call."""
    retry_cause: bool = True
    """These reports say how the call failed, not only that it did."""
    limit_end: bool = False
    """The error of a reached limit says when the limit ends."""
    reports_model: bool = True
    """Reports which model answered."""
    largest_input: int | None = None
    """The most characters that it gives its model; a turn with more ends as `context_overflow`.
    None where it cuts tool output itself and sets no such limit."""
    output_schema: bool = False
    """The CLI itself makes the answer fit a JSON Schema; otherwise the prompt asks for it."""
    resume: bool = False
    fork: bool = False
    """The provider option `fork`, with `resume`, continues in a copy of the conversation."""
    steer: bool = False
    """A message can reach the model at the next tool boundary of the running turn."""
    follow_up: bool = False
    """A session takes a further message, queued until the turn ends."""
    abort: bool = False
    compaction: bool = False
    """Events report when it compacts its context."""
    compact: bool = False
    """A session of the drive `rpc` can be asked to compact its context."""
    drives: tuple[str, ...] = ("print",)
    asks: tuple[str, ...] = ()
    """Drives in which its permission requests reach the caller. A run in which somebody answers
    them uses such a drive. Empty if it never asks."""
    instruction_file: str | None = None
    over: dict[str, "Features"] = {}
    """Its abilities in a drive, where they differ from those of its runs."""

    def in_session(self, drive: str) -> "Features":
        """The abilities in a session of `drive`. With a process for each turn, nothing can reach
        the agent while it works or between turns; a terminal has no way to copy a conversation or
        to ask for compaction."""
        if drive in self.over:
            return self.over[drive]
        if drive == "print":
            return msgspec.structs.replace(
                self, steer=False, fork=False, compact=False, follow_up=self.resume, abort=True
            )
        if drive == "tmux":
            return msgspec.structs.replace(
                self, fork=False, compact=False, follow_up=True, abort=True
            )
        return self
