"""Bridle's pytest plugin brings the fixture `agent_bench`."""

pytest_plugins = ["bridle.testing.bench.pytest_plugin"]
