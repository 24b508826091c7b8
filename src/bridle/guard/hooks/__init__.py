"""Answers the hooks of agents: the hook process, the service it asks, and what both write down."""
