"""What is wrong with a script, with the file and the line of each mistake."""

import msgspec


class ScriptProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One mistake in a script."""

    source: str
    """The file, or `<script>` when the script was given as text or data."""
    line: int | None
    """Counted from 1; None when the script was given as data."""
    message: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.message}"


class ScriptError(ValueError):
    """A script cannot be played; `problems` names all mistakes, not only the first."""

    def __init__(self, problems: list[ScriptProblem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
