"""What a file cannot mean is reported with its line, all of it at once."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from bridle.config import check_config, load_config
from bridle.core import entry_points
from bridle.core.errors import ConfigError
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.scripted import ScriptedRuntime


class ParrotOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of an adapter that Bridle does not know."""

    api_base: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    tags: list[str] = []
    voice: Literal["loud", "soft"] = "soft"


class ParrotRuntime(ScriptedRuntime):
    """An adapter with settings of its own."""

    id = "parrot"
    options_type = ParrotOptions


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers the adapter as an installed plugin does."""
    found = {**entry_points.registered(), "parrot": f"{__name__}:ParrotRuntime"}
    monkeypatch.setattr(entry_points, "_found", found)


class Files:
    """A project's file and the user's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {"HOME": str(root / "home")}
        self.project = root / ".bridle" / "config.yaml"
        self.user = root / "home" / ".config" / "bridle" / "config.yaml"
        for file in (self.project, self.user):
            file.parent.mkdir(parents=True)

    def mistakes(self, project: str, user: str = "") -> list[str]:
        """The mistakes, each with the short name of its file."""
        self.project.write_text(project)
        self.user.write_text(user)
        found = check_config(str(self.root), self.env)
        names = {str(self.project): "project", str(self.user): "user"}
        return [line.replace(path, names[path]) for line in found for path in names if path in line]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


CASES: dict[str, tuple[str, str]] = {
    "a section of no runtime": (
        "runtime:\n  adapters:\n    codx: {model: x}\n",
        "3: runtime.adapters.codx: there is no such runtime, and no `binary` declares one; "
        "did you mean `codex`?",
    ),
    "an unknown capability": (
        "guards:\n  overrides:\n    bilder: {}\n",
        "3: guards.overrides.bilder: unknown capability 'bilder'; did you mean `builder`?",
    ),
    "a relative path": (
        "guards:\n  allowPaths:\n    - /ok\n    - cache\n",
        "4: guards.allowPaths[1]: an allowed path must be absolute and not the root: 'cache'",
    ),
    "a relative path of a capability": (
        "guards: {overrides: {scout: {allowPaths: [x]}}}\n",
        "1: guards.overrides.scout.allowPaths[0]: an allowed path must be absolute and not the "
        "root: 'x'",
    ),
    "a command that opens everything": (
        "guards:\n  qualityGates: [make, bash]\n",
        "2: guards.qualityGates[1]: 'bash' alone would allow every command; name what it runs",
    ),
    "a branch prefix": (
        "guards: {branchPrefix: 'a b'}\n",
        "1: guards.branchPrefix: not usable in a branch name: 'a b'",
    ),
    "a provider that is not configured": (
        "providers:\n  hub: {}\nmodels:\n  x: {model: m, provider: hbu}\n",
        "4: models.x.provider: provider hbu is not configured; did you mean `hub`?",
    ),
    "a mode": (
        "runtime: {adapters: {codex: {mode: exce}}}\n",
        "1: runtime.adapters.codex.mode: must be acp or exec or json or rpc or run or tui, not "
        '"exce"; did you mean `exec`?',
    ),
    "two drives": (
        "runtime: {adapters: {codex: {mode: exec,\n  delivery: tmux}}}\n",
        "1: runtime.adapters.codex.mode: `exec` and `delivery: tmux` ask for different drives; "
        "keep one of them",
    ),
    "a terminal of a preset": (
        "runtime: {adapters: {mine: {binary: b, mode: tui}}}\n",
        "1: runtime.adapters.mine.mode: a declared runtime has no terminal that Bridle drives",
    ),
    "a key of presets": (
        "runtime:\n  adapters:\n    pi:\n      flags: [x]\n",
        "4: runtime.adapters.pi.flags: only for runtimes declared by configuration; the adapter of "
        "pi takes binary, mode, model, delivery, options, and as ready prompt or warmup",
    ),
    "the name of a preset": (
        "runtime: {adapters: {My Own: {binary: b}}}\n",
        "1: runtime.adapters.My Own: not a name for a runtime; use lower-case letters, digits, - "
        "and _",
    ),
    "settings of an adapter that takes none": (
        "runtime: {adapters: {pi: {options: {a: 1}}}}\n",
        "1: runtime.adapters.pi.options: the adapter of pi takes no options; see runtime.pi",
    ),
    "the clocks of a watchdog": (
        "watchdog: {interval: 3}\n",
        "1: unknown key `watchdog`; known keys: runtime, providers, models, budgets, prices, "
        "guards, sessions, hooks, profiles",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_meant_is_named_with_its_line(files: Files, name: str) -> None:
    text, wanted = CASES[name]
    assert files.mistakes(text) == [f"project:{wanted}"]


@pytest.mark.parametrize("text", ["runtime: nope", "runtime:\n  printCommand: nope"])
def test_a_runtime_that_is_not_there_is_named_with_its_line(files: Files, text: str) -> None:
    (told,) = files.mistakes(text)
    key = "printCommand" if "print" in text else "default"
    line = len(text.splitlines())
    lead = f'project:{line}: runtime.{key}: Unknown runtime: "nope". Available: aider, claude, '
    assert told.startswith(lead)


def test_mistakes_of_every_kind_and_file_come_together_in_order(files: Files) -> None:
    found = files.mistakes(
        "models:\n  x: {model: m, provider: p}\nbudgets: {runUsd: x}\nruntime: {default: cluade}\n",
        "guards: {overrides: {bilder: {}}}\nnope: 1\n",
    )
    assert [line.split(" ")[0] for line in found] == [
        "user:1:",
        "user:2:",
        "project:2:",
        "project:3:",
        "project:4:",
    ]
    assert found[-1].endswith("did you mean `claude`?")
    with pytest.raises(ConfigError) as caught:
        load_config(str(files.root), files.env)
    assert len(caught.value.message.splitlines()) == len(found)


def test_one_file_may_use_what_another_declares(files: Files) -> None:
    project = (
        "runtime: {default: mine, printCommand: mine, adapters: {mine: {model: fast}}}\n"
        "models: {fast: {model: m, provider: hub}}\n"
    )
    user = "runtime: {adapters: {mine: {binary: b, modelFlag: -m}}}\nproviders: {hub: {}}\n"
    assert files.mistakes(project, user) == []
    assert load_config(str(files.root), files.env).runtime.default == "mine"


def test_a_right_configuration_has_no_mistakes(files: Files) -> None:
    assert check_config(str(files.root), files.env) == []
    assert files.mistakes("runtime: pi\nguards: {allowPaths: [/cache]}\n") == []


def test_the_default_that_is_about_to_change_may_be_wrong(files: Files) -> None:
    assert files.mistakes("runtime: {default: nope}\n")
    config = load_config(str(files.root), files.env, ignoring="runtime.default")
    assert config.runtime.default == "nope"
    files.mistakes("runtime: {default: nope, printCommand: nope}\n")
    with pytest.raises(ConfigError, match="printCommand"):
        load_config(str(files.root), files.env, ignoring="runtime.default")


@pytest.mark.usefixtures("parrot")
def test_an_adapter_of_a_stranger_has_settings(files: Files) -> None:
    text = (
        "runtime:\n  adapters:\n    parrot:\n      options:\n        apiBase: http://x\n"
        "        timeout: 5\n        tags: [a]\n"
    )
    assert files.mistakes(text) == []
    config = load_config(str(files.root), files.env)
    runtime = get_adapter("parrot", config)
    options = msgspec.convert(runtime.settings.options, ParrotOptions)
    assert options == ParrotOptions(api_base="http://x", timeout=5, tags=["a"])


@pytest.mark.usefixtures("parrot")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("apiBsae: x", "unknown key `{}.apiBsae`; did you mean `apiBase`?"),
        ("timeout: 0", "{}.timeout: must be a number above 0, not 0"),
        ("timeout: soon", '{}.timeout: must be a number, not "soon"'),
        ("voice: lound", '{}.voice: must be loud or soft, not "lound"; did you mean `loud`?'),
        ("tags: [1]", "{}.tags[0]: must be a string, not 1"),
    ],
)
def test_a_wrong_setting_of_a_stranger_is_named(files: Files, line: str, wanted: str) -> None:
    found = files.mistakes(f"runtime:\n  adapters:\n    parrot:\n      options:\n        {line}\n")
    assert found == [f"project:5: {wanted.format('runtime.adapters.parrot.options')}"]


@pytest.mark.usefixtures("parrot")
def test_settings_in_two_files_are_taken_together(files: Files) -> None:
    text = "runtime: {{adapters: {{parrot: {{options: {{{}}}}}}}}}\n"
    assert files.mistakes(text.format("timeout: 5"), text.format("apiBase: x")) == []
    config = load_config(str(files.root), files.env)
    assert config.own_section("parrot") == {"timeout": 5, "apiBase": "x"}
