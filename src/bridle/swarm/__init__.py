"""Several agents at once: currently their worktrees."""
