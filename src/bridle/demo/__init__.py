"""`bridle demo`: several scripted agents at once on a throw-away repository, offline."""
