"""`bridle demo`: several scripted agents at once on a throw-away repository, offline.

The agents are scripted and the demo says so; their processes, tools, worktrees and commits are
real. It checks what it shows: it fails if the write outside a worktree is not refused, or a commit
is missing.
"""

import os
import queue
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import msgspec

from bridle.core import events as ev
from bridle.core.errors import NotInstalled, WrongUse
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.core.usage import NO_USAGE, Usage
from bridle.demo.jobs import JOBS, OUTSIDE, PROJECT, Job
from bridle.runs import Prepared, prepare
from bridle.runtimes.registry import get_adapter
from bridle.swarm.worktrees import add_worktree, git, remove_worktree

_AGENT_DEADLINE = 30.0
_COLOURS = ("36", "33", "35", "34")
_INTERRUPTED = 130


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent did, as far as the disk confirms it."""

    name: str
    branch: str
    status: str
    commit: str | None
    """The commit on its branch; None unless there is exactly one."""
    text: str
    tools: int
    usage: Usage


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt to write outside a worktree."""

    agent: str
    path: str
    reason: str
    written: bool
    """Whether the file exists anyway; checked on disk."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The whole demo in one object."""

    scripted: bool = True
    agents: list[AgentReport]
    refused: Refusal | None
    usage: Usage
    ok: bool
    duration_ms: int
    folder: str | None
    """The folder of everything, if it was kept."""


def main(*, json: bool = False, keep: bool = False) -> int:
    """Run the demo; returns the exit status.

    `json` prints one `Summary` at the end instead of the events. `keep` leaves the repository.
    Raises `NotInstalled` without git. Ctrl-C ends the agents, cleans up and returns 130.
    """
    if shutil.which("git") is None:
        raise NotInstalled("the demo needs git, which was not found", hint="install git")
    screen = _Screen(quiet=json)
    folder = tempfile.mkdtemp(prefix="bridle-demo-")
    demo = _Demo(folder, screen)
    try:
        summary = demo.run(keep=keep)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    finally:
        demo.stop()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
    else:
        screen.close(summary)
    return 0 if summary.ok else 1


class _Demo:
    """The repository, its worktrees and the agents in them."""

    def __init__(self, folder: str, screen: "_Screen") -> None:
        self._folder = folder
        self._screen = screen
        self._repo = os.path.join(folder, "repo")
        self._env = _environment(folder)
        self._runs: dict[str, Prepared] = {}
        self._threads: list[threading.Thread] = []
        self._events: queue.SimpleQueue[tuple[str, ev.Event | None]] = queue.SimpleQueue()
        self._decisions: list[tuple[str, ev.PermissionDecision]] = []
        self._tools: dict[str, int] = {}

    def run(self, *, keep: bool) -> Summary:
        """Everything, from an empty folder to the summary."""
        started = time.monotonic()
        base = self._make_repository()
        self._screen.open(len(JOBS), self._repo)
        for job in JOBS:
            add_worktree(self._repo, f"demo/{job.name}", self._tree(job), env=self._env)
            self._runs[job.name] = self._prepare(job)
        for job in JOBS:
            thread = threading.Thread(target=self._follow, args=(job.name,), name=job.name)
            self._threads.append(thread)
            thread.start()
        for name, event in self._all_events():
            self._note(name, event)
            self._screen.show(name, event)
        return self._summary(base, started, keep=keep)

    def stop(self) -> None:
        """End every agent and wait for it. Safe in any state."""
        for prepared in self._runs.values():
            prepared.run.abort("the demo ends")
        for thread in self._threads:
            thread.join()

    def _make_repository(self) -> str:
        os.mkdir(self._repo)
        git(self._repo, "init", "--quiet", "--initial-branch", "main", env=self._env)
        for name, text in PROJECT.items():
            with open(os.path.join(self._repo, name), "w", encoding="utf-8") as file:
                file.write(text)
        git(self._repo, "add", "--all", env=self._env)
        who = {**self._env, **_identity("demo")}
        git(self._repo, "commit", "--quiet", "-m", "Start", env=who)
        return git(self._repo, "rev-parse", "HEAD", env=self._env).strip()

    def _tree(self, job: Job) -> str:
        return os.path.join(self._folder, "trees", job.name)

    def _prepare(self, job: Job) -> Prepared:
        options = RunOptions(
            prompt=job.prompt,
            cwd=self._tree(job),
            permission_mode="bypass",
            timeout=_AGENT_DEADLINE,
            env=_identity(job.name),
            account_dir=os.path.join(self._folder, "state"),
            provider_options={"script": job.script},
        )
        return prepare(get_adapter("scripted"), options, env=self._env)

    def _follow(self, name: str) -> None:
        """One agent from its start to its end; runs in a separate thread."""
        try:
            for event in self._runs[name].run.events():
                self._events.put((name, event))
        finally:
            self._events.put((name, None))

    def _all_events(self) -> Iterator[tuple[str, ev.Event]]:
        running = len(self._threads)
        while running:
            name, event = self._events.get()
            if event is None:
                running -= 1
            else:
                yield name, event

    def _note(self, name: str, event: ev.Event) -> None:
        if isinstance(event, ev.ToolExecutionEnd):
            self._tools[name] = self._tools.get(name, 0) + 1
        elif isinstance(event, ev.PermissionDecision) and event.decision == "deny":
            self._decisions.append((name, event))

    # -- what really happened, by the disk ------------------------------------------------------

    def _summary(self, base: str, started: float, *, keep: bool) -> Summary:
        reports = [self._report(job, self._runs[job.name].run.result, base) for job in JOBS]
        refused = self._refusal()
        done = all(each.status == "completed" and each.commit for each in reports)
        held = refused is not None and not refused.written
        if not keep:
            done = done and all(self._is_removed(job) for job in JOBS)
        return Summary(
            agents=reports,
            refused=refused,
            usage=sum((each.usage for each in reports), NO_USAGE),
            ok=done and held,
            duration_ms=int((time.monotonic() - started) * 1000),
            folder=self._folder if keep else None,
        )

    def _is_removed(self, job: Job) -> bool:
        """Remove a worktree; False if git refuses because something in it was not committed."""
        try:
            remove_worktree(self._repo, self._tree(job), env=self._env)
        except WrongUse:
            return False
        return True

    def _report(self, job: Job, result: RunResult, base: str) -> AgentReport:
        branch = f"demo/{job.name}"
        commits = git(self._repo, "log", "--format=%h %s", f"{base}..{branch}", env=self._env)
        lines = commits.splitlines()
        return AgentReport(
            name=job.name,
            branch=branch,
            status=result.status,
            commit=lines[0] if len(lines) == 1 else None,
            text=result.text,
            tools=self._tools.get(job.name, 0),
            usage=result.usage,
        )

    def _refusal(self) -> Refusal | None:
        if len(self._decisions) != 1:
            return None
        name, decision = self._decisions[0]
        path = os.path.normpath(os.path.join(self._folder, "trees", name, OUTSIDE))
        return Refusal(agent=name, path=path, reason=decision.reason, written=os.path.lexists(path))


def _environment(folder: str) -> dict[str, str]:
    """The environment of git and the agents: nothing of the user's that could change the demo."""
    env = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    return {
        **env,
        "HOME": folder,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def _identity(name: str) -> dict[str, str]:
    """Who commits; by environment, so that no git configuration is written."""
    mail = f"{name}@demo.invalid"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
    }


class _Screen:
    """What the demo shows; one line per event, with colours on a terminal only."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._names = {job.name: _COLOURS[i % len(_COLOURS)] for i, job in enumerate(JOBS)}

    def open(self, count: int, repo: str) -> None:
        """The first lines."""
        self._line("Bridle demo: the agents are scripted (no model, no network, no keys).")
        self._line("Their processes, tools, worktrees and commits are real.")
        self._line(f"{count} agents at once on a throw-away repository: {repo}")
        self._line("")

    def show(self, name: str, event: ev.Event) -> None:
        """One event, if a person should see it."""
        words = self._words(event)
        if words:
            who = self._paint(f"{name:<8}", self._names[name])
            for line in words.splitlines():
                self._line(f"{who} {line}")

    def close(self, summary: Summary) -> None:
        """The last lines: what was refused, what was used, what to do next."""
        self._line("")
        refused = summary.refused
        if refused is None:
            self._line(self._paint("FAILED: no write outside a worktree was refused", "31"))
        elif refused.written:
            self._line(self._paint(f"FAILED: {refused.path} was written anyway", "31"))
        else:
            self._line(f"Refused: {refused.agent} tried to write {refused.path}")
            self._line("         looked up on disk: the file is not there")
        self._line("")
        self._line(f"{'agent':<9}{'status':<11}{'input':>7}{'cached':>8}{'output':>8}  commit")
        for each in summary.agents:
            self._row(each.name, each.status, each.usage, each.commit or "none")
        self._row("all", "", summary.usage, "")
        self._line("(scripted numbers: nothing was spent)")
        self._line("")
        seconds = summary.duration_ms / 1000
        self._line(f"{'Done' if summary.ok else 'FAILED'} in {seconds:.1f} s.")
        if summary.folder is not None:
            self._line(f"Everything was left in {summary.folder}")
        self._line("Next: `bridle runtime list` shows which agents are installed here;")
        self._line('      `bridle run "PROMPT" --runtime claude` runs a real one.')

    def _words(self, event: ev.Event) -> str:
        match event:
            case ev.SessionStart():
                return f"starts ({event.model} agent {event.runtime_version}) in {event.cwd}"
            case ev.MessageEnd(text=text):
                return f"says: {text.splitlines()[0]}" if text else ""
            case ev.ToolExecutionStart(tool_name=tool, args=args):
                what = args.get("command") or args.get("path") or ""
                return f"{tool}: {what if len(what) <= 70 else what[:67] + '...'}"
            case ev.ToolExecutionEnd(is_error=failed, tool_name=tool, result=result):
                first = str(result).strip().splitlines()[0] if str(result).strip() else "ok"
                return "" if failed else f"{tool} gave: {first[:70]}"
            case ev.PermissionDecision(reason=reason):
                return self._paint(f"REFUSED: {reason}", "1;31")
            case ev.Retry(attempt=attempt, error=error):
                return f"retry {attempt}: {error.message}"
            case ev.AgentEnd(status=status, error=error):
                return f"{status}{f': {error.message}' if error else ''}"
            case _:
                return ""

    def _row(self, name: str, status: str, usage: Usage, commit: str) -> None:
        self._line(
            f"{name:<9}{status:<11}{usage.input_tokens:>7}{usage.cache_read_tokens:>8}"
            f"{usage.output_tokens:>8}  {commit}".rstrip()
        )

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader is gone; the work and its checks continue, and set the exit status.
            self._quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
