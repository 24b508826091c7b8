"""The `bridle` command's front door: answers `--version` before anything is imported."""

import sys


def main() -> int:
    """Run the command line and return its exit status."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from bridle._version import __version__

        sys.stdout.write(f"bridle {__version__}\n")
        return 0
    from bridle.cli import run
    from bridle.cli.startup import leave

    status = run(sys.argv[1:])
    leave(status)
    return status


if __name__ == "__main__":
    sys.exit(main())
