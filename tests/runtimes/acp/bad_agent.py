"""An agent that speaks the protocol and misbehaves in the way its first argument names."""

import json
import os
import sys
import time


def out(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(**fields: object) -> None:
    out({"method": "session/update", "params": {"sessionId": "s1", "update": fields}})


def say(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def prompt(how: str, number: int) -> None:
    if how == "flood":
        sys.stderr.write("x" * 4_000_000)
        sys.stderr.flush()
    elif how == "silent":
        update(sessionUpdate="usage_update", used=1)
        time.sleep(300)
    elif how == "die":
        say("half")
        sys.stderr.write("cannot go on\n")
        sys.exit(3)
    elif how == "half-line":
        sys.stdout.write('{"jsonrpc":"2.0","method":"sess')
        sys.stdout.flush()
        os.kill(os.getpid(), 9)
    elif how == "big":
        say("y" * 8_000_000)
    elif how == "noise":
        sys.stdout.buffer.write(b"\xff\xfe noise\n\n")
        sys.stdout.flush()
    elif how == "tool":
        update(sessionUpdate="tool_call", toolCallId="t", kind="execute", status="in_progress")
        if os.fork() == 0:
            os.setsid()
            time.sleep(300)
        time.sleep(300)
    elif how == "asks":
        out({"id": "f1", "method": "fs/read_text_file", "params": {"path": "x"}})
        say(json.loads(sys.stdin.readline())["error"]["message"])
    say(" done" if how != "environment" else os.environ.get("BRIDLE_SESSION_ID", "none"))
    out({"id": number, "result": {"stopReason": "end_turn"}})


def main() -> None:
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    if how == "mute":
        time.sleep(300)
    if how == "exit":
        sys.exit("error: unknown option '--acp'")
    for line in sys.stdin:
        message = json.loads(line)
        number = message.get("id")
        if message["method"] == "initialize":
            can = {"loadSession": True}
            out({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": can}})
        elif message["method"] == "session/new":
            if how == "no-session":
                time.sleep(300)
            out({"id": number, "result": {"sessionId": "s1"}})
        elif message["method"] == "session/load":
            out({"id": number, "error": {"code": -32002, "message": "Resource not found"}})
        elif message["method"] == "session/prompt":
            prompt(how, number)
    if how == "stays":
        time.sleep(300)


main()
