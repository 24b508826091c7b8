"""A tiny real agent and its adapter, for tests of what drives agents.

The agent is a process of its own that obeys the lines of its prompt:

    say TEXT          a message, in one delta a word
    tool COMMAND      runs COMMAND in a shell and tells what it printed
    ask NAME          asks for permission and says what was answered
    child             leaves a `sleep` in a session of its own behind
    count N           N messages, as fast as it can
    hang              waits for ever (and ends on SIGTERM)
    fail TEXT         reports a failure of its turn
    die               ends without a word
    garbage           prints what nobody understands
"""

import json
import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from bridle.core.errors import RateLimited
from bridle.core.features import Features
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit, ProcessSpec, StopStep
from bridle.runtimes.contract import Adapter
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import agent_env, check_options, working_dir
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer, Question

AGENT = r"""
import json, os, subprocess, sys, time

def tell(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()

tell(t="session", id="tiny-1")
size = int(sys.stdin.readline())
script = sys.stdin.read(size).splitlines()
for number, row in enumerate(script):
    word, _, rest = row.partition(" ")
    if word == "say":
        for piece in rest.split(" "):
            tell(t="text", text=piece + " ")
        tell(t="end", tokens=len(rest.split()))
    elif word == "tool":
        tell(t="tool", id=str(number), command=rest)
        done = subprocess.run(["sh", "-c", rest], capture_output=True, text=True)
        tell(t="done", id=str(number), out=done.stdout, bad=done.returncode != 0)
    elif word == "ask":
        tell(t="ask", id=str(number), name=rest)
        tell(t="text", text="answer: " + sys.stdin.readline().strip())
        tell(t="end", tokens=1)
    elif word == "child":
        subprocess.Popen(["sleep", "99"], start_new_session=True, stdout=subprocess.DEVNULL)
    elif word == "count":
        for each in range(int(rest)):
            tell(t="text", text="message %d" % each)
            tell(t="end", tokens=1)
    elif word == "hang":
        tell(t="text", text="hanging")
        time.sleep(99)
    elif word == "fail":
        tell(t="failed", why=rest)
    elif word == "die":
        sys.stderr.write("dying with key %s\n" % os.environ.get("TINY_API_KEY", "none"))
        os._exit(3)
    elif word == "garbage":
        sys.stdout.write("\x00 not json \u2028\n{\"half\": \n")
        sys.stdout.flush()
tell(t="over")
"""


class TinyNormalizer:
    """Translates the tiny agent's wire."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def feed(self, line: bytes) -> None:
        try:
            message: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            self.recorder.unknown(line.decode(errors="replace"))
            return
        recorder, kind = self.recorder, message.get("t")
        if kind == "session":
            recorder.session_started(message["id"], model="tiny")
            recorder.turn_started()
        elif kind == "text":
            if not recorder.message_open:
                recorder.message_started()
            recorder.text_delta(message["text"])
        elif kind == "end":
            recorder.message_ended(usage=Usage(output_tokens=message["tokens"]))
        elif kind == "tool":
            recorder.tool_started(message["id"], "shell", {"command": message["command"]})
        elif kind == "done":
            recorder.tool_ended(message["id"], is_error=message["bad"], result=message["out"])
        elif kind == "ask":
            recorder.permission_requested(
                Question(
                    request_id=message["id"],
                    tool_name=message["name"],
                    args={},
                    answer=lambda ok, why: json.dumps([ok, why]).encode() + b"\n",
                )
            )
        elif kind == "failed":
            recorder.fail(RateLimited(message["why"]))
        elif kind == "over":
            recorder.turn_ended()
            recorder.input_done = True
        else:
            recorder.unknown(message)

    def finish(self, exit: ProcessExit) -> None:
        self.recorder.finish(exit)


class TinyRuntime(Adapter):
    """The adapter to the tiny agent."""

    id = "tiny"
    binary = sys.executable
    instruction_path = "TINY.md"

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        return Dialect(name="tiny", since=(1,), seen=("1.0",), capture=""), True, ""

    def features_of(self, dialect: Dialect) -> Features:
        return Features(options=frozenset({"model", "max_turns"}), streaming=True)

    def find(self) -> Installation | None:
        return Installation(binary=sys.executable, version="1.0")

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        return "unknown"

    def build_spawn_command(self, options: SpawnOptions) -> str:
        return "true"

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        return ["true"]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        return {}

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        ignored = check_options(self, options, self.features)
        cwd = working_dir(options)
        prompt = options.prompt.encode()
        return RunPlan(
            spec=ProcessSpec(
                argv=(sys.executable, "-I", "-S", "-c", AGENT),
                env=agent_env(env, options, session_id, cwd),
                cwd=cwd,
                stdin=b"%d\n" % len(options.prompt) + prompt,
                keep_stdin=True,
                stop=(StopStep(signal=15, grace=5.0),),
            ),
            session_id=session_id,
            installation=Installation(binary=sys.executable, version="1.0"),
            dialect=self.dialect(None)[0],
            ignored_options=ignored,
        )

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        return TinyNormalizer(recorder)
