"""Starting programs for a look at them: in an environment of their own, with a deadline."""

import os
import subprocess

import msgspec

SECONDS = 30.0


class Answer(msgspec.Struct, frozen=True):
    """What a program printed and how it ended; `status` None when it did not start or end."""

    status: int | None
    text: str

    @property
    def first_line(self) -> str:
        """The first line that says something."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


def ask(command: tuple[str, ...], home: str, *, seconds: float = SECONDS) -> Answer:
    """Run `command` in an empty home, so that nothing of the user's is read or written."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home}
    env |= {"TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except OSError as problem:
        return Answer(None, f"cannot be started: {problem.strerror}")
    except subprocess.TimeoutExpired:
        return Answer(None, f"did not answer within {seconds:g} s")
    return Answer(done.returncode, (done.stdout + b"\n" + done.stderr).decode(errors="replace"))
