"""What Aider is: its facts, its versions, its own options and what it says when it fails."""

import os

import msgspec

from bridle.core.errors import (
    Billing,
    ContextOverflow,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
)
from bridle.core.features import Features
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    remembered_version,
)
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product


class AiderDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of Aider that the adapter needs."""

    flags: tuple[str, ...]
    """Switches of every run."""
    log_flags: tuple[str, ...]
    """Flags that take a file which Aider appends its log to. Given the standard output, they turn
    it into a wire: requests and replies framed line by line, events as JSON."""
    edit_formats: tuple[str, ...]


DIALECTS = (
    AiderDialect(
        name="aider-0.86",
        since=(0, 85),
        seen=("0.86.2",),
        capture="wire-edit.txt",
        flags=(
            # Streaming would log Aider's own estimate in place of the service's token counts.
            "--no-stream",
            "--no-pretty",
            "--no-fancy-input",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--no-gitignore",
            # For this run alone. Without it, `--yes-always` may agree to analytics for good.
            "--no-analytics",
            # A URL in the prompt would be fetched, and pasted into the prompt.
            "--no-detect-urls",
            # At the end of stdin a suggested command counts as agreed to.
            "--no-suggest-shell-commands",
            "--no-notifications",
        ),
        log_flags=("--analytics-log", "--llm-history-file"),
        edit_formats=(
            *("whole", "diff", "diff-fenced", "udiff", "patch", "architect", "ask"),
            *("editor-diff", "editor-whole", "editor-diff-fenced"),
        ),
    ),
)

ALIASES = ("opus", "sonnet", "haiku")
"""Short names that Aider itself knows; all three are models of Anthropic."""

KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "groq": "GROQ_API_KEY",
    "xai": "XAI_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "cohere": "COHERE_API_KEY",
}
"""Providers (the first part of a model's name) and the variable that holds the key of each."""

APIS = ("openai", "anthropic")
"""Wire protocols that a provider with an address of its own may speak."""

DEPLOYED = ".aider.bridle.md"
"""Instructions that Bridle deploys; Aider's users ignore such names in git."""


class AiderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `aider` runtime."""

    auto_commits: bool = False
    """Let Aider commit each edit. The model call that writes the message is never counted."""
    edit_format: str | None = None
    """How the model writes its edits; Aider's own choice for the model when unset."""
    files: tuple[str, ...] = ()
    """Files to put into the chat from the start."""
    read: tuple[str, ...] = ()
    """Files to show the model, which it may not edit."""
    instructions: bool = True
    """Show the model the worktree's AGENTS.md; Aider itself reads none."""
    max_retries: int = 3
    """How often a failed model call is made again before the run is ended."""
    request_timeout: float | None = None
    """Seconds until a model call counts as failed; Aider's own 600 when unset."""
    weak_model: str | None = None
    """Model for commit messages and summaries."""
    map_tokens: int | None = None
    """Size of the map of the repository that the model is shown; 0 for none."""
    auto_lint: bool = True
    """Let Aider lint what it edited, and ask the model to fix the errors."""
    test_cmd: str | None = None
    """A shell command to run after each edit; what fails goes back to the model."""
    reasoning_effort: str | None = None
    """Passed on to models that know it."""
    api: str | None = None
    """Wire protocol of a provider given with a base address: `openai` or `anthropic`."""


def _find(wanted: str) -> Installation | None:
    """The installed Aider; the name of a folder of its environment has its version."""
    binary = find_executable(wanted)
    if binary is None:
        return None
    version = _packaged_version(binary) or remembered_version(
        binary, lambda: ask_version((binary,))
    )
    return Installation(binary=binary, version=version)


def _packaged_version(binary: str) -> str | None:
    """The version of the package beside the command, from its metadata's folder."""
    lib = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(binary))), "lib")
    try:
        for python in os.listdir(lib):
            packages = os.path.join(lib, python, "site-packages")
            for name in os.listdir(packages) if os.path.isdir(packages) else ():
                if name.startswith("aider_chat-") and name.endswith(".dist-info"):
                    return name.removeprefix("aider_chat-").removesuffix(".dist-info")
    except OSError:
        return None
    return None


PRODUCT = Product(
    id="aider",
    binary="aider",
    find=_find,
    install_hint="uv tool install --python 3.12 aider-chat",
    dialects=DIALECTS,
    instruction_path=DEPLOYED,
    credentials=Credentials(
        variables=(
            *KEY_VARIABLES.values(),
            *(f"AIDER_{name}" for name in KEY_VARIABLES.values()),
        ),
        # A file of Aider's may hold a key, and Bridle does not read those.
        otherwise="unknown",
    ),
    routing=routing.AIDER,
    scripted_model="openai/gpt-4o",
    options_type=AiderOptions,
    list_options=("files", "read"),
    refused={"interactive": ("max_turns", "budget_usd", "resume")},
    # Not all of `.aider`: a file in it holds keys that later runs would take.
    state_paths=(".aider/bridle", ".aider/caches"),
    features=Features(
        options=COMMON_OPTIONS | {"max_turns", "budget_usd", "resume"},
        interactive=True,
        message_usage=True,
        reports_cost=True,
        cache_usage=False,
        resume=True,
        follow_up=True,
        instruction_file=DEPLOYED,
    ),
    errors=ErrorTable(
        login_hint="set the key variable of the model's provider, such as OPENAI_API_KEY",
        calls=(
            ErrorRow(ContextOverflow, tags=("ContextWindowExceededError",)),
            # A refusal with status 403 arrives under the name of a bad request.
            ErrorRow(NotAuthenticated, ("not have access", "forbidden"), statuses=(400,)),
            ErrorRow(Overloaded, ("overloaded",), statuses=(500, 502, 503)),
            ErrorRow(Billing, ("exceeded your current quota",), statuses=(429,)),
        ),
        exits=(
            ErrorRow(ProtocolDrift, ("unrecognized arguments", "invalid choice")),
            ErrorRow(NotAuthenticated, ("no llm model was specified", "api key", "_api_key")),
        ),
        complaint="last",
        crash="aider exited {code}: {text}",
    ),
)
