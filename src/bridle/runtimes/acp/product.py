"""What a product says of itself to be driven over the protocol."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from bridle.core.features import Features
from bridle.runtimes.acp.quirks import AcpQuirks, features_over_acp
from bridle.runtimes.contract import Guarded, History, Live
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.planner import CliAdapter, Command
from bridle.runtimes.product import Mode

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`RunOptions.provider_options` of a run or session over the protocol."""

    start_timeout: Seconds = 90.0
    """Seconds for each answer before the prompt (`initialize`, opening a session, a setting)."""
    silence_timeout: Seconds | None = None
    """Seconds without progress while the model is to answer, in place of the agent's own limit; a
    running tool does not count. A live session has its own clocks and uses this one only when it is
    given."""
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    """How often a failed model call is retried, where the agent takes a limit."""
    mode: str | None = None
    """A mode of the agent to set before the prompt."""
    fork: bool = False
    """With `resume`: continue in a copy of the session, under a new id, where the agent can."""


class AcpCommand(Command, frozen=True, kw_only=True):
    """How a product is called to speak the protocol. `quirks` adds the arguments of the protocol,
    of the mode and of the model."""

    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings of Claude that go into `_meta` of the session."""
    model_chosen: bool = False
    """Whether variables or arguments choose the model; otherwise the protocol does."""
    mcp_chosen: bool = False
    """Whether a file names the MCP servers, because the agent ignores those of the protocol."""


class AcpProduct(CliAdapter, Live, Guarded, History):
    """A product that speaks the protocol.

    Contract: a subclass sets `quirks`; its `environment` and `command` serve the mode `live` as
    well, with `AcpOptions` as the launch's own options and an `AcpCommand` as the result.
    """

    quirks: ClassVar[AcpQuirks]
    """Those of its newest versions."""
    older_quirks: ClassVar[tuple[AcpQuirks, ...]] = ()
    """Those of earlier ranges of versions, the oldest first."""
    history_variables: ClassVar[tuple[str, ...]] = ("HOME",)
    """Variables that say where the agent keeps the files that `prompt_history` reads."""

    def mode_dialects(self, mode: Mode) -> Sequence[Dialect]:
        """Over the protocol: the quirks."""
        return (*self.older_quirks, self.quirks) if mode == "live" else self.dialects

    def mode_dialect(self, mode: Mode, version: str | None) -> tuple[Any, bool, str]:
        """Over the protocol: the quirks."""
        return self.quirks_of(version) if mode == "live" else self.dialect(version)

    def quirks_of(self, version: str | None) -> tuple[AcpQuirks, bool, str]:
        """The quirks of `version`, whether it was ever run, and a warning if not."""
        if not self.quirks.seen:
            return self.quirks, False, ""
        return choose_dialect(self.id, (*self.older_quirks, self.quirks), version)

    def mode_options_type(self, mode: Mode) -> type[msgspec.Struct] | None:
        """Over the protocol: `AcpOptions`."""
        return AcpOptions if mode == "live" else self.product.options_type

    def features_of(self, dialect: Dialect) -> Features:
        """What the product can do, over the protocol and otherwise."""
        if isinstance(dialect, AcpQuirks):
            return features_over_acp(dialect, self.instruction_path)
        over = features_over_acp(self.quirks, self.instruction_path)
        return msgspec.structs.replace(self.product.features, over={"rpc": over})

    def check_load(self, env: Mapping[str, str], session_id: str) -> None:
        """Raise `ResumeRefused` for a session that the agent would harm by loading it."""

    def history_places(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables of `env` by which the agent's files are found, also after the run."""
        return {name: env[name] for name in self.history_variables if name in env}
