"""The adapter: how Parrot is found, started and translated. Everything else Bridle does."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from bridle.adapter import (
    Adapter,
    Dialect,
    Features,
    Installation,
    ProcessExit,
    ProcessSpec,
    Recorder,
    ResolvedModel,
    RunOptions,
    RunPlan,
    SpawnOptions,
    Usage,
    WrongUse,
    agent_env,
    ask_version,
    check_options,
    convert,
    decoder,
    error_for_status,
    find_executable,
    new_private_dir,
    raw_of,
    remembered_version,
    working_dir,
    write_private,
)

DIALECTS = (Dialect(name="parrot-1", since=(1,), seen=("1.0.0",), capture="hello.jsonl"),)


class ParrotOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`runtime.adapters.parrot.options` of the configuration."""

    api_base: str = ""
    """The model's address; the variable PARROT_URL when absent."""
    model: str = "parrot-large"
    """The model of runs that name none."""


class ParrotRuntime(Adapter):
    """Parrot, one process for each prompt."""

    id = "parrot"
    binary = "parrot"
    instruction_path = "PARROT.md"
    stability = "experimental"
    dialects = DIALECTS
    options_type = ParrotOptions

    def features_of(self, dialect: Dialect) -> Features:
        honoured = {"system_prompt", "append_system_prompt", "model", "model_server"}
        return Features(
            options=frozenset(honoured),
            thinking=True,
            message_usage=True,
            retries=True,
            instruction_file=self.instruction_path,
        )

    def find(self) -> Installation | None:
        if self.settings.binary is not None:
            found = find_executable(self.settings.binary)
            launcher: tuple[str, ...] = ()
        else:
            # The program is part of this package; most adapters look for `self.binary` on PATH.
            found = os.path.join(os.path.dirname(__file__), "parrot.py")
            launcher = (sys.executable,)
        if found is None:
            return None
        version = remembered_version(found, lambda: ask_version((*launcher, found)))
        return Installation(binary=found, version=version, launcher=launcher)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        return "present" if env.get("PARROT_KEY") else "missing"

    def build_spawn_command(self, options: SpawnOptions) -> str:
        raise WrongUse("parrot has no terminal interface", hint="run it with `bridle run`")

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        raise WrongUse("parrot takes its prompt on stdin", hint="run it with `bridle run`")

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        return {**model.env, "PARROT_MODEL": model.model}

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        installation = self.installation()
        dialect, _, warning = self.dialect(installation.version)
        ignored = check_options(self, options, self.features_of(dialect))
        cwd = working_dir(options)
        child = agent_env(env, options, session_id, cwd)
        own = convert(self.settings.options, ParrotOptions)
        child["PARROT_MODEL"] = options.model or child.get("PARROT_MODEL") or own.model
        if own.api_base:
            child.setdefault("PARROT_URL", own.api_base)
        secrets: tuple[str, ...] = ()
        if options.model_server is not None:
            child["PARROT_URL"] = f"{options.model_server.url.rstrip('/')}/v1"
            child["PARROT_KEY"] = options.model_server.api_key
            secrets = (options.model_server.api_key,)
        if not child.get("PARROT_URL"):
            raise WrongUse("PARROT_URL is not set", hint="it must hold the model's address")
        if options.system_prompt is not None:
            child["PARROT_SYSTEM"] = options.system_prompt
        private: tuple[str, ...] = ()
        if options.append_system_prompt is not None:
            private = (new_private_dir(env, self.id),)
            rules = write_private(private[0], "rules.md", options.append_system_prompt)
            child["PARROT_RULES"] = rules
        argv = (*installation.command, *options.raw_args)
        spec = ProcessSpec(argv=argv, env=child, cwd=cwd, stdin=options.prompt.encode())
        return RunPlan(
            spec=spec,
            session_id=session_id,
            installation=installation,
            dialect=dialect,
            secrets=secrets,
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=private,
        )

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> "ParrotNormalizer":
        return ParrotNormalizer(recorder)


class Line(msgspec.Struct):
    """Every line Parrot prints; which fields it has depends on its type."""

    type: str
    session: str = ""
    model: str = ""
    version: str = ""
    text: str = ""
    thought: str = ""
    usage: dict[str, Any] | None = None
    id: str = ""
    command: str = ""
    status: int = 0
    output: str = ""
    attempt: int = 0
    message: str = ""


class ParrotNormalizer:
    """Parrot's lines, as calls on the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._decoder = decoder(Line)

    def feed(self, line: bytes) -> None:
        recorder = self._recorder
        try:
            said = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            recorder.unknown(raw_of(line))
            return
        recorder.source(raw_of(line))
        if said.type == "hello":
            recorder.session_started(said.session, model=said.model, runtime_version=said.version)
            recorder.turn_started(evidence="hello")
        elif said.type == "say":
            recorder.message_started()
            recorder.thinking_delta(said.thought, synthetic=True)
            recorder.text_delta(said.text, synthetic=True)
            recorder.message_ended(usage=_usage(said.usage))
        elif said.type == "run":
            recorder.tool_started(said.id, "bash", {"command": said.command})
        elif said.type == "ran":
            recorder.tool_ended(said.id, is_error=said.status != 0, result=said.output)
        elif said.type == "again":
            recorder.retrying(said.attempt, None, error_for_status(said.status, said.message))
        elif said.type == "failed":
            recorder.fail(error_for_status(said.status, said.message))
        elif said.type == "bye":
            recorder.turn_ended()
        else:
            recorder.unknown(raw_of(line))

    def finish(self, exit: ProcessExit) -> None:
        # A turn without `bye` failed: by what `failed` said, else by how the process ended.
        self._recorder.finish(exit)


def _usage(told: dict[str, Any] | None) -> Usage | None:
    """OpenAI's counts in Bridle's meaning: input without what came from the cache."""
    if told is None:
        return None
    cached = (told.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (told.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return Usage(
        input_tokens=told["prompt_tokens"] - cached,
        output_tokens=told["completion_tokens"],
        cache_read_tokens=cached,
        reasoning_tokens=reasoning,
    )
