"""A small MCP server on stdio: one tool that tells a variable of its environment."""

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
        return {"content": [{"type": "text", "text": text}]}
    return {} if "id" in request else None


for line in sys.stdin:
    asked = json.loads(line)
    result = answer(asked)
    if result is not None and "id" in asked:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
        sys.stdout.flush()
