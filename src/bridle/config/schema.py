"""The shape of a configuration file. Keys are written as in the file (camelCase)."""

from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec

from bridle.core import structs
from bridle.core.errors import WrongUse
from bridle.core.events import Drive
from bridle.core.options import ModelServer, Provider, ResolvedModel


class _Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    shorthand: ClassVar[str] = ""
    """The key that a bare string in place of the section sets; "" if there is no such form."""


class PiSection(_Section, frozen=True, kw_only=True):
    """`runtime.pi`: how short model names become Pi's provider-qualified ones."""

    provider: str | None = None
    """Provider prefix for names without one (`anthropic`, `amazon-bedrock`)."""
    model_map: dict[str, str] = {}
    """Alias to `provider/model`."""


Above = Annotated[float, msgspec.Meta(gt=0)]
FromZero = Annotated[float, msgspec.Meta(ge=0)]
Strategy = Literal["prompt", "warmup"]
Delivery = Literal["tmux", "stdin", "rpc"]
Mode = Literal["exec", "run", "json", "rpc", "acp", "tui"]

_DRIVES: dict[str, Drive] = {
    "exec": "print",
    "run": "print",
    "json": "print",
    "rpc": "rpc",
    "acp": "rpc",
    "tui": "tmux",
    "tmux": "tmux",
}
"""The drive that a `mode` or a `delivery` asks for; `stdin` does not ask for one."""


class ReadySection(_Section, frozen=True, kw_only=True):
    """`runtime.adapters.<name>.ready` in its long form: how to tell that a terminal waits."""

    strategy: Strategy = "prompt"
    """`prompt`: the screen shows it. `warmup`: Bridle waits a while, then tries delivery."""
    text: str | None = None
    """Preset: text that shows in its terminal when it waits for a prompt."""
    warmup_seconds: FromZero = 3.0
    """`warmup`: how long to wait before the first try."""
    retries: Annotated[int, msgspec.Meta(ge=0)] = 5
    """How many times delivery is retried; the wait doubles each time."""


class AdapterSection(_Section, frozen=True, kw_only=True):
    """`runtime.adapters.<name>`: settings of a runtime, or the declaration of a new one.

    An unregistered name with a `binary` is a preset: a runtime declared by configuration alone.
    """

    binary: str | None = None
    """Path or name of the CLI."""
    mode: Mode | None = None
    """How its sessions are driven when the call does not say: `exec`, `run` and `json` by a process
    for each turn (`print`), `rpc` and `acp` by its protocol (`rpc`), `tui` by its terminal
    (`tmux`)."""
    model: str | None = None
    """Model or alias for runs that do not name one."""
    models: dict[str, "str | ModelSection"] = {}
    """Short names for models of this runtime; they win over those of `models`."""
    drive: Literal["print"] = "print"
    """Preset: how it is driven."""
    protocol: Literal["text", "acp"] = "text"
    """Preset: what it speaks: plain text, or the Agent Client Protocol (`acp`)."""
    asks: bool = False
    """Preset that speaks the Agent Client Protocol: whether it asks for permission before every
    call that changes anything; only then can it be guarded."""
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
    ready: str | ReadySection | None = None
    """How to tell that its terminal waits for a prompt: `prompt`, `warmup`, or the long form.
    Preset: any other text is what then shows, for `detect_ready`; it has no terminal sessions."""
    delivery: Delivery | None = None
    """How messages reach it in a session: `tmux` types them into its terminal, `rpc` speaks its
    protocol. `stdin`, or absent: by its protocol where it has one, else by a process for each."""
    install: str | None = None
    """Preset: the command that installs it, for the hint when it is missing."""
    options: dict[str, Any] = {}
    """The adapter's own settings, if it has any; see its page."""

    def drive_asked(self) -> Drive | None:
        """The drive that `mode`, else `delivery`, asks for; None when they leave it open."""
        return _DRIVES.get(self.mode or self.delivery or "")

    def preset_keys(self) -> list[str]:
        """Keys in use that only the declaration of a new runtime may have, as written."""
        bare = AdapterSection()
        pairs = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        return [
            written
            for name, written in pairs
            if name not in ("binary", "mode", "model", "models", "delivery", "ready", "options")
            and getattr(self, name) != getattr(bare, name)
        ] + (["ready"] if self.ready_text is not None else [])

    def readiness(self) -> ReadySection | None:
        """`ready` in its long form, None when it is not set."""
        if self.ready is None or isinstance(self.ready, ReadySection):
            return self.ready
        if self.ready in get_args(Strategy):
            return structs.convert({"strategy": self.ready}, ReadySection)
        return ReadySection(text=self.ready)

    @property
    def ready_text(self) -> str | None:
        """The text by which a preset's terminal shows that it waits."""
        ready = self.readiness()
        return ready.text if ready is not None else None


class RuntimeSection(_Section, frozen=True, kw_only=True):
    """`runtime`: which agent is used when none is named. A bare name (`runtime: codex`) is the
    default."""

    shorthand: ClassVar[str] = "default"

    default: str | None = None
    """Runtime for runs that do not name one; `claude` when absent."""
    print_command: str | None = None
    """Runtime of one-shot calls (`bridle.print_once`); `default` when absent."""
    pi: PiSection = PiSection()
    """Pi's own settings."""
    adapters: dict[str, AdapterSection] = {}
    """Settings by runtime name; a new name with a `binary` declares a runtime."""


class ProviderSection(_Section, frozen=True, kw_only=True):
    """`providers.<name>`: a service that models are served from."""

    base_url: str | None = None
    """Address of its API."""
    auth_token_env: str | None = None
    """Name of the variable that holds the key; keys themselves are never in a file."""
    env: dict[str, str] = {}
    """Gateway variables passed to the agent unchanged."""


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

    run_usd: Above | None = None
    """Most a run may cost, in US dollars."""
    run_seconds: Above | None = None
    """Longest a run, or a turn of a session, may take."""


class PriceTierSection(_Section, frozen=True, kw_only=True):
    """A price of `prices.<model>` that depends on the size of a request."""

    base: FromZero
    """US dollars for a million tokens."""
    tiers: tuple[tuple[int, FromZero], ...] = ()
    """Pairs `[tokens, price]`: the price of requests with more input tokens than that, the cached
    ones included, in ascending order."""


PerMillion = FromZero | PriceTierSection


class PriceSection(_Section, frozen=True, kw_only=True):
    """`prices.<model>`: what a model costs, in US dollars for a million tokens."""

    input: PerMillion
    """Input that is neither read from the cache nor written to it."""
    output: PerMillion
    """Output, reasoning included."""
    cache_read: PerMillion | None = None
    """Input that is read from the cache; as `input` when absent."""
    cache_write: PerMillion | None = None
    """Input that is written to the cache; as `input` when absent."""
    cache_write_1h: PerMillion | None = msgspec.field(name="cacheWrite1h", default=None)
    """Input that the cache keeps for an hour; as `cacheWrite` when absent."""


class GuardOverrideSection(_Section, frozen=True, kw_only=True):
    """`guards.overrides.<capability>`: what one capability may do beyond its role, and what it may
    not do."""

    allow_commands: tuple[str, ...] = ()
    """Commands it may run in addition to its role's, by their first words."""
    allow_paths: tuple[str, ...] = ()
    """Folders it may write in addition to its role's, absolute."""
    allow_tools: tuple[str, ...] = ()
    """Tools it may use in addition to its role's, by the runtime's names."""
    deny_commands: tuple[str, ...] = ()
    """Commands it may not run."""
    deny_tools: tuple[str, ...] = ()
    """Tools it may not use."""


class GuardsSection(_Section, frozen=True, kw_only=True):
    """`guards`: what agents may do beyond the rules of their capability."""

    branch_prefix: str = "bridle"
    """An agent's branches are below `<branchPrefix>/<agent>/`."""
    quality_gates: tuple[str, ...] = ()
    """Commands that every capability may run, with any arguments."""
    allow_commands: tuple[str, ...] = ()
    """Further commands that are allowed, by their first words."""
    allow_paths: tuple[str, ...] = ()
    """Further folders that may be written, absolute."""
    safe_commands: tuple[str, ...] = ()
    """Further trackers and stores that every capability may call, by their program's name."""
    overrides: dict[str, GuardOverrideSection] = {}
    """What single capabilities may do beyond their role, and what they may not do."""


class SessionsSection(_Section, frozen=True, kw_only=True):
    """`sessions`: the timeouts of live sessions, in seconds. Where 0 is allowed, it means never."""

    startup: FromZero = 180.0
    """From the start of the agent's process until it is ready; 0: no limit."""
    first_progress: FromZero = 300.0
    """From a prompt until the agent says anything; 0: no limit."""
    inactivity: FromZero = 600.0
    """Longest silence within a turn; 0: no limit."""
    tool_inactivity: FromZero = 3600.0
    """Longest silence within a turn while a tool runs; 0: no limit."""
    turn: FromZero = 0.0
    """Longest turn; 0: no limit."""
    permission: Above = 300.0
    """Until a permission request without an answer is refused."""
    abort: Above = 30.0
    """From an abort until the agent's process is ended if its turn continues."""
    leave: Above = 10.0
    """From a request to exit until the agent's process is ended if it still runs."""
    daemon_idle: FromZero = 300.0
    """Until a daemon without living sessions and clients ends; 0: never."""


class HooksSection(_Section, frozen=True, kw_only=True):
    """`hooks`: commands that get the events of sessions as JSON on stdin."""

    session_start: tuple[str, ...] = msgspec.field(name="SessionStart", default=())
    """Run when an agent has named its session."""
    session_stop: tuple[str, ...] = msgspec.field(name="SessionStop", default=())
    """Run when an agent's process is gone."""
    on_message: tuple[str, ...] = msgspec.field(name="OnMessage", default=())
    """Run for each message that an agent wrote."""
    on_error: tuple[str, ...] = msgspec.field(name="OnError", default=())
    """Run for each error of a session."""
    timeout_seconds: Above = 30.0
    """How long a command may take before it is ended."""

    def commands(self, event: str) -> tuple[str, ...]:
        """The commands of a hook event, by its name."""
        named = dict(zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True))
        found: tuple[str, ...] = getattr(self, named[event])
        return found


class ConfigFile(_Section, frozen=True, kw_only=True):
    """The content of a configuration file."""

    runtime: RuntimeSection = RuntimeSection()
    """Which agents are available and which is used."""
    providers: dict[str, ProviderSection] = {}
    """Services that models are served from, by name."""
    models: dict[str, str | ModelSection] = {}
    """Short names for models: `alias: model`, `alias: provider/model`, or the long form."""
    budgets: BudgetSection = BudgetSection()
    """Limits of runs."""
    prices: dict[str, PriceSection] = {}
    """Your own prices of models, by the name that the agent reports or by the part of it after the
    provider; they win over the known ones."""
    guards: GuardsSection = GuardsSection()
    """Rules of the guard."""
    sessions: SessionsSection = SessionsSection()
    """Timeouts of live sessions."""
    hooks: HooksSection = HooksSection()
    """Commands that get the events of sessions."""
    profiles: tuple[Literal["gastown", "overstory", "forge"], ...] = ()
    """Other systems whose names an agent's variables get in addition to ours. `forge` reads the
    default runtime from `FORGE_BACKEND`."""


class Config(ConfigFile, frozen=True, kw_only=True):
    """A whole configuration, merged from all its sources."""

    model: str | None = None
    """Model or alias for runs that do not name one, from the environment."""
    model_server: ModelServer | None = None
    """A scripted model that all runs are pointed at, from the environment."""
    files: tuple[str, ...] = ()
    """The files it was read from, the strongest first."""

    def presets(self) -> list[str]:
        """Names of the runtimes that this configuration declares."""
        return [name for name, section in self.runtime.adapters.items() if section.binary]

    def preset(self, name: str) -> AdapterSection | None:
        """The declaration of the runtime with that name, or None."""
        section = self.runtime.adapters.get(name)
        return section if section is not None and section.binary else None

    def print_runtime(self) -> str | None:
        """Name of the runtime of one-shot calls: `runtime.printCommand`, else the default."""
        return self.runtime.print_command or self.runtime.default

    def default_model(self, runtime: str) -> str | None:
        """The model for runs of `runtime` that do not name one; None leaves it to the agent."""
        section = self.runtime.adapters.get(runtime)
        return self.model or (section.model if section else None)

    def readiness(self, runtime: str) -> ReadySection | None:
        """How to tell that the terminal of `runtime` waits; None leaves it to the adapter."""
        section = self.runtime.adapters.get(runtime)
        return section.readiness() if section else None

    def drive(self, runtime: str) -> Drive | None:
        """The drive for sessions of `runtime` that do not name one; None leaves it to the
        adapter."""
        section = self.runtime.adapters.get(runtime)
        return section.drive_asked() if section else None

    def own_section(self, name: str) -> dict[str, Any]:
        """The runtime's own settings as plain data: `runtime.pi` for Pi, for every other
        `runtime.adapters.<name>.options`."""
        own = getattr(self.runtime, name, None)
        if isinstance(own, _Section):
            return dict(msgspec.to_builtins(own))
        section = self.runtime.adapters.get(name)
        return section.options if section else {}

    def resolve_model(self, name: str, runtime: str | None = None) -> ResolvedModel:
        """A model name after aliases and provider prefixes, with its routing.

        `alias` and `provider/model` are looked up; any other name is passed on unchanged. Aliases
        of `runtime` win over general ones.
        """
        own = self.runtime.adapters.get(runtime) if runtime is not None else None
        entry = (own.models.get(name) if own is not None else None) or self.models.get(name)
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
