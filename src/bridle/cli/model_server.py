"""`bridle model-server`: a scripted model on loopback, until Ctrl-C."""

import argparse
import os
import sys

from bridle.cli.output import write_json
from bridle.cli.parsing import add_json
from bridle.config.environment import MODEL_SERVER, MODEL_SERVER_KEY
from bridle.core.errors import WrongUse

EXAMPLES = ("bridle model-server script.yaml --port 8080",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle model-server`."""
    parser.add_argument("script", metavar="SCRIPT", help="what the model says, as YAML or JSON")
    parser.add_argument(
        "--port", metavar="N", type=_port, default=0, help="port to listen on; any free one if 0"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Serve the script until SIGINT or SIGTERM."""
    from bridle.testing import ScriptError, server_main

    key = os.environ.get(MODEL_SERVER_KEY) or f"scripted{os.urandom(12).hex()}"
    # An absolute path is never mistaken for the text of a script.
    script = os.path.abspath(args.script)
    try:
        server_main(
            script,
            port=args.port,
            token=key,
            ready=lambda url: _announce(url, key, script, as_json=args.json),
        )
    except ScriptError as problem:
        raise WrongUse(str(problem), hint="docs/scripted-model.md explains scripts") from None
    except BrokenPipeError:
        raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise WrongUse(f"cannot listen on port {args.port}: {reason}") from None
    return 0


def _announce(url: str, key: str, script: str, *, as_json: bool) -> None:
    """Print its address and how to point a runtime at it."""
    env = {MODEL_SERVER: url, MODEL_SERVER_KEY: key}
    runtimes = _pointable()
    if as_json:
        write_json(
            {
                "url": url,
                "key": key,
                "script": script,
                "pid": os.getpid(),
                "env": env,
                "runtimes": runtimes,
            }
        )
        return
    lines = [
        f"scripted model at {url}",
        f"key               {key}",
        "",
        "Point a runtime at it, in another terminal:",
        *(f"  export {name}={value}" for name, value in env.items()),
        *(f'  bridle run "…" --runtime {name}' for name in runtimes),
        "",
        "Ctrl-C ends it.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _pointable() -> list[str]:
    """Names of the runtimes that can be pointed at a scripted model."""
    from bridle.runtimes.alternatives import supporters

    return supporters("model_server", "")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port number, not {text!r}")
    return int(text)
