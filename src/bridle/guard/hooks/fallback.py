"""Judges one call when no host answers the hook. Run by path, with the standard library alone:

    python -I -S fallback.py SETTINGS

SETTINGS is the guard's own JSON file (`guard_folder.FallbackSettings`). The call is the hook's
payload on stdin. The answer is the exit status, 0 or `BLOCKED`, with one line: `allow`, or `block`
and what the hook prints. The hook treats any other end as a refusal. The status counts because the
agent's processes can write into the pipe that the line goes through.
"""

import json
import signal
import sys

SECONDS = 20


def main(argv: list[str]) -> int:
    """Judge the payload on stdin."""
    signal.alarm(SECONDS)
    with open(argv[0], encoding="utf-8") as file:
        settings = json.load(file)
    sys.path[:0] = settings["paths"]

    from bridle.core import structs
    from bridle.guard.hooks.hook_judge import LARGEST, HookJudge, answer_line
    from bridle.guard.hooks.hook_script import BLOCKED
    from bridle.guard.policy import Policy
    from bridle.turns.guard_contract import HookShape

    payload = sys.stdin.buffer.read(LARGEST + 1)
    shape = structs.convert(settings["shape"], HookShape)
    note = HookJudge(structs.convert(settings["policy"], Policy)).answer(payload, shape)
    if settings["notes"] and note.kind != "event":
        from bridle.guard.hooks.guard_folder import append_note

        append_note(settings["notes"], note, with_args=settings["with_args"])
    line = answer_line(note, shape)
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    return 0 if line == b"allow" else BLOCKED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
