"""Agents that speak the protocol and have no adapter of their own: bridges, and declared ones.

A bridge is a program of a third party that starts a product and speaks the protocol for it. It is a
row of data here; the product's adapter knows its files, tools, hooks and routing.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import new_private_dir
from bridle.core.options import ResolvedModel, RunOptions
from bridle.core.results import TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, OverAcp
from bridle.runtimes.acp.plan import AcpPlan, account_folder
from bridle.runtimes.acp.product import AcpOptions, AcpStart
from bridle.runtimes.acp.quirks import PLAIN, AcpQuirks
from bridle.runtimes.acp.routing import Target, route
from bridle.runtimes.contract import Adapter, AdapterSettings, History, as_guarded
from bridle.runtimes.history import Spent
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    native_program,
    package_version,
    remembered_version,
)
from bridle.runtimes.options import provider_key
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.product import RoutingFacts
from bridle.runtimes.registry import get_adapter
from bridle.turns.guard_contract import GuardHook

if TYPE_CHECKING:
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.product import ToolTable
    from bridle.sandbox import SandboxNeeds


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """A program that speaks the protocol for a product, or an agent declared in a configuration."""

    command: str = ""
    product: str = ""
    """The runtime of the product behind it; empty for an agent of which nothing else is known."""
    package: str = ""
    """npm package of the command, for its version; names that start with it count too."""
    native: str = ""
    """The native program behind an npm launcher, below `node_modules`; `{platform}` is npm's."""
    keys: tuple[str, ...] = ()
    """Variables that hold a key or token."""
    logins: tuple[str, ...] = ()
    """Files of a login, below the home."""
    home_variable: str = ""
    """Variable that moves the product's configuration home."""
    guard_changes: dict[str, Any] = {}
    """Fields of the product's `GuardMechanism` that differ behind the bridge."""
    asks: bool = False
    """Without a product: whether it asks before every call that changes anything."""


class BridgeRuntime(OverAcp):
    """A bridge as a runtime."""

    bridge: ClassVar[Bridge]
    tells_version = False

    # -- identity and availability --------------------------------------------------------------

    def find(self) -> Installation | None:
        """The installed program: the native one where an npm launcher starts it."""
        bridge = self.bridge
        found = find_executable(self.settings.binary or self.binary)
        if found is None:
            return None
        binary = (native_program(found, bridge.native) if bridge.native else None) or found
        if not bridge.package:
            return Installation(binary=binary, version=None)
        version = package_version(binary, bridge.package) or package_version(found, bridge.package)
        if version is None:
            version = remembered_version(binary, lambda: ask_version((binary,)))
        return Installation(binary=binary, version=version)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable or a login file is there. A login may be elsewhere (a key ring, a
        helper program), so none is ever reported as missing."""
        bridge = self.bridge
        home = env.get("HOME") or os.path.expanduser("~")
        if any(env.get(name) for name in bridge.keys):
            return "present"
        if any(os.path.exists(os.path.join(home, *name.split("/"))) for name in bridge.logins):
            return "present"
        return "unknown"

    def tool_table(self) -> "ToolTable | None":
        """That of the product."""
        return self._product().tool_table() if self.bridge.product else None

    def routing_facts(self) -> RoutingFacts:
        """Those of the product."""
        if not self.bridge.product:
            return super().routing_facts()
        return self._product().routing_facts()

    def _product(self) -> Adapter:
        return get_adapter(self.bridge.product)

    def _reader(self) -> History | None:
        """The product, if it can read its transcripts."""
        product = self._product() if self.bridge.product else None
        return product if isinstance(product, History) else None

    # -- starting -------------------------------------------------------------------------------

    def acp_start(
        self, options: RunOptions, own: AcpOptions, env: Mapping[str, str], cwd: str
    ) -> AcpStart:
        """The bridge with the product's variables; a scripted model gets a private home."""
        around = {**env, **options.env}
        server, provider = options.model_server, options.provider
        key = provider_key(provider, around, self.id) if provider else None
        account = account_folder(options) if "account_dir" in self.quirks.options else None
        variable = self.bridge.home_variable
        moved = {variable: account} if account is not None and variable else {}
        scratch = new_private_dir(env, self.id) if server else None
        home = (account or scratch) if server else None
        to = Target(
            url=provider.base_url if provider else None,
            key=key,
            model=options.model,
            max_retries=own.max_retries,
            home=home,
            cwd=cwd,
            account="" if home else self._config_home({**env, **moved}),
            env={**around, **moved},
        )
        if server is not None:
            url = server.url.rstrip("/")
            to = msgspec.structs.replace(to, url=url, api=f"{url}/v1", key=server.api_key)
        way = route(self.bridge.product, to)
        child = {name: value for name, value in env.items() if name not in way.drop}
        routing = {**moved, **way.env}
        if options.model and self.quirks.model_variable is not None:
            routing[self.quirks.model_variable] = options.model
        flags = list(way.flags)
        if options.allowed_tools or options.denied_tools:
            pieces = self._product().tool_pieces(options, scratch or "", {} if server else around)
            flags += pieces.flags
            routing |= pieces.env
        settings: dict[str, Any] = {}
        if provider is not None and provider.base_url and self.bridge.product:
            whole = {**child, **options.env, **routing}
            settings = self._product().isolating_settings(whole, cwd, provider.auth_token_env)
        return AcpStart(
            env=child,
            routing=routing,
            flags=tuple(flags),
            secrets=tuple(each for each in (server.api_key if server else "", key) if each),
            private_dirs=(scratch,) if scratch else (),
            settings=settings,
            model_chosen=server is not None,
        )

    def _config_home(self, env: Mapping[str, str]) -> str:
        """The configuration home that the product uses in `env`, where that is known."""
        bridge = self.bridge
        if not bridge.home_variable:
            return ""
        home = env.get("HOME") or os.path.expanduser("~")
        return env.get(bridge.home_variable) or os.path.join(home, f".{bridge.product}")

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the product to `model`'s provider; a run adds the arguments that it
        needs as well."""
        if model.provider is None or "provider" not in self.quirks.options:
            return dict(model.env)
        to = Target(
            url=model.provider.base_url,
            key=provider_key(model.provider, os.environ, self.id),
            model=model.model,
            max_retries=AcpOptions().max_retries,
        )
        return {**route(self.bridge.product, to).env, **model.env}

    # -- guard and sandbox ----------------------------------------------------------------------

    @property
    def can_be_guarded(self) -> bool:
        """Whether the product has hooks, or the agent asks."""
        return bool(self.bridge.product or self.bridge.asks)

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """The product's hooks, or the agent's own requests."""
        from bridle.runtimes.acp.hooks import guard_by_asking, guard_by_pieces

        assert isinstance(plan, AcpPlan)
        if self.bridge.product:
            return guard_by_pieces(
                plan, hook, as_guarded(self._product()), self.bridge.guard_changes
            )
        if self.bridge.asks:
            return guard_by_asking(plan, hook)
        raise GuardRefused(
            f"{self.id} is not known to ask before every tool call",
            hint="if it does, declare it with `asks: true`; else hold it with --sandbox and say "
            "--unguarded",
            runtime=self.id,
        )

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Those of the product. The home of a session with a scripted model is writable as a whole:
        it holds nothing of the user's."""
        from bridle.sandbox import SandboxNeeds

        if not self.bridge.product:
            return Adapter.sandbox_needs(self, options, spec)
        needs = self._product().sandbox_needs(options, spec)
        account = account_folder(options) if options.model_server is not None else None
        if account is None:
            return needs
        return SandboxNeeds(writable=(account,), scratch_variables=needs.scratch_variables)

    # -- worktree and history -------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Those of the product."""
        if not self.bridge.product:
            return super().instruction_places(worktree)
        return self._product().instruction_places(worktree)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a transcript of the product says was used."""
        reader = self._reader()
        return reader.parse_transcript(path) if reader is not None else None

    def transcript_dir(self, project: str) -> str | None:
        """The folder of the product's transcripts."""
        reader = self._reader()
        return reader.transcript_dir(project) if reader is not None else None

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The product's transcript of a session."""
        reader = self._reader()
        return reader.find_transcript(session_id, env) if reader is not None else None

    def prompt_history(self, path: str) -> list[Spent]:
        """What each prompt in a transcript of the product used."""
        reader = self._reader()
        return reader.prompt_history(path) if reader is not None else []


class ClaudeAcp(BridgeRuntime):
    """Claude Code behind `claude-agent-acp`."""

    id = "claude-acp"
    binary = "claude-agent-acp"
    instruction_path = ".claude/CLAUDE.md"
    install_hint = "npm install -g @agentclientprotocol/claude-agent-acp"
    quirks = quirks.CLAUDE
    dialects = (quirks,)
    bridge = Bridge(
        command=binary,
        product="claude",
        package="@agentclientprotocol/claude-agent-acp",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        logins=(".claude/.credentials.json",),
        home_variable="CLAUDE_CONFIG_DIR",
    )


class CodexAcp(BridgeRuntime):
    """Codex behind `codex-acp`."""

    id = "codex-acp"
    binary = "codex-acp"
    instruction_path = "AGENTS.md"
    install_hint = "npm install -g @zed-industries/codex-acp"
    confines_itself = True
    history_variables = ("HOME", "CODEX_HOME")
    quirks = quirks.CODEX
    dialects = (quirks,)
    bridge = Bridge(
        command=binary,
        product="codex",
        package="@zed-industries/codex-acp",
        native="@zed-industries/codex-acp-{platform}/bin/codex-acp",
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        logins=(".codex/auth.json",),
        home_variable="CODEX_HOME",
        guard_changes={"matching": "id"},
    )


class DeclaredRuntime(BridgeRuntime):
    """An agent that a configuration or a program declares: the protocol as it is written."""

    binary = ""
    instruction_path = "AGENTS.md"
    stability = "experimental"
    quirks = PLAIN
    dialects = (PLAIN,)
    bridge = Bridge()

    def __init__(
        self, id: str, bridge: Bridge, quirks: AcpQuirks, instruction_file: str, install: str
    ) -> None:
        super().__init__(AdapterSettings(binary=bridge.command))
        # For every other runtime these belong to the class; this class serves many agents.
        vars(self).update(
            id=id,
            bridge=bridge,
            quirks=quirks,
            dialects=(quirks,),
            binary=bridge.command,
            instruction_path=instruction_file,
            install_hint=install,
        )


def declared_agent(
    id: str,
    *,
    command: str,
    flags: tuple[str, ...] = (),
    instruction_file: str = "AGENTS.md",
    install: str = "",
    asks: bool = False,
) -> DeclaredRuntime:
    """A runtime for an agent of which only the command is known."""
    bridge = Bridge(command=command, asks=asks)
    known = msgspec.structs.replace(PLAIN, flags=flags)
    return DeclaredRuntime(id, bridge, known, instruction_file, install)


__all__ = ["AcpAdapter", "Bridge", "BridgeRuntime", "ClaudeAcp", "CodexAcp", "declared_agent"]
