"""Plans a process that speaks the protocol, and the session that is opened in it.

The planner checks the options and asks the product for its environment and command in the mode
`live`; `plan_session` adds the arguments of the protocol and what the session is opened with.
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused, UnsupportedOption
from bridle.core.options import RunOptions
from bridle.process.private_folders import remove_folders
from bridle.process.spec import StopStep
from bridle.runtimes.acp import protocol
from bridle.runtimes.acp.product import AcpCommand, AcpOptions, AcpProduct
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.alternatives import refuse_fork
from bridle.runtimes.install import Installation, find_executable
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan

STOP = (
    # To the group: a signal to an npm launcher alone leaves the agent running.
    StopStep(signal=signal.SIGTERM, grace=3.0, to="group"),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the agent is sent before and with the prompt."""

    cwd: str
    prompt: list[dict[str, Any]]
    """Content blocks."""
    mcp_servers: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    """`_meta` of `session/new`, where the agent takes options there."""
    resume: str | None = None
    fork: bool = False
    """Continue in a copy of `resume`, which stays unchanged."""
    mode: str | None = None
    """Mode to set before the prompt."""
    model: str | None = None
    """Model to choose by the protocol; None if it is chosen at the start or not at all."""
    start_timeout: float = 90.0
    silence_timeout: float | None = 180.0
    """None leaves this to the driver's clocks."""


class AcpPlan(RunPlan, frozen=True, kw_only=True):
    """A plan of a process together with that of its session."""

    session: SessionPlan
    quirks: AcpQuirks


# -- plans ----------------------------------------------------------------------------------------


def plan_session(
    adapter: AcpProduct,
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    *,
    live: bool,
) -> AcpPlan:
    """The plan of one prompt, or of the process of a conversation.

    Contract: that of `plan_run`.
    """
    launch = adapter.launch("live", options, env, session_id)
    options, own, quirks = launch.options, launch.own, launch.dialect
    if quirks.seen and not quirks.forks:
        refuse_fork(adapter.id, options, own.fork, "it offers no copies of sessions")
    mode = _mode(adapter.id, quirks, options, own)
    _check_sandbox(adapter.id, quirks, launch.installation, mode or "", env)
    launch.warnings += _cautions(adapter.id, quirks, options)
    prepared = adapter.prepare(launch)
    command = prepared.command
    assert isinstance(command, AcpCommand)
    try:
        if options.resume is not None:
            adapter.check_load(prepared.env, options.resume)
        session = _session(options, own, launch.cwd, quirks, mode, command, live=live)
    except BaseException:
        remove_folders(tuple(launch.folders))
        raise
    if quirks.mode_variable and mode:
        chosen = {**prepared.env, quirks.mode_variable: mode}
        prepared = msgspec.structs.replace(prepared, env=chosen)
    words = (*quirks.flags, *command.words, *quirks.mode_flags.get(mode or "", ()))
    if options.model and not options.model_server:
        words += tuple(word.format(options.model) for word in quirks.model_flags)
    first = protocol.AcpClient().request("initialize", protocol.initialize_params())
    command = msgspec.structs.replace(
        command,
        words=(*words, *(quirks.live_flags if live else ()), *options.raw_args),
        stdin=None if live else first,
        keep_stdin=True,
        # Nobody reads the standard error of a conversation that runs unattended.
        watch_stderr=quirks.failure_log and not live,
        stop=STOP,
        native_session_id=None if own.fork else options.resume,
    )
    plan = adapter.plan(launch, msgspec.structs.replace(prepared, command=command))
    return AcpPlan(**msgspec.structs.asdict(plan), session=session, quirks=quirks)


def with_session(plan: AcpPlan, session: SessionPlan) -> AcpPlan:
    """`plan` with another mode and `_meta` of its session, in a conversation too."""
    live = plan.live
    if live is not None:
        kept = {**live.own["session"], "meta": session.meta, "mode": session.mode}
        live = msgspec.structs.replace(live, own={**live.own, "session": kept})
    return msgspec.structs.replace(plan, session=session, live=live)


def _session(
    options: RunOptions,
    own: AcpOptions,
    cwd: str,
    quirks: AcpQuirks,
    mode: str | None,
    command: AcpCommand,
    *,
    live: bool,
) -> SessionPlan:
    silence = own.silence_timeout
    if silence is None and not live:
        silence = quirks.silence
    by_start = bool(quirks.model_flags or quirks.model_variable or command.model_chosen)
    by_protocol = options.mcp_config is not None and not command.mcp_chosen
    return SessionPlan(
        cwd=cwd,
        prompt=content_blocks(options.prompt, options.images),
        mcp_servers=mcp_list(options.mcp_config or "") if by_protocol else [],
        meta=_meta(options, quirks, command.settings),
        resume=options.resume,
        fork=own.fork and options.resume is not None,
        mode=None if quirks.mode_variable or mode in quirks.mode_flags else mode,
        model=None if by_start else options.model,
        start_timeout=own.start_timeout,
        silence_timeout=silence,
    )


def _mode(runtime: str, quirks: AcpQuirks, options: RunOptions, own: AcpOptions) -> str | None:
    """The mode in which the agent works; None is its default mode."""
    if options.sandbox is not None and quirks.sandbox_modes:
        if options.sandbox not in quirks.sandbox_modes:
            raise UnsupportedOption(
                runtime,
                f"sandbox={options.sandbox}",
                [],
                reason="its sandbox opens the worktree or nothing",
            )
        if options.sandbox == "worktree" and quirks.sandbox_lost:
            raise GuardRefused(
                f"{runtime}, {quirks.name}: {quirks.sandbox_lost}",
                hint="install a newer one, or name another sandbox",
                runtime=runtime,
            )
        return quirks.sandbox_modes[options.sandbox]
    return own.mode or quirks.mode


def _check_sandbox(
    runtime: str, quirks: AcpQuirks, found: Installation, mode: str, env: Mapping[str, str]
) -> None:
    """Refuse an agent whose sandbox cannot work: all its commands would fail, and the run would
    still succeed."""
    if not quirks.sandbox_program or mode == quirks.open_mode or sys.platform != "linux":
        return
    beside = os.path.join(os.path.dirname(found.binary), "codex-resources")
    path = os.pathsep.join([env.get("PATH", os.defpath), beside])
    if find_executable(quirks.sandbox_program, path) is None:
        raise GuardRefused(
            f"{runtime}: its sandbox needs `{quirks.sandbox_program}`, which was not found",
            hint="install bubblewrap, or run without a sandbox (--sandbox off)",
        )


def _cautions(runtime: str, quirks: AcpQuirks, options: RunOptions) -> tuple[str, ...]:
    if options.permission_mode == "ask" and quirks.sandbox_modes:
        return (f"{runtime}: nobody is asked before it changes files in its worktree",)
    return ()


# -- what the session is opened with --------------------------------------------------------------


def content_blocks(text: str, images: tuple[str, ...]) -> list[dict[str, Any]]:
    """A message as content blocks; `WrongUse` for a file that is not an image."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for path in images:
        from bridle.runtimes.options import image_data

        kind, data = image_data(path)
        blocks.append({"type": "image", "mimeType": kind, "data": data})
    return blocks


def mcp_list(text_or_path: str) -> list[dict[str, Any]]:
    """MCP servers from the common shape to the protocol's list."""
    from bridle.runtimes.options import read_servers

    servers: list[dict[str, Any]] = []
    for name, server in read_servers(text_or_path).items():
        if server.url is not None:
            kind = "sse" if server.type == "sse" else "http"
            headers = [{"name": key, "value": value} for key, value in server.headers.items()]
            servers.append({"type": kind, "name": name, "url": server.url, "headers": headers})
            continue
        variables = [{"name": key, "value": value} for key, value in server.env.items()]
        command = find_executable(server.command or "") or server.command
        servers.append({"name": name, "command": command, "args": server.args, "env": variables})
    return servers


def _meta(options: RunOptions, quirks: AcpQuirks, settings: Mapping[str, Any]) -> dict[str, Any]:
    """`_meta` of the session: the system prompt, and options of Claude behind its bridge."""
    meta: dict[str, Any] = {}
    own: dict[str, Any] = {}
    if quirks.system_prompt_meta:
        added = added_instructions(options)
        if options.system_prompt is not None:
            meta["systemPrompt"] = "\n\n".join(filter(None, (options.system_prompt, added)))
        elif added:
            meta["systemPrompt"] = {"append": added}
        if options.denied_tools:
            own["disallowedTools"] = list(options.denied_tools)
    if settings:
        own["settings"] = msgspec.json.encode(settings).decode()
    return {**meta, "claudeCode": {"options": own}} if own else meta
