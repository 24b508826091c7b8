"""Aider's output, as events.

Aider writes its two logs to its standard output. So between the lines for people are JSON lines
(one event each) and frames with the exact text of every request and reply:

    {"event": "message_send_starting", …}
    TO LLM 2026-01-01T00:00:00          one line for each line of the request, its role before it
    …the reply, for people…
    LLM RESPONSE 2026-01-01T00:00:01
    ASSISTANT first line of the reply   the reply, exactly
    Tokens: 1.2k sent, 56 received.
    {"event": "message_send", … exact token counts …}
    Applied edit to calc.py

What a model says can look like any of these lines. But it cannot know the random id that Aider
gives its events, so the frame is the last one before a genuine event, and edits are only looked
for outside of replies. A process that exits 0 may have failed, so the log decides.
"""

import msgspec

from bridle.core.errors import (
    Aborted,
    AgentError,
    ContextOverflow,
    Crashed,
    ProtocolDrift,
    ResumeRefused,
)
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.aider import wire
from bridle.runtimes.aider.product import PRODUCT
from bridle.runtimes.aider.wire import LogEvent, Properties, log_event
from bridle.runtimes.errors import reset_time, short
from bridle.runtimes.wire import raw_of
from bridle.turns.recorder import Recorder

_KEPT_LINES = 20
_LONGEST_RESULT = 4000
_QUESTION = wire.QUESTION.encode()
_ANSWERED = b"]: "
_PROCEED = b"Try to proceed anyway?"
_DENIED = "aider cannot ask; permission bypass lets it act"


class AiderNormalizer:
    """Translates one run of Aider. Contract: see `Normalizer`."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        native_session_id: str | None = None,
        resumed: bool = False,
        max_retries: int = 3,
    ) -> None:
        self._recorder = recorder
        self._native = native_session_id
        self._resumed = resumed
        self._restored = False
        self._max_retries = max_retries
        self._aider_id: str | None = None
        self._logged = False
        self._done = False
        self._model = ""
        self._began = False
        """Whether it has called the model; what it says before that is about its start."""
        self._sending = False
        """Between a genuine `message_send_starting` and what ends that model call."""
        self._in_frame = False
        self._frame: list[str] = []
        self._problem: AgentError | None = None
        """The error of the last failed try in this model call; none after a try that went well."""
        self._retries = 0
        self._empty: Properties | None = None
        """Counts of a reply without text: of a real one, or an estimate for a refused request."""
        self._tools = 0
        self._malformed: list[str] | None = None
        self._asked = 0
        self._last: list[str] = []

    # -- what the driver calls ------------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take one line of Aider's stdout."""
        line = line.removesuffix(b"\r")
        question, answered, rest = line.partition(_ANSWERED)
        if answered and _QUESTION in question and (not self._sending or line.startswith(_PROCEED)):
            # A question has no end of line: what comes next is on the same line.
            self._denied(question.decode(errors="replace"), rest.decode(errors="replace"))
            if rest:
                self.feed(rest)
            return
        event = log_event(line)
        if event is not None and self._genuine(event):
            self._recorder.source(raw_of(line))
            self._logged_event(event)
            return
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self._recorder.unknown(raw_of(line))
            return
        if text.strip():
            self._last = [*self._last[1 - _KEPT_LINES :], text]
        if self._sending:
            self._during_call(text)
        else:
            self._between_calls(text)

    def finish(self, exit: ProcessExit) -> None:
        """Judge by the log: a run is completed when Aider says so, after a reply."""
        recorder = self._recorder
        self._close_call()
        if recorder.error is None and not self._done:
            error = self._error_at_end(exit)
            if error is not None:
                recorder.fail(error)
        if self._done and recorder.turn_open:
            recorder.turn_ended()
        recorder.finish(exit)

    def _error_at_end(self, exit: ProcessExit) -> AgentError | None:
        """Why Aider ended before it worked; None when nothing says so."""
        if not self._logged and exit.code == 0:
            failed = next((each for each in self._last if each.startswith(wire.FAILURE)), None)
            if failed is not None:
                return error_of_line(failed)
            return ProtocolDrift("aider ended without any line of its log")
        # Aider complains on either stream.
        said = "\n".join((*self._last, exit.last_words))
        return PRODUCT.errors.of_exit(msgspec.structs.replace(exit, stderr_tail=said))

    # -- events of the log ----------------------------------------------------------------------

    def _genuine(self, event: LogEvent) -> bool:
        """Whether Aider wrote this: it has the id of the first event, which came before any reply.

        The redactor may have taken an id for a secret; then it is the same mark each time.
        """
        if not self._logged:
            self._logged = True
            self._aider_id = event.user_id
        return event.user_id == self._aider_id

    def _logged_event(self, event: LogEvent) -> None:
        recorder = self._recorder
        self._end_malformed()
        if event.event == "message_send_starting":
            self._close_call()
            if self._resumed and not self._restored:
                recorder.request_stop(ResumeRefused("aider did not restore the conversation"))
            recorder.session_started(self._native, model=self._model or None)
            recorder.turn_started(evidence="message_send_starting")
            self._began = self._sending = True
            self._retries = 0
        elif event.event == "message_send":
            self._reply(event.properties)
        elif event.event == "message_send_exception":
            self._problem = Crashed(short(event.properties.exception) or "the model call failed")
            self._close_call()
        elif event.event == "exit":
            self._close_call()
            self._done = event.properties.reason.startswith("Completed --message")
            if not self._done and event.properties.reason:
                recorder.fail(Crashed(f"aider gave up: {short(event.properties.reason)}"))

    def _reply(self, counts: Properties) -> None:
        """A model call went well, or was refused for its size and only estimated."""
        text = "\n".join(self._frame)
        self._sending = self._in_frame = False
        self._frame, self._problem = [], None
        if not text:
            self._empty = counts
            return
        self._say(text, counts)

    def _say(self, text: str, counts: Properties | None) -> None:
        recorder = self._recorder
        recorder.message_started()
        recorder.text_delta(text, synthetic=True)
        recorder.message_ended(
            usage=None if counts is None else _usage(counts),
            model=self._model or None,
            # A model without a known price has cost 0.
            cost_usd=counts.cost if counts is not None and counts.cost > 0 else None,
        )

    def _close_call(self) -> None:
        """End a model call: record what the model said, fail the turn if the call failed."""
        if self._empty is not None:
            counts, self._empty = self._empty, None
            self._say("", counts)
        if not self._sending:
            return
        text = "\n".join(self._frame)
        self._sending = self._in_frame = False
        self._frame = []
        if text:
            self._say(text, None)
        elif self._problem is None:
            stopped = any("^C" in line for line in self._last)
            kind = Aborted if stopped else Crashed
            self._problem = kind("the model call ended without a reply")
        if self._problem is not None:
            self._recorder.fail(self._problem)
            self._problem = None

    # -- lines for people -----------------------------------------------------------------------

    def _during_call(self, text: str) -> None:
        """Requests and replies in frames; other lines repeat the reply, or name an error."""
        if text.startswith(wire.REQUEST):
            self._in_frame = False
            self._frame = []
            self._recorder.next_call()
        elif text.startswith(wire.REPLY):
            self._in_frame, self._frame = True, []
            self._problem = None
        elif self._in_frame and text.startswith(wire.REPLY_LINE):
            self._frame.append(text[len(wire.REPLY_LINE) :])
        elif self._in_frame and not self._frame:
            self._after_failure(text)
        elif self._in_frame and text.endswith(wire.TOKEN_LIMIT):
            self._problem = ContextOverflow(
                "the answer was cut: it reached the most tokens the model may write"
            )
        elif text.startswith(wire.TOO_LARGE):
            self._problem = self._problem or ContextOverflow(short(text))

    def _after_failure(self, text: str) -> None:
        """A try gave no reply: what follows says why, and whether Aider tries again."""
        if text.startswith(wire.FAILURE):
            self._problem = error_of_line(text, self._model)
        elif text.endswith(wire.TOKEN_LIMIT):
            self._problem = ContextOverflow("the request is larger than the model's window")
        elif text.startswith(wire.RETRYING) and self._problem is not None:
            self._retries += 1
            if self._retries > self._max_retries:
                # Aider itself continues for a minute, or for ever.
                self._recorder.request_stop(self._problem)
                return
            delay = text[len(wire.RETRYING) :].split()[0]
            seconds = float(delay) if delay.replace(".", "", 1).isdigit() else None
            self._recorder.retrying(
                self._retries, None if seconds is None else int(seconds * 1000), self._problem
            )

    def _between_calls(self, text: str) -> None:
        recorder = self._recorder
        if not text.strip():
            return
        if self._malformed is not None:
            if sum(map(len, self._malformed)) < _LONGEST_RESULT:
                self._malformed.append(text)
            return
        if self._announced(text):
            return
        if self._empty is not None and text.endswith(wire.TOKEN_LIMIT):
            # The counts are Aider's estimate of a request that the service refused.
            self._empty = None
            recorder.fail(ContextOverflow("the request is larger than the model's window"))
        elif not self._began:
            recorder.unknown(raw_of(text.encode()))
        elif text.startswith(wire.APPLIED):
            self._tool("edit", {"path": text[len(wire.APPLIED) :]}, text)
        elif text.startswith(wire.COMMITTED):
            self._tool("commit", {"commit": text[len(wire.COMMITTED) :].split()[0]}, text)
        elif text == wire.MALFORMED:
            self._malformed = []
        else:
            recorder.unknown(raw_of(text.encode()))

    def _announced(self, text: str) -> bool:
        """Whether a line only says how Aider was started, such as the model's name."""
        for begin in wire.ANNOUNCED_MODEL:
            if text.startswith(begin) and not self._began:
                self._model = text[len(begin) :].partition(" with ")[0]
                return True
        if text == wire.RESTORED and not self._began:
            self._restored = True
            return True
        return text.startswith(wire.CHATTER)

    def _denied(self, question: str, rest: str) -> None:
        """Record a question that Aider asked; its input answers every one with no."""
        self._asked += 1
        if not self._began:
            self._recorder.session_started(self._native, model=self._model or None)
        self._recorder.permission_decided(
            f"ask_{self._asked}",
            tool_name="edit" if rest.startswith(wire.SKIPPED) else question.partition("?")[0],
            decision="deny",
            by="bridle",
            reason=_DENIED,
        )

    def _tool(self, name: str, args: dict[str, str], result: str, *, error: bool = False) -> None:
        """Record what Aider did by itself with a reply as the call of a tool."""
        self._tools += 1
        call = f"{name}_{self._tools}"
        self._recorder.tool_started(call, name, args, synthetic=True)
        self._recorder.tool_ended(call, is_error=error, result=result, synthetic=True)

    def _end_malformed(self) -> None:
        """Record an edit that could not be applied, with Aider's report to the model."""
        if self._malformed is not None:
            report, self._malformed = self._malformed, None
            self._tool("edit", {}, "\n".join(report)[:_LONGEST_RESULT], error=True)


def _usage(counts: Properties) -> Usage:
    """Cached tokens are part of the input; Aider does not report them separately."""
    return Usage(input_tokens=counts.prompt_tokens, output_tokens=counts.completion_tokens)


_STATUS = {
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "UnprocessableEntityError": 422,
    "BadRequestError": 400,
    "InvalidRequestError": 400,
    "UnsupportedParamsError": 400,
    "ContentPolicyViolationError": 400,
    "RateLimitError": 429,
    "RouterRateLimitError": 429,
    "BadGatewayError": 502,
    "ServiceUnavailableError": 503,
}
"""Classes of the library that Aider calls models with, and the HTTP status of each; 500 for all
others."""


def error_of_line(line: str, model: str = "") -> AgentError:
    """The error in a line such as `litellm.RateLimitError: RateLimitError: … - words`."""
    name, _, rest = line.removeprefix(wire.FAILURE).partition(":")
    words = rest.strip().removeprefix(f"{name}: ").strip()
    _, dash, said = words.partition("Exception - ")
    text = said if dash and said else words
    return PRODUCT.errors.of_call(
        text or f"the model call failed ({name})",
        status=_STATUS.get(name, 500),
        tag=name,
        until=reset_time(text),
        model=model,
    )
