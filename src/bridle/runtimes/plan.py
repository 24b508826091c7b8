"""The plan of an agent's process, which the runtime makes and guard, sandbox and reports change."""

from collections.abc import Collection
from typing import Any, Self

import msgspec

from bridle.process.spec import ProcessSpec
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.turns.guard_contract import GuardMechanism
from bridle.turns.wire import LiveFacts


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is ready to start: everything was checked, nothing was started."""

    spec: ProcessSpec
    session_id: str
    installation: Installation
    dialect: Dialect
    secrets: tuple[str, ...] = ()
    """Values that must not appear in anything Bridle writes."""
    ignored_options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    private_dirs: tuple[str, ...] = ()
    """Folders made for this run alone; removed when it is over."""
    native_session_id: str | None = None
    """The id the agent will use, where Bridle can choose it."""
    live: LiveFacts | None = None
    """What the wire of a live conversation must know; None for a run of one prompt."""
    guard: GuardMechanism | None = None
    """How the agent asks before each tool call; None when it does not (`guard_plan`)."""
    noted: dict[str, Any] = {}
    """What `noted_before` told of the conversation to take up; empty where it was not asked."""
    writable_files: tuple[str, ...] = ()
    """Files beside the runtime's own that the agent must be able to write in a sandbox."""
    reports: str = ""
    """The folder that hooks of a terminal session report into; empty when none are wanted."""

    def conversing(self, runtime: str, *, resume: str | None, own: dict[str, Any]) -> Self:
        """This plan as that of a conversation, whose wire must know `own`."""
        facts = LiveFacts(
            runtime=runtime,
            runtime_version=self.installation.version or "",
            dialect=self.dialect.name,
            cwd=self.spec.cwd,
            resume=resume,
            own=own,
        )
        return msgspec.structs.replace(self, live=facts)

    def with_arguments(self, *words: str, past: Collection[str] = ()) -> Self | None:
        """This plan with `words` as the first arguments of the CLI's own command, or as those after
        a subcommand that is one of `past`; None when that command is not in the plan. Another
        program (a relay) may stand before it."""
        argv, command = list(self.spec.argv), list(self.installation.command)
        size = len(command)
        starts = (at for at in range(len(argv)) if argv[at : at + size] == command)
        place = next(starts, None)
        if place is None:
            return None
        place += size
        place += place < len(argv) and argv[place] in past
        argv[place:place] = words
        spec = msgspec.structs.replace(self.spec, argv=tuple(argv))
        return msgspec.structs.replace(self, spec=spec)
