"""An adapter as a stranger would install it: an agent that asks before it acts.

`install` writes it as a distribution with an entry point; it then comes in by the same door as the
built-in ones.
"""

from pathlib import Path

ADAPTER = '''
"""A runtime whose agent asks for permission on its stdout."""

import json, sys

from bridle.adapter import (
    Dialect,
    Features,
    Installation,
    Interactive,
    ProcessSpec,
    Question,
    RunPlan,
    Usage,
    agent_env,
    check_options,
    readable_file,
    working_dir,
)

AGENT = r"""
import json, sys
tool = {"ask": "shell", "args": {"command": "rm \\u001b[31mx"}}
for line in sys.stdin:
    said = json.loads(line)
    if "prompt" in said:
        for n in range(int(said["prompt"])):
            print(json.dumps(tool), flush=True)
            answer = json.loads(sys.stdin.readline())
            print(json.dumps({"text": "answer: " + json.dumps(answer)}), flush=True)
        print(json.dumps({"end": True}), flush=True)
        break
"""
DIALECT = Dialect(name="asker 1", since=(1,), seen=("1.0",), capture="asker.jsonl")


class Asker(Interactive):
    id = "asker"
    binary = "asker"
    instruction_path = "ASKER.md"
    install_hint = "install asker"
    dialects = (DIALECT,)

    def features_of(self, dialect):
        options = frozenset({"settings", "model_server"})
        return Features(options=options, interactive=True, asks=("print",))

    def find(self):
        return Installation(binary=sys.executable, version="1.0")

    def credentials(self, env):
        return "present"

    def build_spawn_command(self, options):
        return "asker"

    def build_print_command(self, prompt, model=None, env=None):
        return ["asker", prompt]

    def build_env(self, model):
        return {}

    def plan_run(self, options, env, session_id):
        check_options(self, options, self.features_of(DIALECT))
        if options.settings is not None:
            readable_file(options.settings, "settings")
        cwd = working_dir(options)
        return RunPlan(
            spec=ProcessSpec(
                argv=(sys.executable, "-ISuc", AGENT),
                env=agent_env(env, options, session_id, cwd),
                cwd=cwd,
                stdin=json.dumps({"prompt": options.prompt}).encode() + b"\\n",
                keep_stdin=True,
            ),
            session_id=session_id,
            installation=self.find(),
            dialect=DIALECT,
            warnings=("asker is only for tests",),
        )

    def plan_interactive(self, options, env):
        code = "import sys; sys.exit(input('who? ') != 'me')"
        argv = (sys.executable, "-ISc", code)
        spec = ProcessSpec(argv=argv, env=dict(env), cwd=working_dir(options))
        found = self.installation()
        dialect = self.dialect(found.version)[0]
        return RunPlan(spec=spec, session_id="", installation=found, dialect=dialect)

    def normalizer(self, plan, recorder):
        return Wire(recorder)



class Wire:
    def __init__(self, recorder):
        self.recorder = recorder
        self.asked = 0

    def feed(self, line):
        said = json.loads(line)
        recorder = self.recorder
        if "ask" in said:
            self.asked += 1
            recorder.turn_started()
            recorder.tool_started(f"t{self.asked}", said["ask"], said["args"])
            recorder.permission_requested(Question(
                request_id=f"r{self.asked}",
                tool_name=said["ask"],
                args=said["args"],
                answer=lambda ok, why: json.dumps([ok, why]).encode() + b"\\n",
            ))
        elif "text" in said:
            recorder.tool_ended(f"t{self.asked}", is_error=False, result="done")
            recorder.message_started()
            recorder.text_delta(said["text"])
            recorder.message_ended(usage=Usage(input_tokens=1000, output_tokens=20), cost_usd=0.01)
        else:
            recorder.turn_ended()
            recorder.input_done = True

    def finish(self, exit):
        self.recorder.finish(exit)
'''


def install(folder: Path) -> str:
    """Write the distribution into `folder`; returns what belongs in PYTHONPATH."""
    info = folder / "asker-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: asker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[bridle.runtimes]\nasker = asker_adapter:Asker\nbroken = no_such_module:Nothing\n"
    )
    (folder / "asker_adapter.py").write_text(ADAPTER)
    return str(folder)
