"""Cline as a runtime: how it is found, asked, started and stopped."""

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from bridle.core.errors import NotAuthenticated, UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.files import make_private_dir, new_private_dir, write_private
from bridle.core.ids import new_session_id
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessSpec, StopStep
from bridle.runtimes import routing
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.cline import settings
from bridle.runtimes.cline.dialects import DIALECTS, TOOLS, ClineDialect
from bridle.runtimes.cline.environment import base_env, image_words
from bridle.runtimes.cline.errors import LOGIN_HINT
from bridle.runtimes.cline.provider_options import ClineOptions, read_options
from bridle.runtimes.cline.run_log import find_session, read_log
from bridle.runtimes.cline.transcript import (
    last_text,
    noted_usage,
    prompt_history,
    sessions_dir,
    settings_file,
    summarize,
)
from bridle.runtimes.contract import Interactive
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.install import (
    Installation,
    find_native_cli,
)
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import (
    agent_env,
    check_options,
    native_options,
    working_dir,
)
from bridle.runtimes.product import COMMON_OPTIONS
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.acp.product import AcpOptions, AcpStart
    from bridle.runtimes.history import Spent
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds

_NATIVE = "@cline/cli-{platform}/bin/cline"
_PACKAGES = ("@cline/cli", "cline")
_LOG = "cline.log"
_RULES_VARIABLE = "OneDrive"
_RULES_FILE = os.path.join("Documents", "Cline", "Rules", "bridle.md")
"""Cline looks for general rules below several document folders; this variable names one of them,
and so lets a run have rules that stand in no folder of the user's or the project's."""
LONGEST_ARGUMENT = 120_000
"""Bytes of one argument; Linux allows 131072."""
_KEYS = ("CLINE_API_KEY",)
_HEADLESS_ONLY = (
    "max_turns",
    "images",
    "model_server",
    "append_system_prompt",
    "append_system_prompt_file",
    "provider",
    "settings",
    "denied_tools",
    "mcp_config",
    "budget_usd",
)
_HONOURED = COMMON_OPTIONS | {
    "system_prompt",
    "max_turns",
    "denied_tools",
    "settings",
    "mcp_config",
    "images",
    "budget_usd",
}

STOP = (
    StopStep(signal=signal.SIGTERM, grace=2.5),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""SIGTERM ends the run with a closing line; SIGINT ends the process without a word."""


class ClineRuntime(AcpAdapter, Interactive):
    """The Cline CLI: runs in its JSON mode, conversations over ACP."""

    id: ClassVar[str] = "cline"
    binary: ClassVar[str] = "cline"
    instruction_path: ClassVar[str] = "AGENTS.md"
    dialects: ClassVar[tuple[Dialect, ...]] = DIALECTS
    install_hint: ClassVar[str] = "npm install -g cline"
    key_variable: ClassVar[str] = _KEYS[0]
    routing = routing.CLINE
    tools = TOOLS
    quirks = quirks.CLINE
    history_variables = ("HOME", "CLINE_DIR", "CLINE_DATA_DIR", "CLINE_SESSION_DATA_DIR")

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return self._dialect(version)

    def _dialect(self, version: str | None) -> tuple[ClineDialect, bool, str]:
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What Cline can do; the same in every version so far."""
        if dialect is self.quirks:
            return self.features_over_acp()
        return Features(
            options=_HONOURED,
            interactive=True,
            streaming=True,
            thinking=True,
            message_usage=True,
            reports_cost=True,
            abort=True,
            compaction=True,
            drives=("print", "rpc"),
            asks=("rpc",),
            instruction_file=self.instruction_path,
            over={"rpc": self.features_over_acp()},
        )

    def find(self) -> Installation | None:
        """The installed CLI: the native program, not npm's launcher of Node in front of it."""
        return find_native_cli(self.settings.binary or self.binary, _NATIVE, *_PACKAGES)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a provider was set up or a key is given; providers may also read keys of their
        own variables, which leaves it open."""
        if any(env.get(name) for name in _KEYS):
            return "present"
        if os.path.exists(settings_file(env, *settings.PROVIDERS)):
            return "present"
        other = any(name.endswith("_API_KEY") and value for name, value in env.items())
        return "unknown" if other else "missing"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then make the private files that the run needs."""
        found = self.installation()
        dialect, _, warning = self._dialect(found.version)
        options, ignored = self._checked(options, dialect)
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        added = added_instructions(options)
        flags = _flags(options, own)
        self._check_login(options, env, dialect)
        folder = new_private_dir(env, self.id)
        try:
            base, kept_private, key = self._environment(options, own, env, folder, dialect)
            if added is not None:
                base[_RULES_VARIABLE] = folder
                write_private(folder, _RULES_FILE, f"{added.rstrip()}\n")
            images = image_words(options.images, folder)
        except BaseException:
            remove_folders((folder,))
            raise
        warnings = [warning] if warning else []
        if not kept_private and (options.model or own.provider):
            warnings.append(
                "cline: keeps the model of this run as its next default, because its login renews"
                " itself in the same file"
            )
        return RunPlan(
            spec=ProcessSpec(
                argv=(*found.command, "--json", *flags, *options.raw_args, dialect.bare_prompt),
                env=agent_env(base, options, session_id, cwd),
                cwd=cwd,
                stdin=f"{images}{options.prompt}".encode(errors="surrogateescape"),
                stop=STOP,
            ),
            session_id=session_id,
            installation=found,
            dialect=dialect,
            secrets=(key,) if key else (),
            ignored_options=ignored,
            warnings=tuple(warnings),
            private_dirs=(folder,),
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """A plugin in a home folder of the run's own."""
        from bridle.runtimes.cline.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """A plugin in a worktree runs a hook and asks for a clear answer."""
        from bridle.runtimes.asking_js import BY_PROCESS

        return BY_PROCESS

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """As a plugin of the worktree's."""
        from bridle.runtimes.cline.hooks import deploy_plugin

        return deploy_plugin(worktree, command, mark)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        from bridle.runtimes.cline.confinement import sandbox_needs

        return sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """A headless Cline asks nobody."""
        return "its tools are refused"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.cline.stream import Afterwards, ClineNormalizer

        log_path = os.path.join(plan.private_dirs[0], _LOG)
        kept_in = sessions_dir(plan.spec.env)

        def after_run() -> Afterwards:
            log = read_log(log_path)
            session = find_session(kept_in, log.pid) if log.pid else None
            if session is None:
                return Afterwards(failed_call=log.failed_call)
            path = os.path.join(kept_in, session.session_id)
            return Afterwards(
                session_id=session.session_id,
                failed_call=log.failed_call,
                completed=session.status == "completed",
                text=last_text(path),
                usage=noted_usage(path),
            )

        return ClineNormalizer(recorder, after_run=after_run)

    def _checked(self, options: RunOptions, dialect: Dialect) -> tuple[RunOptions, tuple[str, ...]]:
        """`options` in Cline's own words, and the names of those that are ignored."""
        ignored = check_options(self, options, self.features_of(dialect))
        size = len((options.system_prompt or "").encode(errors="replace"))
        if size > LONGEST_ARGUMENT:
            raise WrongUse(
                "the system prompt is too long for cline, which takes it on its command line",
                hint="give it as an added prompt (append_system_prompt), which goes by file",
            )
        return native_options(self, options), ignored

    def _check_login(
        self, options: RunOptions, env: Mapping[str, str], dialect: ClineDialect
    ) -> None:
        """Without any provider Cline asks a service of its makers for a minute before it fails."""
        if options.model_server is not None or options.provider is not None:
            return
        if self.credentials({**base_env(options, env, dialect), **options.env}) == "missing":
            raise NotAuthenticated("cline has no provider set up", hint=LOGIN_HINT, runtime=self.id)

    def _environment(
        self,
        options: RunOptions,
        own: ClineOptions,
        env: Mapping[str, str],
        folder: str,
        dialect: ClineDialect,
    ) -> tuple[dict[str, str], bool, str | None]:
        """The environment, whether the user's own settings stay untouched, and a key in them."""
        private = True
        base, key = self._routed(options, own, env, folder, dialect)
        if options.model_server is None and options.provider is None:
            copied, private = settings.copy_user_settings(folder, base)
            base |= copied
        base |= {
            "CLINE_NO_AUTO_UPDATE": "1",
            "CLINE_LOG_PATH": os.path.join(folder, _LOG),
            "CLINE_LOG_LEVEL": "info",
        }
        base.pop("CLINE_LOG_ENABLED", None)
        return base, private, key

    def _routed(
        self,
        options: RunOptions,
        own: ClineOptions,
        env: Mapping[str, str],
        folder: str,
        dialect: ClineDialect,
        *,
        over_acp: bool = False,
    ) -> tuple[dict[str, str], str | None]:
        """The variables of the account, the model service, the settings and the MCP servers; and a
        key that is in the files they name."""
        base = base_env(options, env, dialect)
        key: str | None = None
        if options.model_server is not None:
            kept = base["CLINE_DIR"] if options.account_dir is not None else None
            home = kept or os.path.join(folder, "home")
            base = {
                name: value
                for name, value in base.items()
                if not name.startswith("CLINE_") and name not in routing.PROXIES
            } | {
                dialect.local_backend[0]: dialect.local_backend[1],
                "CLINE_DIR": home,
                "CLINE_DATA_DIR": os.path.join(home, "data"),
            }
            server, key = options.model_server, options.model_server.api_key
            if over_acp:
                api = settings.ACP_API
                base |= settings.write_server_settings(folder, server, options.model, api)
                base |= settings.acp_env(api, key, options.model)
            else:
                base |= settings.write_server_settings(folder, server, options.model)
        elif options.provider is not None:
            routed, key = settings.write_provider_settings(
                folder, options.provider, options.model, own, {**env, **options.env}
            )
            base |= routed
            if over_acp:
                name = own.api if options.provider.base_url else own.provider or own.api
                base |= settings.acp_env(name, key, options.model)
        if options.settings is not None or options.denied_tools:
            base |= settings.write_global_settings(folder, options, base)
        if options.mcp_config is not None:
            base |= settings.write_mcp_settings(folder, options.mcp_config, base)
        return base, key

    # -- over ACP -------------------------------------------------------------------------------

    def acp_start(
        self, options: RunOptions, own: "AcpOptions", env: Mapping[str, str], cwd: str
    ) -> "AcpStart":
        """`cline --acp`, with the environment of a run. Cline ignores the MCP servers of the
        protocol, so these go by file."""
        from bridle.runtimes.acp.product import AcpStart

        found = self.find()
        dialect, _, _ = self._dialect(found.version if found else None)
        added = added_instructions(options)
        given = (options.model_server, options.provider, options.settings, options.mcp_config)
        needs_folder = bool(any(given) or options.denied_tools or added)
        folder = new_private_dir(env, self.id) if needs_folder else ""
        try:
            child, key = self._routed(options, ClineOptions(), env, folder, dialect, over_acp=True)
            if options.account_dir is not None:
                child["CLINE_DATA_DIR"] = os.path.join(child["CLINE_DIR"], "data")
            if added is not None:
                child[_RULES_VARIABLE] = folder
                write_private(folder, _RULES_FILE, f"{added.rstrip()}\n")
        except BaseException:
            remove_folders((folder,) if folder else ())
            raise
        return AcpStart(
            env=child,
            secrets=(key,) if key else (),
            private_dirs=(folder,) if folder else (),
            model_chosen=options.model_server is not None or options.provider is not None,
            mcp_chosen=True,
        )

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """Cline's own terminal interface; the prompt is its first message."""
        found = self.installation()
        dialect = self._dialect(found.version)[0]
        options, _ = self._checked(options, dialect)
        for name in _HEADLESS_ONLY:
            if getattr(options, name) and not options.ignore_unsupported:
                raise UnsupportedOption(
                    self.id, name, [], reason="only in a headless run", ignorable=True
                )
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        argv = [*found.command, "--tui", *_flags(options, own), *options.raw_args]
        argv += ["--", options.prompt] if options.prompt.strip() else []
        base = base_env(options, env, dialect) | {"CLINE_NO_AUTO_UPDATE": "1"}
        child = agent_env(base, options, new_session_id(), cwd)
        spec = ProcessSpec(argv=tuple(argv), env=child, cwd=cwd, stop=STOP)
        return interactive_plan(spec, found, dialect)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session in a terminal.

        The terminal's environment must hold what `build_env` gives: without it Cline starts a
        daemon that outlives the session.
        """
        import shlex

        for name in ("append_system_prompt", "append_system_prompt_file"):
            if getattr(options, name):
                raise UnsupportedOption(
                    self.id, name, [], reason="in a terminal; deploy an instruction file instead"
                )
        words = [self.settings.binary or self.binary, "--tui", "--model", options.model]
        words += ["--auto-approve", "true" if options.permission_mode == "bypass" else "false"]
        words += [f"--system={options.system_prompt}"] if options.system_prompt else []
        words += ["--", options.initial_prompt] if options.initial_prompt else []
        return shlex.join(words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is on stdout.

        A prompt of one word gets a space after it: Cline takes it for a command otherwise.
        """
        chosen = ["--model", model] if model else []
        words = prompt if any(char.isspace() for char in prompt) else f"{prompt} "
        return [*self.command_words(), *chosen, "--", words]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that keep the work in the process that is started, and those of the model.

        Cline takes an address and a key from a settings file only, so a provider of the caller's
        own makes one (it holds the key; private, one for each provider).
        """
        variable, value = self._dialect(None)[0].local_backend
        routed = {variable: value, "CLINE_NO_AUTO_UPDATE": "1", **model.env}
        if model.provider is None:
            return routed
        from hashlib import sha256

        from bridle.core.files import state_dir

        env = {**os.environ, **model.env}
        wanted = f"{model.provider.base_url} {model.provider.auth_token_env} {model.model}"
        name = sha256(wanted.encode()).hexdigest()[:16]
        folder = os.path.join(state_dir(env), self.id, name)
        make_private_dir(folder)
        paths, _ = settings.write_provider_settings(
            folder, model.provider, model.model, ClineOptions(), env
        )
        return {**paths, **routed}

    # -- worktree, terminal, history ------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Cline reads `AGENTS.md` and every `.md` among the rules."""
        from bridle.runtimes.instructions import Place

        return (
            Place(self.instruction_path),
            Place(os.path.join(".clinerules", "bridle.md")),
        )

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.cline.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """A promotion may cover the prompt and swallow what is typed, so it is looked for."""
        return True

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a conversation used; None when it is missing or unreadable."""
        return summarize(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each prompt of a conversation used."""
        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """Cline keeps the conversations of all projects together, a folder each."""
        return sessions_dir(os.environ)

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The folder of a conversation."""
        return os.path.join(sessions_dir(env), session_id)


class ClineAcp(AcpAlias, ClineRuntime):
    """Cline over ACP in runs too: the runtime `cline-acp`."""

    id: ClassVar[str] = "cline-acp"
    dialects: ClassVar[tuple[Dialect, ...]] = (quirks.CLINE,)


def _flags(options: RunOptions, own: ClineOptions) -> list[str]:
    flags = ["--auto-approve", "true" if options.permission_mode == "bypass" else "false"]
    named = options.provider is not None or options.model_server is not None
    flags += [f"--provider={own.provider}"] if own.provider and not named else []
    flags += [f"--model={options.model}"] if options.model and not named else []
    flags += [f"--system={options.system_prompt}"] if options.system_prompt else []
    flags += [f"--thinking={own.thinking}"] if own.thinking else []
    flags += [f"--compaction={own.compaction}"] if own.compaction else []
    return [*flags, "--plan"] if own.plan else flags
