"""Processes of agents: how Bridle starts, holds, watches and ends them, and their files."""
