"""Processes of agents: how one is started, held, watched and ended, and the files it leaves."""
