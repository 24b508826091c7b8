"""The `tmux` drive: an agent's terminal interface in a pane of a private tmux server.

`server` runs the tmux server and talks to it over one connection (`control`). `terminal` brings an
agent's pane to its prompt and messages into it (`goals`). `transcript_wire` reads what the agent
writes about itself: the events of a session come from there, and from hooks (`hook_reports`). The
screen shows only readiness and dialogs (`permission_dialogs`). `pane_process` holds the agent for a
session and writes what happens into the session's journal (`records`), which `pane_wire` reads.
"""
