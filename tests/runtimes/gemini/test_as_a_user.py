"""The real Gemini CLI for a user without any rights.

Gemini obeys some files only where root owns them, so that what works for root proves nothing for
others. Where root runs the tests, these run the most telling ones again as another user; elsewhere
they are run by such a user anyway.
"""

import re
import sys

import pytest

from tests.support.real_cli import real_cli, versions
from tests.support.unprivileged import as_user

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(420)]

RUNS = "tests/runtimes/gemini/test_real.py::"
GUARDED = "tests/guard/test_real_agents.py::"
DEPLOYED = "tests/guard/test_deploy_other_runtimes.py::"
CONFINED = "tests/sandbox/test_real_other_agents.py::"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(
            (
                f"{RUNS}test_the_common_script",
                f"{RUNS}test_tools_of_every_kind_and_only_those_allowed",
                f"{RUNS}test_what_goes_by_settings_works_in_the_users_own_home",
                f"{RUNS}test_the_users_own_home_resume_and_files",
            ),
            id="runs",
        ),
        pytest.param(
            (
                f"{GUARDED}test_the_guard_alone_holds_a_builder[gemini-0.61.0-print]",
                f"{GUARDED}test_a_scout_writes_nothing[gemini-0.61.0-print]",
                f"{GUARDED}test_the_guard_alone_holds_a_builder[gemini-acp-0.61.0-print]",
                f"{GUARDED}test_the_guard_alone_holds_a_builder[gemini-0.61.0-rpc]",
                f"{DEPLOYED}test_the_real_agent_honours_it_for_agents_alone"
                "[gemini-0.61.0-own2-agent]",
            ),
            id="guard",
        ),
        pytest.param(
            (
                f"{RUNS}test_a_confined_agent_cannot_change_the_settings_it_runs_with",
                f"{CONFINED}test_the_kernel_holds_it[gemini-worktree]",
            ),
            id="sandbox",
        ),
    ],
)
def test_it_works_for_a_user_without_rights(names: tuple[str, ...]) -> None:
    real_cli("gemini", versions("gemini")[-1])
    quiet = ("-q", "-p", "no:cacheprovider", "--basetemp=.tmp/pytest")
    done = as_user(sys.executable, "-m", "pytest", *quiet, *names, seconds=400)
    # None was skipped, and none is missing.
    assert re.search(rf"^{len(names)} passed in ", done.stdout, re.M), done.stdout
    assert done.returncode == 0


def test_the_user_has_no_rights() -> None:
    look = "import os; print(os.getuid(), os.access('/etc/passwd', os.W_OK))"
    done = as_user(sys.executable, "-c", look, seconds=60)
    assert done.returncode == 0, done.stdout
    number, writes = done.stdout.split()
    assert number != "0"
    assert writes == "False"
