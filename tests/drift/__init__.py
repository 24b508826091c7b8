"""Finds out which releases of an agent's CLI Bridle works with, and which release changed that.

`scripts/drift` is the command. The parts: `releases` lists and samples what the registry has,
`trial` runs every check on one release, `results` keeps what was found and puts it in a sentence,
`boundaries` finds the release that changed a check, `survey` does all of it in order, and `tables`
shows it.
"""
