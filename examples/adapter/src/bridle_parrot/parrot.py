"""Parrot: a very small coding agent, the program that this example drives.

It reads a prompt on stdin, asks a model over OpenAI's chat completions (PARROT_URL, PARROT_KEY),
runs the shell commands the model calls for, and prints one JSON object a line. It knows nothing of
Bridle. `parrot.py --version` tells its version.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

VERSION = "1.0.0"
RETRIES = 2
TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a shell command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


def tell(kind: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


class Failed(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": os.environ["PARROT_MODEL"], "messages": messages, "tools": [TOOL]}
    key = os.environ.get("PARROT_KEY", "")
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    url = os.environ["PARROT_URL"].rstrip("/") + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as problem:
        text = problem.read().decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            error = json.loads(text)["error"]
            text = f"{error['message']} ({error.get('code')})"
        raise Failed(problem.code, text) from None
    except (OSError, ValueError, http.client.HTTPException) as problem:
        raise Failed(0, f"no answer: {problem}") from None


def ask_with_retries(messages: list[dict[str, Any]]) -> dict[str, Any]:
    for attempt in range(1, RETRIES + 1):
        try:
            return ask(messages)
        except Failed as problem:
            if problem.status not in (0, 429) and problem.status < 500:
                raise
            tell("again", attempt=attempt, status=problem.status, message=problem.message)
            time.sleep(0.1 * attempt)
    return ask(messages)


def run(call: dict[str, Any]) -> str:
    command = json.loads(call["function"]["arguments"])["command"]
    tell("run", id=call["id"], command=command)
    done = subprocess.run(
        command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    tell("ran", id=call["id"], status=done.returncode, output=done.stdout)
    return done.stdout


def system_prompt() -> str:
    parts = [os.environ.get("PARROT_SYSTEM") or "You are a parrot that writes programs."]
    for path in ("PARROT.md", os.environ.get("PARROT_RULES", "")):
        if path and os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                parts.append(file.read())
    return "\n\n".join(parts)


def main() -> int:
    if "--version" in sys.argv:
        sys.stdout.write(f"parrot {VERSION}\n")
        return 0
    tell("hello", session=str(uuid.uuid4()), model=os.environ["PARROT_MODEL"], version=VERSION)
    prompt = sys.stdin.buffer.read().decode()
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system_prompt()},
        {"role": "user", "content": prompt},
    ]
    try:
        while True:
            answer = ask_with_retries(messages)
            message = answer["choices"][0]["message"]
            tell("say", thought=message.get("reasoning_content") or "",
                 text=message.get("content") or "", usage=answer.get("usage"))  # fmt: skip
            messages.append(message)
            if not message.get("tool_calls"):
                break
            for call in message["tool_calls"]:
                result = {"role": "tool", "tool_call_id": call["id"], "content": run(call)[:50_000]}
                messages.append(result)
    except Failed as problem:
        tell("failed", status=problem.status, message=problem.message)
        return 1
    tell("bye")
    return 0


if __name__ == "__main__":
    sys.exit(main())
