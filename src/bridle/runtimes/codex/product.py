"""Codex as a runtime: how it is found, asked, started and stopped."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from bridle.core.errors import WrongUse
from bridle.core.features import Features
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes import routing
from bridle.runtimes.codex.arguments import LONGEST_ARGUMENT, environment_flags, feature_flags
from bridle.runtimes.codex.dialects import DIALECTS, TOOLS, CodexDialect, codex_dialect
from bridle.runtimes.codex.install import codex_home, find_codex
from bridle.runtimes.codex.provider_options import CodexOptions, read_options
from bridle.runtimes.codex.stream import CodexNormalizer
from bridle.runtimes.contract import Guarded, History, Interactive, Live, Terminal
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.product import COMMON_OPTIONS, ToolPieces
from bridle.turns.guard_contract import GuardHook, GuardPieces
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Normalizer

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.history import Spent
    from bridle.runtimes.importing import PastMessage
    from bridle.runtimes.instructions import Place
    from bridle.turns.wire import LiveFacts

HONOURED = COMMON_OPTIONS | {
    "system_prompt",
    "settings",
    "mcp_config",
    "images",
    "resume",
    "denied_tools",
}


class CodexRuntime(Live, Terminal, Interactive, Guarded, History):
    """OpenAI's Codex CLI, driven by `codex exec --json`, or in a conversation by its app-server."""

    id = "codex"
    binary = "codex"
    instruction_path = "AGENTS.md"
    dialects = DIALECTS
    scripted_model = "gpt-5.5"
    install_hint = "npm install -g @openai/codex"
    key_variable = "CODEX_API_KEY"
    routing = routing.CODEX
    tools = TOOLS
    confines_itself = True
    worktree_hooks = "it runs only hooks whose hash stands in your own configuration"

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[CodexDialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return codex_dialect(version)

    def features_of(self, dialect: Dialect) -> Features:
        """What it can do; lines whose log is not read do not tell of each retry."""
        return Features(
            options=HONOURED,
            interactive=True,
            thinking=True,
            retries=isinstance(dialect, CodexDialect) and bool(dialect.log_filter),
            limit_end=True,
            output_schema=True,
            resume=True,
            fork=True,
            steer=True,
            follow_up=True,
            abort=True,
            compaction=True,
            compact=True,
            drives=("print", "rpc", "tmux"),
            asks=("rpc", "tmux"),
            instruction_file=self.instruction_path,
        )

    def find(self) -> Installation | None:
        """The installed CLI: the native binary where npm's launcher stands in front of one."""
        return find_codex(self.settings.binary or self.binary)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """A login file or the key variable that `codex exec` reads. A user's own provider may
        need neither, so a configuration that names one makes the answer `unknown`."""
        if env.get("CODEX_API_KEY"):
            return "present"
        home = codex_home(env)
        if os.path.exists(os.path.join(home, "auth.json")):
            return "present"
        try:
            with open(os.path.join(home, "config.toml"), "rb") as file:
                text = file.read()
        except OSError:
            return "missing"
        own = b"model_provider" in text or b"credentials_store" in text
        return "unknown" if own else "missing"

    # -- spawning -------------------------------------------------------------------------------

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session, with every start-up dialog answered."""
        from bridle.runtimes.codex.spawn import spawn_command

        found = self.find()
        dialect = self.dialect(found.version if found else None)[0]
        words = found.command if found else (self.settings.binary or self.binary,)
        return spawn_command(words, dialect, options, os.environ)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call that only reads. Its stdin must be closed or /dev/null:
        Codex waits for the end of a pipe before it begins."""
        if len(prompt.encode()) > LONGEST_ARGUMENT:
            raise WrongUse("the prompt is too long for a command line", hint="use `bridle run`")
        found = self.find()
        dialect = self.dialect(found.version if found else None)[0]
        return [
            *self.command_words(),
            *feature_flags(dialect),
            *environment_flags(env or {}, CodexOptions()),
            "exec",
            "--ephemeral",
            "--skip-git-repo-check",
            "-s",
            "read-only",
            *(("-m", model) if model else ()),
            "--",
            prompt,
        ]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route Codex to `model`'s provider: `model.env` as it is, and the
        provider's address and key. Codex reads no address from its environment, so runs and
        spawn commands that are given these variables turn the address into a flag."""
        from bridle.runtimes.options import provider_key

        env = dict(model.env)
        provider = model.provider
        if provider is None:
            return env
        if provider.base_url:
            env["OPENAI_BASE_URL"] = provider.base_url
        key = provider_key(provider, {**os.environ, **env}, self.id)
        if key:
            env |= {"OPENAI_API_KEY": key, "CODEX_API_KEY": key}
        return env

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start `codex exec` for `options`; checks all of it first."""
        from bridle.runtimes.codex.planning import plan_exec

        return plan_exec(self, options, env, session_id)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Everything needed to start `codex app-server` for `options`; checks all of it first."""
        from bridle.runtimes.codex.live_plan import plan_app_server

        return plan_app_server(self, options, env, session_id)

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The conversation with an app-server that `plan_live` planned."""
        from bridle.runtimes.codex.live import CodexLiveWire

        return CodexLiveWire(facts, recorder)

    def remote_terminal(
        self, facts: LiveFacts, native_id: str, env: Mapping[str, str]
    ) -> ProcessSpec | None:
        """`codex --remote unix://… resume ID`, for a session with the option `shared_socket`."""
        from bridle.runtimes.codex.sharing import remote_terminal

        return remote_terminal(facts, native_id, env)

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """The terminal interface for a person."""
        from bridle.runtimes.codex.spawn import plan_terminal

        return plan_terminal(self, options, env)

    def prove_guard(self, plan: RunPlan) -> str:
        """Ask Codex itself which hooks it will run."""
        from bridle.runtimes.codex.hook_listing import prove

        prove(plan)
        return "hooks/list"

    def guard_pieces(self, argv: Sequence[str], hook: GuardHook) -> GuardPieces:
        """Hooks by `-c`."""
        from bridle.runtimes.codex.hooks import guard_pieces

        return guard_pieces(argv, hook)

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Hooks by `-c`, with the trust they need."""
        from bridle.runtimes.codex.hooks import guard_plan

        return guard_plan(plan, hook)

    def asks_under(self, options: RunOptions) -> bool:
        """Not in a sandbox that was named: a yes would let a command leave it."""
        return options.sandbox in (None, "off")

    def unasked(self, options: RunOptions) -> str:
        """`codex exec` asks nobody, so it only reads, unless a sandbox was named; then the plan
        says what that means."""
        if options.sandbox in ("worktree", "off"):
            return ""
        return "it only reads, and whatever would change a file fails"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what `codex exec --json` will print."""
        own = read_options(recorder.options.provider_options)
        return CodexNormalizer(
            recorder,
            codex_home(plan.spec.env),
            retry_seconds=own.retry_seconds,
            offset=plan.noted.get("offset"),
            fork=own.fork,
        )

    def noted_before(self, plan: RunPlan, resume: str) -> dict[str, Any]:
        """How long its record of the conversation is."""
        from bridle.runtimes.codex.stream import size_of_rollout

        return {"offset": size_of_rollout(codex_home(plan.spec.env), resume)}

    def tool_pieces(self, options: RunOptions, folder: str, env: Mapping[str, str]) -> ToolPieces:
        """Its flags, which the adapter to the protocol takes too."""
        from bridle.runtimes.codex.arguments import tool_flags

        return ToolPieces(flags=tuple(tool_flags(options.denied_tools)))

    # -- a session in a terminal ----------------------------------------------------------------

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Its terminal interface in a pane; see `terminal`."""
        from bridle.runtimes.codex.terminal import plan

        return plan(self, options, env, session_id)

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """Hooks by `-c`, with the trust they need; see `guarding`."""
        from bridle.runtimes.codex.hooks import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: "LiveFacts", recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript; see `following`."""
        dialect, _, _ = self.dialect(facts.runtime_version)
        if not dialect.usage_records:
            from bridle.runtimes.codex.following_older import OlderCodexFollower

            return OlderCodexFollower(facts, recorder)
        from bridle.runtimes.codex.following import CodexFollower

        return CodexFollower(facts, recorder)

    def transcript_path(self, facts: "LiveFacts", pid: int | None = None) -> str | None:
        """Where the session is written down."""
        from bridle.runtimes.codex.terminal import transcript_path

        return transcript_path(facts, pid)

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.codex.tui import TERMINAL

        return TERMINAL

    # -- worktree -------------------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Codex reads `AGENTS.md` or, in its place, `AGENTS.override.md`."""
        from bridle.runtimes.instructions import override_places

        return override_places(worktree, self.instruction_path)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.codex.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """No: a prompt given at the start is an argument and cannot be swallowed."""
        return False

    # -- history --------------------------------------------------------------------------------

    def import_conversation(
        self, messages: "Iterable[PastMessage]", options: RunOptions, env: Mapping[str, str]
    ) -> str | None:
        """A thread of another agent's conversation, by Codex's own import; see `importing`."""
        from bridle.runtimes.codex.importing import import_conversation

        return import_conversation(self.installation().binary, messages, options, env)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a rollout and those of its sub-agents say was used."""
        from bridle.runtimes.codex.transcript import summarize

        return summarize(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each turn of a rollout used."""
        from bridle.runtimes.codex.transcript import prompt_history

        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """Codex keeps the threads of all projects together, in folders by day."""
        return os.path.join(codex_home(os.environ), "sessions")

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The rollout of a thread."""
        from bridle.runtimes.codex.transcript import find_rollout

        return find_rollout(codex_home(env), session_id)
