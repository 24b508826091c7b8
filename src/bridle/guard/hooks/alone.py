"""Judges one call when no service answers. Run by path, with the standard library alone in sight:

    python -I -S alone.py SETTINGS

SETTINGS is a JSON file of the guard's own: {"paths": […], "policy": {…}, "shape": {…}}, with the
file to write verdicts down in ("notes") where a session wants to hear of them. The call is the
hook's payload on stdin; the answer is the exit status, 0 or `BLOCKED`, with one line, `allow` or
`block` and what the hook prints. Any other end is a refusal to the hook. The status counts because
the agent's processes can write into the pipe that the line goes through.
"""

import json
import signal
import sys

SECONDS = 20
BLOCKED = 3
"""Exit status of a refusal."""


def main(argv: list[str]) -> int:
    """Judge the payload on stdin."""
    signal.alarm(SECONDS)
    with open(argv[0], encoding="utf-8") as file:
        settings = json.load(file)
    sys.path[:0] = settings["paths"]
    import msgspec

    from bridle.guard.hooks.desk import LARGEST, Desk
    from bridle.guard.policy import Policy
    from bridle.turns.guard_contract import HookShape

    payload = sys.stdin.buffer.read(LARGEST + 1)
    shape = msgspec.convert(settings["shape"], HookShape)
    answer = Desk(msgspec.convert(settings["policy"], Policy)).answer(payload, shape)
    if settings.get("notes") and answer.note is not None:
        from bridle.guard.hooks.notes import append_note

        append_note(settings["notes"], answer.note, with_args=settings["with_args"])
    said = b"allow" if answer.allowed else b"block " + answer.printed
    sys.stdout.buffer.write(said + b"\n")
    sys.stdout.buffer.flush()
    return 0 if answer.allowed else BLOCKED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
