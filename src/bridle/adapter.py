"""Everything that the author of an adapter imports, and nothing else.

    from bridle.adapter import CliAdapter, Command, Environment, Features, Product

`docs/writing-an-adapter.md` explains how an adapter is written, `examples/adapter` is a whole one.
Every run loads the adapter's module, so parts that only terminal, sandbox and instruction methods
need are loaded on first use.
"""

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    Crashed,
    GuardRefused,
    NotAuthenticated,
    NotInstalled,
    NotSupported,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
    UnsupportedOption,
    WrongUse,
    error_for_status,
)
from bridle.core.features import Features
from bridle.core.files import new_private_dir, write_private
from bridle.core.handles import SessionHints
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState, TranscriptSummary
from bridle.core.structs import convert, decode, decoder
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit, ProcessSpec, StopStep
from bridle.runtimes.contract import (
    Adapter,
    AdapterSettings,
    Guarded,
    History,
    Interactive,
    Live,
    Terminal,
)
from bridle.runtimes.dialects import Dialect, Word, choose_dialect, version_numbers
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    find_native_cli,
    find_npm_cli,
    package_version,
    remembered_version,
)
from bridle.runtimes.options import (
    added_instructions,
    image_data,
    provider_key,
    read_provider_options,
    readable_file,
)
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import (
    CliAdapter,
    Command,
    Environment,
    Launch,
    agent_env,
    check_options,
    native_options,
    working_dir,
)
from bridle.runtimes.product import Credentials, Login, Mode, Product, RoutingFacts, ToolTable
from bridle.runtimes.wire import raw_of, read_line
from bridle.turns.guard_contract import GuardHook, GuardMechanism, GuardPieces, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import (
    CompactionControl,
    Delivery,
    LiveFacts,
    LiveWire,
    ModelSwitch,
    Normalizer,
    Outgoing,
    Question,
    StderrReader,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.retries import Retry, RetryReader
    from bridle.sandbox import SandboxNeeds

__all__ = [
    "Adapter",
    "AdapterSettings",
    "AgentError",
    "Billing",
    "Busy",
    "CliAdapter",
    "Command",
    "CompactionControl",
    "ContextOverflow",
    "Crashed",
    "Credentials",
    "Delivery",
    "Dialect",
    "Dialog",
    "Environment",
    "ErrorRow",
    "ErrorTable",
    "Features",
    "GuardHook",
    "GuardMechanism",
    "GuardPieces",
    "GuardRefused",
    "Guarded",
    "History",
    "HookShape",
    "Installation",
    "Interactive",
    "Launch",
    "Live",
    "LiveFacts",
    "LiveWire",
    "Loading",
    "Login",
    "Mode",
    "ModelServer",
    "ModelSwitch",
    "Normalizer",
    "NotAuthenticated",
    "NotInstalled",
    "NotSupported",
    "Outgoing",
    "Overloaded",
    "Place",
    "ProcessExit",
    "ProcessSpec",
    "Product",
    "ProtocolDrift",
    "Provider",
    "Question",
    "RateLimited",
    "Ready",
    "ReadyState",
    "Recorder",
    "ResolvedModel",
    "ResumeRefused",
    "Retry",
    "RetryReader",
    "RoutingFacts",
    "RunOptions",
    "RunPlan",
    "SandboxNeeds",
    "SessionHints",
    "SpawnOptions",
    "StderrReader",
    "StopStep",
    "Terminal",
    "TerminalFacts",
    "ToolTable",
    "TranscriptSummary",
    "TranscriptWire",
    "Unavailable",
    "UnsupportedOption",
    "Usage",
    "Word",
    "WrongUse",
    "added_instructions",
    "agent_env",
    "ask_version",
    "check_options",
    "choose_dialect",
    "convert",
    "decode",
    "decoder",
    "error_for_status",
    "find_executable",
    "find_native_cli",
    "find_npm_cli",
    "image_data",
    "native_options",
    "new_private_dir",
    "package_version",
    "provider_key",
    "raw_of",
    "read_line",
    "read_provider_options",
    "readable_file",
    "remembered_version",
    "version_numbers",
    "working_dir",
    "write_private",
]

_LATER = {
    "Place": "bridle.runtimes.instructions",
    "Retry": "bridle.runtimes.retries",
    "RetryReader": "bridle.runtimes.retries",
    "SandboxNeeds": "bridle.sandbox",
    "TerminalFacts": "bridle.drives.tmux.facts",
    "TranscriptWire": "bridle.drives.tmux.transcript_wire",
}
"""The names that are loaded on first use, with the module that defines each."""


def __getattr__(name: str) -> object:
    """Load a name of `_LATER`."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names for authors, loaded or not."""
    return sorted({*globals(), *__all__})
