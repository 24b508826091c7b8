"""The `tmux` drive: an agent's terminal interface in a pane of a private tmux server.

`server` holds the server and talks to it over one connection, `terminal` brings an agent's pane to
its prompt and messages into it, `following` reads what the agent writes down about itself. What
happened in a session comes from there; the screen tells only readiness and dialogs.
"""
