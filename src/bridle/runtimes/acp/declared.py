"""Agents that speak the protocol and have no adapter of their own: bridges, and declared ones.

A bridge is a program of a third party that starts a product and speaks the protocol for it. It is a
row of data here; the product's adapter knows its files, tools, hooks and routing.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused, WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.core.results import TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, OverAcp
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.acp.product import AcpCommand, AcpOptions
from bridle.runtimes.acp.quirks import PLAIN, AcpQuirks, features_over_acp
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
from bridle.runtimes.planner import Environment, Launch, account_folder
from bridle.runtimes.product import (
    Credentials,
    Product,
    RoutingFacts,
    Service,
    ServicePieces,
    ToolPieces,
)
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.routing import NO_PROXY, PROXIES
from bridle.turns.guard_contract import GuardHook

if TYPE_CHECKING:
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.product import ToolTable
    from bridle.sandbox import SandboxNeeds


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """A program that speaks the protocol for a product, or an agent declared in a configuration."""

    product: str = ""
    """The runtime of the product behind it; empty for an agent of which nothing else is known."""
    guard_changes: dict[str, Any] = {}
    """Fields of the product's `GuardMechanism` that differ behind the bridge."""
    asks: bool = False
    """Without a product: whether it asks before every call that changes anything."""


def _finder(*packages: str, native: str = "") -> Callable[[str], Installation | None]:
    """Finds a bridge of one of the npm packages (names that begin with one count too): the native
    program where a launcher starts it, which is at `native` below `node_modules`."""

    def find(name: str) -> Installation | None:
        found = find_executable(name)
        if found is None:
            return None
        binary = (native_program(found, native) if native else None) or found
        places = ((place, package) for package in packages for place in (binary, found))
        version = next(filter(None, (package_version(*each) for each in places)), None)
        if version is None:
            version = remembered_version(binary, lambda: ask_version((binary,)))
        return Installation(binary=binary, version=version)

    return find


def _find_declared(name: str) -> Installation | None:
    """A declared agent; its version stays unknown."""
    found = find_executable(name)
    return Installation(binary=found, version=None) if found else None


_PRODUCT = "BRIDLE_PRODUCT"
_ARGUMENTS = "BRIDLE_PRODUCT_ARGUMENTS"
_SCRIPT = f'#!/bin/sh\neval "exec \\"\\${_PRODUCT}\\" \\"\\$@\\" ${_ARGUMENTS}"\n'
"""What a bridge starts that passes no arguments on; they are in a variable, quoted for a shell."""


def _folded(plan: AcpPlan) -> AcpPlan:
    """`plan` with the arguments where the script finds them, if the bridge passes none on."""
    if not plan.quirks.program_variable:
        return plan
    import shlex

    spec, size = plan.spec, len(plan.installation.command)
    words = spec.argv[size:]
    env = {**spec.env, _ARGUMENTS: shlex.join(words)}
    if name := plan.quirks.features_variable:
        env[name] = _with_features(env.get(name) or "{}", words)
    if name := plan.quirks.provider_variable:
        for word in words:
            if word.startswith("model_provider="):
                env[name] = word.partition("=")[2].strip('"')
    spec = msgspec.structs.replace(spec, argv=spec.argv[:size], env=env)
    return msgspec.structs.replace(plan, spec=spec)


def _with_features(settings: str, words: Sequence[str]) -> str:
    """`settings`, a JSON object, with the features that `-c` switches among `words`."""
    import tomllib

    try:
        known = structs.decode(settings, dict[str, Any])
        features = dict(known.get("features", {}))
    except (msgspec.MsgspecError, TypeError, ValueError):
        raise WrongUse("the settings of the bridge are not a JSON object") from None
    for flag, word in pairwise(words):
        if flag == "-c" and word.startswith("features."):
            features |= tomllib.loads(word)["features"]
    return msgspec.json.encode({**known, "features": features}).decode()


def _unfolded(plan: AcpPlan) -> AcpPlan:
    """The reverse of `_folded`."""
    if not plan.quirks.program_variable:
        return plan
    import shlex

    argv = (*plan.spec.argv, *shlex.split(plan.spec.env[_ARGUMENTS]))
    return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, argv=argv))


class BridgeRuntime(OverAcp):
    """A bridge as a runtime."""

    bridge: ClassVar[Bridge]

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

    def environment(self, launch: Launch) -> Environment:
        """The product's variables, led to the model service; a scripted model gets a home that
        contains nothing of the user's."""
        options, env = launch.options, launch.env
        to, moved = self._target(launch)
        way = self._way(to)
        child = {name: value for name, value in env.items() if name not in way.drop}
        routing = {**moved, **way.env}
        if options.model and launch.dialect.model_variable is not None:
            routing[launch.dialect.model_variable] = options.model
        routing |= self._tool_pieces(launch).env
        if launch.dialect.program_variable:
            routing |= self._script(launch)
        server = options.model_server
        keys = (server.api_key if server else "", to.key)
        return Environment(child, tuple(key for key in dict.fromkeys(keys) if key), routing)

    def command(self, launch: Launch, env: Mapping[str, str]) -> AcpCommand:
        """The arguments that lead to the model service and switch tools."""
        options = launch.options
        to, _ = self._target(launch)
        settings: dict[str, Any] = {}
        provider = options.provider
        if provider is not None and provider.base_url and self.bridge.product:
            settings = self._product().isolating_settings(env, launch.cwd, provider.auth_token_env)
        return AcpCommand(
            words=(*self._way(to).flags, *self._tool_pieces(launch).flags),
            settings=settings,
            model_chosen=options.model_server is not None,
        )

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """Variables that route the product to `provider`; a run adds the arguments that it needs
        as well."""
        if "provider" not in self.quirks.options:
            return {}
        to = Service(
            url=provider.base_url,
            key=provider_key(provider, env, self.id),
            model=model,
            max_retries=AcpOptions().max_retries,
        )
        return self._way(to).env

    def _way(self, to: Service) -> ServicePieces:
        """What leads the product to the service `to`; a private home gets no proxy."""
        found = self._product().service_pieces(to) if self.bridge.product else ServicePieces()
        if to.home is None:
            return found
        return msgspec.structs.replace(
            found, env={**NO_PROXY, **found.env}, drop=(*PROXIES, *found.drop)
        )

    def _target(self, launch: Launch) -> tuple[Service, dict[str, str]]:
        """The service to use, and the variable that moves the product's home."""
        options, own = launch.options, launch.own
        around = {**launch.env, **options.env}
        server, provider = options.model_server, options.provider
        given = options.account_dir if "account_dir" in launch.dialect.options else None
        account = account_folder(given) if given is not None else None
        variable = self.product.home_variable
        moved = {variable: account} if account is not None and variable else {}
        home = (account or launch.folder()) if server else None
        to = Service(
            url=provider.base_url if provider else None,
            key=provider_key(provider, around, self.id) if provider else None,
            model=options.model,
            max_retries=own.max_retries,
            home=home,
            cwd=launch.cwd,
            account=self.product.home_in({**launch.env, **moved}) if variable and not home else "",
            env={**around, **moved},
        )
        if server is not None:
            url = server.url.rstrip("/")
            to = msgspec.structs.replace(to, url=url, api=f"{url}/v1", key=server.api_key)
        return to, moved

    def _tool_pieces(self, launch: Launch) -> ToolPieces:
        """What switches tools behind the bridge."""
        options = launch.options
        if not (options.allowed_tools or options.denied_tools):
            return ToolPieces()
        around = {} if options.model_server else {**launch.env, **options.env}
        folder = launch.folder() if options.model_server else ""
        return self._product().tool_pieces(options, folder, around)

    # -- a bridge that passes no arguments on ---------------------------------------------------

    def _script(self, launch: Launch) -> dict[str, str]:
        """The variables by which the bridge starts a script in place of the product."""
        row = launch.dialect
        path = launch.write("start", _SCRIPT)
        os.chmod(path, 0o700)
        around = {**launch.env, **launch.options.env}
        program = around.get(row.program_variable) or self._program(launch)
        return {row.program_variable: path, _PRODUCT: program, _ARGUMENTS: ""}

    def _program(self, launch: Launch) -> str:
        """The product that the bridge brings, or else the installed one."""
        product = self._product()
        if beside := native_program(launch.installation.binary, launch.dialect.program):
            product.use_binary(beside)
        return product.installation().binary

    def plan_acp(
        self, options: RunOptions, env: Mapping[str, str], session_id: str, *, live: bool
    ) -> AcpPlan:
        """As `AcpAdapter.plan_acp`; the arguments are where the product gets them."""
        return _folded(super().plan_acp(options, env, session_id, live=live))

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
            product = as_guarded(self._product())
            return _folded(
                guard_by_pieces(_unfolded(plan), hook, product, self.bridge.guard_changes)
            )
        if self.bridge.asks:
            return guard_by_asking(plan, hook)
        raise GuardRefused(
            f"{self.id} is not known to ask before every tool call",
            hint="if it does, declare it with `asks: true`; else confine it with --sandbox and "
            "pass --unguarded",
            runtime=self.id,
        )

    def product_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Those of the product."""
        if not self.bridge.product:
            return super().product_needs(options, spec)
        return self._product().sandbox_needs(options, spec)

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

    quirks = quirks.CLAUDE
    bridge = Bridge(product="claude")
    product = Product(
        id="claude-acp",
        binary="claude-agent-acp",
        find=_finder(
            "@agentclientprotocol/claude-agent-acp",
            "@zed-industries/claude-agent-acp",
            "@zed-industries/claude-code-acp",
        ),
        install_hint="npm install -g @agentclientprotocol/claude-agent-acp",
        dialects=(quirks,),
        features=features_over_acp(quirks, ".claude/CLAUDE.md"),
        instruction_path=".claude/CLAUDE.md",
        home_variable="CLAUDE_CONFIG_DIR",
        home=".claude",
        credentials=Credentials(
            variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            files=(".credentials.json",),
            otherwise="unknown",
        ),
        session_by_print=False,
        tells_version=False,
    )


class CodexAcp(BridgeRuntime):
    """Codex behind `codex-acp`."""

    history_variables = ("HOME", "CODEX_HOME")
    older_quirks = (quirks.CODEX_FLAGS, quirks.CODEX_SCRIPT, quirks.CODEX_REVIEWED)
    quirks = quirks.CODEX
    bridge = Bridge(product="codex", guard_changes={"matching": "id"})
    product = Product(
        id="codex-acp",
        binary="codex-acp",
        find=_finder(
            "@agentclientprotocol/codex-acp",
            "@zed-industries/codex-acp",
            native="@zed-industries/codex-acp-{platform}/bin/codex-acp",
        ),
        install_hint="npm install -g @agentclientprotocol/codex-acp",
        dialects=(*older_quirks, quirks),
        features=features_over_acp(quirks, "AGENTS.md"),
        instruction_path="AGENTS.md",
        home_variable="CODEX_HOME",
        home=".codex",
        credentials=Credentials(
            variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
            files=("auth.json",),
            otherwise="unknown",
        ),
        confines_itself=True,
        session_by_print=False,
        tells_version=False,
    )


class DeclaredRuntime(BridgeRuntime):
    """An agent that a configuration or a program declares: the plain protocol."""

    def __init__(self, product: Product, bridge: Bridge, quirks: AcpQuirks) -> None:
        super().__init__(AdapterSettings(binary=product.binary))
        self.adopt(product)
        vars(self).update(bridge=bridge, quirks=quirks)


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
    known = msgspec.structs.replace(PLAIN, flags=flags)
    product = Product(
        id=id,
        binary=command,
        find=_find_declared,
        install_hint=install,
        dialects=(known,),
        features=features_over_acp(known, instruction_file),
        instruction_path=instruction_file,
        credentials=Credentials(otherwise="unknown"),
        session_by_print=False,
        stability="experimental",
        tells_version=False,
    )
    return DeclaredRuntime(product, Bridge(asks=asks), known)


__all__ = ["AcpAdapter", "Bridge", "BridgeRuntime", "ClaudeAcp", "CodexAcp", "declared_agent"]
