"""A small MCP server on stdio: one tool that tells a variable of its environment, and with TOY_ASKS
first asks the user for a name."""

import json
import os
import sys


def answer(request: dict[str, object]) -> dict[str, object] | None:
    method = request.get("method")
    if method == "initialize":
        params = request["params"]
        assert isinstance(params, dict)
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "toy", "version": "1"},
        }
    if method == "tools/list":
        schema = {"type": "object", "properties": {}}
        return {"tools": [{"name": "tell", "description": "Tell.", "inputSchema": schema}]}
    if method == "tools/call":
        text = f"told {len(os.environ.get('TOY_SECRET', ''))}"
        if os.environ.get("TOY_ASKS"):
            text += f", heard {ask_for_a_name()}"
        return {"content": [{"type": "text", "text": text}]}
    return {} if "id" in request else None


def ask_for_a_name() -> str:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"message": "What is your name?", "requestedSchema": schema}
    say({"id": "name", "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        heard = json.loads(line)
        if heard.get("id") == "name":
            return str(heard.get("result", {}).get("action", "an error"))
    return "nothing"


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    result = answer(asked)
    if result is not None and "id" in asked:
        say({"id": asked["id"], "result": result})
