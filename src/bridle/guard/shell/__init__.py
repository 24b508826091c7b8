"""Reads shell programs: parses, expands and walks them, so that each simple command is judged."""
