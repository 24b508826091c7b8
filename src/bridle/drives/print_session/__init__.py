"""The print drive of a session: one process for each turn, and none between them.

The wire (`turn_wire`) uses the normalizer of a run, a new one for each turn; it gives orders
(`records`) that `turn_process` carries out. The journal records what happened, so that the next
driver continues after one was killed.
"""
