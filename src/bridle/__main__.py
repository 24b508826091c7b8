"""The `bridle` command's front door: answers `--version` before anything is imported."""

import sys


def main() -> int:
    """Run the command line and return its exit status."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from bridle._version import __version__

        sys.stdout.write(f"bridle {__version__}\n")
        return 0
    try:
        from bridle.cli.startup import leave, own_process

        own_process()
        from bridle.cli import run
    except KeyboardInterrupt:
        return 130

    status = run(sys.argv[1:])
    leave(status)
    return status


if __name__ == "__main__":
    sys.exit(main())
