"""What a call's arguments contain: commands, paths, and everything given to an unknown tool.

The name of an unknown tool says what it works on: a forge, git, a shell, a scheduler. All its
arguments are examined: commands are judged as in a shell, paths as those of a file tool, and a text
that looks like a path out of the worktree counts as one, whatever its field is called.
"""

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from bridle.guard import tools
from bridle.guard.budget import spend
from bridle.guard.code import check_code
from bridle.guard.paths import Places
from bridle.guard.policy import Policy
from bridle.guard.rules import Rules
from bridle.guard.shell.values import names
from bridle.guard.shell.walk import Walk
from bridle.guard.verdict import Blocked, Part
from bridle.turns.guard_contract import UNSEEN

Fields = dict[str, Any]
Trace = list[Part] | None

MAX_NESTING = 64
_LONGEST_PATH = 4096

_FORGES = names(
    "github gitlab gitea forgejo bitbucket codeberg gerrit gogs gitee azuredevops ado sourcehut"
)
_FORGE_THINGS = names("pr mr pullrequest mergerequest gist pull_request merge_request")
_FORGE_HOSTS = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "dev.azure.com")
_FORGE_CHANGES = tools.CHANGING_VERBS | names("resolve request dismiss rerun dispatch star watch")

_KINDS: tuple[tuple[frozenset[str], str, str], ...] = (
    (names("tmux zellij screen"), "session-control", "reaches other terminals"),
    (names("cron crontab scheduler"), "scheduler", "runs something outside this session"),
    (names("ssh sftp"), "remote", "works on another machine"),
    (names("docker podman container containers"), "container", "runs a container"),
    (names("deploy deployment publish"), "publish", "publishes work"),
    (names("sudo"), "privilege", "asks for more rights"),
)
"""Words in the name of a tool that changes something, with the rule and the reason."""

_PUSHED_ELSEWHERE = names("""
    notification notifications message messages event events metric metrics alert item stack queue
    """)
"""Things that are pushed, but not to a git remote."""

_AGENT_WORDS = names("agent agents subagent subagents teammate")
_STARTING = names("spawn start create run launch new invoke delegate call fork")
_SHELL_WORDS = names("""
    shell bash zsh sh terminal cmd command commands powershell process pty tty console repl iterm
    """)
_RUNNING = names("run exec execute send type input write eval call invoke start interact")
_PROGRAM_WORDS = names("process pty console repl")
_CODE_FIELDS = names("source snippet python javascript js cell")
_NO_COMMAND = names(
    "description cwd workdir directory dir timeout id session title name reason explanation"
)

_PATH_WORDS = names("""
    path paths file files filename filenames filepath dir dirs directory directories folder folders
    dest destination outfile outdir outputpath savepath target root workspace location output out
    """)
_NO_PATH = names("""
    id ids type types size pattern patterns glob count limit extension mime content format mode
    style schema language encoding level tokens
    """)
_OUTPUT_WORDS = names(
    "output out outfile outdir outputpath save saved savepath dest destination export download"
)
_WRITES_FILES = names("screenshot snapshot pdf download export record trace")
_TEXT_WORDS = names("""
    content contents text body message description title query pattern regex prompt html css comment
    summary note notes selector xpath string diff patch data value code subject sql expression
    function endpoint route pathname url uri href
    """)
_PLACE_WORDS = names("uri value data")
"""Words in the names of fields that contain a text or a place."""
_SENDING = names("POST PUT PATCH DELETE")
_ESCALATIONS = (
    "dangerouslyDisableSandbox", "dangerously_disable_sandbox", "with_escalated_permissions",
    "disableSandbox", "unsandboxed", "bypass_sandbox",
)  # fmt: skip


class Arguments:
    """The arguments of calls, judged by one policy. Raises `PathError` for a policy whose places
    cannot be resolved."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.places = Places(policy)
        self.rules = Rules(policy, self.places)
        self.directory = policy.cwd or policy.worktree

    def call_directory(self, fields: Fields) -> str:
        """The directory that the call itself names, otherwise the session's."""
        for name in tools.CWD_FIELDS:
            value = fields.get(name)
            if value is None or value == "":
                continue
            if not isinstance(value, str):
                raise Blocked("bad-input", f"{name} is not a path")
            if value.startswith("~"):
                value = self.places.home + value[1:]
            return value if value.startswith("/") else f"{self.directory}/{value}"
        return self.directory

    def check_escalation(self, fields: Fields) -> None:
        """Refuse a call that requests to leave the runtime's sandbox."""
        for name in _ESCALATIONS:
            if fields.get(name) not in (None, False, "false", ""):
                raise Blocked("sandbox-escape", f"{name} leaves the sandbox")
        wanted = fields.get("sandbox_permissions")
        if wanted not in (None, "", "use_default"):
            raise Blocked("sandbox-escape", f"sandbox_permissions {wanted} leaves the sandbox")
        if fields.get("additional_permissions"):
            raise Blocked("sandbox-escape", "additional_permissions leave the sandbox")

    def run_command(self, command: Any, fields: Fields, directory: str, trace: Trace) -> None:
        """Judge a command, a shell's text or a list of words; `fields` hold its other parts."""
        if isinstance(command, str):
            args = fields.get("args")
            if isinstance(args, list):
                self._argv([command, *args], fields, directory, trace)
            else:
                self.run_text(command, directory, trace)
        elif isinstance(command, list):
            items: list[Any] = command
            if fields.get("commands") is command:
                for item in items:
                    inner = item.get("command") if isinstance(item, dict) else item
                    holder = item if isinstance(item, dict) else {}
                    self.run_command(inner, holder, directory, trace)
            else:
                self._argv(items, fields, directory, trace)
        else:
            raise Blocked("bad-input", "the command is not text")

    def run_text(self, text: str, directory: str, trace: Trace) -> None:
        """Judge a text that a shell runs."""
        if text.strip() in self.policy.quality_gates and self.rules._inside((directory,)):
            return
        Walk(self.rules.for_command(), trace).program(text, directory)

    def _argv(self, argv: list[Any], fields: Fields, directory: str, trace: Trace) -> None:
        """An argument list is run without a shell: its words are taken literally."""
        if not argv or not all(isinstance(word, str) for word in argv):
            raise Blocked("bad-input", "the command is not a list of words")
        walk = Walk(self.rules.for_command(), trace)
        spend(len(argv))
        words = " ".join(_quoted(word) for word in argv)
        env = fields.get("env")
        if isinstance(env, list | dict):
            words = _environment(env) + words
        walk.program(words, directory)

    # --- tools that no table knows ---

    def judge_unknown(self, name: str, fields: Fields, trace: Trace) -> None:
        """Return when the call may run, raise `Blocked` when not."""
        self.check_escalation(fields)
        if UNSEEN in fields:
            raise Blocked("unknown-tool", f"the arguments of {name} are not known")
        words = tools.words_of(name)
        reads = tools.only_reads(name)
        check_name(name, fields)
        held = list(_dicts(fields))
        runs = any(tools.COMMAND_FIELDS & {k.lower() for k in holder} for holder in held)
        if not self.rules.implements:
            if not reads or runs:
                raise Blocked("unknown-tool", f"what the tool {name} changes is not known")
            for key, value in _leaves(fields):
                if isinstance(value, str) and {"/", "."} & set(value) and _is_output(key, words):
                    raise Blocked("write-role", f"{name} writes {value}")
            _check_urls(name, fields)
            return
        directory = self.call_directory(fields)
        for holder in held:
            self._check_commands(name, holder, directory, trace)
        if not runs and words & _SHELL_WORDS and words & _RUNNING:
            for key, value in _leaves(fields):
                if not isinstance(value, str) or not value.strip() or _words(key) & _NO_COMMAND:
                    continue
                try:
                    self.run_text(value, directory, trace)
                except Blocked as block:
                    # A program other than a shell may read it.
                    if block.rule != "shell-unparsed" or not words & _PROGRAM_WORDS:
                        raise
                    check_code(value, "python", self.places, directory)
        if words & _RUNNING and not reads:
            for key, value in _leaves(fields):
                if isinstance(value, str) and _words(key) & _CODE_FIELDS:
                    self._check_cell(value, directory, trace)
        _check_urls(name, fields)
        if not reads:
            self._check_git(name, fields, words)
        for key, value in _leaves(fields):
            if isinstance(value, str) and value:
                self._check_leaf(key, value, reads, words)

    def _check_commands(self, name: str, holder: Fields, directory: str, trace: Trace) -> None:
        lowered = {key.lower(): value for key, value in holder.items()}
        commands = [key for key in lowered if key in tools.COMMAND_FIELDS]
        if any(isinstance(lowered.get(key), str) for key in ("command", "cmd", "program")):
            # They are the words of that command.
            commands = [key for key in commands if key not in ("args", "argv")]
        for key in commands:
            value = lowered[key]
            if key == "code" or isinstance(value, dict):
                raise Blocked("unknown-tool", f"{name} runs something that cannot be judged")
            if isinstance(value, str | list) and value:
                self.run_command(value, holder, directory, trace)
                words = value.split() if isinstance(value, str) else value
                if "git" in tools.words_of(name) and words[0] in _SUBCOMMANDS:
                    # A server for git may put the program's name before it.
                    self.run_command(["git", *words], {}, directory, trace)

    def _check_cell(self, text: str, directory: str, trace: Trace) -> None:
        """Code of a notebook: its lines with a `!` are commands."""
        for line in text.splitlines():
            if line.lstrip().startswith(("!", "%sh", "%bash")):
                self.run_text(line.lstrip().lstrip("!").removeprefix("%sh"), directory, trace)
        check_code(text, "python", self.places, directory)

    def _check_leaf(self, key: str, value: str, reads: bool, words: frozenset[str]) -> None:
        """Judge one text among the arguments as the path that it may be."""
        if len(value) > _LONGEST_PATH or "\n" in value:
            return
        local = value.startswith("file:")
        if local:
            value = unquote(urlsplit(value).path)
        elif "://" in value[:40]:
            return
        named = _words(key)
        if reads:
            written = _is_output(key, words)
        elif local or (named & _PATH_WORDS and not named & _NO_PATH):
            written = True
        else:
            written = key.lower() in tools.PATH_FIELDS or (
                not named & _TEXT_WORDS - _PLACE_WORDS and _leads_out(value)
            )
        if written:
            self.places.check_text(value, self.directory, "write")

    def _check_git(self, name: str, fields: Fields, words: frozenset[str]) -> None:
        """Judge a tool of a git server as the git command that its name and fields form."""
        if "git" not in words:
            return
        lowered = {key.lower(): value for key, value in fields.items()}
        for key in _REPOSITORY:
            place = lowered.get(key)
            if isinstance(place, str) and place:
                real = self.places.real(place if place[0] == "/" else f"{self.directory}/{place}")
                if not self.places.inside(real):
                    raise Blocked("git-elsewhere", f"{name} changes the repository at {place}")
        asked = [lowered.get(key) for key in ("action", "operation", "subcommand")]
        found = [word for word in tools.name_words(name) if word in _SUBCOMMANDS]
        found = found or [word for word in asked if isinstance(word, str) and word in _SUBCOMMANDS]
        if "sync" in words:
            raise Blocked("git-push", f"{name} sends work to a remote")
        if not found:
            return
        verb = "cherry-pick" if {"cherry", "pick"} <= words else found[-1]
        if "branch" in found and {"create", "delete", "rename"} & words:
            verb = "branch"
        argv = ["git", verb]
        if "branch" in found and "delete" in words:
            argv.append("-D")
        for key, value in lowered.items():
            if key in _NO_WORD:
                continue
            if value is True:
                argv.append("--" + key.replace("_", "-"))
            elif key in ("mode", "type") and isinstance(value, str):
                argv.append("--" + value.lstrip("-"))
            elif key in ("action", "operation", "subcommand") and isinstance(value, str):
                argv.insert(2, value)
            elif isinstance(value, str) and value:
                argv.append(value)
            elif isinstance(value, list):
                argv.extend(item for item in value if isinstance(item, str))
        self.run_command(argv, {}, self.directory, None)


def check_name(name: str, fields: Fields) -> None:
    """Refuse a tool whose name says that it publishes work or acts outside this session."""
    if tools.only_reads(name):
        return
    words = tools.words_of(name)
    changes = words & _FORGE_CHANGES
    forge = (
        words & _FORGES
        or words & _FORGE_THINGS
        or {"request"} < words & names("pull merge request")
    )
    lowered = {key.lower() for key in fields}
    there = "owner" in lowered and "repo" in lowered
    if changes and (forge or there):
        raise Blocked("git-push", f"{name} changes what is at the forge")
    own = tools.name_words(tools.mcp_tail(name) or name)
    pushes = own[0] == "push" and not words & _PUSHED_ELSEWHERE
    if pushes or (
        "push" in words and words & {"git", "files", "repo", "branch", "commits", "remote"}
    ):
        raise Blocked("git-push", f"{name} sends work to a remote")
    if (words & _AGENT_WORDS and words & _STARTING) or words & {"spawn", "delegate", "subagent"}:
        raise Blocked("team-tool", f"{name} is a tool for sub-agents and teams")
    for kind, rule, what in _KINDS:
        if words & kind:
            raise Blocked(rule, f"{name} {what}")


# --- arguments ---------------------------------------------------------------------------------


def _dicts(fields: Fields) -> Iterator[Fields]:
    """Every object among the arguments, the outermost first."""
    waiting: list[tuple[Any, int]] = [(fields, 0)]
    while waiting:
        value, depth = waiting.pop()
        spend(2)
        if depth > MAX_NESTING:
            raise Blocked("bad-input", "the arguments are nested too deeply")
        if isinstance(value, dict):
            yield value
            waiting.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, list):
            waiting.extend((item, depth + 1) for item in value)


def _leaves(fields: Fields) -> Iterator[tuple[str, Any]]:
    """Each value that is neither an object nor a list, with the name of its field."""
    waiting: list[tuple[str, Any]] = [("", fields)]
    while waiting:
        key, value = waiting.pop()
        spend(2)
        if isinstance(value, dict):
            waiting.extend((str(name), item) for name, item in value.items())
            # Some tools take a map of files.
            waiting.extend(("path", name) for name in value if "/" in name)
        elif isinstance(value, list):
            waiting.extend((key, item) for item in value)
        else:
            yield key, value


def _words(key: str) -> frozenset[str]:
    return tools.words_of(key[:200])


def _is_output(key: str, tool: frozenset[str]) -> bool:
    """Whether a reading tool writes the file that this field names."""
    named = _words(key)
    if named & _NO_PATH:
        return False
    saves = named & {"save", "saved", "dest", "destination"} and named & {"to", "as", "at", "in"}
    return bool(saves or (named & _PATH_WORDS and (named & _OUTPUT_WORDS or tool & _WRITES_FILES)))


def _leads_out(value: str) -> bool:
    """Whether a text in any field looks like a path out of the worktree."""
    parts = value.split("/", 3)
    if " " in value or "\t" in value:
        # A path with a space in its last name, or a sentence.
        folder = value[: value.index(" ")].rpartition("/")[0]
        return value.startswith("/") and len(parts) > 2 and os.path.isdir(folder)
    if value.startswith(("~/", "../")) or value in ("~", "..") or "/../" in value:
        return True
    return value.startswith("/") and len(parts) > 2 and os.path.isdir("/" + parts[1])


def _check_urls(name: str, fields: Fields) -> None:
    """Refuse a request that changes something at a forge, and a URL that is a command."""
    sends = any(
        key.lower() in ("method", "verb") and str(value).upper() in _SENDING
        for key, value in _leaves(fields)
    )
    for _, value in _leaves(fields):
        if not isinstance(value, str):
            continue
        if value.startswith(("ext::", "fd::")):
            raise Blocked("command-unresolved", f"{name} with a command as its remote")
        if sends and value[:8].lower().startswith(("http://", "https://")):
            try:
                host = urlsplit(value[:_LONGEST_PATH]).hostname or ""
            except ValueError:
                raise Blocked("bad-input", f"{name} with a URL that cannot be read") from None
            if any(host == known or host.endswith("." + known) for known in _FORGE_HOSTS):
                raise Blocked("git-push", f"{name} changes what is at {host}")


# --- servers for git ---------------------------------------------------------------------------


_SUBCOMMANDS = names("""
    add commit reset checkout switch branch merge rebase stash tag clone init remote worktree clean
    restore rm mv config cherry-pick revert am apply pull gc reflog submodule update-ref push
    """)
_REPOSITORY = ("repo_path", "repository_path", "repopath", "repositorypath", "project_path", "repo",
               "repository")  # fmt: skip
_NO_WORD = names("message author date email subject body note").union(_REPOSITORY)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _environment(env: list[Any] | Fields) -> str:
    """ACP's list of {name, value}, or a map, as assignments before the command."""
    pairs = env.items() if isinstance(env, dict) else [
        (e.get("name"), e.get("value")) for e in env if isinstance(e, dict)
    ]  # fmt: skip
    words: list[str] = []
    for name, value in pairs:
        if not isinstance(name, str) or not name.isidentifier():
            raise Blocked("bad-input", "the environment is not readable")
        words.append(f"{name}={_quoted(str(value))} ")
    return "".join(words)
