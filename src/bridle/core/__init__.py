"""Contracts shared by every layer: events, errors, options, results. No input or output here."""
