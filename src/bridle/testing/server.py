"""Runs the scripted model on loopback: in a thread for tests, or until a signal for a command."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from os import PathLike
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from bridle.testing.request_log import (
    DEFAULT_KEY,
    RecordedRequest,
    RequestLog,
    prompts_of,
    tool_results_of,
)
from bridle.testing.script import Script
from bridle.testing.script_load import load_script
from bridle.testing.script_source import ScriptData
from bridle.testing.wire.base import ToolResult

if TYPE_CHECKING:
    import asyncio
    import logging

    import uvicorn

    from bridle.testing.app import ModelApp
    from bridle.testing.conversations import Conversations

START_DEADLINE = 60.0
STOP_DEADLINE = 20.0


class ScriptedModel:
    """A model that follows a script, served on loopback.

    Use it in `with` or `async with`; `url` is the base address without `/v1`.

    Contract: `start` and `stop` may be called twice; after `stop` nothing runs and the requests can
    still be read. All methods may be called from any thread. An invalid script raises `ScriptError`
    here, before anything starts. With a `token`, requests must carry it as their key (or
    `TOKEN-NAME`, which also chooses the conversation NAME).
    """

    def __init__(
        self,
        script: "str | PathLike[str] | ScriptData | Script",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        from bridle.testing.conversations import Conversations

        if host not in ("127.0.0.1", "localhost", "::1"):
            raise ValueError(f"the scripted model listens on loopback only, not on {host!r}")
        self.script = load_script(script)
        self.api_key = token or DEFAULT_KEY
        self._token = token
        self._address = (host, port)
        self._log = RequestLog()
        self._director = Conversations(self.script)
        self._running: _Running | None = None
        self._url: str | None = None

    # Life

    def start(self) -> "ScriptedModel":
        """Listen and wait until the server answers; `TimeoutError` past the deadline."""
        if self._running is None:
            models = sorted({turn.model for turn in self.script.turns if turn.model})
            self._running = _Running(
                self._director, self._log, self._address, self._token, models or ["scripted"]
            )
            self._url = self._running.url
        return self

    def stop(self) -> None:
        """Stop listening, end what is being sent, and wait for the server's thread."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def __enter__(self) -> "ScriptedModel":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> "ScriptedModel":
        from anyio import to_thread

        return await to_thread.run_sync(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from anyio import CancelScope, to_thread

        with CancelScope(shield=True):
            await to_thread.run_sync(self.stop)

    # Addresses

    @property
    def url(self) -> str:
        """The base address, without `/v1`."""
        if self._url is None:
            raise RuntimeError("the scripted model has not been started")
        return self._url

    def url_for(self, name: str) -> str:
        """The base address for one named conversation."""
        return f"{self.url}/c/{name}"

    def key_for(self, name: str) -> str:
        """The key that chooses one named conversation."""
        return f"{self.api_key}-{name}"

    # What was asked

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests so far."""
        return self._log.all()

    def wait_for_request(
        self, predicate: Callable[[RecordedRequest], bool], timeout: float = 30.0
    ) -> RecordedRequest:
        """Return the first matching request, past or future; `TimeoutError` if none comes.

        It blocks the calling thread; from async code, call it in a worker thread.
        """
        return self._log.wait_for(predicate, timeout)

    def prompts(self) -> list[str]:
        """What users asked, each prompt once for each agent, in the order of arrival."""
        return prompts_of(self.requests)

    def tool_results(self) -> list[ToolResult]:
        """What tools returned to the model, in the order of arrival."""
        return tool_results_of(self.requests)

    def assert_finished(self) -> None:
        """Fail unless every conversation was played to its end, as written and no further."""
        wrong = self._director.unfinished()
        wrong += [
            f"request {request.index} ({request.method} {request.path}): {request.error}"
            for request in self.requests
            if request.error is not None
        ]
        if wrong:
            raise AssertionError("the script was not played as written:\n" + "\n".join(wrong))


class _Running:
    """A server in its own thread."""

    def __init__(
        self,
        director: "Conversations",
        log: RequestLog,
        address: tuple[str, int],
        token: str | None,
        models: list[str],
    ) -> None:
        self._socket = _listen(*address)
        port = self._socket.getsockname()[1]
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        self.url = f"http://{shown}:{port}"
        self._up = threading.Event()
        self._server: uvicorn.Server | None = None
        self._app: ModelApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        arguments = (director, log, token, models)
        self._thread = threading.Thread(
            target=self._run, args=arguments, name="scripted-model", daemon=True
        )
        self._thread.start()
        if not self._up.wait(START_DEADLINE) or self._failure is not None:
            self._socket.close()
            raise TimeoutError("the scripted model did not start") from self._failure

    def _run(
        self, director: "Conversations", log: RequestLog, token: str | None, models: list[str]
    ) -> None:
        import asyncio

        try:
            with _silenced():
                asyncio.run(self._serve(director, log, token, models))
        except BaseException as error:
            self._failure = error
        finally:
            self._up.set()

    async def _serve(
        self, director: "Conversations", log: RequestLog, token: str | None, models: list[str]
    ) -> None:
        import asyncio

        import uvicorn

        from bridle.testing.app import ModelApp

        up = self._up

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                up.set()

        self._loop = asyncio.get_running_loop()
        self._app = ModelApp(director, log, token=token, models=models)
        config = uvicorn.Config(
            self._app.asgi,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            # Agents keep connections open between turns; a short limit would race with them.
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
            server_header=False,
        )
        self._server = Server(config)
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """End the server and its thread."""
        if self._server is not None and self._app is not None and self._loop is not None:
            self._server.should_exit = True
            # The loop is closed already when the server has ended by itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._app.stopping.set)
        self._thread.join(STOP_DEADLINE)
        self._socket.close()
        if self._thread.is_alive():
            raise TimeoutError("the scripted model did not stop")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Drop what uvicorn logs in this thread: a cut connection is intended, not an error."""
    import logging

    ours = threading.get_ident()

    def elsewhere(record: "logging.LogRecord") -> bool:
        return record.thread != ours

    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(elsewhere)


def server_main(
    script_path: "str | PathLike[str]",
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve a script until SIGINT or SIGTERM; `ready` gets the base address once it answers.

    Contract: blocks, prints nothing, must run in the main thread, and restores the signal handlers.
    Raises `ScriptError` for an invalid script, `ValueError` for an address that is not loopback and
    `OSError` for a port that is taken.
    """
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    model = ScriptedModel(script_path, host=host, port=port, token=token)
    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with model:
            ready(model.url)
            ended.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
