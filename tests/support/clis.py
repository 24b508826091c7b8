"""Where the coding-agent CLIs under test are installed."""

import os
from pathlib import Path

_BINARIES = {
    "claude": "node_modules/@anthropic-ai/claude-code-linux-x64/claude",
    "codex": "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl",
    "pi": "node_modules/.bin/pi",
}


def cli_path(name: str, version: str) -> Path:
    """Return the program to start; `FileNotFoundError` when it is not installed."""
    cache = Path(os.environ.get("BRIDLE_CLI_CACHE") or Path.home() / ".cache/bridle/clis")
    path = cache / f"{name}-{version}" / _BINARIES[name]
    if name == "codex":
        # The folder inside the vendor tree was renamed between releases.
        path = next((each for each in path.glob("*/codex") if each.is_file()), path / "bin/codex")
    if not path.is_file():
        raise FileNotFoundError(f"{name} {version} is not installed at {path}")
    return path
