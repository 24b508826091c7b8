"""The print drive of a session: one process for each turn, and none between them.

The wire (`turn_wire`) plays the normalizer of a run anew for each turn; what it wants done it says
in orders (`records`), which `turn_process` carries out. What happened stands in the journal, so
that a driver which was killed is replaced by one that goes on.
"""
