"""Runs of the scripted agent on a bench, with a script of its own or on a model server."""

from pathlib import Path
from typing import Any

from bridle.core.options import RunOptions
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing.bench import AgentBench, AgentRun


class ScriptedBench(AgentBench):
    """A bench for the scripted agent; its script goes by a provider option."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.env["PATH"] = "/usr/bin:/bin"

    @property
    def state(self) -> Path:
        """Where the agent keeps its conversations."""
        return self.home / ".local" / "state" / "bridle" / "scripted"

    def scripted(self, script: Any = None, **fields: Any) -> RunOptions:
        """The options of a run that plays `script`."""
        own = dict(fields.pop("provider_options", {}))
        if script is not None:
            own["script"] = script
        return self.options(**{"timeout": 60.0, **fields, "provider_options": own})

    def play(
        self, script: Any = None, *, permission: PermissionPolicy = refuse_all, **fields: Any
    ) -> AgentRun:
        """Run to the end, as the bench checks it."""
        own = dict(fields.pop("provider_options", {}))
        if script is not None:
            own["script"] = script
        given = {"timeout": 60.0, **fields, "provider_options": own}
        return self.run(ScriptedRuntime(), permission=permission, **given)
