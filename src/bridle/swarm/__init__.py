"""Several agents at once: so far their worktrees."""
