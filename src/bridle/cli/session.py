"""`bridle session`: conversations with agents that go on."""

import argparse
import os
import sys
from typing import Any

import msgspec

from bridle.cli import session_arguments
from bridle.cli.output import one_line, safe, warn, write_json, write_line
from bridle.cli.run_arguments import options_of, read_text, runtime_of
from bridle.cli.session_questions import tell_questions, wait_idle
from bridle.core.errors import WrongUse, exit_code_of
from bridle.core.events import encode_event
from bridle.sessions.desk import SessionDesk, check_delivery
from bridle.sessions.ledger import MessageKind
from bridle.sessions.store import SessionRecord

configure = session_arguments.configure

_KINDS: dict[str, MessageKind] = {
    "send": "prompt",
    "steer": "steer",
    "follow-up": "follow_up",
}
_STARTED = ("session_id", "native_session_id", "runtime", "drive", "pid", "state")
_LISTED = (
    "session_id",
    "native_session_id",
    "name",
    "runtime",
    "drive",
    "state",
    "workdir",
    "pid",
    "started_at",
    "ready_at",
)


def execute(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    with SessionDesk(getattr(args, "cwd", None)) as desk:
        act = _VERBS[args.verb]
        return act(desk, args)


def _start(desk: SessionDesk, args: argparse.Namespace) -> int:
    from bridle.config import apply_config, load_config
    from bridle.runtimes.registry import get_runtime
    from bridle.sessions.configured import configured_drive
    from bridle.sessions.lifecycle import Identity

    config = load_config(args.cwd)
    runtime = get_runtime(runtime_of(args), config)
    options = apply_config(options_of(args), config, runtime.id)
    identity = Identity(
        agent=args.agent,
        capability=args.capability,
        project=args.project,
        task=args.task,
        actor=args.actor,
    )
    drive = args.drive or configured_drive(config, runtime.id)
    record = desk.start(runtime, options, drive=drive, name=args.name, identity=identity)
    _warn(record)
    _print(args, _fields(record, _STARTED), _line(record))
    if not args.json:
        tell_questions(desk, record)
    return 0


def _resume(desk: SessionDesk, args: argparse.Namespace) -> int:
    record = desk.find(args.session)[1]
    if args.runtime and args.runtime != record.runtime:
        return _hand_over(desk, args)
    if args.name:
        raise WrongUse("--name is for a session that is handed over", hint="it keeps its own name")
    changes = {"model": args.model} if args.model else {}
    if args.permission:
        changes["permission_mode"] = args.permission
    record = desk.resume(args.session, changes=changes)
    if args.prompt:
        desk.send(record.session_id, read_text(args.prompt))
    _warn(record)
    _print(args, _fields(record, _STARTED), _line(record))
    return 0


def _hand_over(desk: SessionDesk, args: argparse.Namespace) -> int:
    from bridle.config import apply_config, load_config
    from bridle.core.options import RunOptions
    from bridle.runtimes.registry import get_runtime

    old = desk.find(args.session)[1]
    config = load_config(old.workdir)
    runtime = get_runtime(args.runtime, config)
    wanted = RunOptions(
        prompt=read_text(args.prompt) if args.prompt else "",
        cwd=old.workdir,
        model=args.model,
        permission_mode="bypass" if args.permission == "bypass" else "ask",
    )
    options = apply_config(wanted, config, runtime.id)
    record = desk.hand_over(args.session, runtime, options, new_name=args.name)
    data = {**_fields(record, _STARTED), "parent": record.parent, "handover": record.handover}
    _warn(record)
    how = {"native": "imported", "brief": "told in a brief"}[record.handover or "brief"]
    _print(args, data, f"{_line(record)}  (conversation {how})")
    return 0


def _list(desk: SessionDesk, args: argparse.Namespace) -> int:
    records = [
        record
        for record in desk.list(everywhere=args.all)
        if (args.state is None or record.state == args.state)
        and (args.runtime is None or record.runtime == args.runtime)
    ]
    if args.json:
        write_json({"sessions": [_fields(record, _LISTED) for record in records]})
        return 0
    for record in records:
        sys.stdout.write(f"{_line(record)}\n")
    if not records:
        sys.stderr.write("no sessions\n")
    return 0


def _show(desk: SessionDesk, args: argparse.Namespace) -> int:
    record = desk.show(args.session)
    if args.json:
        write_json(record)
        return 0
    tell_questions(desk, record)
    for name, value in msgspec.to_builtins(record).items():
        if value or value == 0:
            sys.stdout.write(f"{name + ':':<19}{one_line(str(value))}\n")
    return 0


def _send(desk: SessionDesk, args: argparse.Namespace) -> int:
    text = read_text(args.text)
    record = desk.find(args.session)[1]
    if args.delivery != "auto":
        check_delivery(record, args.delivery)
    timeout = {"timeout": args.timeout} if args.timeout else {}
    receipt = desk.send(
        record.session_id,
        text,
        kind=_KINDS[args.verb],
        images=tuple(os.path.abspath(image) for image in args.image),
        **timeout,
    )
    if receipt.error is not None:
        raise WrongUse(f"the agent did not take the message: {receipt.error}")
    where = f"in turn {receipt.turn}" if receipt.delivered else "waits"
    if not receipt.delivered and not receipt.queued:
        where = "is on its way"
    _print(args, receipt, f"message {receipt.message_id} {where}")
    return 0


def _abort(desk: SessionDesk, args: argparse.Namespace) -> int:
    told = desk.abort(args.session, args.reason, clear=args.clear)
    said = "the turn is being ended" if told["aborted"] else "nothing was running"
    _print(args, told, said)
    return 0


def _wait(desk: SessionDesk, args: argparse.Namespace) -> int:
    report = wait_idle(desk, args.session, args.timeout)
    _print(args, report, report.text or f"{report.state}")
    if report.status not in (None, "completed"):
        return exit_code_of((report.error or {}).get("kind", ""))
    return 0 if report.state == "ready" or report.state == "stopped" else 1


def _stop(desk: SessionDesk, args: argparse.Namespace) -> int:
    record = desk.stop(args.session, args.reason)
    _print(args, {"session_id": record.session_id, "state": record.state}, _line(record))
    return 0


def _permit(desk: SessionDesk, args: argparse.Namespace) -> int:
    allowed = args.decision == "allow"
    desk.answer(args.session, args.request, allowed, reason=args.reason)
    answer = {"request_id": args.request, "decision": args.decision}
    _print(args, answer, f"{args.decision}: {args.request}")
    return 0


def _model(desk: SessionDesk, args: argparse.Namespace) -> int:
    desk.set_model(args.session, args.model)
    _print(args, {"model": args.model}, f"model: {args.model}")
    return 0


def _logs(desk: SessionDesk, args: argparse.Namespace) -> int:
    for event in desk.events(args.session, after=args.after, follow=args.follow):
        write_line(encode_event(event))
    return 0


def _attach(desk: SessionDesk, args: argparse.Namespace) -> int:
    from bridle.cli.session_attach import attach, attach_terminal, shared_terminal, show_terminal

    if args.json:
        raise WrongUse("attach is for a person", hint="`bridle session logs -f` prints JSON")
    record = desk.show(args.session)
    home = desk.find(args.session)[0]
    if record.drive == "tmux":
        return attach_terminal(home, record)
    shared = shared_terminal(home, record)
    return attach(desk, record) if shared is None else show_terminal(shared)


def _export(desk: SessionDesk, args: argparse.Namespace) -> int:
    from bridle.sessions.export import export

    record = desk.show(args.session)
    home = desk.find(args.session)[0]
    chosen = args.format or ("json" if args.json else "markdown")
    if args.out is None:
        if args.json and chosen not in ("json", "atif"):
            raise WrongUse(f"{chosen} is no JSON", hint="write it to a file with --out")
        export(home, record, chosen, sys.stdout.buffer)
        return 0
    partial = f"{args.out}.part"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        export(home, record, chosen, file)
    os.replace(partial, args.out)
    _print(args, {"session_id": record.session_id, "file": args.out}, args.out)
    return 0


_VERBS = {
    "start": _start,
    "resume": _resume,
    "list": _list,
    "show": _show,
    "send": _send,
    "steer": _send,
    "follow-up": _send,
    "abort": _abort,
    "wait": _wait,
    "stop": _stop,
    "permit": _permit,
    "model": _model,
    "logs": _logs,
    "attach": _attach,
    "export": _export,
}


def _fields(record: SessionRecord, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _line(record: SessionRecord) -> str:
    name = f" {record.name}" if record.name else ""
    error = f"  {record.error['message']}" if record.error and record.is_over else ""
    where = os.path.relpath(record.workdir)
    return safe(
        f"{record.session_id}{name}  {record.runtime} ({record.drive})  {record.state}"
        f"  turn {record.turn}  {where}{error}"
    )


def _warn(record: SessionRecord) -> None:
    """Tell, as `bridle run` does, what the user should know of a start."""
    for text in record.warnings:
        warn(text)


def _print(args: argparse.Namespace, data: Any, text: str) -> None:
    if args.json:
        write_json(data)
    else:
        sys.stdout.write(f"{text}\n")
