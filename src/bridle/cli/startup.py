"""A fast start and end of a command; figures in `docs/decisions/0001-argparse.md`.

Nothing here changes what a command does. Each measure is skipped when other code might rely on what
it leaves out.
"""

import gc
import sys

_MOMENT = 0.001
"""Seconds until a dropped Ctrl-C is raised again: the callback that dropped it is over by then."""


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which takes as long as msgspec itself.

    msgspec asks it for names that `typing` has too since Python 3.11, and takes those when it is
    not there. It can be imported as usual afterwards.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # the way to say "absent"
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


class WithoutCollection:
    """Imports make no garbage: the collector is off while they run, and as it was afterwards."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


def keep_interrupts() -> None:
    """Raise a Ctrl-C again that Python drops.

    `KeyboardInterrupt` is raised wherever the main thread happens to be. In a weak reference's
    callback or a finaliser, as the import of modules has them, Python prints a traceback and goes
    on: the command would run to its end although the user broke it off.
    """
    usual = sys.unraisablehook

    def again(lost: "sys.UnraisableHookArgs") -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            usual(lost)
            return
        import signal
        import threading

        main = threading.main_thread().ident
        if main is not None:
            # Not from here: it would be dropped once more.
            signalling = threading.Timer(_MOMENT, signal.pthread_kill, (main, signal.SIGINT))
            signalling.daemon = True
            signalling.start()

    sys.unraisablehook = again


def leave(status: int) -> None:
    """End the process now: do what was registered for its end, then go.

    Taking the interpreter apart costs as much as starting it and does nothing for us. Returns, for
    the usual way out, when a thread still runs or anything goes wrong.
    """
    import atexit
    import os

    finish = getattr(atexit, "_run_exitfuncs", None)
    threading = sys.modules.get("threading")
    if finish is None or (threading is not None and threading.active_count() > 1):
        return
    try:
        finish()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except Exception:
        return
    os._exit(status)
