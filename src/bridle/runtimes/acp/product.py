"""What a product says of itself to be driven over the protocol."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from bridle.core.features import Features
from bridle.core.options import RunOptions
from bridle.runtimes.acp.quirks import AcpQuirks, features_over_acp
from bridle.runtimes.contract import Guarded, History, Live

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


class AcpStart(msgspec.Struct, frozen=True, kw_only=True):
    """How a product is started to speak the protocol."""

    env: dict[str, str]
    """The environment before the options' own variables and Bridle's."""
    routing: dict[str, str] = {}
    """Variables that win over the options' own, because the caller asked for them by an option."""
    flags: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    private_dirs: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    """Settings of Claude that go into `_meta` of the session."""
    model_chosen: bool = False
    """Whether variables or arguments choose the model; otherwise the protocol does."""
    mcp_chosen: bool = False
    """Whether a file names the MCP servers, because the agent ignores those of the protocol."""


class AcpProduct(Live, Guarded, History):
    """A product that speaks the protocol.

    Contract: a subclass sets `quirks` and implements `acp_start`, from the same variables and files
    that its other drives use.
    """

    quirks: ClassVar[AcpQuirks]
    history_variables: ClassVar[tuple[str, ...]] = ("HOME",)
    """Variables that say where the agent keeps the files that `prompt_history` reads."""

    @abstractmethod
    def acp_start(
        self, options: RunOptions, own: AcpOptions, env: Mapping[str, str], cwd: str
    ) -> AcpStart:
        """How the product is started to speak the protocol, with `options` in its own words.

        Contract: as `plan_run`. `quirks` adds the arguments of the protocol and of the model.
        """

    def check_load(self, env: Mapping[str, str], session_id: str) -> None:
        """Raise `ResumeRefused` for a session that the agent would harm by loading it."""

    def history_places(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables of `env` by which the agent's files are found, also after the run."""
        return {name: env[name] for name in self.history_variables if name in env}

    def features_over_acp(self) -> Features:
        """What it can do over the protocol."""
        return features_over_acp(self.quirks, self.instruction_path)
