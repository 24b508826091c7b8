"""The documentation is true: its examples run, its traces are what happens."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from ruamel.yaml import YAML

from bridle.config import check_config
from bridle.core import events as ev
from bridle.core.errors import Overloaded
from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.process.process_tree import kill_marked
from bridle.process.spec import ProcessExit
from bridle.runs import stream_sync
from bridle.sessions.home import StateHome, user_home
from bridle.sessions.store import SessionStore
from bridle.testing import ScriptedModel, load_script
from bridle.testing.contract import check_event_order
from bridle.turns.recorder import Recorder
from tests.sessions.test_daemon import end_daemon
from tests.support.pages import DOCS, ROOT, blocks_of, examples, fits, pages, run_page
from tests.support.real_cli import real_cli, versions
from tests.support.tiny_agent import TinyRuntime
from tests.support.trace import render

TRACE = re.compile(r"### (.*?)\n.*?```text\n(.*?)```", re.DOTALL)
SCRIPTS = Path(__file__).parent / "docs_scripts"
"""What the agent says in the examples of a page that brings no script of its own: one file a page,
named after it. The default agent of such a page is `scripted`."""
REAL = {"README.md": ("claude", "codex")}
"""Pages whose examples name agents: their CLIs run on the scripted model."""
AGENTS = {
    "docs/cookbook/ci.md": "claude",
    "docs/cookbook/resume.md": "claude",
    "docs/cookbook/review.md": "codex",
    "docs/cookbook/structured.md": "codex",
    "docs/cookbook/testing.md": "claude",
}
"""Recipes that also run with a real agent as the default one, on the scripted model."""
ADDED = {"docs/conformance.md": {"PYTHONPATH": str(ROOT / "examples" / "adapter" / "src")}}
"""What the reader of a page has installed beside Bridle."""
ELSEWHERE = {"docs/writing-an-adapter.md"}
"""Run by `test_example_adapter`, which installs the package that the page is about."""


def names(wanted: bool) -> list[str]:
    """The pages with examples, those that need real CLIs or those that do not."""
    found = [str(page.relative_to(ROOT)) for page in examples()]
    return [name for name in found if (name in REAL) is wanted and name not in ELSEWHERE]


@pytest.fixture
def reader(tmp_path: Path, private_home: Path) -> Iterator[dict[str, str]]:
    """The environment of a reader who has installed Bridle and nothing else. Whatever the examples
    did, no session of theirs is left."""
    folder = tmp_path / "page"
    folder.mkdir()
    commands = Path(sys.executable).parent
    env = {
        **{name: os.environ[name] for name in os.environ if name.startswith("XDG_")},
        "PATH": f"{commands}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
        "HOME": str(private_home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "GIT_PAGER": "cat",
        "BRIDLE_DAEMON_IDLE": "30",
    }
    for name in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{name}_NAME": "A Reader", f"GIT_{name}_EMAIL": "reader@example.invalid"}
    yield env
    homes = [user_home(env)]
    homes += [StateHome(str(each)) for each in folder.rglob(".bridle/state")]
    left = []
    for home in homes:
        if not os.path.exists(home.database):
            continue
        end_daemon(home)
        store = SessionStore(home)
        left += [record.session_id for record in store.all() if kill_marked(record.session_id)]
        store.close()
    assert left == [], "the examples left sessions running"


def script_of(name: str) -> Path:
    """The script that plays the agent of a page, if the page needs one."""
    return SCRIPTS / f"{name.removesuffix('.md').replace('/', '-')}.yaml"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", names(False))
def test_the_examples_of_a_page(name: str, tmp_path: Path, reader: Mapping[str, str]) -> None:
    env = {**reader, **ADDED.get(name, {})}
    if script_of(name).exists():
        env |= {"BRIDLE_RUNTIME": "scripted", "BRIDLE_SCRIPT": str(script_of(name))}
    run_page(ROOT / name, folder=tmp_path / "page", env=env)


@pytest.mark.real_cli
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*names(True), *AGENTS])
def test_the_examples_of_a_page_with_real_agents(
    name: str, tmp_path: Path, private_home: Path, reader: Mapping[str, str]
) -> None:
    clis = REAL.get(name) or (AGENTS[name],)
    adapters = {cli: {"binary": str(real_cli(cli, versions(cli)[-1]))} for cli in clis}
    config = private_home / ".config" / "bridle" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_bytes(msgspec.json.encode({"runtime": {"adapters": adapters}}))
    folder = tmp_path / "page"
    if name == "README.md":
        # Its reader is in a repository with a change.
        begin = "git init -q; echo 1 > add.sh; git add -A; git commit -q -m Begin; echo 2 > add.sh"
        subprocess.run(["sh", "-ec", begin], cwd=folder, env=reader, check=True)
    script = script_of(name)
    with ScriptedModel(script if script.exists() else [{"text": "Hello."}]) as model:
        env = {
            **reader,
            "IS_SANDBOX": "1",
            "BRIDLE_RUNTIME": clis[0],
            "PIPELINE_AGENT": clis[0],
            "BRIDLE_MODEL_SERVER": model.url,
            "BRIDLE_MODEL_SERVER_KEY": model.api_key,
        }
        run_page(ROOT / name, folder=folder, env=env)


def test_an_example_that_fails_or_prints_something_else_is_noticed(
    tmp_path: Path, reader: Mapping[str, str]
) -> None:
    for number, text in enumerate(
        (
            "```sh\nfalse\n```\n",
            "```sh\necho one\n```\n```text\ntwo\n```\n",
            "```python\nprint(undefined)\n```\n",
        )
    ):
        folder = tmp_path / str(number) / "page"
        folder.mkdir(parents=True)
        copy = tmp_path / f"{number}.md"
        copy.write_text(text)
        with pytest.raises(AssertionError, match=r"exit status|must print"):
            run_page(copy, folder=folder, env=reader)
    assert fits("took 3.1 s\n", "took … s\n")
    assert not fits("took 3.1 s\nand more\n", "took … s\n")


def test_every_shell_and_python_block_is_an_example_that_runs() -> None:
    languages = {block.language for page in pages() for block in blocks_of(page)}
    # `console` is shown, not run: it installs programs, or needs a login. `py` is a signature.
    assert languages <= {"sh", "python", "text", "yaml", "toml", "json", "console", "py", "html"}
    shown = [
        f"{page.relative_to(ROOT)}:{block.line}"
        for page in pages()
        for block in blocks_of(page)
        if block.language == "console" and "bridle run " in block.text
    ]
    assert shown == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_yaml_block_is_a_script_or_a_configuration(page: Path, tmp_path: Path) -> None:
    """Those that an example of the page uses are checked by that, too; the others only here."""
    for block in blocks_of(page):
        if block.language != "yaml" or str(page.relative_to(ROOT)) in ELSEWHERE:
            continue
        if block.file is not None and block.file.startswith(".github/"):
            assert "jobs" in YAML(typ="safe").load(block.text)
        elif block.file == ".bridle/config.yaml":
            config = tmp_path / block.file
            config.parent.mkdir(exist_ok=True)
            config.write_text(block.text, encoding="utf-8")
            assert check_config(str(tmp_path)) == []
        else:
            assert load_script(block.text).turns


def test_the_sample_event_is_one() -> None:
    [sample] = [block for block in blocks_of(DOCS / "events.md") if block.language == "json"]
    assert isinstance(ev.decode_event(sample.text), ev.AgentStart)


def played(script: str, *, abort_at: str = "") -> list[Event]:
    events = stream_sync(script, runtime=TinyRuntime())
    got: list[Event] = []
    for event in events:
        got.append(event)
        if abort_at and isinstance(event, ev.MessageUpdate) and event.text == abort_at:
            events.abort()
    return got


def recorder() -> Recorder:
    made = Recorder(runtime="test", session_id="s", options=RunOptions(prompt="x"))
    made.session_started("native")
    made.turn_started()
    return made


def said(made: Recorder, text: str) -> None:
    made.message_started()
    made.text_delta(text)
    made.message_ended()


def retried() -> list[Event]:
    made = recorder()
    made.retrying(1, 500, Overloaded("no capacity"))
    made.retrying(2, 1000, Overloaded("no capacity"))
    said(made, "here I am")
    made.turn_ended()
    made.finish(ProcessExit(code=0))
    return made.drain()


def several_turns() -> list[Event]:
    made = recorder()
    said(made, "started a build in the background")
    made.turn_ended()
    made.turn_started()
    said(made, "the build is done")
    made.turn_ended()
    made.finish(ProcessExit(code=0))
    return made.drain()


def died() -> list[Event]:
    made = recorder()
    said(made, "let me see")
    made.tool_started("t1", "shell", {"command": "make"})
    made.tool_updated("t1", "cc -c a.c")
    made.message_started()
    made.text_delta("meanwhile I thi")
    made.finish(ProcessExit(code=-9))
    return made.drain()


TRACES: dict[str, Callable[[], list[Event]]] = {
    "A turn with a tool": lambda: played("say I look\ntool ls\nsay done"),
    "A failure": lambda: played("say hm\nfail slow down"),
    "A death in the middle of a tool and a sentence": died,
    "Retries": retried,
    "An abort": lambda: played("hang", abort_at="hanging"),
    "Several turns in one process": several_turns,
}


def test_the_traces_are_what_happens() -> None:
    shown = dict(TRACE.findall((DOCS / "events.md").read_text()))
    for name, play in TRACES.items():
        events = play()
        assert check_event_order(events) == []
        assert shown.pop(name, "missing") == render(events), name
    assert shown == {}


def test_every_event_is_in_the_table() -> None:
    page = (DOCS / "events.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    for cls in ev.AnyEvent.__args__:
        tag = cls.__struct_config__.tag
        [row] = [row for row in rows if f"`{tag}`" in row.split("|")[1]]
        for field in cls.__struct_fields__:
            if field not in ev.Event.__struct_fields__:
                assert field in row.split("|")[3], (tag, field)
        assert f"`{cls.__name__}`" in row.split("|")[2]
