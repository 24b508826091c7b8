"""`codex app-server`: the lines it speaks, as typed structs, and a client for single requests.

Both sides ask: our requests are numbered by us, Codex's by Codex, from 0, so a line with a method
and an id is a request of Codex's, with any number. Items are turned into those of `exec`, so
that a tool looks the same on both wires. The wire of a conversation is in `live`.

The client also imports conversations that another agent had. `externalAgentConfig/import` takes
sessions of Claude Code that it finds below `~/.claude/projects`, and makes a thread of each, with
tool calls and results as text. Seen on 0.166.0: it takes only files that it detects itself; 0.120.0
imports no sessions and refuses the request. So the conversation is written in that form into a home
of its own, which only the importing process sees, and the thread goes into Codex's real home.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from bridle._version import __version__
from bridle.core import structs
from bridle.core.files import make_private_dir
from bridle.runtimes.codex import command, wire
from bridle.runtimes.codex.product import PRODUCT
from bridle.runtimes.past_conversation import PastMessage, PastTool
from bridle.runtimes.planner import Launch
from bridle.turns.event_writer import utc_now
from bridle.turns.rpc import encode_line

RequestId = int | str

UNWANTED = (
    "account/rateLimits/updated",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/plan/delta",
    "item/reasoning/textDelta",
    "mcpServer/startupStatus/updated",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/started",
    "turn/diff/updated",
)
"""Notifications that Codex is asked not to send; it does not promise to obey."""

IGNORED = frozenset(
    {
        *UNWANTED,
        "configWarning",
        "hook/completed",
        "hook/started",
        "item/reasoning/summaryPartAdded",
        "thread/closed",
        "thread/compacted",
        "thread/status/changed",
    }
)
"""Notifications that repeat what other messages say, or that `exec` does not show."""


def introduction(**abilities: Any) -> dict[str, Any]:
    """The parameters of `initialize`."""
    info = {"name": "bridle", "title": "Bridle", "version": __version__}
    return {"clientInfo": info, "capabilities": {"experimentalApi": True, **abilities}}


def own_command(*words: str) -> dict[str, Any]:
    """The parameters of `command/exec`: a command of ours, in no sandbox and no turn."""
    return {"command": list(words), "sandboxPolicy": {"type": "dangerFullAccess"}}


class RpcError(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    code: int = 0
    message: str = ""


class Line(msgspec.Struct, frozen=True):
    """Any line. With `method` and `id` a request, with `method` alone a notification, else the
    response to one of our requests."""

    id: RequestId | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: RpcError | None = None


# -- threads and turns ----------------------------------------------------------------------------


class Thread(msgspec.Struct, frozen=True, rename="camel"):
    """A conversation, and the file it is written to."""

    id: str
    path: str | None = None
    forked_from_id: str | None = None
    """The thread that it is a copy of."""


class ThreadOpened(msgspec.Struct, frozen=True):
    """The answer to `thread/start`, `thread/resume` and `thread/fork`."""

    thread: Thread
    model: str | None = None


class CommandDone(msgspec.Struct, frozen=True):
    """The answer to `command/exec`."""

    stdout: str = ""


class TurnError(msgspec.Struct, frozen=True, rename="camel"):
    """Why a model call or a turn failed."""

    message: str = ""
    codex_error_info: Any = None
    additional_details: str | None = None


class Turn(msgspec.Struct, frozen=True):
    """A turn; `status` is `inProgress`, `completed`, `interrupted` or `failed`."""

    id: str
    status: str = ""
    error: TurnError | None = None


class TurnChanged(msgspec.Struct, frozen=True, rename="camel"):
    """`turn/started` and `turn/completed`."""

    thread_id: str
    turn: Turn


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """`error`: a call that will be tried again, or what `turn/completed` repeats."""

    thread_id: str
    error: TurnError
    will_retry: bool = False


class Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """Token counts, in Codex's meaning."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def as_exec(self) -> wire.WireUsage:
        """The same as `exec` prints it."""
        return structs.convert(self, wire.WireUsage, from_attributes=True)


class TokenUsage(msgspec.Struct, frozen=True):
    """The running total of a thread; `last`, which is sometimes an estimate, is not read."""

    total: Tokens


class UsageUpdated(msgspec.Struct, frozen=True, rename="camel"):
    """`thread/tokenUsage/updated`: often the same again."""

    thread_id: str
    token_usage: TokenUsage


class PlanStep(msgspec.Struct, frozen=True):
    """One step of the agent's plan."""

    step: str = ""
    status: str = ""


class PlanUpdated(msgspec.Struct, frozen=True, rename="camel"):
    """`turn/plan/updated`."""

    thread_id: str
    turn_id: str
    plan: list[PlanStep] = []


class Settings(msgspec.Struct, frozen=True):
    """What a thread works with."""

    model: str | None = None


class SettingsUpdated(msgspec.Struct, frozen=True, rename="camel"):
    """`thread/settings/updated`."""

    thread_id: str
    thread_settings: Settings


class Rerouted(msgspec.Struct, frozen=True, rename="camel"):
    """`model/rerouted`: another model answers."""

    thread_id: str
    to_model: str


class Resolved(msgspec.Struct, frozen=True, rename="camel"):
    """`serverRequest/resolved`: a request of Codex's is answered or void."""

    request_id: RequestId


# -- items ----------------------------------------------------------------------------------------


class UserMessage(msgspec.Struct, frozen=True, tag="userMessage", rename="camel"):
    """A message has become part of the conversation. Older versions do not give our id for it."""

    id: str
    client_id: str | None = None
    content: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        """What it says, without its images."""
        return "".join(str(part.get("text") or "") for part in self.content)


class AgentMessage(msgspec.Struct, frozen=True, tag="agentMessage"):
    """The model's text."""

    id: str
    text: str = ""


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """A summary of the model's reasoning, in parts."""

    id: str
    summary: list[str] = []


class Tool(msgspec.Struct, frozen=True):
    """A call of a tool."""

    shown: ClassVar[type[wire.Tool]]

    id: str

    def as_exec(self) -> wire.Tool:
        """The item as `exec` prints it."""
        return structs.convert(self, self.shown, from_attributes=True)


class CommandExecution(Tool, frozen=True, tag="commandExecution", rename="camel"):
    """A shell command."""

    shown = wire.CommandExecution

    command: str = ""
    aggregated_output: str | None = None
    exit_code: int | None = None
    status: str = ""

    def as_exec(self) -> wire.Tool:
        """The item as `exec` prints it: without output rather than with none."""
        whole = self.aggregated_output or ""
        return Tool.as_exec(msgspec.structs.replace(self, aggregated_output=whole))


class ChangeKind(msgspec.Struct, frozen=True):
    """What is done to a file."""

    type: str = ""


class Change(msgspec.Struct, frozen=True):
    """A changed file."""

    path: str
    kind: ChangeKind = ChangeKind()


class FileChange(Tool, frozen=True, tag="fileChange"):
    """A patch."""

    changes: list[Change] = []
    status: str = ""

    def as_exec(self) -> wire.Tool:
        """The item as `exec` prints it."""
        changes = [{"path": each.path, "kind": each.kind.type} for each in self.changes]
        return wire.FileChange(id=self.id, changes=changes, status=self.status)


class McpResult(msgspec.Struct, frozen=True, rename="camel"):
    """What an MCP tool returned."""

    content: Any = None
    structured_content: Any = None


class McpToolCall(Tool, frozen=True, tag="mcpToolCall"):
    """A call of a tool of an MCP server."""

    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: McpResult | None = None
    error: wire.ErrorText | None = None
    status: str = ""

    def as_exec(self) -> wire.Tool:
        """The item as `exec` prints it."""
        result = self.result
        return wire.McpToolCall(
            id=self.id,
            server=self.server,
            tool=self.tool,
            arguments=self.arguments,
            result=None if result is None else msgspec.structs.asdict(result),
            error=self.error,
            status=self.status,
        )


class WebSearch(Tool, frozen=True, tag="webSearch"):
    """A search that the model service made."""

    shown = wire.WebSearch

    query: str = ""
    action: Any = None


class CollabToolCall(Tool, frozen=True, tag="collabAgentToolCall", rename="camel"):
    """A sub-agent was started, written to, or waited for."""

    shown = wire.CollabToolCall

    tool: str = ""
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agents_states: Any = None
    status: str = ""

    def as_exec(self) -> wire.Tool:
        """The item as `exec` prints it, which writes the tool's name in snake case."""
        return Tool.as_exec(msgspec.structs.replace(self, tool=wire.snake_case(self.tool)))


class Compaction(msgspec.Struct, frozen=True, tag="contextCompaction"):
    """The context is being compacted."""

    id: str


ToolItem = CommandExecution | FileChange | McpToolCall | WebSearch | CollabToolCall
Item = UserMessage | AgentMessage | Reasoning | ToolItem | Compaction


class ItemChanged(msgspec.Struct, frozen=True, rename="camel"):
    """`item/started` and `item/completed`."""

    thread_id: str
    turn_id: str
    item: Item


class Delta(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of text of an item."""

    thread_id: str
    turn_id: str
    item_id: str
    delta: str = ""
    message: str = ""
    """The same for the progress of an MCP tool."""
    summary_index: int = 0


# -- requests of Codex's -------------------------------------------------------------------------


class Approval(msgspec.Struct, frozen=True, rename="camel"):
    """`item/commandExecution/requestApproval`, `item/fileChange/requestApproval` and
    `item/permissions/requestApproval`."""

    thread_id: str
    item_id: str
    command: str | None = None
    cwd: str | None = None
    reason: str | None = None
    grant_root: str | None = None
    permissions: Any = None


class ElicitationMeta(msgspec.Struct, frozen=True):
    """What Codex says about a request that looks like one of an MCP server."""

    codex_approval_kind: str | None = None
    tool_params: Any = None


class Elicitation(msgspec.Struct, frozen=True, rename="camel"):
    """`mcpServer/elicitation/request`: a server asks the user, or Codex asks whether one of its
    tools may be called."""

    thread_id: str
    server_name: str
    message: str = ""
    meta: ElicitationMeta | None = msgspec.field(default=None, name="_meta")


# -- a client for single requests -----------------------------------------------------------------


_LEAVE = 10.0
"""Seconds to leave when its input ends."""


class AppServer:
    """A process of `codex app-server` that answers a few requests outside of any session.

    Contract: a context manager; blocking. All waits together end after `seconds`. Whatever goes
    wrong is an `OSError`: no start, no response in time, a refusal.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], seconds: float
    ) -> None:
        import subprocess
        import time

        self._until = time.monotonic() + seconds
        self._count = 0
        self._data = b""
        self._lines: list[Line] = []
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        try:
            self.request("initialize", introduction())
            self._write({"method": "initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        """End it: by the end of its input, which lets it save what it answered, else by force."""
        import signal
        import subprocess

        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """The result of a request."""
        self._count += 1
        self._write({"id": self._count, "method": method, "params": params})
        while (line := self._next()).id != self._count or line.method is not None:
            pass
        if line.error is not None:
            raise OSError(f"it refused {method}: {line.error.message}")
        return bytes(line.result)

    def notification(self, method: str) -> bytes:
        """The parameters of the next notification `method`."""
        while (line := self._next()).method != method:
            pass
        return bytes(line.params)

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(encode_line(message))
        self._process.stdin.flush()

    def _next(self) -> Line:
        import select
        import time

        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while not self._lines:
            left = max(0.0, self._until - time.monotonic())
            if not select.select([handle], [], [], left)[0]:
                raise TimeoutError("it did not answer in time")
            piece = os.read(handle, 1 << 16)
            if not piece:
                raise OSError("it ended without an answer")
            *lines, self._data = (self._data + piece).split(b"\n")
            for each in lines:
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    self._lines.append(structs.decode(each, Line))
        return self._lines.pop(0)


# -- the import of another agent's conversation ---------------------------------------------------

_IMPORT_SECONDS = 60.0
"""For the whole import; it takes well under one."""
_CLAUDE_VERSION = "2.1.197"
"""A version of Claude Code that wrote this form."""


class _Success(msgspec.Struct, frozen=True):
    target: Any = None


class _Results(msgspec.Struct, frozen=True):
    successes: list[_Success] = []


class _Imported(msgspec.Struct, frozen=True, rename="camel"):
    item_type_results: list[_Results] = []


def import_conversation(launch: Launch, messages: Iterable[PastMessage]) -> str | None:
    """The id of the thread that Codex made of `messages`, None if it made none.

    A thread cannot be resumed under another provider than the one it was made under, so the import
    runs under that of `launch`.
    """
    import tempfile

    options, cwd = launch.options, launch.cwd
    if options.model_server is not None and options.account_dir is None:
        # The home of such a run is removed with it, and the thread too.
        return None
    made = command.environment(launch)
    env = {**made.variables, **options.env, **made.final}
    home = make_private_dir(PRODUCT.home_in(env))
    argv = (*launch.installation.command, "app-server", *command.service_flags(launch))
    with tempfile.TemporaryDirectory(prefix="bridle-import-") as folder:
        sessions = {"path": _written(folder, messages, cwd), "cwd": cwd, "title": None}
        item = {
            "itemType": "SESSIONS",
            "description": "a session of another agent",
            "cwd": None,
            "details": {"sessions": [sessions]},
        }
        env |= {"HOME": folder, command.HOME: home}
        try:
            with AppServer(argv, cwd=cwd, env=env, seconds=_IMPORT_SECONDS) as server:
                server.request("externalAgentConfig/import", {"migrationItems": [item]})
                done = server.notification("externalAgentConfig/import/completed")
            results = structs.decode(done, _Imported).item_type_results
        except (OSError, msgspec.MsgspecError):
            return None
    targets = (success.target for each in results for success in each.successes)
    return next((each for each in targets if isinstance(each, str)), None)


def _written(folder: str, messages: Iterable[PastMessage], cwd: str) -> str:
    """The conversation as a file of Claude Code's in the home `folder`."""
    import re
    import uuid

    session_id = str(uuid.uuid4())
    key = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))[:200]
    place = os.path.join(folder, ".claude", "projects", key)
    os.makedirs(place, mode=0o700)
    path = os.path.join(place, f"{session_id}.jsonl")
    parent = None
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        for ts, kind, message in _claude_messages(messages):
            line = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": cwd,
                "sessionId": session_id,
                "version": _CLAUDE_VERSION,
                "type": kind,
                "message": message,
                "uuid": (parent := str(uuid.uuid4())),
                "timestamp": ts or utc_now(),
            }
            file.write(encode_line(line))
    return path


def _claude_messages(
    messages: Iterable[PastMessage],
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Time, type and message of each line."""
    for number, message in enumerate(messages, 1):
        if message.from_user:
            yield message.ts, "user", {"role": "user", "content": message.text}
            continue
        blocks = [{"type": "text", "text": message.text}] if message.text else []
        blocks += [_call(tool) for tool in message.tools]
        if blocks:
            said = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
            yield message.ts, "assistant", {**said, "model": "unknown", "content": blocks}
        for tool in message.tools:
            result = {
                "type": "tool_result",
                "tool_use_id": tool.id,
                "content": tool.result,
                "is_error": tool.is_error,
            }
            yield message.ts, "user", {"role": "user", "content": [result]}


def _call(tool: PastTool) -> dict[str, Any]:
    args = tool.args if isinstance(tool.args, dict) else {"input": tool.args}
    return {"type": "tool_use", "id": tool.id, "name": tool.name, "input": args}
