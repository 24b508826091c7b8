"""The shape of a configuration file. Keys are written as in the file (camelCase)."""

from typing import Any, Literal

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.options import Provider, ResolvedModel


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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
    drive: Literal["print"] = "print"
    flags: tuple[str, ...] = ()
    """Words after the binary, before the prompt."""
    model_flag: str | None = None
    """Flag that names the model, such as `--model`."""
    prompt: Literal["argument", "stdin"] = "argument"
    """How the prompt is given."""
    instruction_file: str = "AGENTS.md"
    ready: str | None = None
    """Text that shows in its terminal when it waits for a prompt."""
    install: str | None = None
    """The command that installs it, for the hint when it is missing."""


class RuntimeSection(_Section, frozen=True, kw_only=True):
    """`runtime`: which agent is used when none is named."""

    default: str | None = None
    print_command: str | None = None
    """Runtime of one-shot calls (merge resolution, triage); `default` when absent."""
    pi: PiSection = PiSection()
    adapters: dict[str, AdapterSection] = {}


class ProviderSection(_Section, frozen=True, kw_only=True):
    """`providers.<name>`: a service that models are served from."""

    base_url: str | None = None
    auth_token_env: str | None = None
    """Name of the variable that holds the key; keys themselves never stand in a file."""
    env: dict[str, str] = {}
    """Gateway variables passed to the agent as they are."""


class ModelSection(_Section, frozen=True, kw_only=True):
    """`models.<alias>` in its long form."""

    model: str
    provider: str | None = None
    env: dict[str, str] = {}


class BudgetSection(_Section, frozen=True, kw_only=True):
    """`budgets`: limits that apply when a call sets none."""

    run_usd: float | None = None
    run_seconds: float | None = None


class Config(_Section, frozen=True, kw_only=True):
    """A whole configuration, merged from all its sources."""

    runtime: RuntimeSection = RuntimeSection()
    providers: dict[str, ProviderSection] = {}
    models: dict[str, str | ModelSection] = {}
    budgets: BudgetSection = BudgetSection()
    guards: dict[str, Any] = {}
    watchdog: dict[str, Any] = {}

    def presets(self) -> list[str]:
        """Names of the runtimes that this configuration declares by itself."""
        return [name for name, section in self.runtime.adapters.items() if section.binary]

    def preset(self, name: str) -> AdapterSection | None:
        """The declaration of a runtime of that name, None when there is none."""
        section = self.runtime.adapters.get(name)
        return section if section is not None and section.binary else None

    def own_section(self, name: str) -> dict[str, Any]:
        """The runtime's own section (`runtime.<name>`), as plain data."""
        section = getattr(self.runtime, name, None)
        return msgspec.to_builtins(section) if isinstance(section, _Section) else {}

    def resolve_model(self, name: str) -> ResolvedModel:
        """A model name after aliases and provider prefixes, with its routing.

        `alias` and `provider/model` are looked up; any other name is passed on as it is.
        """
        entry = self.models.get(name)
        section = ModelSection(model=entry) if isinstance(entry, str) else entry
        if section is None:
            prefix, _, rest = name.partition("/")
            if rest and prefix in self.providers:
                section = ModelSection(model=rest, provider=prefix)
            else:
                return ResolvedModel(model=name)
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
