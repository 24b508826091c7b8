"""The runs that the checks look at. Each is played once, however many checks need it."""

import calendar
import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core.errors import BridleError, WrongUse
from bridle.core.options import DEFAULT_MARKER, HooksDef, ModelServer, OverlayContent
from bridle.drives.print_run import PrintRun
from bridle.runtimes import deployment
from bridle.runtimes.one_shot import print_once
from bridle.testing.conformance.lab import Lab, Outcome, Place
from bridle.testing.conformance.report import Failed, Unsupported
from bridle.testing.server import ScriptedModel

Scenario = Callable[[Lab], list[Outcome]]

TEXT = (
    "First line.\nSecond line: ünïcode 漢字 🎉 “quoted” \\ back.\n\n"
    f"The third comes after an empty one.\n{DEFAULT_MARKER}"
)
THINKING = "I think about it, then I answer."
TALK_USAGE = {
    "input_tokens": 120,
    "output_tokens": 45,
    "cache_read_tokens": 33,
    "cache_write_tokens": 7,
    "reasoning_tokens": 11,
}
TALK = [{"thinking": THINKING, "text": TEXT, "chunks": 7, "usage": TALK_USAGE}]

TOOLS_USAGE = [
    {"input_tokens": 101, "output_tokens": 21, "cache_read_tokens": 31},
    {"input_tokens": 203, "output_tokens": 23, "cache_read_tokens": 37},
    {"input_tokens": 307, "output_tokens": 29},
]
TOOLS = [
    {
        "text": "I will write the first file.",
        "shell": f"echo one > one.txt; echo {DEFAULT_MARKER}; echo key=$CONFORMANCE_API_KEY",
        "usage": TOOLS_USAGE[0],
    },
    {
        "text": "Now two at once.",
        "tool_calls": [
            {"name": "shell", "args": {"command": "echo two > two.txt"}},
            {"name": "shell", "args": {"command": "echo three > three.txt"}},
        ],
        "usage": TOOLS_USAGE[1],
    },
    {"text": "All three are there.", "usage": TOOLS_USAGE[2]},
]
"""No text of it says the marker; its first tool prints it, and a secret."""

PRINT_PROMPT = '-x is a  flag; what is "it"?\nSay it.'
PRINTED = "It is one.\nAnd ünïcode 漢字."

RETRIED_PROMPT = f"Reply in one line.\nSay {DEFAULT_MARKER} only when all the work is done."
RETRIED_TEXT = f"I was told: Say {DEFAULT_MARKER} only when all the work is done."
RETRIED = [{"text": RETRIED_TEXT, "fault": {"kind": "overloaded", "times": 1}}]

HUGE_TEXT = "".join(f"{n:07d} nothing but words\n" for n in range(40_000)).strip()
HUGE_OUTPUT = 10_000_000
SLEEP_SECONDS = 63

RESETS_IN = 3600

FAULTS: dict[str, dict[str, Any]] = {
    "error_401": {"fault": {"kind": "authentication"}},
    "error_403": {"fault": {"kind": "permission"}},
    "error_429": {"fault": {"kind": "rate_limit"}},
    "error_429_reset": {"fault": {"kind": "usage_limit", "resets_in": RESETS_IN}},
    "error_500": {"fault": {"kind": "server_error"}},
    "error_529": {"fault": {"kind": "overloaded"}},
    "error_context_overflow": {"fault": {"kind": "context_overflow"}},
    "error_cut_stream": {
        "text": "This text is cut again and again.",
        "chunks": 6,
        "fault": {"cut": True, "times": 200},
    },
}
"""Turns that never get better."""

ODD_PROMPT = (
    "--help is not meant here\u2028nor is -p; 🎉 漢字 ünïcode \"quotes\" 'single' $HOME `id` "
    "\\n %s <tag> & {braces} [brackets] * ~ # ! | ; end"
)
LONG_PROMPT_SIZE = 1_000_000


def long_prompt() -> str:
    """A prompt of 1 MB whose every line is different."""
    line = "{:07d} a line of a long prompt, of no other use\n"
    count = LONG_PROMPT_SIZE // len(line.format(0)) + 1
    return "".join(line.format(n) for n in range(count)).strip()


APPENDED = "The appended word is quince-4711."
REPLACED = "You are the scripted test agent; the replaced word is medlar-4712."
DEPLOYED = "The deployed word of this worktree is damson-4713."
PROJECTS_OWN = "The project's own word is rowan-4714."

FIRST_PROMPT = "Choose a word and remember sloe-4715."
FIRST_ANSWER = "The word is plum."
_LONGEST_REFUSAL = 90.0
"""The longest refusal, in seconds, that is waited for."""

HISTORY_USAGE = [
    {"input_tokens": 211, "output_tokens": 17, "cache_read_tokens": 5},
    {"input_tokens": 409, "output_tokens": 19},
]
HISTORY = [
    {"text": FIRST_ANSWER, "usage": HISTORY_USAGE[0]},
    {"text": "It was plum.", "usage": HISTORY_USAGE[1]},
]


def talk(lab: Lab) -> list[Outcome]:
    """One reply with thinking and text in pieces."""
    return [lab.run(lab.place("talk"), TALK, keep_folders=True)]


def tools(lab: Lab) -> list[Outcome]:
    """A tool call, two parallel ones, and a last word."""
    place = lab.place("tools")
    _furnish(lab, place.home)
    before = snapshot(place.home)
    outcome = lab.run(place, TOOLS)
    outcome.home_before, outcome.home_after = before, snapshot(place.home)
    return [outcome]


def _furnish(lab: Lab, home: str) -> None:
    """Files that a user of this agent may have; a run on a scripted model must not touch them."""
    names = {lab.runtime.id, lab.runtime.binary.rpartition("/")[2]}
    files = [".profile", ".gitconfig"]
    for name in names:
        files += [f".{name}/settings.json", f".{name}.json", f".config/{name}/config.json"]
    for file in files:
        path = os.path.join(home, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as opened:
            opened.write("" if file.startswith((".profile", ".gitconfig")) else "{ }\n")


def snapshot(home: str) -> dict[str, bytes]:
    """Every file below a home with its content, by relative path."""
    found: dict[str, bytes] = {}
    for folder, _, files in os.walk(home):
        for file in files:
            path = os.path.join(folder, file)
            try:
                with open(path, "rb") as opened:
                    found[os.path.relpath(path, home)] = opened.read()
            except OSError:
                found[os.path.relpath(path, home)] = b"?"
    return found


NOTE = "The noted word is bullace-4716."


def denied_shell(lab: Lab) -> list[Outcome]:
    """The model asks for the shell, which the caller denies under its neutral name."""
    if "denied_tools" not in lab.features.options:
        raise Unsupported("cannot be denied a tool")
    script = [{"shell": "echo ran > ran.txt"}, {"text": "Done."}]
    return [lab.run(lab.place("denied-shell"), script, denied_tools=("shell",))]


def allowed_read(lab: Lab) -> list[Outcome]:
    """The model reads a file, the only tool that the caller allows, under its neutral name."""
    if "allowed_tools" not in lab.features.options:
        raise Unsupported("cannot be limited to some tools")
    place = lab.place("allowed-read")
    path = os.path.join(place.work, "note.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{NOTE}\n")
    script = [{"read_file": path}, {"text": "Read."}]
    return [lab.run(place, script, allowed_tools=("read_file",))]


def retried(lab: Lab) -> list[Outcome]:
    """One overload, then a reply that quotes its instructions."""
    return [lab.run(lab.place("retried"), RETRIED, RETRIED_PROMPT)]


def _fault(name: str) -> Scenario:
    def play(lab: Lab) -> list[Outcome]:
        return [lab.run(lab.place(name), [FAULTS[name]])]

    return play


def refused_connection(lab: Lab) -> list[Outcome]:
    """A model address without a server."""
    place = lab.place("refused")
    # Bound but not listening: no other program can take the port, and connections are refused.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        server = ModelServer(url=url, api_key=lab.key)
        return [lab.run_on(place, lab.options(place, server, "Please do it."))]


def huge_output(lab: Lab) -> list[Outcome]:
    """A tool that prints one line of ten megabytes."""
    command = f"head -c {HUGE_OUTPUT} /dev/zero | tr '\\0' x; echo; echo end"
    return [lab.run(lab.place("huge-output"), [{"shell": command}, {"text": "Seen."}])]


def huge_text(lab: Lab) -> list[Outcome]:
    """A reply of a megabyte."""
    return [lab.run(lab.place("huge-text"), [{"text": HUGE_TEXT, "chunk_size": 50_000}])]


def sleep_word() -> str:
    """The argument by which the sleeping tool of this process's kit is found among processes."""
    return f"{SLEEP_SECONDS}.{os.getpid():07d}"


def aborted(lab: Lab) -> list[Outcome]:
    """The caller aborts while a tool runs, or while the model answers where there are no tools."""
    place = lab.place("aborted")
    mark = os.path.join(place.work, "started.txt")
    turns: list[dict[str, Any]] = [
        {"shell": f"echo started > started.txt; sleep {sleep_word()}"},
        {"text": "Never said."},
    ]

    def abort_in_tool(run: PrintRun, model: ScriptedModel) -> None:
        until = time.monotonic() + lab.run_seconds / 2
        while time.monotonic() < until and not os.path.exists(mark):
            if any(request.outcome == "untranslatable" for request in model.requests):
                return
            time.sleep(0.05)
        run.abort("the kit aborts")

    outcome = lab.run(place, turns, meanwhile=abort_in_tool)
    if any(request.outcome == "untranslatable" for request in outcome.requests):
        outcome = lab.run(lab.place("aborted-talk"), [_STALLED], meanwhile=abort_in_reply(lab))
    return [outcome]


_STALLED = {"text": "This reply falls silent half way.", "chunks": 6, "fault": {"stall": 300}}


def abort_in_reply(lab: Lab) -> Callable[[PrintRun, ScriptedModel], None]:
    """A watcher that aborts once the model was asked."""

    def abort(run: PrintRun, model: ScriptedModel) -> None:
        with contextlib.suppress(TimeoutError):
            model.wait_for_request(lambda request: request.outcome != "side", lab.run_seconds / 2)
        run.abort("the kit aborts")

    return abort


def timed_out(lab: Lab) -> list[Outcome]:
    """The model falls silent in its reply, until the run's time is over."""
    # Long enough for this agent to have begun its reply.
    seconds = min(lab.run_seconds, 2 * lab.longest + 2 if lab.longest else 20.0)
    return [lab.run(lab.place("timed-out"), [_STALLED], timeout=seconds)]


def odd_prompt(lab: Lab) -> list[Outcome]:
    """A prompt that begins like a flag and has every kind of character."""
    return [lab.run(lab.place("odd-prompt"), [{"text": "Read."}], ODD_PROMPT)]


def big_prompt(lab: Lab) -> list[Outcome]:
    """A prompt of a megabyte."""
    return [lab.run(lab.place("big-prompt"), [{"text": "Read."}], long_prompt())]


def system_prompts(lab: Lab) -> list[Outcome]:
    """Base instructions replaced and extended, as far as the runtime supports it."""
    options: dict[str, Any] = {
        name: text
        for name, text in (("append_system_prompt", APPENDED), ("system_prompt", REPLACED))
        if name in lab.features.options
    }
    if not options:
        raise Unsupported("takes no system prompt")
    return [lab.run(lab.place("system"), [{"text": "Read."}], **options)]


def deployed(lab: Lab) -> list[Outcome]:
    """Instructions deployed, twice, into a worktree whose own file is under version control; then
    a run there, and the instructions withdrawn. The project's own folder stays unchanged."""
    project = lab.place("deployed")
    own = os.path.join(project.work, lab.runtime.instruction_path)
    os.makedirs(os.path.dirname(own), exist_ok=True)
    with open(own, "w", encoding="utf-8") as file:
        file.write(f"{PROJECTS_OWN}\n")
    lab.git(project, "add", "-A")
    lab.git(project, "commit", "-q", "-m", "begin")
    tree = os.path.join(os.path.dirname(project.work), "tree")
    lab.git(project, "worktree", "add", "-q", "-b", "side", tree)
    place = msgspec.structs.replace(project, work=tree)
    before = snapshot(tree)
    who = HooksDef(agent_name="tester", capability="builder", worktree_path=tree)
    for _ in range(2):
        deployment.deploy(lab.runtime, tree, OverlayContent(content=DEPLOYED), who)
    changed = _changed(before, snapshot(tree))
    outcome = lab.run(place, [{"text": "Read."}])
    deployment.withdraw(lab.runtime, tree)
    left = _changed(before, snapshot(tree)) & changed
    if left:
        raise Failed(f"withdrawn, but not restored: {', '.join(sorted(left))}")
    _own_folder(lab, project, own)
    return [outcome]


def _own_folder(lab: Lab, project: Place, own: str) -> None:
    """A deployment into the project's own folder must not touch the project's file; refusing is
    correct."""
    who = HooksDef(agent_name="tester", capability="builder", worktree_path=project.work)
    with contextlib.suppress(WrongUse):
        deployment.deploy(lab.runtime, project.work, OverlayContent(content=DEPLOYED), who)
    with open(own, encoding="utf-8") as file:
        if file.read() != f"{PROJECTS_OWN}\n":
            raise Failed("changed the project's own file in its own folder")


def _changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    names = {*before, *after}
    return {name for name in names if before.get(name) != after.get(name)}


def history(lab: Lab) -> list[Outcome]:
    """A conversation, then another process that continues it."""
    if "account_dir" not in lab.features.options:
        raise Unsupported("keeps no conversation of a run on a scripted model (no account_dir)")
    place = lab.place("history")
    first = lab.run(place, HISTORY[:1], FIRST_PROMPT, account_dir=place.account)
    native = first.completed().native_session_id
    if not lab.features.resume or native is None:
        return [first]
    kept: dict[str, Any] = {"account_dir": place.account, "resume": native}
    again = lab.run(place, HISTORY, "Which word was it?", **kept)
    if _waited_for(again.refusal):
        again = lab.run(place, HISTORY, "Which word was it?", **kept)
    return [first, again]


def unknown_resume(lab: Lab) -> list[Outcome]:
    """An id that no conversation has."""
    place = lab.place("unknown-resume")
    kept: dict[str, Any] = (
        {"account_dir": place.account} if "account_dir" in lab.features.options else {}
    )
    unknown = "0b5e7a54-0000-4000-8000-00000000c0de"
    return [lab.run(place, [{"text": "Never said."}], resume=unknown, **kept)]


def printed(lab: Lab) -> list[Outcome]:
    """One question by the CLI's own one-shot call."""
    place = lab.place("printed")
    outcome = Outcome(events=[], lines=[], requests=[], place=place)
    with ScriptedModel([{"text": PRINTED}], token=lab.key) as model:
        server = ModelServer(url=model.url, api_key=lab.key)
        try:
            text = print_once(
                PRINT_PROMPT,
                runtime=lab.runtime,
                cwd=place.work,
                env=lab.environment(place),
                timeout=lab.run_seconds,
                model_server=server,
            )
        except BridleError as refusal:
            outcome.refusal = refusal
        else:
            outcome.lines = [line.encode() for line in text.split("\n")]
        outcome.requests = [each for each in model.requests if each.outcome != "side"]
    return [outcome]


SCENARIOS: dict[str, Scenario] = {
    "talk": talk,
    "tools": tools,
    **{name: _fault(name) for name in FAULTS},
    "error_refused_connection": refused_connection,
    "aborted": aborted,
    "denied_shell": denied_shell,
    "allowed_read": allowed_read,
    "retried": retried,
    "huge_output": huge_output,
    "huge_text": huge_text,
    "odd_prompt": odd_prompt,
    "big_prompt": big_prompt,
    "system_prompts": system_prompts,
    "deployed": deployed,
    "history": history,
    "unknown_resume": unknown_resume,
    "timed_out": timed_out,
    "printed": printed,
}
"""By name, in the order in which they are started."""


def _waited_for(refusal: BridleError | None) -> bool:
    """Whether a refusal reports its end and that has passed; a long refusal is not waited for."""
    until = getattr(refusal, "until", None)
    if not until:
        return False
    left = calendar.timegm(time.strptime(until, "%Y-%m-%dT%H:%M:%SZ")) - time.time()
    if left > _LONGEST_REFUSAL:
        return False
    time.sleep(max(0.0, left) + 1.0)
    return True
