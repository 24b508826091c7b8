"""What a runtime can do, told before anything is asked of it."""

import msgspec


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Abilities of one runtime in one dialect. `options` is checked before anything starts."""

    options: frozenset[str] = frozenset()
    """Names of the `RunOptions` fields it honours, beside those every runtime must."""
    interactive: bool = False
    """Has a terminal interface that a person can use."""
    streaming: bool = False
    """Text arrives in pieces while the model writes."""
    thinking: bool = False
    """Reasoning text is shown."""
    exact_thinking: bool = True
    """The reasoning is shown as the model wrote it, white space included."""
    message_usage: bool = False
    """Each message tells its own token counts; otherwise only totals come at the end."""
    cache_usage: bool = True
    """Token counts tell cached input and reasoning apart from the rest."""
    reports_cost: bool = False
    """The runtime itself tells what a run cost."""
    retries: bool = False
    """Tells when it tries a failed model call again."""
    retry_cause: bool = True
    """Tells then how the call failed, not only that it did."""
    limit_end: bool = False
    """The error of a used-up limit tells when the limit ends."""
    reports_model: bool = True
    """Tells which model answered."""
    largest_input: int | None = None
    """Characters that it gives its model at the most; a turn that has more ends as
    `context_overflow`. None where it cuts tool output itself and sets no such limit."""
    output_schema: bool = False
    """The CLI itself holds the answer to a JSON Schema; otherwise the prompt asks for it."""
    resume: bool = False
    fork: bool = False
    """The provider option `fork`, with `resume`, goes on in a copy of the conversation."""
    steer: bool = False
    """A message can reach the model at the next tool boundary of the running turn."""
    follow_up: bool = False
    """A session takes a further message, queued until the turn ends."""
    abort: bool = False
    compaction: bool = False
    """Events tell when it shortens its context."""
    compact: bool = False
    """A session of the drive `rpc` can be asked to shorten its context."""
    drives: tuple[str, ...] = ("print",)
    asks: tuple[str, ...] = ()
    """Where its permission requests reach the caller: drives, and `acp` for a product whose
    runs ask by its ACP mode. Empty where it asks nowhere."""
    instruction_file: str | None = None

    def in_session(self, drive: str) -> "Features":
        """What it can do in a session of `drive`. With a process for each turn there is none that
        could be reached while it works, or told anything between turns; a terminal has no way to
        copy a conversation or to ask for a shorter context."""
        if drive == "print":
            return msgspec.structs.replace(
                self, steer=False, fork=False, compact=False, follow_up=self.resume, abort=True
            )
        if drive == "tmux":
            return msgspec.structs.replace(
                self, fork=False, compact=False, follow_up=True, abort=True
            )
        return self
