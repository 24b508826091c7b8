"""A tiny real agent that prints plain text, declared by configuration alone, and a place to run it.

What it does is told by its prompt, so that one program plays every good and bad agent.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

AGENT = """#!{python} -IS
import os, sys, time
args = sys.argv[1:]
prompt = sys.stdin.buffer.read().decode() if "--stdin" in args else args[-1]
word, _, rest = prompt.partition(" ")
out = sys.stdout.buffer
if word == "echo":
    out.write(rest.encode() + b"\\\\n")
elif word == "args":
    print(args)
elif word == "env":
    print(os.environ.get(rest))
elif word == "write":
    for path in rest.split():
        try:
            open(os.path.expandvars(path), "w").close()
            print("wrote")
        except OSError:
            print("refused")
elif word == "cwd":
    print(os.getcwd())
elif word == "length":
    print(len(prompt))
elif word == "fail":
    print("half done")
    print("cannot go on: " + rest, file=sys.stderr)
    sys.exit(3)
elif word == "garbage":
    out.write(b"\\\\x00\\\\xff\\\\xfe\\\\x1b]52;c;aGk=\\\\x07ok\\\\n")
elif word == "big":
    out.write(b"x" * 10_000_000 + b"\\\\nend")
elif word == "die":
    out.write(b"first line\\\\nhalf a li")
    out.flush()
    os.kill(os.getpid(), 9)
elif word == "wait":
    if os.fork() == 0:
        os.setsid()
        time.sleep(300)
    print("waiting", flush=True)
    time.sleep(300)
elif word == "stubborn":
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("waiting", flush=True)
    time.sleep(300)
elif word == "lines":
    for n in range(int(rest)):
        print("line", n, flush=True)
else:
    print("unknown word")
""".replace("\\\\", "\\")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A project with a tiny agent, and a home of its own."""

    home: Path
    project: Path

    def environment(self, **more: str) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        return {**base, "TERM": "xterm-256color", **more}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "bridle", *words]

    def bridle(
        self, *words: str, stdin: str | bytes = b"", env: dict[str, str] | None = None
    ) -> "Done":
        """Run the command line in the project, to its end."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            self.command(*words),
            input=data,
            capture_output=True,
            cwd=self.project,
            env=self.environment(**(env or {})),
            timeout=60,
            check=False,
        )
        return Done(status=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    def configure(self, text: str) -> None:
        (self.project / ".bridle" / "config.yaml").write_text(text)


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a command said and how it ended."""

    status: int
    out: str
    err: str


CONFIG = """\
runtime:
  default: tiny
  adapters:
    tiny:
      binary: ./agent
    feed:
      binary: ./agent
      flags: [--stdin]
      prompt: stdin
      modelFlag: --model
      bypassFlags: [--yolo]
    absent:
      binary: no-such-agent
      install: get no-such-agent
"""


def make_place(folder: Path) -> Place:
    """A fresh project in `folder`."""
    place = Place(home=folder / "home", project=folder / "project")
    place.home.mkdir()
    (place.project / ".bridle").mkdir(parents=True)
    (place.project / ".git").mkdir()
    (place.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    agent = place.project / "agent"
    agent.write_text(AGENT.replace("{python}", sys.executable))
    agent.chmod(0o755)
    place.configure(CONFIG)
    return place
