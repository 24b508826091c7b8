"""The client of a model server: the Anthropic Messages protocol, streaming."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import time
from urllib.parse import urlsplit

from .replies import Failure, Reply, can_retry, utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .replies import Interrupt

_TEXT = {"type": "string"}
_ARGUMENTS = {
    "shell": ("command",),
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "edit_file": ("path", "old", "new"),
}
_STATUS = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "invalid_request_error": 400,
}
_SILENCE = 600.0
_INSTRUCTIONS = "AGENTS.md"


def _instructions() -> str:
    """The instruction file of the working directory, as any agent reads it."""
    try:
        with open(_INSTRUCTIONS, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


class ModelClient:
    """Asks a server for each reply, with the whole conversation."""

    def __init__(self, request: dict[str, Any], interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        server = request["server"]
        self._address = urlsplit(server["url"])
        self._key = server["api_key"]
        self._body = {
            "model": request.get("model") or "scripted",
            "max_tokens": 8192,
            "stream": True,
            "metadata": {"user_id": json.dumps({"session_id": request["native_id"]})},
            "tools": [_tool(name) for name in request["tools"]],
        }
        system = [request.get("system") or "", _instructions()]
        if any(system):
            self._body["system"] = "\n\n".join(part for part in system if part)

    def ask(self, history: list[dict[str, Any]]) -> Iterator[tuple[str, str] | Reply]:
        """Ask for the next reply; pieces as they arrive, then the whole."""
        body = json.dumps({**self._body, "messages": _messages(history)}).encode()
        secure = self._address.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = connect(self._address.netloc, timeout=_SILENCE)
        try:
            connection.connect()
            # Shutting it down wakes a reader; closing it would not.
            line = connection.sock
            self._interrupt.close_with(lambda: _shut(line))
            connection.request(
                "POST",
                f"{self._address.path.rstrip('/')}/v1/messages",
                body,
                {
                    "content-type": "application/json",
                    "x-api-key": self._key,
                    "anthropic-version": "2023-06-01",
                },
            )
            response = connection.getresponse()
            if response.status != 200:
                raise _refused(response)
            yield from _read(_events(response))
        except (OSError, http.client.HTTPException) as problem:
            raise Failure(
                f"cannot talk to the model server: {problem or type(problem).__name__}",
                kind="unavailable",
                retryable=True,
            ) from None
        except (KeyError, TypeError, IndexError, AttributeError):
            # Well-formed JSON of a shape that the protocol does not have.
            raise Failure(
                "the model server sent a broken frame", kind="unavailable", retryable=True
            ) from None
        finally:
            self._interrupt.close_with(None)
            connection.close()

    def give_up(self) -> int | None:
        """Nothing to do: the server counts what it played."""
        return None

    def set_model(self, model: str) -> None:
        """Ask for this model from now on."""
        self._body["model"] = model


def _shut(line: Any) -> None:
    try:
        line.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _tool(name: str) -> dict[str, Any]:
    arguments = _ARGUMENTS[name]
    return {
        "name": name,
        "description": f"The scripted agent's {name}.",
        "input_schema": {
            "type": "object",
            "properties": dict.fromkeys(arguments, _TEXT),
            "required": list(arguments),
        },
    }


def _messages(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation in the protocol's form: every call has a result, also one that was killed
    before it had one, and steering messages come with the results."""
    messages: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for record in history:
        kind = record["type"]
        if kind == "tool_result":
            if record["id"] in open_calls:
                open_calls.remove(record["id"])
            _add(messages, [_result(record["id"], record["text"], record["is_error"])])
        elif kind == "user":
            if open_calls:
                _add(messages, [_result(name, "interrupted", True) for name in open_calls])
                open_calls = []
            parts = [_image(each) for each in record.get("images", [])]
            parts.append({"type": "text", "text": record["text"]})
            if record.get("steer"):
                _add(messages, parts)
            else:
                messages.append({"role": "user", "content": parts})
        elif kind == "assistant":
            said = [{"type": "text", "text": record["text"]}] if record["text"] else []
            calls = [
                {"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]}
                for c in record["calls"]
            ]
            open_calls = [call["id"] for call in calls]
            messages.append({"role": "assistant", "content": [*said, *calls]})
    return messages


def _add(messages: list[dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    """Add to the user's message after the last reply."""
    if messages[-1]["role"] == "user":
        messages[-1]["content"] += parts
    else:
        messages.append({"role": "user", "content": parts})


def _result(call_id: str, text: str, is_error: bool) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": text,
        "is_error": is_error,
    }


def _image(image: dict[str, str]) -> dict[str, Any]:
    with open(image["path"], "rb") as file:
        data = base64.b64encode(file.read()).decode()
    source = {"type": "base64", "media_type": image["media_type"], "data": data}
    return {"type": "image", "source": source}


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline():
        if not line.startswith(b"data:"):
            continue
        try:
            event = json.loads(line[5:])
        except ValueError:
            raise Failure(
                "the model server sent a broken frame", kind="unavailable", retryable=True
            ) from None
        if isinstance(event, dict):
            yield event


def _read(events: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str] | Reply]:
    message: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    stop_reason = "end_turn"
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = event["message"]
        elif kind == "content_block_start" and event["content_block"]["type"] == "tool_use":
            block = event["content_block"]
            calls.append({"id": block["id"], "name": block["name"], "args": ""})
        elif kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                texts.append(delta["text"])
                yield "text", delta["text"]
            elif delta["type"] == "thinking_delta":
                yield "thinking", delta["thinking"]
            elif delta["type"] == "input_json_delta":
                calls[-1]["args"] += delta["partial_json"]
        elif kind == "message_delta":
            usage = event.get("usage", {})
            stop_reason = event["delta"].get("stop_reason") or stop_reason
        elif kind == "error":
            raise _stream_error(event)
        elif kind == "message_stop":
            yield Reply(
                text="".join(texts),
                thinking="",
                calls=[{**call, "args": _arguments(call["args"])} for call in calls],
                usage=_usage(usage),
                stop_reason=stop_reason,
                model=str(message.get("model", "")) or "scripted",
            )
            return
    raise Failure("the reply was cut off", kind="unavailable", retryable=True)


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _usage(usage: dict[str, Any]) -> dict[str, int]:
    details = usage.get("output_tokens_details") or {}
    return {
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "cache_read_tokens": usage.get("cache_read_input_tokens", 0),
        "cache_write_tokens": usage.get("cache_creation_input_tokens", 0),
        "reasoning_tokens": details.get("thinking_tokens", 0),
    }


def _stream_error(event: dict[str, Any]) -> Failure:
    error = event.get("error") if isinstance(event.get("error"), dict) else {}
    assert error is not None
    status = _STATUS.get(str(error.get("type")), 500)
    message = str(error.get("message") or "the model server reported an error")
    return Failure(message, status=status, retryable=can_retry(status))


def _refused(response: http.client.HTTPResponse) -> Failure:
    text = response.read(65536).decode(errors="replace")
    try:
        message = str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = text.strip()[:500] or f"HTTP {response.status}"
    wait = _number(response.getheader("retry-after"))
    reset = _number(response.getheader("anthropic-ratelimit-unified-reset"))
    until = response.getheader("anthropic-ratelimit-requests-reset")
    if reset is not None:
        until = utc(reset)
    elif until is None and wait is not None:
        until = utc(time.time() + wait)
    return Failure(
        message,
        status=response.status,
        until=until if response.status == 429 else None,
        retryable=can_retry(response.status) and reset is None,
        retry_after=wait,
    )


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
