"""One tool call, one policy, one verdict.

`Judge` prepares a policy once; `judge` is the one-call form. Neither raises: whatever goes wrong is
a block with a reason.
"""

from typing import Any

import msgspec

from bridle.guard import tools
from bridle.guard.arguments import Arguments, Fields, Trace, check_name
from bridle.guard.budget import limited, spend
from bridle.guard.commands.registry import check_safe
from bridle.guard.paths import PathError
from bridle.guard.policy import Policy, PolicyError, check
from bridle.guard.verdict import ALLOW, NO_AGENT, Blocked, Call, Verdict, block

MAX_TYPED = 1 << 16
MAX_BATCH = 64

_REFUSED = {
    "team": ("team-tool", "is a tool for sub-agents and teams"),
    "interactive": ("interactive-tool", "needs a person to answer"),
    "foreign": ("unknown-tool", "commands cannot be judged"),
    "schedule": ("scheduler", "acts outside this session"),
}


class Judge(Arguments):
    """A prepared policy. Contract: `judge` never raises, and may be called from any thread."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._refusal: Verdict | None = None
        try:
            check(policy)
            if policy.capability is not None:
                check_safe(policy)
                super().__init__(policy)
        except (PolicyError, PathError, OSError) as error:
            self._refusal = block("policy-error", f"the guard's policy is wrong: {error}")

    def judge(self, call: Call) -> Verdict:
        """The verdict on the call."""
        if self._refusal is not None:
            return self._refusal
        if self.policy.capability is None:
            return NO_AGENT
        try:
            with limited():
                self.decide(call, None)
        except Blocked as blocked:
            return blocked.verdict()
        except RecursionError:
            return block("shell-unparsed", "the call is nested too deeply")
        except Exception as error:
            # An error of the judge must not let the call through.
            return block("internal-error", f"the guard failed ({type(error).__name__})")
        return ALLOW

    def decide(self, call: Call, trace: Trace) -> None:
        """Return when the call may run, raise `Blocked` when not; parts go to the trace."""
        name = call.tool
        if not isinstance(name, str) or not name or len(name) > 256:
            raise Blocked("bad-input", "the call names no tool")
        own = self.policy.override
        if name in own.deny_tools:
            raise Blocked("tool-denied", f"the tool {name} is denied to your role")
        if name in own.allow_tools:
            return
        fields = _fields(call.input)
        tool = tools.lookup(name)
        if tool is None:
            self.judge_unknown(name, fields, trace)
            return
        if name not in tools.TOOLS:
            check_name(name, fields)
        action = tool.action
        if action == "read":
            return
        if action == "write":
            self._write(name, tool, fields)
        elif action == "shell":
            self._shell(tool, fields, trace)
        elif action == "patch":
            self._patch(name, tool, fields)
        elif action == "editor":
            if fields.get("command") not in ("view", "read", "undo_view"):
                self._write(name, tool, fields)
        elif action == "typed":
            self._typed(tool, fields, trace)
        elif action == "batch":
            self._batch(tool, fields, trace)
        else:
            rule, why = _REFUSED[action]
            raise Blocked(rule, f"{name} {why}")

    # --- file tools ----------------------------------------------------------------------------

    def _may_write(self, name: str) -> None:
        if not self.rules.implements:
            raise Blocked("write-role", f"{name} writes files")

    def _check_path(self, value: Any, field: str, directory: str) -> None:
        if isinstance(value, list):
            spend(len(value))
            for item in value:
                self._check_path(item, field, directory)
            return
        if isinstance(value, dict):
            for key in tools.PATH_FIELDS & value.keys():
                self._check_path(value[key], field, directory)
            return
        if not isinstance(value, str) or not value:
            raise Blocked("bad-input", f"{field} is not a path")
        if value.startswith("file://"):
            value = value[7:]
        self.places.check_text(value, directory, "write")

    def _write(self, name: str, tool: tools.Tool, fields: Fields) -> None:
        self._may_write(name)
        named = [field for field in tool.paths if field in fields]
        if not named:
            raise Blocked("bad-input", f"{name} names no file")
        for field in named:
            self._check_path(fields[field], field, self.directory)
        edits = fields.get("edits")
        if isinstance(edits, list):
            for edit in edits:
                if isinstance(edit, dict):
                    for field in tool.paths:
                        if field in edit:
                            self._check_path(edit[field], field, self.directory)

    def _patch(self, name: str, tool: tools.Tool, fields: Fields) -> None:
        self._may_write(name)
        texts = [fields[field] for field in tool.text if field in fields]
        named = [field for field in ("path", "file_path", "filePath") if field in fields]
        for field in named:
            self._check_path(fields[field], field, self.directory)
        found = False
        for text in texts:
            if not isinstance(text, str):
                raise Blocked("bad-input", "the patch is not text")
            spend(len(text) >> 2)
            directory = self.call_directory(fields)
            for path, gone in tools.patch_paths(text):
                found = True
                self.places.check_text(path, directory, "entry" if gone else "write")
        if not found and not named:
            raise Blocked("bad-input", "the patch names no file")

    # --- shells --------------------------------------------------------------------------------

    def _shell(self, tool: tools.Tool, fields: Fields, trace: Trace) -> None:
        self.check_escalation(fields)
        directory = self.call_directory(fields)
        found = False
        for field in tool.text:
            if field in fields:
                found = True
                self.run_command(fields[field], fields, directory, trace)
        action = fields.get("action")
        if not found and isinstance(action, dict) and "command" in action:
            found = True
            self.run_command(action["command"], action, directory, trace)
        if not found:
            raise Blocked("bad-input", "the call holds no command")

    def _typed(self, tool: tools.Tool, fields: Fields, trace: Trace) -> None:
        """Text typed into a running shell, whose directory and state are not known."""
        for field in tool.text:
            text = fields.get(field)
            if text is None or text == "":
                continue
            if not isinstance(text, str) or len(text) > MAX_TYPED:
                raise Blocked("bad-input", "the typed text is not text")
            for key in ("{enter}", "{return}", "{Enter}", "\r"):
                text = text.replace(key, "\n")
            text = "".join(c for c in text if c >= " " or c in "\n\t")
            if text.strip() in ("", "{ctrl+c}", "{ctrl-c}", "y", "n", "yes", "no", "q", "{up}"):
                continue
            self.run_text(text, self.directory, trace)

    # --- calls in calls ------------------------------------------------------------------------

    def _batch(self, tool: tools.Tool, fields: Fields, trace: Trace) -> None:
        for field in (*tool.text, "tool_uses"):
            calls = fields.get(field)
            if calls is None:
                continue
            if not isinstance(calls, list) or len(calls) > MAX_BATCH:
                raise Blocked("bad-input", "the batch is not a list of calls")
            for inner in calls:
                if not isinstance(inner, dict):
                    raise Blocked("bad-input", "the batch is not a list of calls")
                name = inner.get("tool") or inner.get("name") or inner.get("recipient_name")
                if isinstance(name, str) and tools.lookup(name) is tool:
                    raise Blocked("bad-input", "a batch in a batch")
                arguments = inner.get("parameters", inner.get("input", inner.get("arguments")))
                self.decide(Call(tool=name, input=arguments), trace)


def _fields(raw: Any) -> Fields:
    if raw is None:
        return {}
    if isinstance(raw, str):
        try:
            raw = msgspec.json.decode(raw.encode("utf-8", "surrogatepass"))
        except (msgspec.DecodeError, UnicodeError):
            raise Blocked("bad-input", "the call's input is not an object") from None
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise Blocked("bad-input", "the call's input is not an object")
    return raw


def judge(call: Call, policy: Policy) -> Verdict:
    """The verdict on one call. Never raises."""
    try:
        return Judge(policy).judge(call)
    except Exception as error:
        return block("internal-error", f"the guard failed ({type(error).__name__})")
