"""The words, files and input of one run of Claude Code, from Bridle's options.

Nothing secret and nothing large goes on the command line: prompts go by stdin, JSON texts that a
caller gave go into private files.
"""

import os
import signal
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.files import make_private_dir, write_new
from bridle.core.options import RunOptions
from bridle.process.spec import StopStep
from bridle.runtimes.claude.control import content_of, user_line
from bridle.runtimes.claude.dialects import ClaudeDialect
from bridle.runtimes.claude.environment import SANDBOXED
from bridle.runtimes.claude.flag_settings import without_own_routing
from bridle.runtimes.claude.provider_options import ClaudeOptions
from bridle.runtimes.json_settings import merged
from bridle.runtimes.user_files import readable_file

STOP = (
    StopStep(signal=signal.SIGINT, grace=4.0),
    StopStep(signal=signal.SIGTERM, grace=2.0),
    StopStep(signal=signal.SIGKILL, grace=1.0, to="group"),
)
"""SIGINT is the one signal on which every version ends its running tool as well."""

STREAM_FLAGS = (
    "--print",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
)
LIVE_FLAGS = ("--replay-user-messages",)
"""Messages come back when the model is given them."""
_ASK_ON_STDIO = ("--permission-prompt-tool", "stdio")
_LARGE = 16 * 1024
"""Texts longer than this go by file."""


class PrivateFiles:
    """Files for one run alone, in a folder that is made when the first one is written.

    Contract: the folder is readable by its owner only; whoever plans the run names `folders` in
    the plan, so that they are removed at its end, or calls `discard` when nothing comes of it.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self.folders: list[str] = []

    def folder(self) -> str:
        """The run's own folder."""
        if not self.folders:
            import tempfile

            make_private_dir(self._base)
            self.folders.append(tempfile.mkdtemp(prefix="claude-", dir=self._base))
        return self.folders[0]

    def write(self, name: str, text: str) -> str:
        """Write a file; returns its path."""
        path = os.path.join(self.folder(), name)
        write_new(path, text)
        return path

    def discard(self) -> None:
        """Remove what was made: the run will not be."""
        import shutil

        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def run_flags(
    options: RunOptions, own: ClaudeOptions, files: PrivateFiles, env: Mapping[str, str], cwd: str
) -> list[str]:
    """The flags that both a headless run and one at the terminal take; it is started with `env` in
    `cwd`."""
    flags: list[str] = []
    if options.model is not None:
        flags += ["--model", options.model]
    flags += _prompt_flags(options, files)
    flags += _settings_flags(options, files, env, cwd)
    flags += _tool_flags(options, own, files)
    if own.fallback_model is not None:
        flags += ["--fallback-model", own.fallback_model]
    if own.effort is not None:
        flags += ["--effort", own.effort]
    if own.setting_sources is not None:
        flags += ["--setting-sources", own.setting_sources]
    if own.add_dirs:
        flags += ["--add-dir", *own.add_dirs]
    if options.resume is not None:
        flags += ["--resume", options.resume]
        flags += ["--fork-session"] if own.fork else []
    return flags


def _settings_flags(
    options: RunOptions, files: PrivateFiles, env: Mapping[str, str], cwd: str
) -> list[str]:
    """The caller's settings, over those that isolate a model service of the caller's choice."""
    isolating: dict[str, Any] = {}
    if options.model_server is not None:
        isolating = without_own_routing(env, cwd, None, keep="ANTHROPIC_API_KEY")
    elif options.provider is not None and options.provider.base_url is not None:
        isolating = without_own_routing(env, cwd, options.provider.auth_token_env)
    if options.settings is None:
        return ["--settings", msgspec.json.encode(isolating).decode()] if isolating else []
    given = _json_file(options.settings, "settings", files)
    if not isolating:
        return ["--settings", given]
    with open(given, "rb") as file:
        whole = merged(isolating, msgspec.json.decode(file.read(), type=dict[str, Any]))
    text = msgspec.json.encode(whole).decode()
    return ["--settings", files.write("isolated-settings.json", text)]


def headless_flags(options: RunOptions, own: ClaudeOptions) -> list[str]:
    """The flags of a headless run alone: limits, and what is kept of it."""
    flags: list[str] = []
    if options.max_turns is not None:
        flags += ["--max-turns", str(options.max_turns)]
    if options.budget_usd is not None:
        flags += ["--max-budget-usd", f"{options.budget_usd:.6f}"]
    if options.output_schema is not None:
        flags += ["--json-schema", msgspec.json.encode(options.output_schema).decode()]
    if not own.persist_session:
        flags.append("--no-session-persistence")
    return flags


def _prompt_flags(options: RunOptions, files: PrivateFiles) -> list[str]:
    flags: list[str] = []
    if options.system_prompt is not None:
        flags += _text_flag("--system-prompt", options.system_prompt, files)
    # The CLI takes either the text or the file, so both together become one.
    added = [options.append_system_prompt] if options.append_system_prompt else []
    if options.append_system_prompt_file is not None:
        data = readable_file(options.append_system_prompt_file, "the system prompt file")
        added.append(data.decode(errors="replace"))
    if added:
        flags += _text_flag("--append-system-prompt", "\n\n".join(added), files)
    return flags


def _text_flag(flag: str, text: str, files: PrivateFiles) -> list[str]:
    if len(text) <= _LARGE and not text.startswith("-"):
        return [flag, text]
    return [f"{flag}-file", files.write(f"{flag.strip('-')}.txt", text)]


def _json_file(given: str, what: str, files: PrivateFiles) -> str:
    """A path to JSON that was read and found whole; a text becomes a private file."""
    as_text = given.lstrip().startswith("{")
    data = given.encode() if as_text else readable_file(given, f"the {what} file")
    try:
        if not isinstance(msgspec.json.decode(data), dict):
            raise WrongUse(f"the {what} must be a JSON object")
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise WrongUse(f"the {what} are not valid JSON: {problem}") from None
    if as_text:
        # Not under a name that Claude reads by itself: the folder may be its configuration home.
        return files.write(f"given-{what.replace(' ', '-')}.json", given)
    return os.path.abspath(os.path.expanduser(given))


def _tool_flags(options: RunOptions, own: ClaudeOptions, files: PrivateFiles) -> list[str]:
    flags: list[str] = []
    denied = list(options.denied_tools)
    servers: list[str] = []
    if options.mcp_config is not None:
        path = _json_file(options.mcp_config, "MCP configuration", files)
        servers = _servers(path)
        flags += ["--mcp-config", path, "--strict-mcp-config"]
    if options.allowed_tools:
        # `--tools` is what limits; `--allowedTools` only takes away the question. It does not
        # reach MCP tools, so servers that are not named are switched off whole.
        _check_names(options.allowed_tools, servers)
        builtin = [name for name in options.allowed_tools if not name.startswith("mcp__")]
        flags += ["--tools", ",".join(builtin)]
        denied += [
            f"mcp__{name}" for name in servers if f"mcp__{name}" not in options.allowed_tools
        ]
        if options.mcp_config is None:
            flags.append("--strict-mcp-config")
    if denied:
        flags += ["--disallowedTools", *denied]
    if own.preapproved_tools:
        flags += ["--allowedTools", *own.preapproved_tools]
    return flags


def _servers(path: str) -> list[str]:
    found = msgspec.json.decode(readable_file(path, "the MCP configuration file"))
    servers = found.get("mcpServers")
    if not isinstance(servers, dict):
        raise WrongUse(
            "the MCP configuration has no `mcpServers`",
            hint='write {"mcpServers": {"name": {"command": …}}}',
        )
    return list(servers)


def _check_names(names: tuple[str, ...], servers: list[str]) -> None:
    for name in names:
        if "(" in name or "," in name:
            raise UnsupportedOption(
                "claude",
                "allowed_tools",
                [],
                reason=f"{name} is a rule, not a tool; rules go to the preapproved_tools option",
            )
        if name.startswith("mcp__") and name[5:] not in servers:
            raise UnsupportedOption(
                "claude",
                "allowed_tools",
                [],
                reason=f"{name}: of MCP tools only whole servers of this run's mcp_config can be "
                "allowed, as mcp__SERVER",
            )


def user_message(options: RunOptions) -> bytes:
    """The prompt with its images, as the one line that goes to stdin."""
    return user_line(content_of(options.prompt, options.images))


class NoFiles(PrivateFiles):
    """For a run at the terminal, after which nobody removes files."""

    def folder(self) -> str:
        """Refuses to make one."""
        raise WrongUse(
            "at the terminal long or JSON texts must be given as files",
            hint="write the text to a file and give its path",
        )


def mode_of(permission: str, dialect: ClaudeDialect) -> str:
    """Claude's name for a permission mode."""
    return "bypassPermissions" if permission == "bypass" else dialect.default_mode


def permission_flags(options: RunOptions, dialect: ClaudeDialect) -> tuple[str, ...]:
    """The permission mode of a headless run; requests come on stdout unless they are bypassed."""
    mode = ("--permission-mode", mode_of(options.permission_mode, dialect))
    return mode if options.permission_mode == "bypass" else (*mode, *_ASK_ON_STDIO)


def check_root(permission: str, env: Mapping[str, str]) -> None:
    """Raise `WrongUse` where Claude would refuse to bypass permissions."""
    if permission == "bypass" and os.geteuid() == 0 and env.get(SANDBOXED) != "1":
        raise WrongUse(
            "claude refuses to bypass permissions for the root user",
            hint=f"run as another user, or set {SANDBOXED}=1 if this machine is itself a sandbox",
        )


def secrets_of(options: RunOptions, env: Mapping[str, str]) -> tuple[str, ...]:
    """Values that must not appear in anything Bridle writes."""
    secrets: list[str] = []
    if options.model_server is not None:
        secrets.append(options.model_server.api_key)
    if options.provider is not None and options.provider.auth_token_env is not None:
        secrets.append(env.get(options.provider.auth_token_env, ""))
    return tuple(secret for secret in secrets if secret)
