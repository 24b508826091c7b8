"""Starts the scripted agent: `python -I -S start.py`. Kept tiny, since a script is never cached."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    __package__ = "agent"
    from .main import main

    sys.exit(main(sys.argv[1:]))
