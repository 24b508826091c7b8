"""Plans the processes of a CLI: checks, private folder, environment, command.

`CliAdapter` is the base of an adapter to a command line agent. The adapter states its facts
(`Product`) and says, for each mode, the environment and the command; the order of the checks, the
private folder with its clean-up and the plan itself are here, once. Spawn, print and interactive
commands come from the same two methods.
"""

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.files import new_private_dir, write_private
from bridle.core.ids import new_session_id
from bridle.core.options import (
    Provider,
    ResolvedModel,
    RunOptions,
    SpawnOptions,
    options_in_use,
)
from bridle.process.private_folders import remove_folders
from bridle.process.spec import SESSION_MARK, ProcessSpec, StopStep
from bridle.runtimes.alternatives import supporters
from bridle.runtimes.contract import Adapter, derived
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.runtimes.options import read_provider_options
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.product import Login, Mode, Product


def check_options(runtime: Adapter, options: RunOptions, features: Features) -> tuple[str, ...]:
    """Names of the options that `runtime` does not support and the caller allows to be ignored.

    Raises `UnsupportedOption` for the first one if the caller does not, and `WrongUse` for a tool
    that the agent does not have.
    """
    missing = {name: "" for name in options_in_use(options) if name not in features.options}
    if options.allowed_tools or options.denied_tools:
        from bridle.runtimes.tool_names import unsupported_tools

        missing = {**missing, **unsupported_tools(runtime, options, features)}
    if missing and not options.ignore_unsupported:
        name, reason = next(iter(missing.items()))
        able = supporters(name, runtime.id)
        raise UnsupportedOption(runtime.id, name, able, reason=reason, ignorable=True)
    return tuple(missing)


def native_options(runtime: Adapter, options: RunOptions) -> RunOptions:
    """`options` with the agent's native tool names; `check_options` comes first."""
    if not (options.allowed_tools or options.denied_tools):
        return options
    from bridle.runtimes.tool_names import native_tools

    return native_tools(runtime, options)


def agent_env(
    env: Mapping[str, str], options: RunOptions, session_id: str, cwd: str
) -> dict[str, str]:
    """The agent's environment: the caller's, the canonical variables, those of the options.

    Every process of the agent inherits the session's mark; by it all are found and ended.
    """
    return {
        **env,
        SESSION_MARK: session_id,
        "BRIDLE_WORKTREE_PATH": cwd,
        **options.env,
    }


def refuse_system_prompts(runtime: Adapter, options: RunOptions | SpawnOptions) -> None:
    """Raise `WrongUse` for a system prompt: this terminal interface has no flag for one."""
    if options.system_prompt or options.append_system_prompt or options.append_system_prompt_file:
        raise WrongUse(
            f"{runtime.id} takes no system prompt at the terminal",
            hint=f"deploy it as {runtime.instruction_path}",
        )


def working_dir(options: RunOptions) -> str:
    """The run's working directory, absolute; `WrongUse` if it does not exist."""
    cwd = os.path.abspath(options.cwd or os.getcwd())
    if not os.path.isdir(cwd):
        raise WrongUse(f"no such directory: {cwd}", hint="give an existing folder with --cwd")
    return cwd


def account_folder(given: str) -> str:
    """The folder of another account, absolute; `WrongUse` when it is not a directory."""
    folder = os.path.abspath(os.path.expanduser(given))
    if not os.path.isdir(folder):
        raise WrongUse(f"no such account folder: {folder}", hint="log in there first")
    return folder


class Launch:
    """One process to plan: what is known and checked before its command is built."""

    def __init__(
        self,
        *,
        runtime: str,
        mode: Mode,
        options: RunOptions,
        own: Any,
        env: Mapping[str, str],
        cwd: str,
        session_id: str,
        installation: Installation,
        dialect: Any,
    ) -> None:
        self.runtime = runtime
        self.mode = mode
        self.options = options
        """The caller's options, with tools under the agent's own names."""
        self.own = own
        """The provider options, as the product's `options_type`."""
        self.env = env
        """The environment of the caller."""
        self.cwd = cwd
        self.session_id = session_id
        self.installation = installation
        self.dialect = dialect
        self.warnings: list[str] = []
        self.unguarded = ""
        """Why the process cannot be guarded; empty if it may be."""
        self.ignored: list[str] = []
        self.folders: list[str] = []
        """Folders made for this process alone; removed at its end."""

    def folder(self, name: str | None = None) -> str:
        """The private folder of this process, created on the first call; `name` ends its name.

        Raises `WrongUse` for a command that somebody else starts: nobody would remove the folder.
        """
        if self.mode in ("spawn", "print"):
            raise WrongUse(
                "long or JSON texts must be given as files here",
                hint="write the text to a file and give its path",
            )
        if not self.folders:
            self.folders.append(new_private_dir(self.env, self.runtime, name))
        return self.folders[0]

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file into the private folder; returns its path."""
        return write_private(self.folder(), name, content)


class Environment(msgspec.Struct, frozen=True):
    """The variables of an agent."""

    variables: dict[str, str]
    """The whole environment, before Bridle's own variables and those of the caller's options."""
    secrets: tuple[str, ...] = ()
    """Values among them that must not appear in anything Bridle writes."""
    final: dict[str, str] = {}
    """Variables that win over those of the caller's options."""
    dropped: frozenset[str] = frozenset()
    """Variables that are removed, even the caller's own; `final` may set them again."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How the CLI is called."""

    words: tuple[str, ...]
    """The arguments after the words that start the CLI."""
    around: tuple[str, ...] = ()
    """Words before those that start the CLI: a program that starts it."""
    program: tuple[str, ...] = ()
    """Words that start another program in place of the CLI."""
    stdin: bytes | None = None
    keep_stdin: bool = False
    watch_stderr: bool = False
    stop: tuple[StopStep, ...] | None = None
    """Overrides the product's steps."""
    native_session_id: str | None = None
    """The conversation's id, where it is known before the start."""
    wire: dict[str, Any] = {}
    """What the wire of a conversation must know (`LiveFacts.own`)."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A process that can be planned: its environment and its command are known."""

    env: dict[str, str]
    """Exactly the process's environment."""
    secrets: tuple[str, ...]
    command: Command


class CliAdapter(Adapter):
    """An adapter to a command line agent, described by a `Product`.

    An adapter's author declares `product` and implements `environment`, `command`, `provider_env`
    and `normalizer`; everything else is derived. Abilities that the agent has beyond runs are
    further methods of `Adapter`.
    """

    product: ClassVar[Product]

    def __init_subclass__(cls) -> None:
        """State the product's facts under the names of the contract."""
        super().__init_subclass__()
        facts = cls.__dict__.get("product")
        if facts is None:
            return
        for name in _FACTS:
            setattr(cls, name, getattr(facts, name))

    def adopt(self, product: Product) -> None:
        """State the facts of `product` for this object alone: the class serves many agents."""
        vars(self).update({name: getattr(product, name) for name in _FACTS}, product=product)

    # -- what an adapter says ---------------------------------------------------------------------

    @abstractmethod
    def environment(self, launch: Launch) -> Environment:
        """The variables of the agent's process, which route it to its model service."""

    @abstractmethod
    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI in `launch.mode`, for a process that gets exactly `env`."""

    @abstractmethod
    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """Variables that route the CLI to `provider`, whose key is in `env`. Raises
        `NotAuthenticated` when the key is missing."""

    def check(self, options: RunOptions, own: Any, dialect: Any, mode: Mode) -> None:
        """Refuse combinations of options that only this product cannot honour."""

    def mode_dialect(self, mode: Mode, version: str | None) -> tuple[Any, bool, str]:
        """`dialect` for `mode`, one of `mode_dialects`; another one where a product speaks a shared
        protocol in it."""
        return self.dialect(version)

    def mode_options_type(self, mode: Mode) -> type[msgspec.Struct] | None:
        """The type of the provider options in `mode`."""
        return self.product.options_type

    # -- derived ----------------------------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[Any, bool, str]:
        """As `Adapter.dialect`; the row has the product's own type."""
        return super().dialect(version)

    def installed_dialect(self) -> Any:
        """The dialect of the installed CLI; the newest when none is installed."""
        found = self.find()
        return self.dialect(found.version if found else None)[0]

    def features_of(self, dialect: Dialect) -> Features:
        """What the product can do in `dialect`; the same in all unless the adapter says more."""
        return self.product.features

    def find(self) -> Installation | None:
        """The installed CLI, None when there is none."""
        return self.product.find(self.settings.binary or self.binary)

    def credentials(self, env: Mapping[str, str]) -> Login:
        """Whether a login or key exists, without reading any."""
        return self.product.login_in(env)

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """The process of one headless run."""
        return self._planned("run", options, env, session_id)

    @derived
    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """The process of a conversation over a protocol; for adapters with the ability `Live`."""
        # Every message comes by the wire.
        options = msgspec.structs.replace(options, prompt="", images=())
        return self._planned("live", options, env, session_id)

    @derived
    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """The process of a conversation in a pane; for adapters with the ability `Terminal`."""
        return self._planned("tmux", options, env, session_id)

    @derived
    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """The process of a run that a person drives at this terminal; for `Interactive`."""
        return self._planned("interactive", options, env, new_session_id())

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session that somebody else starts."""
        import shlex  # costs more to import than most runs need

        wanted = RunOptions(
            prompt=options.initial_prompt or "",
            model=options.model,
            permission_mode=options.permission_mode,
            system_prompt=options.system_prompt,
            append_system_prompt=options.append_system_prompt,
            append_system_prompt_file=options.append_system_prompt_file,
            env=options.env,
            cwd=options.cwd,
        )
        launch = self.launch("spawn", wanted, {**os.environ, **options.env}, "")
        command = self.command(launch, launch.env)
        name = (self.settings.binary or self.binary,)
        found = launch.installation.command if self.product.spawns_found else name
        return shlex.join([*(command.program or found), *command.words])

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout."""
        wanted = RunOptions(prompt=prompt, model=model, permission_mode="bypass")
        launch = self.launch("print", wanted, env or {}, "")
        command = self.command(launch, launch.env)
        program = command.program or launch.installation.command
        return [*command.around, *program, *command.words]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the agent to `model`'s provider."""
        if model.provider is None:
            return dict(model.env)
        around = {**os.environ, **model.env}
        return {**self.provider_env(model.provider, model.model, around), **model.env}

    def launch(
        self, mode: Mode, options: RunOptions, env: Mapping[str, str], session_id: str
    ) -> Launch:
        """Everything that can be refused before a folder is made."""
        started = mode not in ("spawn", "print")
        found = self.installation() if started else self.find()
        found = found or Installation(binary=self.settings.binary or self.binary, version=None)
        if (refused := self.refusal(found.version, mode)) is not None:
            raise refused
        dialect, seen, warning = self.mode_dialect(mode, found.version)
        warnings, unguarded = [warning] if warning else [], ""
        warnings += [f"{self.id} {found.version}: {each}" for each in dialect.lost]
        if dialect.words and not seen:
            # Costs a process; most runs have a version that was tested.
            from bridle.runtimes.unproven import fitted

            fit = fitted(self.id, dialect, found, env or os.environ)
            dialect, unguarded = fit.dialect, fit.unguarded
            warnings += fit.warnings
        ignored: tuple[str, ...] = ()
        if started:
            ignored = check_options(self, options, self.features_of(dialect))
            if elsewhere := check_mode(self, options, mode):
                default = RunOptions(prompt="")
                unset = {name: getattr(default, name) for name in elsewhere}
                options = msgspec.structs.replace(options, **unset)
                ignored += elsewhere
            options = native_options(self, options)
        else:
            check_mode(self, options, mode)
        kind = self.mode_options_type(mode)
        own = None
        if kind is not None:
            own = read_provider_options(
                self.id,
                options.provider_options,
                kind,
                lists=self.product.list_options,
                separator=self.product.list_separator,
            )
        self.check(options, own, dialect, mode)
        launch = Launch(
            runtime=self.id,
            mode=mode,
            options=options,
            own=own,
            env=env,
            cwd=working_dir(options) if started else os.path.abspath(options.cwd or os.getcwd()),
            session_id=session_id,
            installation=found,
            dialect=dialect,
        )
        launch.warnings += warnings
        launch.unguarded = unguarded
        launch.ignored += ignored
        return launch

    def prepare(self, launch: Launch) -> Prepared:
        """The environment and the command of `launch`; on failure its folders are removed."""
        try:
            made = self.environment(launch)
            child = agent_env(made.variables, launch.options, launch.session_id, launch.cwd)
            for name in made.dropped:
                child.pop(name, None)
            child |= made.final
            command = self.command(launch, child)
        except BaseException:
            remove_folders(tuple(launch.folders))
            raise
        return Prepared(env=child, secrets=made.secrets, command=command)

    def plan(self, launch: Launch, prepared: Prepared) -> RunPlan:
        """The plan of a prepared process."""
        command = prepared.command
        program = command.program or launch.installation.command
        return RunPlan(
            spec=ProcessSpec(
                argv=(*command.around, *program, *command.words),
                env=prepared.env,
                cwd=launch.cwd,
                stdin=command.stdin,
                keep_stdin=command.keep_stdin,
                watch_stderr=command.watch_stderr,
                stop=command.stop or self.product.stop,
            ),
            session_id=launch.session_id,
            installation=launch.installation,
            dialect=launch.dialect,
            secrets=prepared.secrets,
            ignored_options=tuple(launch.ignored),
            warnings=tuple(launch.warnings),
            private_dirs=tuple(launch.folders),
            native_session_id=command.native_session_id,
            unguarded=launch.unguarded,
        )

    def _planned(
        self, mode: Mode, options: RunOptions, env: Mapping[str, str], session_id: str
    ) -> RunPlan:
        launch = self.launch(mode, options, env, session_id)
        prepared = self.prepare(launch)
        plan = self.plan(launch, prepared)
        if mode in ("live", "tmux"):
            resume = launch.options.resume
            return plan.conversing(self.id, resume=resume, own=prepared.command.wire)
        return plan


_FACTS = (
    *("id", "binary", "dialects", "install_hint", "key_variable", "instruction_path"),
    *("routing", "provider_path"),
    *("scripted_model", "tools", "state_paths", "confines_itself", "worktree_hooks", "hints"),
    *("session_by_print", "stability", "tells_version"),
)
"""Facts of a product that the contract names."""


def check_mode(runtime: CliAdapter, options: RunOptions, mode: Mode) -> tuple[str, ...]:
    """Names of the options that the product does not honour in `mode` and the caller allowed to be
    ignored; raises `UnsupportedOption` for the first when the caller did not."""
    default = RunOptions(prompt="")
    names = runtime.product.refused.get(mode, ())
    missing = tuple(each for each in names if getattr(options, each) != getattr(default, each))
    if missing and not options.ignore_unsupported:
        spawn = mode == "spawn"
        reason = "in a terminal; deploy an instruction file instead" if spawn else _HEADLESS
        raise UnsupportedOption(runtime.id, missing[0], [], reason=reason, ignorable=not spawn)
    return missing


_HEADLESS = "only in a headless run"
