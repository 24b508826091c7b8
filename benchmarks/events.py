"""How fast Claude's stream becomes normalized events, against a plain `json.loads` pipeline.

Run it with `python benchmarks/events.py [LINES]`. The stream is the recorded one of a turn with
thinking, text and a tool call, repeated with fresh ids. The plain pipeline is what one would write
first: `json.loads`, dictionaries, one event object each; it redacts nothing, ours does. Before
anything is timed, both must give equal events. Each figure is the best of several rounds, taken in
turns so that a noisy machine hits all of them.
"""

import datetime
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.core.usage import NO_USAGE, Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.product import DIALECTS as CLAUDE_DIALECTS
from bridle.runtimes.claude.stream import ClaudeNormalizer
from bridle.runtimes.claude.wire import line_decoder
from bridle.turns.recorder import Recorder

ROUNDS = 5
SESSION = "6e61a0dd-fe8d-4bbc-a553-71efd7d19e85"
FIXTURE = os.path.join(
    os.path.dirname(__file__),
    "../src/bridle/runtimes/claude/testdata/stream/partial_messages.jsonl",
)


def stream(at_least: int) -> list[bytes]:
    """A session of at least so many lines: one init, many turns of the fixture, one result."""
    with open(FIXTURE, "rb") as file:
        init, *middle, result = file.read().splitlines()
    lines = [init]
    turn = 0
    while len(lines) < at_least:
        turn += 1
        mark = f"_{turn:06d}".encode()
        lines += [line.replace(b"_1794768405", mark) for line in middle]
    return [*lines, result]


class PlainPipeline:
    """The straightforward way: dictionaries all the way, then an event."""

    def __init__(self) -> None:
        self.out: list[ev.Event] = []
        self.seq = 0
        self.message: dict[str, Any] = {}
        self.text = ""
        self.block = ""
        self.calls: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self.last = ""
        self.result: dict[str, Any] = {}

    def emit(self, cls: type[ev.Event], **fields: Any) -> None:
        """Make one event."""
        self.seq += 1
        now = datetime.datetime.now(datetime.UTC)
        self.out.append(
            cls(
                seq=self.seq,
                ts=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                session_id=SESSION,
                runtime="claude",
                **fields,
            )
        )

    def feed(self, line: bytes) -> None:
        """Take one line."""
        data = json.loads(line)
        kind = data["type"]
        if kind == "stream_event":
            self.stream_event(data["event"])
        elif kind == "assistant":
            self.calls += [b for b in data["message"]["content"] if b["type"] == "tool_use"]
        elif kind == "user":
            for block in data["message"]["content"]:
                if block["type"] == "tool_result":
                    self.emit(
                        ev.ToolExecutionEnd,
                        tool_call_id=block["tool_use_id"],
                        tool_name=self.names.pop(block["tool_use_id"]),
                        is_error=bool(block.get("is_error")),
                        result=block["content"],
                    )
        elif kind == "system" and data["subtype"] == "init":
            self.start(data)
        elif kind == "result":
            self.result = data

    def start(self, data: dict[str, Any]) -> None:
        """The session is announced."""
        self.emit(
            ev.SessionStart,
            native_session_id=data["session_id"],
            model=data["model"],
            runtime_version=data["claude_code_version"],
        )
        self.emit(ev.StateChange, old="starting", new="working", evidence="system/init")
        self.emit(ev.AgentStart, turn=1)

    def stream_event(self, event: dict[str, Any]) -> None:
        """A piece of an answer."""
        kind = event["type"]
        if kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                self.text += delta["text"]
                self.update("text_delta", delta["text"])
            elif delta["type"] == "thinking_delta":
                self.update("thinking_delta", delta["thinking"])
        elif kind == "content_block_start":
            self.block = event["content_block"]["type"]
            if self.block in ("text", "thinking"):
                self.update(f"{self.block}_start", "")
        elif kind == "content_block_stop":
            if self.block in ("text", "thinking"):
                self.update(f"{self.block}_end", "")
        elif kind == "message_start":
            self.message = event["message"]
            self.text = ""
            self.emit(ev.MessageStart, message_id=self.message["id"], role="assistant")
        elif kind == "message_delta":
            self.message |= event["delta"]
            self.message["usage"] = event["usage"]
        elif kind == "message_stop":
            self.stop()

    def update(self, kind: str, text: str) -> None:
        """A piece of a block."""
        self.emit(ev.MessageUpdate, message_id=self.message["id"], kind=kind, text=text)

    def stop(self) -> None:
        """The message is complete; its tools start."""
        counts = self.message["usage"]
        self.emit(
            ev.MessageEnd,
            message_id=self.message["id"],
            text=self.text,
            usage=Usage(
                input_tokens=counts["input_tokens"],
                output_tokens=counts["output_tokens"],
                cache_read_tokens=counts["cache_read_input_tokens"],
                cache_write_tokens=counts["cache_creation_input_tokens"],
            ),
            model=self.message["model"],
            stop_reason=self.message["stop_reason"],
        )
        self.last = self.text or self.last
        for call in self.calls:
            self.names[call["id"]] = call["name"]
            self.emit(
                ev.ToolExecutionStart,
                tool_call_id=call["id"],
                tool_name=call["name"],
                args=call["input"],
            )
        self.calls = []

    def finish(self) -> None:
        """The process is gone."""
        usage = NO_USAGE
        for model in self.result["modelUsage"].values():
            usage += Usage(
                input_tokens=model["inputTokens"],
                output_tokens=model["outputTokens"],
                cache_read_tokens=model["cacheReadInputTokens"],
                cache_write_tokens=model["cacheCreationInputTokens"],
            )
        cost = self.result["total_cost_usd"]
        self.emit(ev.UsageTotals, usage=usage, cost_usd=cost)
        self.emit(
            ev.AgentEnd,
            turn=1,
            status="completed",
            text=self.result["result"],
            usage=usage,
            cost_usd=cost,
            marker_detected=self.result["result"].endswith("ORCHESTRA_COMPLETE"),
        )
        self.emit(ev.StateChange, old="working", new="stopped", evidence="process exited 0")
        self.emit(ev.SessionEnd, exit_code=0, reason="process exited 0")


def plain(lines: list[bytes]) -> list[ev.Event]:
    """All events, by the plain pipeline."""
    pipeline = PlainPipeline()
    feed = pipeline.feed
    for line in lines:
        feed(line)
    pipeline.finish()
    return pipeline.out


def ours(lines: list[bytes]) -> list[ev.Event]:
    """All events, by Bridle, with a key to keep out of them."""
    recorder = Recorder(
        runtime="claude",
        session_id=SESSION,
        options=RunOptions(prompt="go"),
        redactor=Redactor(["sk-ant-secret-0123456789abcdefghij"]),
    )
    normalizer = ClaudeNormalizer(recorder, known_models=CLAUDE_DIALECTS[0].known_models)
    feed = normalizer.feed
    for line in lines:
        feed(line)
    normalizer.finish(ProcessExit(code=0))
    return recorder.drain()


def plain_lines(lines: list[bytes]) -> int:
    """Lines in, lines of JSON out, by the plain pipeline."""
    return sum(len(json.dumps(msgspec.to_builtins(event))) for event in plain(lines))


def our_lines(lines: list[bytes]) -> int:
    """Lines in, lines of JSON out, by Bridle."""
    return sum(len(ev.encode_event(event)) for event in ours(lines))


def decode_alone(lines: list[bytes]) -> None:
    """Only the typed decoding: the floor."""
    decode = line_decoder.decode
    for line in lines:
        decode(line)


def loads_alone(lines: list[bytes]) -> None:
    """Only `json.loads`."""
    for line in lines:
        json.loads(line)


def without_time(events: list[ev.Event]) -> list[ev.Event]:
    """The same events with no clock in them, for comparison."""
    return [msgspec.structs.replace(event, ts="") for event in events]


def main() -> int:
    """Check, measure, print; exit status 1 when the goal of three times is missed."""
    lines = stream(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    mine, reference = without_time(ours(lines)), without_time(plain(lines))
    if mine != reference:
        wrong = next((a, b) for a, b in zip(mine, reference, strict=False) if a != b)
        print(f"events differ: {len(mine)} and {len(reference)}; first: {wrong}")
        return 1
    count = len(mine)
    jobs: dict[str, Callable[[list[bytes]], object]] = {
        "json.loads pipeline": plain,
        "bridle": ours,
        "json.loads alone": loads_alone,
        "msgspec decode alone": decode_alone,
        "json.loads pipeline, JSON out": plain_lines,
        "bridle, JSON out": our_lines,
    }
    best = dict.fromkeys(jobs, float("inf"))
    del mine, reference
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            start = time.process_time()
            job(lines)
            best[name] = min(best[name], time.process_time() - start)
    size = sum(map(len, lines)) / 1e6
    print(f"{len(lines)} lines, {size:.1f} MB, {count} events, equal; CPU time, best of {ROUNDS}")
    print(f"{'what':32}{'us/line':>9}{'lines/s':>12}{'events/s':>12}{'times':>8}")
    for name, seconds in best.items():
        base = best["json.loads pipeline, JSON out" if "out" in name else "json.loads pipeline"]
        each = seconds / len(lines) * 1e6
        print(
            f"{name:32}{each:9.2f}{len(lines) / seconds:12.0f}"
            f"{count / seconds:12.0f}{base / seconds:8.2f}"
        )
    ratio = best["json.loads pipeline"] / best["bridle"]
    print(f"goal: at least 3 times the json.loads pipeline; measured {ratio:.2f}")
    return 0 if ratio >= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
