"""The adapter to a program that a configuration declares: a binary, its flags, how it takes a
prompt.

The program is started once for each prompt, its stdout is the answer, and exit status 0 is success
because nothing else says so. Its tool calls, usage and permission requests cannot be seen; every
option that it has no flag for is refused by name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.core.errors import UnsupportedOption
from bridle.core.options import Provider, RunOptions
from bridle.core.results import Loading, Ready, ReadyState
from bridle.runtimes.alternatives import supporters
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.preset import command
from bridle.runtimes.preset.product import PLAIN_TEXT, declared_product
from bridle.runtimes.preset.stream import PlainTextNormalizer
from bridle.runtimes.product import Mode
from bridle.runtimes.registry import check_declaration
from bridle.turns.recorder import Recorder

if TYPE_CHECKING:
    from bridle.config.schema import AdapterSection

_PROMPTS = ("system_prompt", "append_system_prompt", "append_system_prompt_file")


class PresetRuntime(CliAdapter):
    """The runtime that a section `runtime.adapters.<name>` with a `binary` declares."""

    def __init__(self, name: str, section: "AdapterSection") -> None:
        super().__init__(AdapterSettings(binary=section.binary))
        check_declaration(name, section)
        self.adopt(declared_product(name, section))
        self._section = section

    def dialect(self, version: str | None) -> tuple[Any, bool, str]:
        """Plain text, whatever the version."""
        return PLAIN_TEXT, False, ""

    def check(self, options: RunOptions, own: Any, dialect: Any, mode: Mode) -> None:
        """Refuse, in commands for other programs, what the program has no flag for."""
        if mode not in ("spawn", "print"):
            return
        for name in ("model", *_PROMPTS):
            if getattr(options, name) is not None and name not in self.product.features.options:
                raise UnsupportedOption(self.id, name, supporters(name, self.id))

    def environment(self, launch: Launch) -> Environment:
        """The caller's variables."""
        return Environment(dict(launch.env))

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The program with its flags and the prompt."""
        return command.build(launch, self._section)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """Nothing of a provider's own; an address is refused, because it is unknown which variable
        leads the program there."""
        if provider.base_url is not None:
            raise UnsupportedOption(self.id, "provider", supporters("provider", self.id))
        return {}

    def unasked(self, options: RunOptions) -> str:
        """Plain text carries no permission request."""
        instead = "its own settings decide what it does"
        return instead if self._section.bypass_flags else f"{instead}, with --permission bypass too"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> PlainTextNormalizer:
        """Each line of stdout is text."""
        return PlainTextNormalizer(recorder)

    def detect_ready(self, pane: str) -> ReadyState:
        """Ready when the declared text shows; without one, nothing is waited for."""
        wanted = self._section.ready_text
        return Ready() if wanted is None or wanted in pane else Loading()
