"""The documentation site builds without network, and every page is reached from its navigation."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.pages import DOCS, ROOT, pages
from tests.test_generated_docs import loaded

LINK = re.compile(r"\]\(([^)\s]+)\)")
REMOTE = re.compile(
    r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="((?:https?:)?//[^"]+)'
)


def navigation(entries: list[Any]) -> list[str]:
    """The pages of a navigation, in order."""
    found: list[str] = []
    for entry in entries:
        for value in entry.values():
            found += navigation(value) if isinstance(value, list) else [value]
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `scripts/docs` does, from a copy: building leaves files in the folder."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    command = Path(sys.executable).parent / "zensical"
    done = subprocess.run(
        [command, "build", "--strict"], cwd=folder, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_page_is_built_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in pages():
        if page.is_relative_to(DOCS):
            built = site / page.relative_to(DOCS).with_suffix(".html")
            assert REMOTE.findall(built.read_text(encoding="utf-8")) == [], built.name


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nnav: [{Home: index.md}]\n")
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[gone](gone.md)\n")
    command = Path(sys.executable).parent / "zensical"
    done = subprocess.run(
        [command, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode != 0


def test_the_navigation_has_every_page_once() -> None:
    config = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = navigation(config["nav"])
    there = [str(page.relative_to(DOCS)) for page in pages() if page.is_relative_to(DOCS)]
    assert sorted(listed) == sorted(there), "`nav` of mkdocs.yml must list each page of docs"


def test_links_of_the_readme_and_out_of_the_site_lead_somewhere() -> None:
    """The build checks links between pages; it passes over those that leave `docs`."""
    broken = []
    for page in [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:|#", target):
                continue
            path = (page.parent / target.partition("#")[0]).resolve()
            inside = not page.is_relative_to(DOCS) or path.is_relative_to(DOCS)
            if not path.exists() or not inside:
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_the_recordings_are_drawn_from_their_casts() -> None:
    made = loaded("recordings").pictures()
    assert {path.name for path in made} == {"claude.svg", "demo.svg"}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is out of date: run `python scripts/recordings.py draw`"
        )
        cast = path.with_suffix(".cast").read_text(encoding="utf-8")
        assert not re.search(r"/(?:home|root|Users|work|var)/", cast), path.name
