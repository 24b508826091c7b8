"""A tiny MCP server, as the text of a program: its tool `shout` answers in capitals."""

MCP_SERVER = """
import json, sys
ANSWERS = {
    "initialize": lambda given: {
        "protocolVersion": given["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "lab", "version": "1"},
    },
    "tools/list": lambda given: {
        "tools": [{"name": "shout", "description": "Shouts.", "inputSchema": {"type": "object"}}]
    },
    "tools/call": lambda given: {
        "content": [{"type": "text", "text": given["arguments"]["text"].upper()}]
    },
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = ANSWERS.get(asked["method"], lambda given: {})(asked.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
