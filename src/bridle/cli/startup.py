"""A fast start and end of a command; figures in `docs/decisions/0001-argparse.md`.

Nothing here changes what a command does. Each measure is skipped if other code might rely on what
it omits.
"""

import _thread
import gc
import os
import sys

TYPE_CHECKING = False  # type checkers treat it as true; importing `types` would slow the help
if TYPE_CHECKING:
    from types import CodeType
    from types import ModuleType as _Module
else:
    _Module = type(sys)

_UNUSED = ("locale", "platform", "textwrap", "msgspec.inspect")
"""Modules that `subprocess`, `uuid` and `msgspec` import and a command seldom uses."""

_loading = _thread.RLock()
_owned = False

_MOMENT = 0.001
"""Seconds between looks whether the callback that dropped a Ctrl-C has ended; then it is raised
again."""


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which takes as long as msgspec itself.

    msgspec imports names from it that `typing` also has since Python 3.11, and uses those if it is
    missing. It can be imported as usual afterwards.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # the way to say "absent"
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def import_argparse() -> None:
    """Import argparse without a search for translations of its messages.

    Bridle speaks English only, Python brings no translations, and the search costs as much as
    the parsing. `gettext` can be imported as usual afterwards.
    """
    if "argparse" in sys.modules or "gettext" in sys.modules:
        return
    plain = _Module("gettext")
    vars(plain).update(
        gettext=lambda text: text, ngettext=lambda one, many, n: one if n == 1 else many
    )
    sys.modules["gettext"] = plain
    try:
        import argparse  # noqa: F401
    finally:
        del sys.modules["gettext"]


class _Postponed(_Module):
    """A module that is loaded when its first attribute is read.

    It becomes the real module and stays the same object, so nobody can tell the difference
    afterwards. (`importlib.util.LazyLoader` does the same; finding the module beforehand costs
    what this saves.)
    """

    def __getattr__(self, attribute: str) -> object:
        with _loading:
            # A module that reads one of its own attributes while it is loaded is not loaded again.
            if self.__spec__ is None:
                self._load()
        return _Module.__getattribute__(self, attribute)

    def _load(self) -> None:
        from importlib.machinery import PathFinder

        package = self.__name__.rpartition(".")[0]
        path = sys.modules[package].__path__ if package else None
        spec = PathFinder.find_spec(self.__name__, path)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {self.__name__!r}", name=self.__name__)
        self.__spec__, self.__loader__, self.__file__ = spec, spec.loader, spec.origin
        self.__package__ = package
        spec.loader.exec_module(self)
        self.__class__ = _Module  # type: ignore[assignment]  # it is an ordinary one from now on


def postpone_unused() -> None:
    """Defer loading modules that others import and that this command may never use."""
    for name in _UNUSED:
        if name not in sys.modules:
            sys.modules[name] = _Postponed(name)
    # `uuid` asks for it when it is imported; the real function gives the same answer.
    vars(sys.modules["platform"]).setdefault("system", lambda: os.uname().sysname)


class WithoutCollection:
    """Imports make no garbage: the collector is off while they run, then restored.

    In Bridle's own process it never scans the imported objects: they stay until the end.
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            if _owned:
                gc.freeze()
            gc.enable()


def own_process() -> None:
    """Say that this process runs one command and nothing else."""
    global _owned
    _owned = True
    keep_interrupts()


def keep_interrupts() -> None:
    """Raise a dropped Ctrl-C again.

    `KeyboardInterrupt` is raised wherever the main thread happens to be. In a weak reference's
    callback or a finaliser, which imports use, Python prints a traceback and continues: the command
    would run to its end although the user interrupted it.
    """
    usual = sys.unraisablehook

    def again(lost: "sys.UnraisableHookArgs") -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            usual(lost)
            return
        import signal
        import threading
        import time

        main = threading.main_thread().ident
        if main is None:
            return

        def interrupt() -> None:
            # Not while the main thread is in this hook: there it would be dropped once more.
            time.sleep(_MOMENT)
            while _runs(again.__code__, main):
                time.sleep(_MOMENT)
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()

    sys.unraisablehook = again


def _runs(code: "CodeType", thread: int) -> bool:
    """Whether a call of a function with this code is under way in a thread."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def leave(status: int) -> None:
    """End the process now: run the exit handlers, then exit.

    Tearing down the interpreter costs as much as starting it and has no use here. Returns, so that
    the process exits normally, if a thread still runs or anything goes wrong.
    """
    import atexit

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
