"""Any agent that speaks the Agent Client Protocol, as a runtime."""

import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

from bridle.core.errors import GuardRefused, UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.files import new_private_dir, write_private
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import TranscriptSummary
from bridle.process.spec import ProcessSpec, StopStep
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.plan import (
    AcpPlan,
    SessionPlan,
    mcp_list,
    prompt_blocks,
    session_meta,
    with_settings,
)
from bridle.runtimes.acp.routing import Route, Target, route
from bridle.runtimes.acp.stream import AcpNormalizer
from bridle.runtimes.contract import Adapter, Guarded, History, Live
from bridle.runtimes.dialects import Dialect, choose_dialect
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
from bridle.runtimes.planner import agent_env, check_options, native_options, working_dir
from bridle.runtimes.product import RoutingFacts
from bridle.runtimes.provider_options import read_provider_options, refuse_fork
from bridle.runtimes.supporting import supporters
from bridle.turns.guard_contract import GuardHook
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.product import ToolTable
    from bridle.sandbox import SandboxNeeds

STOP = (
    # The group: an npm launcher would die alone and leave the agent behind.
    StopStep(signal=signal.SIGTERM, grace=3.0, to="group"),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)

EVERY_AGENT = frozenset({"model", "mcp_config", "provider_options", "resume"})
"""Options that the protocol itself carries."""

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`RunOptions.provider_options` of every runtime that speaks the protocol."""

    start_timeout: Seconds = 90.0
    """Seconds for each answer before the prompt (`initialize`, opening a session, a setting)."""
    silence_timeout: Seconds | None = None
    """Seconds without any progress while the model is to answer, in place of the agent's own row's;
    a running tool does not count. A live session, which has clocks of its own, has this one only
    when it is given."""
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    """How often a failing model call is tried again, where the agent can be told."""
    mode: str | None = None
    """A mode of the agent's own to set before the prompt."""
    fork: bool = False
    """With `resume`: go on in a copy of the session, under a new id, where the agent can."""


class AcpRuntime(Live, Guarded, History):
    """One agent that speaks the protocol; which one, its row of `agents` says."""

    agent: ClassVar[AcpAgent]
    session_by_print = False

    def __init_subclass__(cls) -> None:
        cls.dialects = (cls.agent,) if hasattr(cls, "agent") else ()

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[AcpAgent, bool, str]:
        """The agent's row, whether that version was ever run, and a warning if not."""
        if not self.agent.seen:
            return self.agent, False, ""
        return choose_dialect(self.id, (self.agent,), version)

    def features_of(self, dialect: Dialect) -> Features:
        """What the protocol and this agent can do."""
        agent = self.agent
        return Features(
            options=EVERY_AGENT | agent.options,
            streaming=True,
            thinking=True,
            exact_thinking=agent.exact_thinking,
            message_usage=False,
            reports_cost=agent.reports_cost,
            reports_model=agent.reports_model,
            retries=bool(agent.retry_notices),
            retry_cause=agent.retry_cause,
            limit_end=agent.limit_end,
            largest_input=agent.largest_input,
            resume=True,
            fork=agent.forks,
            follow_up=True,
            abort=True,
            compaction=bool(agent.compact_command),
            compact=bool(agent.compact_command),
            drives=("print", "rpc"),
            # One with modes for a sandbox asks only about what would leave it.
            asks=() if agent.sandbox_modes else ("print", "rpc"),
            instruction_file=self.instruction_path,
        )

    def tool_table(self) -> "ToolTable | None":
        """That of the product's own runtime, where there is one."""
        return self._family().tool_table() if self.agent.family else None

    def routing_facts(self) -> RoutingFacts:
        """Those of the product's own runtime, where there is one."""
        return self._family().routing_facts() if self.agent.family else super().routing_facts()

    def find(self) -> Installation | None:
        """The installed agent: the native program where npm's launcher stands in front of one."""
        agent = self.agent
        found = find_executable(self.settings.binary or self.binary)
        if found is None:
            return None
        binary = (native_program(found, agent.native) if agent.native else None) or found
        if not agent.package:
            return Installation(binary=binary, version=None)
        version = package_version(binary, agent.package) or package_version(found, agent.package)
        if version is None:
            version = remembered_version(binary, lambda: ask_version((binary,)))
        return Installation(binary=binary, version=version)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable or a login file is there. An agent may keep its login elsewhere
        (a keychain, a helper), so nothing found leaves it open."""
        agent = self.agent
        home = env.get("HOME") or os.path.expanduser("~")
        if any(env.get(name) for name in agent.keys):
            return "present"
        if any(os.path.exists(os.path.join(home, *name.split("/"))) for name in agent.logins):
            return "present"
        return "unknown"

    # -- spawning -------------------------------------------------------------------------------

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The command of the agent as a server on its stdin and stdout. Model, mode and permission
        are chosen by the protocol, a first prompt is sent by it."""
        import shlex

        for name in ("system_prompt", "append_system_prompt", "append_system_prompt_file"):
            if getattr(options, name) is not None:
                raise UnsupportedOption(self.id, name, supporters(name, self.id))
        return shlex.join([self.settings.binary or self.binary, *self.agent.flags])

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """There is none: the answer comes by the protocol, not as text on stdout."""
        raise WrongUse(
            f"runtime {self.id} answers by the protocol, not with plain text",
            hint="run it with `bridle run`",
        )

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the agent to `model`'s provider; flags that it would need as well
        are added by a run."""
        if model.provider is None or "provider" not in self.agent.options:
            return dict(model.env)
        to = Target(
            url=model.provider.base_url,
            key=provider_key(model.provider, os.environ, self.id),
            model=model.model,
            max_retries=AcpOptions().max_retries,
            ask=False,
        )
        return {**route(self.agent.routing, to).env, **model.env}

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything and write down the process and the session of one prompt."""
        return self._plan(options, env, session_id, live=False)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything and write down the process and the session of a conversation."""
        from bridle.runtimes.acp.live_plan import with_facts

        raw = (*self.agent.live_flags, *options.raw_args)
        options = msgspec.structs.replace(options, prompt="", images=(), raw_args=raw)
        plan = self._plan(options, env, session_id, live=True)
        return with_facts(plan, runtime=self.id, env=env)

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The machine that plays a conversation."""
        from bridle.runtimes.acp.live_plan import wire_of

        return wire_of(facts, self.agent, recorder)

    def _plan(
        self, options: RunOptions, env: Mapping[str, str], session_id: str, *, live: bool
    ) -> AcpPlan:
        found = self.installation()
        agent, _, warning = self.dialect(found.version)
        ignored = check_options(self, options, self.features_of(agent))
        options = native_options(self, options)
        own = read_provider_options(self.id, options.provider_options, AcpOptions)
        if agent.seen and not agent.forks:
            refuse_fork(self.id, options, own.fork, "it offers no copies of sessions")
        cwd = working_dir(options)
        session = self._session(options, own, cwd, live)
        mode = self._mode(options, own) or ""
        self._check_sandbox(found, mode, env)
        around = {**env, **options.env}
        key = provider_key(options.provider, around, self.id) if options.provider else None
        account_dir = self._account_dir(options)
        account = self._account(account_dir)
        server = options.model_server
        scratch = new_private_dir(env, self.id) if server or options.denied_tools else None
        # With a scripted model an account folder takes the place of the throw-away home.
        folder = (account_dir or scratch) if server else None
        home = "" if folder else self._config_home({**env, **account})
        to = self._target(options, own, key, cwd, home, {**around, **account})
        way = route(agent.routing, msgspec.structs.replace(to, home=folder, scratch=scratch or ""))
        way = self._without_tools(way, options, scratch or "", {} if server else around)
        self._write_files(way, folder or "", scratch or "")
        model = options.model if server is None else None
        flags = [*agent.mode_flags.get(mode, ())]
        flags += [word.format(model) for word in agent.model_flags] if model else []
        whole = self._environment(options, env, way, session_id, cwd)
        whole |= {name: value for name, value in account.items() if name not in way.env}
        if options.resume is not None and agent.resume_check:
            from bridle.runtimes.acp.resuming import CHECKS

            CHECKS[agent.resume_check](whole, options.resume)
        if options.provider is not None and options.provider.base_url and agent.family:
            key_variable = options.provider.auth_token_env
            session = with_settings(
                session, self._family().isolating_settings(whole, cwd, key_variable)
            )
        first = acp.AcpClient().request("initialize", acp.initialize_params())
        return AcpPlan(
            spec=ProcessSpec(
                argv=(*found.command, *agent.flags, *way.flags, *flags, *options.raw_args),
                env=whole,
                cwd=cwd,
                stdin=None if live else first,
                keep_stdin=True,
                # Nobody reads along while a conversation's process stands alone.
                watch_stderr=agent.failure_log and not live,
                stop=STOP,
            ),
            session_id=session_id,
            installation=found,
            dialect=agent,
            secrets=tuple(each for each in (server.api_key if server else "", key) if each),
            ignored_options=ignored,
            warnings=(*((warning,) if warning else ()), *self._cautions(options)),
            private_dirs=(scratch,) if scratch else (),
            native_session_id=None if own.fork else options.resume,
            session=session,
            agent=agent,
        )

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """What the product needs without the protocol. A home that was made for a session with a
        scripted model is nobody's, and open as a whole."""
        from bridle.sandbox import SandboxNeeds

        if not self.agent.family:
            return super().sandbox_needs(options, spec)
        needs = self._family().sandbox_needs(options, spec)
        account = self._account_dir(options) if options.model_server is not None else None
        if account is None:
            return needs
        return SandboxNeeds(writable=(account,), scratch_variables=needs.scratch_variables)

    @property
    def can_be_guarded(self) -> bool:
        """Whether its row names a way."""
        return bool(self.agent.guard)

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """The product's own hooks where it has some; see `guarding`."""
        from bridle.runtimes.acp.hooks import guard_plan

        assert isinstance(plan, AcpPlan)
        return guard_plan(plan, hook, runtime=self.id)

    def unasked(self, options: RunOptions) -> str:
        """Its requests are refused; of one that asks only about leaving its sandbox the plan says
        more."""
        return "" if self.agent.sandbox_modes else super().unasked(options)

    def _without_tools(
        self, way: Route, options: RunOptions, scratch: str, env: Mapping[str, str]
    ) -> Route:
        """`way` with what switches tools in the product's own manner."""
        if not (options.allowed_tools or options.denied_tools):
            return way
        pieces = self._family().tool_pieces(options, scratch, env)
        return msgspec.structs.replace(
            way,
            flags=(*way.flags, *pieces.flags),
            env={**way.env, **pieces.env},
            scratch_files={**way.scratch_files, **pieces.files},
        )

    def _write_files(self, way: Route, home: str, scratch: str) -> None:
        """Write what the way needs; a file of an account that is kept stays as it is."""
        for name, content in way.files.items():
            if not os.path.exists(os.path.join(home, name)):
                write_private(home, name, content)
        for name, content in way.scratch_files.items():
            write_private(scratch, name, content)

    def _check_sandbox(self, found: Installation, mode: str, env: Mapping[str, str]) -> None:
        """Refuse to start an agent whose sandbox cannot work: its commands would all fail, and the
        run would still end well."""
        agent = self.agent
        if not agent.sandbox_program or mode == agent.open_mode or sys.platform != "linux":
            return
        beside = os.path.join(os.path.dirname(found.binary), "codex-resources")
        path = os.pathsep.join([env.get("PATH", os.defpath), beside])
        if find_executable(agent.sandbox_program, path) is None:
            raise GuardRefused(
                f"{self.id}: its sandbox needs `{agent.sandbox_program}`, which was not found",
                hint="install bubblewrap, or run without a sandbox (--sandbox off)",
            )

    def _cautions(self, options: RunOptions) -> tuple[str, ...]:
        if options.permission_mode == "ask" and self.agent.sandbox_modes:
            return (f"{self.id}: nobody is asked before it changes files in its worktree",)
        return ()

    def _mode(self, options: RunOptions, own: AcpOptions) -> str | None:
        """The mode that the agent is to work in; None leaves it in its own."""
        agent = self.agent
        if options.sandbox is not None and agent.sandbox_modes:
            if options.sandbox not in agent.sandbox_modes:
                raise UnsupportedOption(
                    self.id,
                    f"sandbox={options.sandbox}",
                    [],
                    reason="its sandbox opens the worktree or nothing",
                )
            return agent.sandbox_modes[options.sandbox]
        return own.mode or agent.mode

    def _session(self, options: RunOptions, own: AcpOptions, cwd: str, live: bool) -> SessionPlan:
        agent = self.agent
        mode = self._mode(options, own)
        silence = own.silence_timeout
        if silence is None and not live:
            silence = agent.silence
        by_start = bool(agent.model_flags or agent.model_variable or options.model_server)
        return SessionPlan(
            cwd=cwd,
            prompt=prompt_blocks(options),
            mcp_servers=mcp_list(options.mcp_config) if options.mcp_config else [],
            meta=session_meta(options) if agent.system_prompt_meta else {},
            resume=options.resume,
            fork=own.fork and options.resume is not None,
            mode=None if mode in agent.mode_flags else mode,
            model=None if by_start else options.model,
            start_timeout=own.start_timeout,
            silence_timeout=silence,
        )

    def _target(
        self,
        options: RunOptions,
        own: AcpOptions,
        key: str | None,
        cwd: str,
        account: str,
        around: dict[str, str],
    ) -> Target:
        server, provider = options.model_server, options.provider
        to = Target(
            url=provider.base_url if provider else None,
            key=key,
            model=options.model,
            max_retries=own.max_retries,
            cwd=cwd,
            account=account,
            ask=options.permission_mode == "ask",
            env=around,
            allowed=options.allowed_tools,
            denied=options.denied_tools,
        )
        if server is None:
            return to
        url = server.url.rstrip("/")
        return msgspec.structs.replace(to, url=url, api=f"{url}/v1", key=server.api_key)

    def _config_home(self, env: Mapping[str, str]) -> str:
        """The configuration home that the agent uses in `env`, where that is known."""
        variable, agent = self.agent.home_variable, self.agent
        if variable is None or not agent.family:
            return ""
        home = env.get("HOME") or os.path.expanduser("~")
        return env.get(variable) or os.path.join(home, f".{agent.family}")

    def _account_dir(self, options: RunOptions) -> str | None:
        """The folder of another account of the user's; `WrongUse` when it is not there."""
        if options.account_dir is None or "account_dir" not in self.agent.options:
            return None
        folder = os.path.abspath(os.path.expanduser(options.account_dir))
        if not os.path.isdir(folder):
            raise WrongUse(f"no such account folder: {folder}", hint="log in there first")
        return folder

    def _account(self, folder: str | None) -> dict[str, str]:
        """The variables that choose the account in `folder`."""
        if folder is None:
            return {}
        agent = self.agent
        parts = {name: os.path.join(folder, part) for name, part in agent.home_folders.items()}
        return {**parts, **({agent.home_variable: folder} if agent.home_variable else {})}

    def _environment(
        self, options: RunOptions, env: Mapping[str, str], way: Route, session_id: str, cwd: str
    ) -> dict[str, str]:
        """The agent's environment. Routing wins over the caller's own variables: it was asked
        for."""
        agent = self.agent
        base = {name: value for name, value in env.items() if name not in way.drop}
        whole = {**agent_env({**base, **agent.env}, options, session_id, cwd), **way.env}
        if options.model and agent.model_variable is not None:
            whole[agent.model_variable] = options.model
        return whole

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The machine that plays this plan's session."""
        assert isinstance(plan, AcpPlan)
        history = None
        if plan.agent.history:
            from bridle.runtimes.acp.history import read_history

            history = partial(read_history, self._family(), plan.spec.env)
        log = self._family().retry_log() if plan.agent.failure_log else None
        return AcpNormalizer(recorder, plan.agent, plan.session, history=history, log=log)

    # -- worktree -------------------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Those of the product's own runtime, where there is one."""
        from bridle.runtimes.instructions import Place

        if self.agent.family:
            return self._family().instruction_places(worktree)
        return (Place(self.instruction_path),)

    def _family(self) -> Adapter:
        """The runtime of the same product without the protocol."""
        from bridle.runtimes.registry import get_adapter

        return get_adapter(self.agent.family)

    def requires_beacon_verification(self) -> bool:
        """No: a prompt is a call that is answered, and cannot be swallowed."""
        return False

    # -- history --------------------------------------------------------------------------------

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a transcript of this agent says was used; the protocol standardises none, so the
        product's own reader is used, where there is one."""
        own = self._own_history()
        return own.parse_transcript(path) if own is not None else None

    def transcript_dir(self, project: str) -> str | None:
        """The folder where the agent keeps its transcripts, where that is known."""
        own = self._own_history()
        return own.transcript_dir(project) if own is not None else None

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The transcript of a session, where the product's own runtime knows it."""
        own = self._own_history()
        return own.find_transcript(session_id, env) if own is not None else None

    def _own_history(self) -> History | None:
        """The product's own runtime, if it can read its transcripts."""
        own = self._family() if self.agent.family else None
        return own if isinstance(own, History) else None
