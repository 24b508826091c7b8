"""The plan of an app-server that is shared on a socket: what is started, what is refused."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import NotInstalled, UnsupportedOption, WrongUse
from bridle.core.options import RunOptions
from bridle.runtimes.codex.command import RELAY, socket_path
from bridle.turns.guard_contract import GuardAddress, HookShape
from tests.runtimes.codex.fake_install import FakeInstall, configured
from tests.runtimes.codex.test_live_plan import THREAD, facts, live

SHARED: dict[str, Any] = {"permission_mode": "bypass", "provider_options": {"shared_socket": True}}


class Hook:
    """What a guard offers."""

    folder, stdio, lasting = "/guard", False, True

    def command(self, shape: HookShape) -> str:
        return "/guard/hook.sh"

    def address(self) -> GuardAddress:
        raise NotImplementedError


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInstall:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return FakeInstall(tmp_path, "0.166.0")


def test_the_relay_stands_before_it(fake: FakeInstall) -> None:
    plan = live(fake, **SHARED)
    words = list(plan.spec.argv)
    socket = facts(plan).own["socket"]
    assert words[:6] == [sys.executable, "-P", "-m", RELAY, socket, "--"]
    assert words[7] == "app-server"
    assert words[-2:] == ["--listen", f"unix://{socket}"]
    assert configured(plan)["sandbox_workspace_write"]["network_access"] is False
    assert plan.private_dirs == (os.path.dirname(socket),)
    assert not os.path.exists(os.path.dirname(socket))
    assert "socket" not in facts(live(fake, permission_mode="bypass")).own


def test_the_persons_terminal(fake: FakeInstall) -> None:
    known = facts(live(fake, **SHARED))
    env = {"TERM": "xterm", "HOME": "/home/somebody"}
    spec = fake.runtime.remote_terminal(known, THREAD, env)
    assert spec is not None
    assert spec.argv[:3] == (*known.own["command"], "--remote", f"unix://{known.own['socket']}")
    assert spec.argv[-2:] == ("resume", THREAD)
    assert spec.env == {**env, "CODEX_HOME": known.own["home"]}
    assert spec.cwd == str(fake.work)
    bare = facts(live(fake, permission_mode="bypass"))
    assert fake.runtime.remote_terminal(bare, THREAD, env) is None


def test_short_paths_only() -> None:
    near = socket_path({"HOME": "/home/me"}, "one")
    assert near.startswith("/home/me/.local/state/bridle/run/s-")
    far = socket_path({"HOME": "/home/" + "m" * 80, "XDG_RUNTIME_DIR": "/nowhere"}, "one")
    assert len(far) < 90
    other = socket_path({"HOME": "/home/me"}, "two")
    assert len({near, far, other}) == 3


def test_older_lines_have_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(UnsupportedOption, match=r"not with codex-0\.120"):
        live(FakeInstall(tmp_path, "0.120.0"), **SHARED)


def test_not_where_codex_asks(fake: FakeInstall) -> None:
    asking = {**SHARED, "permission_mode": "ask"}
    with pytest.raises(UnsupportedOption, match="not where it asks"):
        live(fake, **asking)
    plan = live(fake, **asking, ignore_unsupported=True)
    assert plan.ignored_options == ("shared_socket",)
    assert "socket" not in facts(plan).own
    # A sandbox that is named is never combined with asking.
    assert "socket" in facts(live(fake, **asking, sandbox="read-only")).own


def test_what_is_refused(fake: FakeInstall, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"shared_socket": True, "network_access": True}
    with pytest.raises(WrongUse, match="would open the sandbox"):
        live(fake, permission_mode="bypass", provider_options=both)
    live(fake, permission_mode="bypass", sandbox="off", provider_options=both)
    run = RunOptions(prompt="x", cwd=str(fake.work), **SHARED)
    with pytest.raises(UnsupportedOption, match="shared_socket"):
        fake.runtime.plan_run(run, fake.env, "session-1")
    with pytest.raises(UnsupportedOption, match="shared_socket"):
        fake.runtime.plan_tmux(run, fake.env, "session-1")
    with pytest.raises(UnsupportedOption, match="shared_socket"):
        fake.runtime.plan_interactive(run, fake.env)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "websockets" else found(name)
    )
    with pytest.raises(NotInstalled) as refused:
        live(fake, **SHARED)
    assert "bridle[codex-attach]" in refused.value.hint


def test_the_guard_finds_its_place(fake: FakeInstall) -> None:
    bare, shared = live(fake, permission_mode="bypass"), live(fake, **SHARED)
    guarded = [fake.runtime.guard_plan(each, Hook()).spec.argv for each in (bare, shared)]
    relay, rest = guarded[1][:6], guarded[1][6:]
    assert relay == shared.spec.argv[:6]
    assert rest[: len(guarded[0])] == guarded[0]
