"""The adapters of the contract tests: one row for each, with what is particular to it as data.

A row stands for one adapter on one version. `on` puts a made-up installation of it on a bench, with
programs that do nothing, so that its plans can be made on any machine.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.config.schema import AdapterSection
from bridle.core.errors import (
    BridleError,
    NotAuthenticated,
    ResumeRefused,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.contract import Adapter
from bridle.runtimes.install import npm_platform
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.preset import PresetRuntime
from bridle.runtimes.registry import get_adapter
from bridle.testing.bench import AgentBench

SERVER = ModelServer(url="http://127.0.0.1:1", api_key="the-scripted-key-0123456789-abcdefghijkl")
"""A model server of plans that are not started."""
GATEWAY_KEY = "the-gateway-key"
UUID = "0b5ad6d2-3c1f-4f0e-9a52-2f6f0d2f7a11"
SOURCE = Path(__file__).parents[2] / "src" / "bridle" / "runtimes"

ONE_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)

PROGRAM = "#!/bin/sh\nexit 9\n"
NATIVE = "\x7fELF never started"

Install = Callable[[Path, str], str]
"""Lays the installation of a version down below a folder; returns the command."""


def program(path: Path, text: str = PROGRAM) -> str:
    """A program that is found and never started."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def package(name: str, binary: str, text: str = NATIVE) -> Install:
    """An npm package with its manifest, from which the version is read."""

    def install(folder: Path, version: str) -> str:
        root = folder / "node_modules" / name.replace("PLATFORM", npm_platform())
        made = program(root / binary, text)
        manifest = {"name": name.replace("-PLATFORM", ""), "version": version}
        (root / "package.json").write_bytes(msgspec.json.encode(manifest))
        return made

    return install


def python_package(folder: Path, version: str) -> str:
    """Aider in an environment as pip makes them."""
    venv = folder / "venv"
    (venv / f"lib/python3.11/site-packages/aider_chat-{version}.dist-info").mkdir(parents=True)
    return program(venv / "bin" / "aider")


def codex(folder: Path, version: str, *, native: bool = True) -> str:
    """Codex: a launcher, and beside it the package with the program itself."""
    modules = folder / "node_modules/@openai"
    program(modules / "codex/bin/codex.js", "#!/bin/sh\nexit 0\n")
    manifest = '{"name": "@openai/codex", "version": "%s"}'
    (modules / "codex/package.json").write_text(manifest % version)
    if native:
        inner = "codex" if version == "0.120.0" else "bin"
        vendor = modules / "codex-linux-x64/vendor/x86_64-unknown-linux-musl"
        program(vendor / inner / "codex", "#!/bin/sh\nexit 0\n")
        other = modules / "codex-linux-x64/package.json"
        other.write_text(manifest % f"{version}-linux-x64")
    link = folder / "node_modules/.bin/codex"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("../@openai/codex/bin/codex.js")
    return str(link)


def on_path(name: str) -> Install:
    """A command that says its version when it is asked for it."""

    def install(folder: Path, version: str) -> str:
        program(folder / "bin" / "bwrap")
        return program(folder / "bin" / name, f"#!/bin/sh\necho {version}\n")

    return install


class WrongUseCase(msgspec.Struct, frozen=True):
    """Options that are refused, with the error and a pattern of its message or hint."""

    options: Mapping[str, Any]
    error: type[BridleError] = WrongUse
    words: str = ""


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter on one version of its CLI."""

    name: str
    version: str = ""
    install: Install | None = None
    """How it is installed; None for an adapter that brings its program along."""
    install_words: str = "npm install"
    """What the hint for a missing CLI says."""
    refuses: frozenset[str] = frozenset()
    """The options that it refuses by name."""
    login: Mapping[str, str] = {}
    """Files in a user's home without which it plans nothing."""
    key_variables: Mapping[str, str] = {}
    """Variables with a login of the user's own; none of them reaches a model server."""
    account_when_served: bool = True
    """Whether an account folder is its home on a model server, too."""
    makes_account: bool = False
    """Whether it makes an account folder that does not exist."""
    moves_home: bool = True
    """Whether a run on a model server has a private home."""
    gateway: Mapping[str, Any] | None = {}
    """What it needs beside a provider; None for an adapter without providers."""
    gateway_variable: str | None = None
    """The variable in which the provider's key goes; None where it goes by a private file."""
    build_env: Mapping[str, str] = {}
    """What `build_env` adds without a provider."""
    account: Mapping[str, str] = {}
    """Variables that point into an account folder, with the part below it."""
    wrong: tuple[WrongUseCase, ...] = ()
    """Uses that are wrong for this adapter alone."""
    nearest: tuple[str, str] = ("max_retrys", "max_retries")
    """A provider option misspelt, and the one that is meant."""
    print_command: tuple[str, str | None, tuple[str, ...]] | None = None
    """A prompt, a model, and the words behind the program."""
    credentials: tuple[tuple[Mapping[str, str], Mapping[str, str], str], ...] = ()
    """Variables, files in the home, and what is concluded from them."""
    unseen: str = "99.0.0"
    """A version that was never tested."""
    unseen_needs: Mapping[str, str] = {}
    """Variables without which such a version cannot be planned."""

    def __str__(self) -> str:
        return f"{self.name}-{self.version}" if self.version else self.name

    def wrong_uses(self) -> list[WrongUseCase]:
        """What is wrong for every adapter that takes the option, and for this one alone."""
        passed = self.refuses | ({"account_dir"} if self.makes_account else set())
        common = [use for use in WRONG if not use.options.keys() & passed]
        return [*common, *self.wrong]

    def on(self, bench: AgentBench) -> Adapter:
        """The adapter, on an installation that is made up; its user is logged in."""
        for file, text in self.login.items():
            path = bench.home / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        adapter = self.adapter()
        if self.install is not None:
            binary = self.install(bench.root / "installed", self.version)
            adapter.use_binary(binary)
            bench.env["PATH"] = f"{Path(binary).parent}:{bench.env['PATH']}"
        return adapter

    def adapter(self) -> Adapter:
        """The adapter, wherever its CLI may be."""
        if self.name == "preset":
            return PresetRuntime("mine", AdapterSection(binary="sh", install="get it"))
        return get_adapter(self.name)

    def plan(
        self,
        bench: AgentBench,
        adapter: Adapter,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> RunPlan:
        """The plan of a run in permission mode `ask`."""
        given = {"permission_mode": "ask", **options}
        return bench.plan(adapter, environ=environ, **given)


def wrong(
    options: Mapping[str, Any], error: type[BridleError] = WrongUse, words: str = ""
) -> WrongUseCase:
    """A use that is refused."""
    return WrongUseCase(options, error, words)


def row(name: str, refuses: str = "", **fields: Any) -> Product:
    """A product that refuses the options named."""
    return Product(name=name, refuses=frozenset(refuses.split()), **fields)


_ANTHROPIC = {"ANTHROPIC_API_KEY": "users-key", "ANTHROPIC_AUTH_TOKEN": "users-token"}
_OPENAI = {"OPENAI_API_KEY": "users-key"}
_CLINE_LOGIN = {
    ".cline/data/settings/providers.json": '{"providers": {"anthropic": {"settings": '
    '{"provider": "anthropic", "apiKey": "the-users-key"}}}}'
}
_SSE = '{"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}'
_WITH_FOLDER = '{"mcpServers": {"a": {"command": "u", "cwd": "/"}}}'
_NO_SERVER = '{"mcpServers": {"a": 1}}'
_NOTHING = '{"mcpServers": {"a": {}}}'
_BAD_VARIABLE = '{"mcpServers": {"a": {"command": "x", "env": {"A B": "c"}}}}'
_ADDRESS_ALONE = {"provider": Provider(base_url="http://x")}
_ACP_TURNS = "budget_usd max_turns"


def own(words: str = "", **options: Any) -> WrongUseCase:
    """A provider option with a wrong value."""
    return wrong({"provider_options": options}, words=words)


_CLAUDE = tuple(
    row(
        "claude",
        version=version,
        install=package("@anthropic-ai/claude-code", "bin/claude.exe"),
        key_variables=_ANTHROPIC | {"CLAUDE_CODE_OAUTH_TOKEN": "users-oauth"},
        gateway_variable="ANTHROPIC_AUTH_TOKEN",
        account={"CLAUDE_CONFIG_DIR": ""},
        wrong=(
            own("max_retries", max_retries="many"),
            own("negative", max_retries=-1),
            own("effort", effort="huge"),
            wrong({"resume": "--continue"}, words="not a conversation"),
        ),
        print_command=(
            "-- hi 'there'",
            "sonnet",
            ("--print", "--model", "sonnet", "--", "-- hi 'there'"),
        ),
        credentials=(
            ({}, {}, "missing"),
            ({}, {".claude.json": "{}"}, "unknown"),
            ({}, {".claude/.credentials.json": ""}, "present"),
            ({"ANTHROPIC_API_KEY": "x"}, {}, "present"),
        ),
    )
    for version in ("2.1.197", "2.1.325")
)
_CODEX = tuple(
    row(
        "codex",
        "allowed_tools budget_usd max_turns",
        version=version,
        install=codex,
        key_variables=_OPENAI | {"CODEX_API_KEY": "users-other-key"},
        gateway_variable="BRIDLE_MODEL_KEY",
        account={"CODEX_HOME": ""},
        wrong=(
            wrong({"settings": '{"a": null}'}),
            wrong({"mcp_config": '{"mcpServers": {"a.b": {"command": "x"}}}'}),
            wrong({"mcp_config": _NOTHING}),
            wrong({"mcp_config": _BAD_VARIABLE}),
            wrong({"mcp_config": _SSE}, UnsupportedOption, "sse"),
            wrong({"denied_tools": ("edit_file",)}, UnsupportedOption, "denied_tools"),
            own("max_retries", max_retries="many"),
            own(output_schema="/no/such.json"),
        ),
        credentials=(
            ({}, {}, "missing"),
            ({"CODEX_API_KEY": "k"}, {}, "present"),
            ({}, {".codex/config.toml": 'model_provider = "own"\n'}, "unknown"),
            ({}, {".codex/auth.json": "{}"}, "present"),
        ),
    )
    for version in ("0.120.0", "0.166.0")
)
_PI = tuple(
    row(
        "pi",
        "mcp_config" if version == "0.74.2" else "",
        version=version,
        install=package("@earendil-works/pi-coding-agent", "pi", PROGRAM),
        key_variables={"ANTHROPIC_OAUTH_TOKEN": "users-token"},
        gateway={"model": "sonnet"},
        gateway_variable="ANTHROPIC_API_KEY",
        account={"PI_CODING_AGENT_DIR": ""},
        account_when_served=False,
        makes_account=True,
        nearest=("thinkin", "thinking"),
        wrong=(
            own("one of", thinking="enormous"),
            own(max_retries="many"),
            own(max_retries=-1),
            own("one of", api="soap"),
            *(() if version == "0.74.2" else (wrong({"mcp_config": _NO_SERVER}),)),
            wrong(_ADDRESS_ALONE),
            wrong({"model": "gate/x", "provider": Provider(auth_token_env="HOME")}),
            *(wrong({"allowed_tools": (tool,)}) for tool in ("", "+bash", "-bash", "a,b", " bash")),
        ),
        print_command=(
            "say hi",
            "sonnet",
            ("--print", "--model", "anthropic/claude-sonnet-4-6", "say hi"),
        ),
        credentials=(
            ({}, {}, "missing"),
            ({"OPENAI_API_KEY": "k"}, {}, "present"),
            ({"NEW_API_KEY": "k"}, {}, "unknown"),
            ({}, {".pi/agent/auth.json": "{}"}, "missing"),
            ({}, {".pi/agent/models.json": "{}"}, "unknown"),
            ({}, {".pi/agent/auth.json": '{"anthropic": {}}'}, "present"),
        ),
    )
    for version in ("0.74.2", "1.5.0")
)
_COPILOT = row(
    "copilot",
    "budget_usd settings system_prompt",
    version="1.0.102",
    install=package("@github/copilot-PLATFORM", "copilot"),
    key_variables={"GH_TOKEN": "users-token", "COPILOT_PROVIDER_BEARER_TOKEN": "another"},
    gateway={"model": "m"},
    gateway_variable="COPILOT_PROVIDER_API_KEY",
    account={"COPILOT_HOME": ""},
    nearest=("max_retry", "max_retries"),
    wrong=(
        own("between 0 and 5", max_retries=9),
        own("effort", effort="vast"),
        own("no such directory", add_dirs="/nowhere/at/all"),
        wrong({"allowed_tools": ("shell(git)",)}, words="permission rule"),
        wrong({"denied_tools": ("-x",)}, words="has no tool"),
        wrong(_ADDRESS_ALONE, words="needs a model"),
        *(
            wrong({"resume": native}, ResumeRefused)
            for native in ("1111", "../session-state/1111-2222", "a name", "..")
        ),
        wrong({"resume": "1111-2222", "model_server": SERVER}, ResumeRefused),
    ),
    print_command=("hi", "m", ("-p", "hi", "--allow-all-tools", "--model", "m")),
    credentials=(
        ({}, {}, "missing"),
        ({"GH_TOKEN": "x"}, {}, "present"),
        ({}, {".copilot/any": ""}, "unknown"),
    ),
)
_OPENCODE = row(
    "opencode",
    version="1.18.33",
    install=package("opencode-ai", "bin/opencode"),
    key_variables={"OPENCODE_CONFIG": "/mine.json"},
    gateway={"model": "lab/m"},
    gateway_variable="BRIDLE_PROVIDER_KEY",
    account={"XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"},
    nearest=("max_retires", "max_retries"),
    wrong=(
        wrong({"model": "gpt-9"}),
        wrong({"mcp_config": _NOTHING}),
        wrong({"mcp_config": _SSE}, UnsupportedOption),
        wrong({"mcp_config": _WITH_FOLDER}, UnsupportedOption),
        wrong({"denied_tools": ("*",)}),
        wrong({"resume": "--help"}),
        wrong({"resume": "ses_1", "model_server": SERVER}, ResumeRefused),
        own(max_retries=-1),
        own(retry_seconds=0),
        own(api="smoke-signals"),
        wrong(_ADDRESS_ALONE),
        wrong({"provider": Provider(), "model": "lab/m"}),
    ),
    print_command=("-x", "a/b", ("run", "-m", "a/b", "--", "-x")),
    credentials=(
        ({}, {}, "unknown"),
        ({"OPENAI_API_KEY": "k"}, {}, "present"),
        ({}, {".local/share/opencode/auth.json": '{"anthropic": {}}'}, "present"),
    ),
)
_GEMINI = row(
    "gemini",
    "budget_usd images",
    version="0.61.0",
    install=package("@google/gemini-cli", "bundle/gemini.js", "#!/bin/false\n"),
    key_variables={"GOOGLE_API_KEY": "mine", "GEMINI_MODEL": "mine"},
    gateway_variable="GEMINI_API_KEY",
    nearest=("max_retires", "max_retries"),
    wrong=(
        wrong({"mcp_config": _NOTHING}),
        wrong({"denied_tools": ('x"\n',)}),
        wrong({"resume": "latest"}, ResumeRefused),
        wrong({"resume": "5"}, ResumeRefused),
        wrong({"resume": UUID, "model_server": SERVER}, ResumeRefused),
        wrong({"prompt": "x" * (8 * 1024 * 1024 + 1)}),
        own(approval_mode="maybe"),
    ),
    print_command=("-x", None, ("--skip-trust", "-m", "gemini-2.5-pro", "--prompt=-x")),
    credentials=(
        ({}, {}, "missing"),
        ({"GEMINI_API_KEY": "k"}, {}, "present"),
        ({}, {".gemini/settings.json": "{}"}, "unknown"),
        ({}, {".gemini/oauth_creds.json": "{}"}, "present"),
    ),
)
_CLINE = row(
    "cline",
    "allowed_tools resume",
    version="3.0.65",
    install=package("@cline/cli-PLATFORM", "bin/cline"),
    login=_CLINE_LOGIN,
    key_variables={"CLINE_API_KEY": "the-users-token"},
    gateway={"model": "m"},
    build_env={"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"},
    nearest=("thinkin", "thinking"),
    wrong=(
        own("thinking", thinking="vast"),
        wrong({"denied_tools": (" ",)}, words="has no tool"),
        wrong({"system_prompt": "x" * 200_000}, words="too long"),
        wrong(_ADDRESS_ALONE, words="needs a model"),
    ),
    print_command=("hi", "m", ("--model", "m", "--", "hi ")),
    credentials=(
        ({"OPENAI_API_KEY": "x"}, {}, "unknown"),
        ({"CLINE_API_KEY": "x"}, {}, "present"),
    ),
)
_AIDER = row(
    "aider",
    "allowed_tools denied_tools images mcp_config settings system_prompt",
    version="0.86.2",
    install=python_package,
    install_words="aider-chat",
    key_variables=_OPENAI | {"AIDER_MODEL": "o1"},
    gateway={"model": "big"},
    gateway_variable="AIDER_OPENAI_API_KEY",
    account={"HOME": ""},
    makes_account=True,
    nearest=("edit_fromat", "edit_format"),
    wrong=(
        own("edit_format cannot be poem", edit_format="poem"),
        own("api cannot be gopher", api="gopher"),
        own("max_retries", max_retries=99),
        own("auto_commits", auto_commits="perhaps"),
        own("cannot read file", files="nothing.py"),
        wrong(_ADDRESS_ALONE, words="needs a model"),
        *(wrong({"resume": native}, ResumeRefused) for native in ("9-session", "../x", "")),
    ),
    credentials=(({}, {}, "unknown"), ({"ANTHROPIC_API_KEY": "x"}, {}, "present")),
)
_SCRIPTED = row(
    "scripted",
    "mcp_config provider settings",
    moves_home=False,
    gateway=None,
    makes_account=True,
    nearest=("scritp", "script"),
    wrong=(
        own("must be a file's path", script=5),
        own("cannot be read", script="/nowhere/s.yaml"),
        own("did you mean 'text'", script=[{"txet": "x"}]),
        own("no behaviour 'dance'", behave="dance"),
        own("wrong number", behave="garbage:3"),
        own("needs a number", behave="exit"),
        own("max_retries", max_retries="many"),
        own("must be between 0 and 20", max_retries=1000),
        own("must be between 0 and", cost_per_turn=-1),
        own("no conversation", script=[{"text": "x"}], conversation="y"),
        wrong({"allowed_tools": ("Bash",)}, words="no tool 'Bash'"),
    ),
)
_PRESET = row(
    "preset",
    "account_dir allowed_tools append_system_prompt append_system_prompt_file budget_usd "
    "denied_tools images max_turns mcp_config model model_server provider provider_options "
    "resume settings system_prompt",
    install_words="get it",
    gateway=None,
)
_BRIDGES = (
    row(
        "claude-acp",
        f"{_ACP_TURNS} allowed_tools settings",
        version="0.49.0",
        install=on_path("claude-agent-acp"),
        key_variables=_ANTHROPIC,
        gateway={"model": "big"},
        gateway_variable="ANTHROPIC_AUTH_TOKEN",
        account={"CLAUDE_CONFIG_DIR": ""},
    ),
    row(
        "cline-acp",
        f"{_ACP_TURNS} allowed_tools system_prompt",
        version="3.0.65",
        install=on_path("cline"),
        gateway={"model": "big"},
        account={"CLINE_DIR": "", "CLINE_DATA_DIR": "data"},
        build_env=_CLINE.build_env,
    ),
    row(
        "codex-acp",
        f"{_ACP_TURNS} allowed_tools append_system_prompt append_system_prompt_file settings "
        "system_prompt",
        version="0.16.0",
        install=on_path("codex-acp"),
        unseen_needs={"CODEX_PATH": "/bin/true"},
        key_variables=_OPENAI,
        gateway={"model": "big"},
        gateway_variable="BRIDLE_MODEL_KEY",
        account={"CODEX_HOME": ""},
    ),
    row(
        "copilot-acp",
        f"{_ACP_TURNS} settings system_prompt",
        version="1.0.102",
        install=on_path("copilot"),
        gateway={"model": "big"},
        gateway_variable="COPILOT_PROVIDER_API_KEY",
        account={"COPILOT_HOME": ""},
    ),
    row(
        "gemini-acp",
        _ACP_TURNS,
        version="0.61.0",
        install=on_path("gemini"),
        gateway={"model": "big"},
        gateway_variable="GEMINI_API_KEY",
        account={"GEMINI_CLI_HOME": ""},
    ),
    row(
        "opencode-acp",
        _ACP_TURNS,
        version="1.18.33",
        install=on_path("opencode"),
        gateway={"model": "lab/big"},
        gateway_variable="BRIDLE_PROVIDER_KEY",
        account={"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data"},
    ),
)
PRODUCTS = (
    *_CLAUDE,
    *_CODEX,
    *_PI,
    *(_COPILOT, _OPENCODE, _GEMINI, _CLINE, _AIDER, _SCRIPTED, _PRESET),
    *_BRIDGES,
)


def installed(name: str, folder: Path, version: str | None = None) -> str:
    """A made-up installation of a product below `folder`; returns its command."""
    product = next(each for each in PRODUCTS if each.name == name)
    assert product.install is not None
    return product.install(folder, version or product.version)


each_product = pytest.mark.parametrize("product", PRODUCTS, ids=str)

SAMPLES: dict[str, Any] = {
    "account_dir": "/",
    "allowed_tools": ("shell",),
    "append_system_prompt": "x",
    "append_system_prompt_file": __file__,
    "budget_usd": 1.0,
    "denied_tools": ("shell",),
    "images": ("x.png",),
    "max_turns": 3,
    "mcp_config": '{"mcpServers": {}}',
    "model": "m",
    "model_server": SERVER,
    "provider": Provider(auth_token_env="GATEWAY"),
    "provider_options": {"a": 1},
    "resume": "id",
    "settings": "{}",
    "system_prompt": "x",
}
"""A value for every option that some adapter refuses."""

WRONG = (
    wrong({"cwd": "/no/such/folder"}, words="no such directory"),
    wrong({"account_dir": "/no/such/folder"}, words="no such account folder"),
    wrong({"images": ("/no/such.png",)}, words="cannot read image"),
    wrong({"images": (__file__,)}, words="not an image"),
    wrong({"append_system_prompt_file": "/no/such.md"}, words="cannot read"),
    wrong({"settings": "/no/such.json"}, words="cannot read"),
    wrong({"settings": "{broken"}, words="not"),
    wrong({"mcp_config": "/no/such.json"}, words="cannot read"),
    wrong({"mcp_config": "{}"}, words="mcpServers|MCP"),
    wrong({"mcp_config": '{"mcpServers": []}'}),
    wrong(
        {"provider": Provider(auth_token_env="NOT_SET"), "model": "lab/m"},
        error=NotAuthenticated,
        words="NOT_SET",
    ),
)
"""Wrong uses that mean the same for every adapter which takes the options."""


def fields() -> set[str]:
    """The names of all options."""
    return set(RunOptions.__struct_fields__)
