"""Pi's terminal interface as a driven session: its command, and where its session file is."""

import os
import time
from collections.abc import Mapping

import msgspec

from bridle.core.options import RunOptions
from bridle.runtimes.contract import Adapter
from bridle.runtimes.pi import home
from bridle.runtimes.pi.choices import provider_options
from bridle.runtimes.pi.dialects import pi_dialect
from bridle.runtimes.pi.planning import JSON_MODE
from bridle.runtimes.pi.transcript import find_session, read_header, session_dir
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import check_terminal_options
from bridle.runtimes.provider_options import refuse_fork
from bridle.turns.wire import LiveFacts


def plan(runtime: Adapter, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
    """The process of a terminal session: that of a run, without its JSON mode."""
    dialect, _, _ = pi_dialect(runtime.installation().version)
    given = provider_options(options.provider_options, dialect)
    refuse_fork(runtime.id, options, given.fork, "not in a terminal session")
    # A person at the terminal is asked by Pi itself; the run's own way to refuse is not needed.
    ignored = check_terminal_options(runtime, options, ("images",))
    made = runtime.plan_run(msgspec.structs.replace(options, images=()), env, session_id)
    words = list(made.installation.command)
    words += made.spec.argv[len(words) + len(JSON_MODE) :]
    spec = msgspec.structs.replace(made.spec, argv=tuple(words), stdin=None)
    folder = session_dir(home.agent_dir(spec.env), spec.cwd, spec.env)
    own = {"folder": folder, "session": made.native_session_id, "began": time.time() - 1.0}
    ignored = (*made.ignored_options, *ignored)
    in_pane = msgspec.structs.replace(made, spec=spec, ignored_options=ignored)
    return in_pane.conversing(runtime.id, resume=options.resume, own=own)


def transcript_path(facts: LiveFacts) -> str | None:
    """Where the conversation is written down; the file appears with the first answer."""
    session = facts.own["session"]
    if session:
        found = find_session(facts.own["folder"], session)
        return None if found is None else found[0]
    return _only_new(facts)


def _only_new(facts: LiveFacts) -> str | None:
    """For a version that chooses the id itself: the one new file of this folder; None when there
    are several, for then it cannot be told whose they are."""
    folder = facts.own["folder"]
    try:
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        new = [path for path in paths if os.stat(path).st_mtime >= facts.own["began"]]
    except OSError:
        return None
    fitting = [path for path in new if (header := read_header(path)) and header.cwd == facts.cwd]
    return fitting[0] if len(fitting) == 1 else None
