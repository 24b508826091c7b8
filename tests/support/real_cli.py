"""How a test asks for a real CLI: installed when missing, skipped only when the registry refuses it
or when the run is limited to other CLIs (`--cli NAME`).

@pytest.mark.parametrize("version", versions("pi"))
def test_it(version: str) -> None:
    binary = real_cli("pi", version)
"""

import os
import shutil
from pathlib import Path
from typing import TypeVar

import pytest

from bridle.runtimes.contract import Adapter, AdapterSettings
from bridle.runtimes.registry import get_adapter
from tests.support.clis import PINS, RegistryRefused, cli_path

A = TypeVar("A", bound=Adapter)


def versions(name: str) -> list[str]:
    """The pinned versions of `name`, for `parametrize`."""
    return [pin.version for pin in PINS if pin.name == name]


chosen: frozenset[str] = frozenset()
"""The CLIs that this run is limited to, by name or NAME-VERSION; empty for all of them."""


def real_cli(name: str, version: str) -> Path:
    """The command of a pinned CLI. The test is skipped, with the registry's answer as reason, only
    when the registry refused the package after retries; any other failure fails it."""
    if chosen and chosen.isdisjoint((name, f"{name}-{version}")):
        pytest.skip(f"{name} {version} is not among the chosen CLIs")
    try:
        return cli_path(name, version)
    except RegistryRefused as refusal:
        pytest.skip(f"REAL CLI NOT TESTED: {refusal}")


def path_with_bubblewrap(path: str) -> str:
    """`path`, with a folder that holds `bwrap` at its end where the machine has none.

    codex-acp needs that program for its sandbox and brings none; Codex's own CLI does.
    """
    if shutil.which("bwrap", path=path) is not None:
        return path
    codex = real_cli("codex", versions("codex")[-1])
    return f"{path}{os.pathsep}{codex.parent.parent / 'codex-resources'}"


def pinned(name: str, version: str, cli: str = "") -> Adapter:
    """A runtime on one version of its CLI; `cli` where that is named otherwise."""
    runtime = get_adapter(name)
    runtime.use_binary(str(real_cli(cli or name, version)))
    return runtime


def pinned_as(kind: type[A], version: str = "") -> A:
    """An adapter of this class on one version of its CLI, the newest by default."""
    name = kind.id
    return kind(AdapterSettings(binary=str(real_cli(name, version or versions(name)[-1]))))


def newest(name: str) -> Adapter:
    """A runtime on the newest of its pinned CLIs."""
    cli = name if versions(name) else get_adapter(name).binary
    return pinned(name, versions(cli)[-1], cli)
