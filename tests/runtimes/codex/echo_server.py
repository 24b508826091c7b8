"""A stand-in for an app-server on a socket: it gives every message back, and does as it is told.

`{"do": "exit", "status": 3}` ends it, `{"do": "die"}` has it killed, `{"do": "hang up"}` closes the
connection only, `{"do": "say", "count": N, "size": M}` makes it talk; `stubborn` as a second
argument makes it ignore SIGTERM.
"""

import json
import os
import signal
import sys

from websockets.sync.server import ServerConnection, unix_serve


def serve(connection: ServerConnection) -> None:
    for message in connection:
        told = json.loads(message)
        match told.get("do"):
            case "exit":
                os._exit(told["status"])
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang up":
                return
            case "say":
                for number in range(told["count"]):
                    # Spread over lines, as JSON may be.
                    connection.send(json.dumps({"n": number, "x": "é" * told["size"]}, indent=1))
            case _:
                connection.send(message)


def main() -> None:
    if "stubborn" in sys.argv[2:]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write("not a message\n")
    sys.stdout.flush()
    with unix_serve(serve, sys.argv[1], max_size=None, compression=None) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
