"""`bridle demo`: several agents at work, offline."""

import argparse

from bridle.cli.parsing import add_json

EXAMPLES = ("bridle demo",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle demo`."""
    parser.add_argument(
        "--keep", action="store_true", help="leave the demo's repository, and name its folder"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Run the demo."""
    from bridle.demo.show import main

    return main(json=args.json, keep=args.keep)
