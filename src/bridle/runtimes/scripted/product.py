"""The runtime `scripted`: how its agent process is started and what it can be asked for."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bridle._version import __version__
from bridle.config.environment import MODEL_SERVER, MODEL_SERVER_KEY
from bridle.core.errors import WrongUse
from bridle.core.features import Features
from bridle.core.files import make_private_dir
from bridle.core.options import (
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import SESSION_MARK, ProcessSpec
from bridle.runtimes.contract import Guarded, History, Interactive, Live
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.install import Installation, find_executable
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import agent_env, check_options, native_options, working_dir
from bridle.runtimes.scripted.dialects import DIALECTS, TOOLS
from bridle.runtimes.scripted.settings import Settings, read_settings
from bridle.runtimes.scripted.stream import ScriptedNormalizer
from bridle.runtimes.scripted.transcript import state_dir, summarize
from bridle.runtimes.scripted.wire import image_part
from bridle.runtimes.user_files import readable_file
from bridle.turns.guard_contract import GuardHook
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Normalizer

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

_OPTIONS = frozenset(
    {
        "system_prompt",
        "append_system_prompt",
        "append_system_prompt_file",
        "model",
        "max_turns",
        "allowed_tools",
        "denied_tools",
        "images",
        "provider_options",
        "budget_usd",
        "resume",
        "account_dir",
        "model_server",
    }
)
_START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent", "start.py")


class ScriptedRuntime(Live, Interactive, Guarded, History):
    """An agent that plays a script with real tools. There is no model, and it says so."""

    id = "scripted"
    binary = "python"
    instruction_path = "AGENTS.md"
    dialects = DIALECTS
    provider_path = ""
    install_hint = "nothing: it comes with Bridle"
    tools = TOOLS
    tells_version = False

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The one dialect there is."""
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What the scripted agent can do."""
        return Features(
            options=_OPTIONS,
            interactive=True,
            streaming=True,
            thinking=True,
            message_usage=True,
            reports_cost=True,
            retries=True,
            limit_end=True,
            resume=True,
            abort=True,
            steer=True,
            follow_up=True,
            drives=("print", "rpc"),
            asks=("print", "rpc"),
            instruction_file=self.instruction_path,
        )

    def find(self) -> Installation | None:
        """The agent that comes with Bridle, or the program that the configuration names."""
        if self.settings.binary is not None:
            other = find_executable(self.settings.binary)
            return None if other is None else Installation(binary=other, version=None)
        # Isolated and without site packages: it must start fast and import nothing by accident.
        launcher = (sys.executable, "-I", "-S")
        return Installation(binary=_START, version=__version__, launcher=launcher)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """It needs none."""
        return "present"

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The command of a session at a terminal; the script is named by `BRIDLE_SCRIPT`."""
        import shlex

        words = [sys.executable, "-m", "bridle.runtimes.scripted", "chat", "--model", options.model]
        words += ["--permission", options.permission_mode]
        for flag, value in (
            ("--system-prompt", options.system_prompt),
            ("--append-system-prompt", options.append_system_prompt),
            ("--append-system-prompt-file", options.append_system_prompt_file),
        ):
            if value is not None:
                words.append(f"{flag}={value}")
        if options.initial_prompt is not None:
            words.append(f"--prompt={options.initial_prompt}")
        return shlex.join(words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call; the script is named by `BRIDLE_SCRIPT`."""
        named = ["--model", model] if model else []
        return [
            sys.executable,
            "-m",
            "bridle.runtimes.scripted",
            "print",
            *named,
            f"--prompt={prompt}",
        ]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """The variables that the model's own entry asks for, and those that name a scripted model
        where the provider is one: no other service is called."""
        from bridle.runtimes.options import provider_key

        provider = model.provider
        if provider is None or provider.base_url is None:
            return dict(model.env)
        key = provider_key(provider, {**os.environ, **model.env}, self.id)
        return {**model.env, MODEL_SERVER: provider.base_url, MODEL_SERVER_KEY: key or ""}

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, choose and compile the script, and write the request."""
        plan, request = self._plan(options, env, session_id)
        spec = msgspec.structs.replace(
            plan.spec,
            stdin=msgspec.json.encode(request) + b"\n",
            keep_stdin=options.permission_mode == "ask",
        )
        return msgspec.structs.replace(plan, spec=spec)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, compile the script, and keep the request for the wire's first word."""
        from bridle.runtimes.scripted.live import live_plan

        options = msgspec.structs.replace(options, prompt="", images=())
        plan, request = self._plan(options, env, session_id, live=True)
        return live_plan(plan, request, options.resume)

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a conversation with the scripted agent."""
        from bridle.runtimes.scripted.live import ScriptedLiveWire

        return ScriptedLiveWire(facts, recorder)

    def _plan(
        self, options: RunOptions, env: Mapping[str, str], session_id: str, live: bool = False
    ) -> tuple[RunPlan, dict[str, Any]]:
        installation = self.installation()
        dialect, _, warning = self.dialect(installation.version)
        ignored = check_options(self, options, self.features_of(dialect))
        options = native_options(self, options)
        cwd = working_dir(options)
        env = {**env, **options.env}
        settings = read_settings(options.provider_options, self.settings.options, env)
        native_id = options.resume or f"scripted-{os.urandom(8).hex()}"
        request = _request(options, settings, native_id, live)
        private: tuple[str, ...] = ()
        if options.account_dir is not None:
            request["state_dir"] = os.path.abspath(os.path.expanduser(options.account_dir))
        elif options.model_server is not None:
            private = (_private_dir(env),)
            request["state_dir"] = private[0]
        else:
            request["state_dir"] = state_dir(env)
        server = options.model_server
        return (
            RunPlan(
                spec=ProcessSpec(
                    argv=(*installation.command, *options.raw_args),
                    env=agent_env(env, options, session_id, cwd),
                    cwd=cwd,
                ),
                session_id=session_id,
                installation=installation,
                dialect=dialect,
                secrets=() if server is None else (server.api_key,),
                ignored_options=ignored,
                warnings=(warning,) if warning else (),
                private_dirs=private,
                native_session_id=native_id,
            ),
            request,
        )

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """The folder of its transcripts."""
        from bridle.sandbox import SandboxNeeds

        if options.model_server is not None and options.account_dir is None:
            return SandboxNeeds()
        folder = options.account_dir or state_dir(spec.env)
        return SandboxNeeds(writable=(os.path.abspath(os.path.expanduser(folder)),))

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """It asks on its wire, or by a hook command where it has none."""
        from bridle.runtimes.scripted.hooks import guard_plan

        return guard_plan(plan, hook)

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of the agent's wire."""
        return ScriptedNormalizer(recorder)

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """The agent at a terminal; its request waits in a private file that it removes."""
        spec = self.plan_face(options, env, "chat")
        found = self.installation()
        return interactive_plan(spec, found, self.dialect(found.version)[0])

    def plan_face(self, options: RunOptions, env: Mapping[str, str], face: str) -> ProcessSpec:
        """The agent talking to a person (`chat`) or printing plain text (`text`)."""
        import tempfile

        session_id = env.get(SESSION_MARK) or f"terminal-{os.urandom(8).hex()}"
        plan, request = self._plan(options, env, session_id)
        folder = state_dir(env)
        make_private_dir(folder)
        fd, path = tempfile.mkstemp(prefix="request-", dir=folder)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(request))
        argv = (*plan.spec.argv, "--face", face, "--request", path)
        return msgspec.structs.replace(plan.spec, argv=argv)

    def detect_ready(self, pane: str) -> ReadyState:
        """Ready when its prompt is the last thing on the pane."""
        from bridle.core.results import Busy, Loading, Ready

        lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
        if not lines:
            return Loading()
        last = lines[-1]
        if last.startswith("scripted>"):
            return Ready() if last == "scripted>" else Busy()
        if last.strip().endswith("? [y/N]"):
            return Busy(what="permission")
        return Busy() if any("scripted agent" in line for line in lines) else Loading()

    def requires_beacon_verification(self) -> bool:
        """It reads its terminal line by line: no prompt is swallowed."""
        return False

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What one of its transcripts says was used."""
        return summarize(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of all its transcripts; they are not kept by project."""
        return state_dir(os.environ)


def _request(options: RunOptions, settings: Settings, native_id: str, live: bool) -> dict[str, Any]:
    """What the agent process is asked to do, as it reads it."""
    from bridle.runtimes.scripted import script

    if options.budget_usd is not None and settings.cost_per_turn is None:
        raise WrongUse(
            "scripted has no price, so a budget cannot be kept",
            hint="give the provider option cost_per_turn, or drop the budget",
        )
    system = _system(options)
    server = options.model_server
    request: dict[str, Any] = {
        "version": __version__,
        "native_id": native_id,
        "resume": options.resume is not None,
        "prompt": options.prompt,
        "system": _text(system),
        "model": options.model,
        "images": [_image(path) for path in options.images],
        "permission": options.permission_mode,
        "tools": _permitted(options),
        "max_turns": options.max_turns,
        "cost_per_turn": settings.cost_per_turn,
        "max_retries": settings.max_retries,
        "aids": settings.aids,
    }
    if server is not None:
        request["server"] = {"url": server.url, "api_key": server.api_key}
        return request
    request["built_in"] = script.built_in()
    request["ended"] = script.ended()
    if settings.script is None:
        request["scripts"] = []
    elif live:
        request["scripts"] = script.candidates(settings.script, conversation=settings.conversation)
    else:
        one = script.compiled(
            settings.script,
            prompt=options.prompt,
            system=system,
            model=options.model,
            conversation=settings.conversation,
        )
        request["scripts"] = [one]
    return request


def _system(options: RunOptions) -> str:
    parts = [options.system_prompt, options.append_system_prompt]
    if options.append_system_prompt_file is not None:
        data = readable_file(options.append_system_prompt_file, "system prompt file")
        parts.append(data.decode(errors="replace"))
    return "\n\n".join(part for part in parts if part)


def _text(text: str) -> str:
    """Text that can be sent: what was no text on the command line is replaced."""
    return text.encode("utf-8", "replace").decode()


def _image(path: str) -> dict[str, str]:
    readable_file(path, "image")
    return image_part(os.path.abspath(os.path.expanduser(path)))


def _permitted(options: RunOptions) -> list[str]:
    own = TOOLS.names()
    allowed = options.allowed_tools or own
    return [name for name in own if name in allowed and name not in options.denied_tools]


def _private_dir(env: Mapping[str, str]) -> str:
    import tempfile

    base = os.path.join(os.path.dirname(state_dir(env)), "run")
    make_private_dir(base)
    return tempfile.mkdtemp(prefix="scripted-", dir=base)
