"""A runtime declared by configuration alone: a binary, its flags, and how it takes a prompt.

It is driven as the plainest of programs: started once for each prompt, its stdout is the answer,
and exit status 0 is success since nothing else is told. Tool calls, usage and permission requests
of such a program cannot be seen; every option it has no flag for is refused by name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import Loading, Ready, ReadyState
from bridle.process.spec import ProcessSpec
from bridle.runtimes.contract import Adapter, AdapterSettings
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation, find_executable
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import agent_env, check_options, working_dir
from bridle.runtimes.preset.stream import PlainTextNormalizer
from bridle.runtimes.registry import check_declaration
from bridle.runtimes.supporting import supporters
from bridle.turns.recorder import Recorder

if TYPE_CHECKING:
    from bridle.config.schema import AdapterSection

_DIALECT = Dialect(name="plain text", since=(), seen=(), capture="")
_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes; Linux refuses to start a program with a longer argument."""


class PresetRuntime(Adapter):
    """The runtime that a section `runtime.adapters.<name>` with a `binary` declares."""

    binary = ""
    instruction_path = "AGENTS.md"
    dialects = (_DIALECT,)
    stability = "experimental"
    tells_version = False

    def __init__(self, name: str, section: "AdapterSection") -> None:
        super().__init__(AdapterSettings(binary=section.binary))
        check_declaration(name, section)
        # These are facts of the class for every other runtime; a preset is one class for many.
        vars(self).update(
            id=name,
            binary=section.binary,
            instruction_path=section.instruction_file,
            install_hint=section.install or "",
        )
        self._section = section

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """Plain text, whatever the version."""
        return _DIALECT, False, ""

    def features_of(self, dialect: Dialect) -> Features:
        """Text in, text out; the model when there is a flag for it."""
        return Features(
            options=frozenset({"model"} if self._section.model_flag else ()),
            streaming=True,
            instruction_file=self._section.instruction_file,
        )

    def find(self) -> Installation | None:
        """The program, if it is there. Its version stays unknown: it is not known to tell one."""
        path = find_executable(self._section.binary or "")
        return Installation(binary=path, version=None) if path else None

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Nothing is known about its login."""
        return "unknown"

    # -- spawning -------------------------------------------------------------------------------

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The program with its flags; a first prompt is its last argument."""
        import shlex

        for name in ("system_prompt", "append_system_prompt", "append_system_prompt_file"):
            if getattr(options, name) is not None:
                raise UnsupportedOption(self.id, name, supporters(name, self.id))
        bypass = options.permission_mode == "bypass"
        words = self._words(options.model, bypass=bypass)
        return shlex.join([*words, *([options.initial_prompt] if options.initial_prompt else [])])

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call; only where the prompt is given by argument."""
        if self._section.prompt == "stdin":
            raise WrongUse(
                f"runtime {self.id} takes its prompt on stdin", hint="run it with `bridle run`"
            )
        return [*self._words(model, bypass=False), self._as_argument(prompt)]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """The model's own variables; a provider cannot be routed to without knowing the program."""
        return dict(model.env)

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """The program with its flags and the prompt; refuses what it has no flag for."""
        ignored = check_options(self, options, self.features_of(_DIALECT))
        cwd = working_dir(options)
        found = self.installation()
        model = options.model if self._section.model_flag else None
        words = self._words(model, bypass=options.permission_mode == "bypass")
        argv = [found.binary, *words[1:], *options.raw_args]
        by_stdin = self._section.prompt == "stdin"
        if not by_stdin:
            argv.append(self._as_argument(options.prompt))
        return RunPlan(
            spec=ProcessSpec(
                argv=tuple(argv),
                env=agent_env(env, options, session_id, cwd),
                cwd=cwd,
                stdin=options.prompt.encode() if by_stdin else None,
            ),
            session_id=session_id,
            installation=found,
            dialect=_DIALECT,
            ignored_options=ignored,
        )

    def unasked(self, options: RunOptions) -> str:
        """Plain text carries no permission request."""
        instead = "its own settings decide what it does"
        return instead if self._section.bypass_flags else f"{instead}, with --permission bypass too"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> PlainTextNormalizer:
        """Each line of stdout is text."""
        return PlainTextNormalizer(recorder)

    def _words(self, model: str | None, *, bypass: bool) -> list[str]:
        section = self._section
        words = [section.binary or "", *section.flags, *(section.bypass_flags if bypass else ())]
        if model is not None:
            if section.model_flag is None:
                raise UnsupportedOption(self.id, "model", supporters("model", self.id))
            words += [section.model_flag, model]
        return words

    def _as_argument(self, prompt: str) -> str:
        """The prompt, if a program can be given it as an argument; else how it could be."""
        if len(prompt.encode()) > _LONGEST_ARGUMENT:
            why = "the prompt is longer than an argument may be (128 KiB)"
        elif prompt.startswith("-"):
            why = "a prompt that begins with `-` would be taken for a flag"
        elif "\0" in prompt:
            why = "a prompt with a null character cannot be an argument"
        else:
            return prompt
        raise WrongUse(
            f"runtime {self.id}: {why}",
            hint=f"set runtime.adapters.{self.id}.prompt to stdin, if the program can read it",
        )

    # -- worktree -------------------------------------------------------------------------------

    def detect_ready(self, pane: str) -> ReadyState:
        """Ready when the declared text shows; without one, nothing is waited for."""
        wanted = self._section.ready_text
        return Ready() if wanted is None or wanted in pane else Loading()
