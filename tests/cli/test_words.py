"""Options anywhere among the words, help of nouns and verbs, and the nearest right word."""

import argparse
import re

import pytest

from bridle.cli import COMMANDS, load, parser_of
from bridle.cli.parsing import CommandParser, verbs_of
from bridle.core.capabilities import CAPABILITY_NAMES
from bridle.core.errors import WrongUse
from bridle.core.spelling import nearest
from bridle.guard.policy import CAPABILITIES
from tests.support.preset_agent import Place
from tests.support.terminal import Terminal


def _parser(name: str) -> CommandParser:
    parser = parser_of(name, load(name))
    assert isinstance(parser, CommandParser)
    return parser


def parsed(*words: str) -> argparse.Namespace:
    return _parser(words[0]).parse_args(list(words[1:]))


@pytest.mark.parametrize(
    "words",
    [
        ("send", "q1", "--timeout", "5", "hello world"),
        ("send", "--timeout", "5", "q1", "hello world"),
        ("send", "q1", "hello world", "--timeout", "5"),
        ("send", "q1", "--timeout=5", "hello world"),
        ("--timeout", "5", "send", "q1", "hello world"),
        ("send", "--timeout", "5", "--", "q1", "hello world"),
    ],
)
def test_options_stand_anywhere(words: tuple[str, ...]) -> None:
    found = parsed("session", *words)
    assert (found.session, found.text, found.timeout) == ("q1", "hello world", 5.0)


def test_options_between_the_words_of_every_verb() -> None:
    steer = parsed("session", "steer", "q1", "--image", "f.png", "look")
    assert (steer.session, steer.text, steer.image) == ("q1", "look", ["f.png"])
    follow = parsed("session", "follow-up", "q1", "--json", "then")
    assert (follow.session, follow.text, follow.json) == ("q1", "then", True)
    resume = parsed("session", "resume", "k", "--runtime", "codex", "go on")
    assert (resume.session, resume.prompt, resume.runtime) == ("k", "go on", "codex")
    permit = parsed("session", "permit", "q1", "--reason", "no", "deny")
    assert (permit.request, permit.decision, permit.reason) == (None, "deny", "no")
    assert parsed("session", "permit", "q1", "r1", "allow").request == "r1"


def test_short_options_alone_and_in_one_word() -> None:
    run = parsed("run", "-rclaude", "do it", "-m", "tiny", "-vqc", "/x")
    assert (run.runtime, run.model, run.cwd, run.prompt) == ("claude", "tiny", "/x", "do it")
    assert (run.verbose, run.quiet) == (True, True)


def test_a_text_that_begins_with_a_dash() -> None:
    assert parsed("run", "- first do this").prompt == "- first do this"
    assert parsed("run", "-r", "scripted", "--", "-x").prompt == "-x"
    assert parsed("session", "send", "q1", "-").text == "-"


def test_an_option_behind_the_double_dash_is_no_riddle(place: Place) -> None:
    done = place.bridle("run", "--", "-x", "--runtime", "tiny")
    assert done.status == 2
    assert done.err == (
        "bridle: error: unexpected argument: --runtime\nhint: options come before `--`\n"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["session", "strat"], "did you mean `start`?"),
        (["--verison"], "did you mean `--version`?"),
        (["session", "list", "--name", "x"], "see `bridle session list --help`"),
        (["session", "list", "--stat", "x"], "did you mean `--state`?"),
        (["session", "list", "--project", "x"], "see `bridle session list --help`"),
        (["session", "list", "--state", "bogus"], "one of starting, ready"),
        (["session", "list", "--state", "redy"], "did you mean `ready`?"),
        (["run", "a", "--account-dri", "x"], "did you mean `--account-dir`?"),
        (["run", "a", "--runtime", "tinny"], "did you mean `tiny`?"),
        (["run", "a", "-r", "xyzzy"], "see `bridle runtime list`"),
        (["run", "a", "--permission", "bypas"], "did you mean `bypass`?"),
        (["session", "show", "a", "b"], "see `bridle session show --help`"),
        (["run", "a", "b"], "put quotes around text that has spaces"),
    ],
)
def test_the_nearest_right_word_or_none(place: Place, words: list[str], hint: str) -> None:
    done = place.bridle(*words)
    assert done.status == 2
    assert f"hint: {hint}" in done.err


def test_a_far_word_is_not_suggested() -> None:
    assert nearest("version", ["session"]) is None
    assert nearest("--continue", ["--runtime"]) is None
    assert nearest("rnu", ["run", "guard"]) == "run"
    assert nearest("--perm", ["--permission", "--print"]) == "--permission"
    assert nearest("x", ["y"]) is None
    assert nearest("", ["a"]) is None


@pytest.mark.parametrize("noun", ["session", "runtime", "guard", "daemon"])
def test_a_noun_alone_shows_its_help(place: Place, noun: str) -> None:
    done = place.bridle(noun)
    assert (done.status, done.out) == (2, "")
    assert done.err == place.bridle(noun, "--help").out
    assert done.err.startswith(f"usage: bridle {noun} VERB")


def test_version_is_a_word_too(place: Place) -> None:
    assert place.bridle("version").out == place.bridle("--version").out


def _leaves() -> list[tuple[str, CommandParser]]:
    found = []
    for name in COMMANDS:
        parser = _parser(name)
        verbs = verbs_of(parser)
        if verbs is None:
            found.append((name, parser))
        else:
            found += [(f"{name} {verb}", below) for verb, below in verbs.choices.items()]
    return found


@pytest.mark.parametrize(("name", "parser"), _leaves(), ids=lambda each: str(each)[:30])
def test_every_verb_explains_its_words_and_has_an_example(name: str, parser: CommandParser) -> None:
    assert parser.examples, f"{name} has no example"
    assert all(f"bridle {name}" in line for line in parser.examples)
    for action in parser._actions:
        assert action.help, f"{name}: {action.dest} has no help"


@pytest.mark.parametrize(
    "words", [("run",), ("session",), ("session", "start"), ("session", "send")]
)
def test_help_fits_a_narrow_terminal(place: Place, words: tuple[str, ...]) -> None:
    done = place.bridle(*words, "--help", env={"COLUMNS": "40"})
    body = done.out.partition("\nexample")[0]
    long = [line for line in body.splitlines() if len(line) > 40 and " " in line.strip()]
    assert long == []


def test_the_help_of_everything_fits_a_narrow_terminal(place: Place) -> None:
    done = place.bridle("--help", env={"COLUMNS": "40"})
    assert max(map(len, done.out.splitlines())) <= 40
    assert "  session\n" in done.out


def test_the_closing_line_keeps_its_cost_on_a_narrow_terminal(place: Place) -> None:
    from bridle.cli.run_view import _fitted

    line = "completed in 1.0 s · 600 (+30 cached) tokens in, 20 out · $0.0100"
    assert _fitted(line, 40) == [
        "completed in 1.0 s",
        "600 (+30 cached) tokens in, 20 out",
        "$0.0100",
    ]
    assert _fitted(line, 200) == [line]


def test_the_guard_option_names_every_capability() -> None:
    assert set(CAPABILITY_NAMES) == CAPABILITIES
    shown = re.sub(r"\s+", " ", _parser("run").format_help())
    assert ", ".join(CAPABILITY_NAMES) in shown


def test_old_flags_mean_what_they_meant(place: Place) -> None:
    from bridle.cli.run_arguments import options_of

    words = ["x", "--add-dir", "a", "--add-dir", "b", "--fallback-model", "f", "--effort", "low"]
    words += ["--setting-sources", "user", "--fork-session", "--no-session-persistence"]
    words += ["--max-budget-usd", "2", "--strict-mcp-config", "--resume", "id"]
    options = options_of(_parser("run").parse_args(words))
    assert options.provider_options == {
        "add_dirs": ["a", "b"],
        "fallback_model": "f",
        "effort": "low",
        "setting_sources": "user",
        "fork": True,
        "persist_session": False,
    }
    assert (options.budget_usd, options.resume) == (2.0, "id")
    start = _parser("session").parse_args(
        ["start", "x", "--effort", "low", "--allowedTools", "a b"]
    )
    assert options_of(start).provider_options == {"effort": "low"}
    assert options_of(start).allowed_tools == ("a", "b")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--continue"], "--continue is not supported: the last conversation"),
        (["--session-id", "x"], "--session-id is not supported"),
        (["--permission-mode", "plan"], "--permission-mode plan is not supported"),
        (["--permission-mode", "acceptEdits"], "allows edits only"),
        (["-r", "01234567-89ab-cdef-0123-456789abcdef"], "-r names a runtime"),
    ],
)
def test_old_flags_without_an_equal_are_refused_with_the_reason(
    place: Place, words: list[str], said: str
) -> None:
    done = place.bridle("run", "x", *words)
    assert done.status == 2
    assert said in done.err
    assert "hint: " in done.err


def test_a_terminal_shows_the_help_in_its_own_width(place: Place) -> None:
    with Terminal(place.command("run", "--help"), place.environment(), place.project) as seen:
        assert seen.finish() == 0
    assert seen.screen.startswith("usage: bridle run")


@pytest.mark.parametrize("words", [("runtime", "list"), ("daemon", "status"), ("config", "check")])
def test_a_word_for_a_verb_that_takes_none_is_named(words: tuple[str, ...]) -> None:
    with pytest.raises(WrongUse, match=r"^unexpected argument: rm -rf x$"):
        parsed(*words, "rm -rf x")
    with pytest.raises(WrongUse, match=r"^unexpected argument: --json$"):
        parsed(*words, "--", "--json")
