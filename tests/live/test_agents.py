"""One run and one session of each agent named in `BRIDLE_LIVE`, with the user's own login."""

import os
from pathlib import Path

import pytest

import bridle

RUNTIMES = os.environ.get("BRIDLE_LIVE", "").replace(",", " ").split()
PROMPT = "Reply with the single word ready, in lower case, and nothing else."


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.timeout(600)
def test_a_run(runtime: str, tmp_path: Path) -> None:
    result = bridle.run_sync(PROMPT, runtime=runtime, cwd=tmp_path, timeout=300)
    assert (result.status, result.error) == ("completed", None)
    assert "ready" in result.text.lower()
    assert result.usage.output_tokens > 0
    assert result.model


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.timeout(600)
def test_a_session_remembers(runtime: str, tmp_path: Path) -> None:
    with bridle.SyncSession.start(runtime, cwd=tmp_path) as session:
        session.prompt("The word is heron. " + PROMPT)
        session.wait_idle()
        session.prompt("Which word did I give you? Reply with that word alone.")
        session.wait_idle()
        assert "heron" in session.messages[-1].text.lower()
