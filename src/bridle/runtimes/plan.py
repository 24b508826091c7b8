"""The plan of an agent's process: the adapter makes it; guard, sandbox and reports change it."""

from collections.abc import Collection
from typing import Any, Self

import msgspec

from bridle.process.spec import ProcessSpec
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.turns.guard_contract import GuardMechanism
from bridle.turns.wire import LiveFacts


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that can start: everything is checked, nothing is started."""

    spec: ProcessSpec
    session_id: str
    installation: Installation
    dialect: Dialect
    secrets: tuple[str, ...] = ()
    """Values that must not appear in anything Bridle writes."""
    ignored_options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    private_dirs: tuple[str, ...] = ()
    """Folders for this run only; removed when it is over."""
    native_session_id: str | None = None
    """The id that the agent will use, if Bridle can choose it."""
    live: LiveFacts | None = None
    """What the wire of a conversation must know; None for a run of one prompt."""
    unguarded: str = ""
    """Why the agent cannot be guarded, known before the guard is planned; empty if it may be."""
    guard: GuardMechanism | None = None
    """How the agent asks before each tool call; None if it is not guarded (`guard_plan`)."""
    noted: dict[str, Any] = {}
    """What `noted_before` found of the conversation to resume; empty if nobody asked."""
    writable_files: tuple[str, ...] = ()
    """Further files that the agent must be able to write in a sandbox."""
    reports: str = ""
    """The folder that hooks of a terminal session report into; empty if none report."""

    def conversing(self, runtime: str, *, resume: str | None, own: dict[str, Any]) -> Self:
        """This plan for a conversation; `own` is what its wire must know."""
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
        """This plan with `words` inserted right after the CLI's command, or after a subcommand that
        is one of `past`. The command may follow another program (a relay); None if it is not
        there."""
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
