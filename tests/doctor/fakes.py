"""Command lines that are not what they were: small shell scripts in a folder of their own."""

import shutil
from pathlib import Path

from bridle.doctor.flags import flags_used
from bridle.runtimes.contract import Adapter


def fake_cli(folder: Path, name: str, *, version: str = "", help: str = "", then: str = "") -> Path:
    """A command that tells a version and a help text, and does nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.help").write_text(help)
    told = f"echo '{version}'" if version else ":"
    script = folder / name
    script.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case $word in\n'
        f"  --version) {told}; exit 0;;\n"
        f"  --help) cat '{folder / f'{name}.help'}'; exit 0;;\n"
        f"esac; done\n{then}\n"
    )
    script.chmod(0o755)
    return script


def help_of(runtime: Adapter, home: Path) -> str:
    """A help text that lists exactly the flags that the runtime passes."""
    home.mkdir(exist_ok=True)
    flags = flags_used(runtime, runtime.installation(), str(home))
    listed = sorted({flag for each in flags.values() for flag in each})
    return "Options:\n" + "".join(f"  {flag}  what it does\n" for flag in listed)


def bare_path(folder: Path) -> str:
    """A PATH with git and a shell's tools, and no agent."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("git", "sh", "cat", "echo", "sleep", "head", "tr", "env"):
        found = shutil.which(name)
        if found is not None and not (folder / name).exists():
            (folder / name).symlink_to(found)
    return str(folder)
