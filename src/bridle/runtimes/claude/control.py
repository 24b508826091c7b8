"""The lines that go to Claude Code's stdin: messages, requests of ours, answers to its own.

Everything here is pure: the same arguments give the same bytes.
"""

from typing import Any

from bridle.turns.rpc import encode_line

Content = str | list[dict[str, Any]]


def content_of(text: str, images: tuple[str, ...]) -> Content:
    """A message's content; `WrongUse` for an image that cannot be read or is none."""
    if not images:
        return text
    return [{"type": "text", "text": text}, *(_image_block(path) for path in images)]


def user_line(content: Content, message_id: str | None = None) -> bytes:
    """A message for the model. With an id it comes back under that id when it is taken, and one
    that the conversation holds already is not taken twice."""
    line: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": content}}
    if message_id is not None:
        line["uuid"] = message_id
    return encode_line(line)


def request_line(request_id: str, subtype: str, **fields: Any) -> bytes:
    """A request of ours; its answer bears the same id."""
    request = {"subtype": subtype, **fields}
    return encode_line({"type": "control_request", "request_id": request_id, "request": request})


def answer_line(request_id: str, response: dict[str, Any]) -> bytes:
    """The answer to a request of Claude's."""
    return _response(request_id, subtype="success", response=response)


def refusal_line(request_id: str, subtype: str) -> bytes:
    """The answer to a request that nobody here knows."""
    return _response(request_id, subtype="error", error=f"bridle does not answer {subtype}")


def _response(request_id: str, **response: Any) -> bytes:
    answer = {"request_id": request_id, **response}
    return encode_line({"type": "control_response", "response": answer})


def _image_block(path: str) -> dict[str, Any]:
    from bridle.runtimes.user_files import image_data

    kind, text = image_data(path, "Claude")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": text}}
