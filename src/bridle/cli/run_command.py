"""`bridle run`: one prompt through an agent."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator

import msgspec

from bridle.cli import run_arguments
from bridle.cli.output import warn
from bridle.cli.progress import Spinner
from bridle.cli.run_view import HumanView, JsonView, StreamView, View, run_end
from bridle.config import Config, apply_config, load_config
from bridle.core.errors import BridleError, WrongUse
from bridle.core.events import AgentStart, SessionStart, StateChange
from bridle.core.options import ModelServer, RunOptions, options_in_use
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, PrintRun, refuse_all
from bridle.runs import Prepared, prepare
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter
from bridle.turns.wire import PermissionAnswer, Question

_STOPPING = b"\nstopping the agent; once more kills it at once\n"

configure = run_arguments.configure
EXAMPLES = (
    'bridle run "fix the failing test"',
    'git diff | bridle run "review this" -r codex --json',
)


def execute(args: argparse.Namespace) -> int:
    """Run the prompt and show it in the requested form."""
    wanted = run_arguments.options_of(args)
    config = load_config(args.cwd)
    runtime = get_adapter(run_arguments.runtime_of(args, config), config)
    options = apply_config(wanted, config, runtime.id)
    if args.interactive:
        return _interactive(runtime, options, config, run_arguments.output_of(args))
    output = run_arguments.output_of(args)
    quiet = args.quiet or output != "text"
    spinner = Spinner(f"starting {runtime.id}", shown=not quiet)
    permission = _permission(options)
    if permission is not refuse_all:
        permission = _AfterSpinner(permission, spinner)
    prepared = prepare(runtime, options, permission=permission, config=config)
    if args.verbose:
        _describe(runtime, options, prepared)
    for text in _warnings(prepared):
        warn(text)
    return _follow(prepared.run, _view(output, verbose=args.verbose), permission, spinner)


def failure(problem: BridleError, argv: list[str]) -> bytes | None:
    """A run that could not start, in the shape of every other run's result."""
    output = run_arguments.output_in(argv)
    if output == "text":
        return None
    result = RunResult(runtime=problem.runtime, status="failed", error=problem.info())
    return run_end(result) if output == "stream-json" else msgspec.json.encode(result)


class _AfterSpinner:
    """Asks the person after removing the spinner."""

    def __init__(self, permission: PermissionPolicy, spinner: Spinner) -> None:
        self._permission = permission
        self._spinner = spinner

    def __call__(self, question: Question) -> PermissionAnswer:
        self._spinner.stop()
        return self._permission(question)

    def interrupt(self) -> None:
        """Pass an interruption on."""
        interrupt = getattr(self._permission, "interrupt", None)
        if interrupt is not None:
            interrupt()


def _view(output: str, *, verbose: bool) -> View:
    if output == "text":
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # it is the real one
        return HumanView(thinking=verbose)
    return JsonView() if output == "json" else StreamView()


def _permission(options: RunOptions) -> PermissionPolicy:
    if options.permission_mode == "ask":
        from bridle.cli.permission_prompt import TerminalPermission, can_ask

        if can_ask():
            return TerminalPermission(options.timeout)
    return refuse_all


def _follow(run: PrintRun, view: View, permission: PermissionPolicy, spinner: Spinner) -> int:
    """Show each event and the result; end the agent when the reader goes away."""
    lost: OSError | None = None
    # Closed whatever happens here: leaving the iteration early is what ends the agent.
    closing = contextlib.closing(run.events())  # type: ignore[type-var]  # it is a generator
    with _interruptible(run, permission), closing as events, spinner:
        for event in events:
            if not isinstance(event, SessionStart | AgentStart | StateChange):
                spinner.stop()
            if lost is None:
                try:
                    view.event(event)
                except OSError as problem:
                    lost = problem
                    run.abort("the output cannot be written")
    if lost is not None:
        raise lost
    result = run.result
    view.end(result)
    return result.exit_status


@contextlib.contextmanager
def _interruptible(run: PrintRun, permission: PermissionPolicy) -> Iterator[None]:
    """End the agent on Ctrl-C, SIGTERM or a lost terminal; kill it at once the second time."""
    asked = False

    def stop(number: int, frame: object) -> None:
        nonlocal asked
        if sys.stderr.isatty():
            # The agent may take seconds to end; a person should see that Bridle reacted.
            os.write(2, b"\nkilling the agent\n" if asked else _STOPPING)
        run.abort(f"stopped by {signal.Signals(number).name}", now=asked)
        asked = True
        interrupt = getattr(permission, "interrupt", None)
        if interrupt is not None:
            interrupt()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            # An ignored signal stays ignored: that is what `nohup` means.
            if old[number] is not signal.SIG_IGN:
                signal.signal(number, stop)
        yield
    finally:
        for number in numbers:
            signal.signal(number, old[number])


def _interactive(runtime: Adapter, options: RunOptions, config: Config, output: str) -> int:
    if output != "text":
        raise WrongUse("--interactive shows the agent's own screen and prints no JSON")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUse("--interactive needs a terminal")
    from bridle.runs import run_interactive

    return 0 if run_interactive(runtime, options, on_warning=warn, config=config) == 0 else 1


def _warnings(prepared: Prepared) -> list[str]:
    ignored = prepared.plan.ignored_options
    return [
        *prepared.plan.warnings,
        *([f"not supported, ignored: {', '.join(ignored)}"] if ignored else []),
    ]


def _describe(runtime: Adapter, options: RunOptions, prepared: Prepared) -> None:
    """What is about to happen, without any secret."""
    import shlex

    plan, hide = prepared.plan, prepared.redactor.text
    shown = [
        f"prompt ({len(options.prompt)} characters)",
        f"permission_mode={options.permission_mode}",
        *(f"{name}={_shown(getattr(options, name))}" for name in options_in_use(options)),
    ]
    if options.sandbox is not None:
        shown.append(f"sandbox={options.sandbox}")
    if plan.guard is not None:
        shown.append(f"guard: {plan.guard.name}")
    if options.timeout is not None:
        shown.append(f"timeout={options.timeout:g}")
    if options.env:
        shown.append(f"env ({', '.join(sorted(options.env))})")
    lines = {
        "runtime": f"{runtime.id} {plan.installation.version or '(version unknown)'}",
        "dialect": plan.dialect.name,
        "session": plan.session_id,
        "cwd": plan.spec.cwd,
        "options": ", ".join(shown),
        # Each word by itself: quoting could split a secret so that it is not recognised.
        "command": shlex.join(hide(word) for word in plan.spec.argv),
    }
    for key, value in lines.items():
        sys.stderr.write(f"{key + ':':<9}{hide(value)}\n")
    sys.stderr.flush()


def _shown(value: object) -> str:
    """An option's value as JSON; for a model server only the address, because its key is secret."""
    if isinstance(value, ModelServer):
        return value.url
    return msgspec.json.encode(value).decode()
