"""`bridle session`: lasting conversations with agents."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.cli import session_arguments
from bridle.cli.output import end_with_reader, safe, warn, write_json, write_line
from bridle.cli.progress import Spinner
from bridle.cli.prompt_text import prompt_text
from bridle.cli.run_arguments import options_of, runtime_of
from bridle.cli.session_view import (
    Transcript,
    called,
    place_of,
    write_failure,
    write_list,
    write_record,
    write_requests,
)
from bridle.core.errors import TimedOut, WrongUse, exit_code_of
from bridle.core.events import encode_event
from bridle.core.files import atomic_file
from bridle.core.options import ModelServer, RunOptions, options_in_use
from bridle.core.redaction import Redactor, secrets_in
from bridle.sessions import verbs
from bridle.sessions.ledger import MessageKind
from bridle.sessions.manager import SEND_TIMEOUT, SessionManager
from bridle.sessions.store import SessionRecord
from bridle.sessions.verbs import TurnReport

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
    "turn",
    "last_turn",
    "usage",
    "cost_usd",
    "questions",
    "last_activity",
    "stop_reason",
    "error",
)


def execute(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    with SessionManager(getattr(args, "cwd", None)) as manager:
        act = _VERBS[args.verb]
        return act(manager, args)


def _start(manager: SessionManager, args: argparse.Namespace) -> int:
    from bridle.config import apply_config, load_config
    from bridle.runtimes.registry import get_adapter
    from bridle.sessions.start import Identity

    config = load_config(args.cwd)
    runtime = get_adapter(runtime_of(args, config), config)
    options = apply_config(options_of(args), config, runtime.id)
    identity = Identity(
        agent=args.agent,
        capability=args.capability,
        project=args.project,
        task=args.task,
        actor=args.actor,
    )
    drive = args.drive or config.drive(runtime.id)
    if args.verbose:
        _describe(runtime.id, options, drive)
    bare = msgspec.structs.replace(options, prompt="")
    record = _started(
        manager,
        args,
        runtime.id,
        lambda: manager.start(runtime, bare, drive=drive, name=args.name, identity=identity),
        options.prompt,
        options.images,
    )
    _warn(record)
    _print(args, _fields(record, _STARTED), _line(record))
    if not args.json:
        write_requests(record)
    return 0


def _started(
    manager: SessionManager,
    args: argparse.Namespace,
    agent: str,
    start: Callable[[], SessionRecord],
    prompt: str = "",
    images: tuple[str, ...] = (),
) -> SessionRecord:
    """Start a process of a session and send its prompt. On Ctrl-C a session that is not ready is
    stopped, and a ready one keeps running; stderr says which."""
    record: SessionRecord | None = None
    sent = False
    try:
        with _spinner(args, agent):
            record = start()
            if prompt.strip():
                sent = True
                manager.send(record.session_id, prompt, images=images)
                record = manager.show(record.session_id)
        return record
    except KeyboardInterrupt:
        _interrupted(manager, record, sent, bool(prompt.strip()))
        raise


def _interrupted(
    manager: SessionManager, record: SessionRecord | None, sent: bool, has_prompt: bool
) -> None:
    """Print what happened to a session whose start the user interrupted."""
    if record is not None:
        prompt = "; its prompt was sent" if sent else "; its prompt was not sent"
        sys.stderr.write(
            f"\ninterrupted: session {called(record)} keeps running"
            f"{prompt if has_prompt else ''}\n"
            f"hint: `bridle session stop {called(record)}` ends it\n"
        )
    elif manager.started is not None:
        name = called(manager.started)
        sys.stderr.write(f"\ninterrupted: stopping session {name}\n")
        sys.stderr.flush()
        manager.stop(manager.started.session_id, "interrupted while it started")
        prompt = ", and its prompt was not sent" if has_prompt else ""
        sys.stderr.write(f"session {name} was stopped{prompt}\n")
    else:
        sys.stderr.write("\ninterrupted: no session was started\n")


def _spinner(args: argparse.Namespace, agent: str) -> Spinner:
    return Spinner(f"starting {agent}", shown=not (args.json or getattr(args, "quiet", False)))


def _describe(runtime: str, options: RunOptions, drive: str | None) -> None:
    """Print what is about to start, without any secret."""
    shown = [f"permission_mode={options.permission_mode}"]
    for name in options_in_use(options):
        value = getattr(options, name)
        if isinstance(value, ModelServer):
            value = value.url
        shown.append(f"{name}={msgspec.json.encode(value).decode()}")
    if options.env:
        shown.append(f"env ({', '.join(sorted(options.env))})")
    hide = Redactor(secrets_in({**os.environ, **options.env})).text
    for key, text in (
        ("runtime", runtime),
        ("drive", drive or "the runtime's own"),
        ("cwd", os.path.abspath(options.cwd or os.getcwd())),
        ("options", ", ".join(shown)),
    ):
        sys.stderr.write(f"{key + ':':<9}{hide(text)}\n")
    sys.stderr.flush()


def _resume(manager: SessionManager, args: argparse.Namespace) -> int:
    record = manager.find(args.session)[1]
    if args.runtime and args.runtime != record.runtime:
        return _hand_over(manager, args)
    if args.name:
        raise WrongUse("--name is for a session that is handed over", hint="it keeps its own name")
    changes = {"model": args.model} if args.model else {}
    if args.permission:
        changes["permission_mode"] = args.permission
    text = prompt_text(args.prompt, args.file, optional=True)
    if args.verbose:
        changed = ", ".join(f"{name}={value}" for name, value in changes.items())
        sys.stderr.write(f"runtime: {record.runtime}\ndrive:   {record.drive}\n")
        sys.stderr.write(f"changes: {changed or 'none'}\n")
    record = _started(
        manager, args, record.runtime, lambda: manager.resume(args.session, changes=changes), text
    )
    _warn(record)
    _print(args, _fields(record, _STARTED), _line(record))
    return 0


def _hand_over(manager: SessionManager, args: argparse.Namespace) -> int:
    from bridle.config import apply_config, load_config
    from bridle.core.options import RunOptions
    from bridle.runtimes.registry import get_adapter

    old = manager.find(args.session)[1]
    config = load_config(old.workdir)
    runtime = get_adapter(args.runtime, config)
    wanted = RunOptions(
        prompt=prompt_text(args.prompt, args.file, optional=True),
        cwd=old.workdir,
        model=args.model,
        permission_mode="bypass" if args.permission == "bypass" else "ask",
    )
    options = apply_config(wanted, config, runtime.id)
    if args.verbose:
        _describe(runtime.id, options, None)
    record = _started(
        manager,
        args,
        runtime.id,
        lambda: manager.hand_over(args.session, runtime, options, new_name=args.name),
    )
    data = {**_fields(record, _STARTED), "parent": record.parent, "handover": record.handover}
    _warn(record)
    how = {"native": "imported", "brief": "as a brief"}[record.handover or "brief"]
    _print(args, data, f"{_line(record)}  (conversation {how})")
    return 0


def _list(manager: SessionManager, args: argparse.Namespace) -> int:
    records = [
        record
        for record in manager.list(machine=args.all)
        if (args.state is None or record.state == args.state)
        and (args.runtime is None or record.runtime == args.runtime)
    ]
    if args.json:
        write_json({"sessions": [_fields(record, _LISTED) for record in records]})
        return 0
    if records:
        write_list(records, places=args.all)
    else:
        sys.stderr.write("no sessions\n")
    return 0


def _show(manager: SessionManager, args: argparse.Namespace) -> int:
    record = manager.show(args.session)
    if args.json:
        write_json(record)
        return 0
    write_requests(record)
    write_record(record)
    return 0


def _send(manager: SessionManager, args: argparse.Namespace) -> int:
    text = prompt_text(args.text, args.file)
    began = time.monotonic()
    receipt = manager.send(
        args.session,
        text,
        kind=_KINDS.get(args.verb, "prompt"),
        images=tuple(os.path.abspath(image) for image in args.image),
        timeout=args.timeout or SEND_TIMEOUT,
        delivery=None if args.delivery == "auto" else args.delivery,
    )
    if receipt.error is not None:
        raise WrongUse(f"the agent did not take the message: {receipt.error}")
    if args.wait:
        if args.timeout:
            args.timeout = max(0.1, args.timeout - (time.monotonic() - began))
        return _wait(manager, args)
    where = f"in turn {receipt.turn}" if receipt.delivered else "waits"
    if not receipt.delivered and not receipt.queued:
        where = "is on its way"
    _print(args, receipt, f"message {receipt.message_id} {where}")
    return 0


def _abort(manager: SessionManager, args: argparse.Namespace) -> int:
    verb = verbs.Abort(session=args.session, reason=args.reason, clear=args.clear)
    result = manager.call(verb)
    text = "the turn is being ended" if result["aborted"] else "nothing was running"
    _print(args, result, text)
    return 0


def _wait(manager: SessionManager, args: argparse.Namespace) -> int:
    report = _wait_idle(manager, args.session, args.timeout)
    if args.json:
        write_json(report)
    elif report.text or report.error is None:
        sys.stdout.write(f"{report.text or report.state}\n")
    if report.error is not None and not args.json:
        write_failure(report.error)
    if report.status not in (None, "completed"):
        return exit_code_of((report.error or {}).get("kind", ""))
    return 0 if report.state == "ready" or report.state == "stopped" else 1


def _wait_idle(manager: SessionManager, name: str, timeout: float | None) -> TurnReport:
    """As `SessionManager.wait`, but prints each permission request of the agent at once."""
    until = None if timeout is None else time.monotonic() + timeout
    known: set[str] = set()
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        try:
            report = manager.wait(name, left, known_questions=known)
        except TimedOut as problem:
            waits = bool(known) and bool(manager.show(name).questions)
            raise TimedOut(
                f"session {name} still {'waits for an answer' if waits else 'works'}"
                f" after {timeout:g} s",
                hint="answer it with `bridle session permit`" if waits else problem.hint,
            ) from None
        if not report.questions:
            return report
        known |= write_requests(manager.show(name), known)


def _stop(manager: SessionManager, args: argparse.Namespace) -> int:
    if args.all:
        if args.session:
            raise WrongUse("--all ends every session", hint="leave the session's name out")
        ended = manager.stop_all(args.reason)
        data = [{"session_id": each.session_id, "state": each.state} for each in ended]
        lines = "\n".join(_line(each) for each in ended) or "no session was running"
        _print(args, {"sessions": data}, lines)
        return 0
    if args.session is None:
        raise WrongUse("the session's id is missing", hint="--all ends every session")
    record = manager.stop(args.session, args.reason)
    _print(args, {"session_id": record.session_id, "state": record.state}, _line(record))
    return 0


def _permit(manager: SessionManager, args: argparse.Namespace) -> int:
    allowed = args.decision == "allow"
    request = args.request or _only_question(manager, args.session)
    verb = verbs.Permit(
        session=args.session, request_id=request, allowed=allowed, reason=args.reason
    )
    manager.call(verb)
    answer = {"request_id": request, "decision": args.decision}
    _print(args, answer, f"{args.decision}: {request}")
    return 0


def _only_question(manager: SessionManager, name: str) -> str:
    """The id of the one request that waits."""
    waiting = [asked.request_id for asked in manager.show(name).questions]
    if not waiting:
        raise WrongUse(f"session {name} is not waiting for permission")
    if len(waiting) > 1:
        raise WrongUse(
            f"{len(waiting)} requests of session {name} wait",
            hint=f"name one of them: {', '.join(waiting)}",
        )
    return waiting[0]


def _fork(manager: SessionManager, args: argparse.Namespace) -> int:
    changes = {"model": args.model} if args.model else {}
    record = _started(
        manager,
        args,
        "a copy of the conversation",
        lambda: manager.fork(args.session, new_name=args.name, changes=changes),
    )
    _warn(record)
    data = {**_fields(record, _STARTED), "parent": record.parent}
    _print(args, data, _line(record))
    return 0


def _compact(manager: SessionManager, args: argparse.Namespace) -> int:
    manager.call(verbs.Compact(session=args.session))
    record = manager.find(args.session)[1]
    data = {"session_id": record.session_id, "compacting": True}
    _print(args, data, f"session {called(record)} shortens its context")
    return 0


def _rename(manager: SessionManager, args: argparse.Namespace) -> int:
    record = manager.call(verbs.Rename(session=args.session, name=args.name))
    data = {"session_id": record.session_id, "name": record.name}
    _print(args, data, f"session {record.session_id} is now {safe(args.name)}")
    return 0


def _remove(manager: SessionManager, args: argparse.Namespace) -> int:
    session_id = manager.remove(args.session, force=args.force)
    _print(args, {"session_id": session_id, "removed": True}, f"removed {session_id}")
    return 0


def _prune(manager: SessionManager, args: argparse.Namespace) -> int:
    pruned = manager.prune(
        older_than=args.older_than * 86_400, machine=args.all, dry_run=args.dry_run
    )
    data = {"removed": [each.session_id for each in pruned], "dry_run": args.dry_run}
    verb = "would remove" if args.dry_run else "removed"
    count = f"{len(pruned)} session{'' if len(pruned) == 1 else 's'}"
    lines = [*(f"{verb} {_line(each)}" for each in pruned), f"{verb} {count}"]
    _print(args, data, "\n".join(lines))
    return 0


def _model(manager: SessionManager, args: argparse.Namespace) -> int:
    manager.call(verbs.SetModel(session=args.session, model=args.model))
    _print(args, {"model": args.model}, f"model: {args.model}")
    return 0


def _logs(manager: SessionManager, args: argparse.Namespace) -> int:
    if args.follow:
        end_with_reader()
    events = manager.events(args.session, after=args.after, follow=args.follow)
    if args.json or not sys.stdout.isatty():
        for event in events:
            write_line(encode_event(event))
        return 0
    from bridle.sessions.user_messages import user_messages

    home, record = manager.find(args.session)
    view = Transcript(lambda: user_messages(home, record), verbose=args.verbose)
    for event in events:
        view.show(event)
    return 0


def _attach(manager: SessionManager, args: argparse.Namespace) -> int:
    from bridle.cli.session_attach import attach, attach_terminal, shared_terminal, show_terminal

    if args.json:
        raise WrongUse("attach is for a person", hint="`bridle session logs -f` prints JSON")
    record = manager.show(args.session)
    home = manager.find(args.session)[0]
    if record.drive == "tmux":
        return attach_terminal(home, record)
    shared = shared_terminal(home, record)
    return attach(manager, record) if shared is None else show_terminal(shared)


def _export(manager: SessionManager, args: argparse.Namespace) -> int:
    from bridle.sessions.export import export

    record = manager.show(args.session)
    home = manager.find(args.session)[0]
    chosen = args.format or ("json" if args.json else "markdown")
    if args.out is None:
        if args.json and chosen not in ("json", "atif"):
            raise WrongUse(f"{chosen} is not JSON", hint="write it to a file with --out")
        export(home, record, chosen, sys.stdout.buffer)
        return 0
    if os.path.isdir(args.out):
        raise WrongUse(f"cannot write {args.out}: it is a folder", hint="name a file in it")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(atomic_file(args.out))
        except OSError as problem:
            raise WrongUse(
                f"cannot write {args.out}: {problem.strerror}",
                hint="does its folder exist, and may you write there?",
            ) from None
        export(home, record, chosen, file)
    _print(args, {"session_id": record.session_id, "file": args.out}, args.out)
    return 0


_VERBS = {
    "start": _start,
    "fork": _fork,
    "ask": _send,
    "compact": _compact,
    "rename": _rename,
    "rm": _remove,
    "prune": _prune,
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
    error = f"  {record.error['kind']}: {record.error['message']}" if record.error else ""
    return safe(
        f"{record.session_id}{name}  {record.runtime} ({record.drive})  {record.state}"
        f"  turn {record.turn}  {place_of(record)}{error}"
    )


def _warn(record: SessionRecord) -> None:
    """Print the warnings of a start, as `bridle run` does."""
    for text in record.warnings:
        warn(text)


def _print(args: argparse.Namespace, data: Any, text: str) -> None:
    if args.json:
        write_json(data)
    else:
        sys.stdout.write(f"{text}\n")
