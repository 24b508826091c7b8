"""The shape of a configuration file. Keys are written as in the file (camelCase)."""

from typing import Annotated, Any, Literal

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.options import ModelServer, Provider, ResolvedModel


class _Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    pass


class PiSection(_Section, frozen=True, kw_only=True):
    """`runtime.pi`: how short model names become Pi's provider-qualified ones."""

    provider: str | None = None
    """Provider prefix for names without one (`anthropic`, `amazon-bedrock`)."""
    model_map: dict[str, str] = {}
    """Alias to `provider/model`."""


class AdapterSection(_Section, frozen=True, kw_only=True):
    """`runtime.adapters.<name>`: settings of a runtime, or the declaration of a new one.

    A name that no adapter is registered under, given with a `binary`, is a preset: a runtime
    declared by configuration alone.
    """

    binary: str | None = None
    """Path or name of the CLI."""
    mode: str | None = None
    """The adapter's own mode word (`exec`, `rpc`, `run`)."""
    model: str | None = None
    """Model or alias of runs that name none."""
    drive: Literal["print"] = "print"
    """Preset: how it is driven."""
    protocol: Literal["text", "acp"] = "text"
    """Preset: what it speaks: plain text, or the Agent Client Protocol (`acp`)."""
    flags: tuple[str, ...] = ()
    """Preset: words after the binary, before the prompt."""
    bypass_flags: tuple[str, ...] = ()
    """Preset: words added when permission is `bypass`."""
    model_flag: str | None = None
    """Preset: flag that names the model, such as `--model`."""
    prompt: Literal["argument", "stdin"] = "argument"
    """Preset: how the prompt is given."""
    instruction_file: str = "AGENTS.md"
    """Preset: the file its instructions are written to, relative to the worktree."""
    ready: str | None = None
    """Preset: text that shows in its terminal when it waits for a prompt."""
    install: str | None = None
    """Preset: the command that installs it, for the hint when it is missing."""

    def preset_keys(self) -> list[str]:
        """Keys in use that only the declaration of a new runtime may have, as written."""
        bare = AdapterSection()
        pairs = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        return [
            written
            for name, written in pairs
            if name not in ("binary", "mode", "model")
            and getattr(self, name) != getattr(bare, name)
        ]


class RuntimeSection(_Section, frozen=True, kw_only=True):
    """`runtime`: which agent is used when none is named."""

    default: str | None = None
    """Runtime of runs that name none; `claude` when absent."""
    print_command: str | None = None
    """Runtime of one-shot calls (merge resolution, triage); `default` when absent."""
    pi: PiSection = PiSection()
    """Pi's own settings."""
    adapters: dict[str, AdapterSection] = {}
    """Settings by runtime name; a new name with a `binary` declares a runtime."""


class ProviderSection(_Section, frozen=True, kw_only=True):
    """`providers.<name>`: a service that models are served from."""

    base_url: str | None = None
    """Address of its API."""
    auth_token_env: str | None = None
    """Name of the variable that holds the key; keys themselves never stand in a file."""
    env: dict[str, str] = {}
    """Gateway variables passed to the agent as they are."""


class ModelSection(_Section, frozen=True, kw_only=True):
    """`models.<alias>` in its long form."""

    model: str
    """The model's name at its provider."""
    provider: str | None = None
    """A key of `providers`."""
    env: dict[str, str] = {}
    """Variables passed to the agent when it uses this model."""


class BudgetSection(_Section, frozen=True, kw_only=True):
    """`budgets`: limits that apply when a call sets none."""

    run_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Most a run may cost, in US dollars."""
    run_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Longest a run may take."""


class GuardOverrideSection(_Section, frozen=True, kw_only=True):
    """`guards.overrides.<capability>`: what one capability gets beyond, or short of, its role."""

    allow_commands: tuple[str, ...] = ()
    """Commands it may run beside its role's, by their first words."""
    allow_paths: tuple[str, ...] = ()
    """Folders it may write beside its role's, absolute."""
    allow_tools: tuple[str, ...] = ()
    """Tools it may use beside its role's, by the runtime's names."""
    deny_commands: tuple[str, ...] = ()
    """Commands it may not run."""
    deny_tools: tuple[str, ...] = ()
    """Tools it may not use."""


class GuardsSection(_Section, frozen=True, kw_only=True):
    """`guards`: what agents may do beyond the rules of their capability."""

    branch_prefix: str = "bridle"
    """An agent's branches live below `<branchPrefix>/<agent>/`."""
    quality_gates: tuple[str, ...] = ()
    """Commands that every capability may run, with any arguments."""
    allow_commands: tuple[str, ...] = ()
    """Further commands that are allowed, by their first words."""
    allow_paths: tuple[str, ...] = ()
    """Further folders that may be written, absolute."""
    overrides: dict[str, GuardOverrideSection] = {}
    """What single capabilities get beyond, or short of, their role."""


class ConfigFile(_Section, frozen=True, kw_only=True):
    """What may stand in a configuration file."""

    runtime: RuntimeSection = RuntimeSection()
    """Which agents there are and which is used."""
    providers: dict[str, ProviderSection] = {}
    """Services that models are served from, by name."""
    models: dict[str, str | ModelSection] = {}
    """Short names for models: `alias: model`, `alias: provider/model`, or the long form."""
    budgets: BudgetSection = BudgetSection()
    """Limits of runs."""
    guards: GuardsSection = GuardsSection()
    """Rules of the guard."""
    watchdog: dict[str, Any] = {}
    """Clocks of the watchdog."""


class Config(ConfigFile, frozen=True, kw_only=True):
    """A whole configuration, merged from all its sources."""

    model: str | None = None
    """Model or alias of runs that name none, from the environment."""
    model_server: ModelServer | None = None
    """A scripted model that all runs are pointed at, from the environment."""
    files: tuple[str, ...] = ()
    """The files it was read from, the strongest first."""

    def presets(self) -> list[str]:
        """Names of the runtimes that this configuration declares by itself."""
        return [name for name, section in self.runtime.adapters.items() if section.binary]

    def preset(self, name: str) -> AdapterSection | None:
        """The declaration of a runtime of that name, None when there is none."""
        section = self.runtime.adapters.get(name)
        return section if section is not None and section.binary else None

    def print_runtime(self) -> str | None:
        """Name of the runtime of one-shot calls: `runtime.printCommand`, else the default."""
        return self.runtime.print_command or self.runtime.default

    def default_model(self, runtime: str) -> str | None:
        """The model of runs of `runtime` that name none; None leaves it to the agent."""
        section = self.runtime.adapters.get(runtime)
        return self.model or (section.model if section else None)

    def own_section(self, name: str) -> dict[str, Any]:
        """The runtime's own section (`runtime.<name>`), as plain data."""
        section = getattr(self.runtime, name, None)
        return msgspec.to_builtins(section) if isinstance(section, _Section) else {}

    def resolve_model(self, name: str) -> ResolvedModel:
        """A model name after aliases and provider prefixes, with its routing.

        `alias` and `provider/model` are looked up; any other name is passed on as it is.
        """
        entry = self.models.get(name)
        section = entry if isinstance(entry, ModelSection) else None
        if section is None:
            meant = entry if isinstance(entry, str) else name
            prefix, _, rest = meant.partition("/")
            if not rest or prefix not in self.providers:
                return ResolvedModel(model=meant)
            section = ModelSection(model=rest, provider=prefix)
        if section.provider is None:
            return ResolvedModel(model=section.model, env=section.env)
        provider = self.providers.get(section.provider)
        if provider is None:
            raise WrongUse(
                f"model {name}: provider {section.provider} is not configured",
                hint=f"add providers.{section.provider} to the configuration",
            )
        return ResolvedModel(
            model=section.model,
            env={**provider.env, **section.env},
            provider=Provider(base_url=provider.base_url, auth_token_env=provider.auth_token_env),
        )
