"""The page of the scripted model is right and complete; `tests/test_docs.py` runs its programs."""

import re
from pathlib import Path
from typing import get_args

import pytest

from bridle.testing import load_script
from bridle.testing.script import NEUTRAL_TOOLS, Fault, FaultKind, Turn

PAGE = (Path(__file__).parents[2] / "docs" / "scripted-model.md").read_text()


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", examples("yaml"))
def test_scripts_are_right(text: str) -> None:
    assert load_script(text).turns


def test_every_word_of_the_format_is_on_the_page() -> None:
    words = {*Turn.__struct_fields__, *Fault.__struct_fields__, *get_args(FaultKind)}
    missing = [word for word in {*words, *NEUTRAL_TOOLS} if f"`{word}" not in PAGE]
    assert missing == []
