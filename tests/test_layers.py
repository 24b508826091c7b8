"""Imports go downwards only, and no module imports itself by way of others."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "bridle"

LAYERS = [
    {"core", "_version"},
    {"config"},
    {"process"},
    {"turns"},
    {"sandbox"},
    {"drives"},
    {"guard"},
    {"runtimes"},
    {"adapter"},
    {"runs", "structured"},
    {"usage"},
    {"sessions", "embedded"},
    {"runtime"},
    {"swarm", "chains"},
    {"serve", "acp", "mcp", "top"},
    {"demo"},
    {"testing.bench", "testing.conformance"},
    {"doctor"},
    {"cli"},
]
"""From the lowest up, with the packages that are still to come."""

BESIDE = {"testing": {"core"}}
"""Public helpers that stand beside the layers, and what they may use. Runtimes and what is above
may use them in turn: the scripted runtime plays the same scripts as the scripted model. The bench
and the conformance kit live among them, but drive whole runtimes, so they have a place in the
layers."""

FACES = {"__init__", "__main__", "errors", "events"}
"""The package's own face, and its programs (`python -m …`): they may name everything, and nothing
inside may import them."""

RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


@cache
def parts() -> dict[str, list[Path]]:
    """Each top-level part of the package with its files."""
    found: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        if "testdata" not in path.parts:
            found.setdefault(place_of(path.relative_to(SOURCE).parts), []).append(path)
    return found


def place_of(words: tuple[str, ...]) -> str:
    """The part that a path or a dotted name (without `bridle`) belongs to."""
    if words[:2] in (("testing", "bench"), ("testing", "conformance")):
        return ".".join(words[:2])
    if words[-1] == "__main__.py":
        return "__main__"
    return words[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Lines and full names of what a file imports: at the top, in functions, for types alone."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                folder = path.parents[node.level - 1].relative_to(SOURCE.parent)
                base = [*folder.parts, *base]
            for alias in node.names:
                yield node.lineno, ".".join([*base, alias.name])


def part_of(name: str) -> str | None:
    """The part of bridle that an imported name belongs to, `__init__` for the face itself."""
    words = name.split(".")
    if words[0] != "bridle":
        return None
    known = {*parts(), *RANK, *BESIDE}
    place = place_of(tuple(words[1:])) if len(words) > 1 else ""
    return place if place in known else "__init__"


def allowed(user: str, used: str) -> bool:
    if user in FACES or user == used:
        return True
    if used in FACES:
        return False
    if user in BESIDE:
        return used in BESIDE[user]
    if used in BESIDE:
        return RANK[user] >= RANK["runtimes"]
    return RANK[used] <= RANK[user]


def test_every_part_has_a_place() -> None:
    assert set(parts()) - FACES - set(BESIDE) - set(RANK) == set()


def test_imports_go_downwards_only() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {user} must not import {name}"
        for user, files in parts().items()
        for path in files
        for line, name in imports(path)
        if (used := part_of(name)) is not None and not allowed(user, used)
    ]
    assert wrong == []


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    words = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


@cache
def module_graph() -> dict[str, frozenset[str]]:
    """Each module with those that it imports, at the top, in functions and for types alone. The
    package's own face is not among them: nothing inside may import it."""
    files = {module_of(path): path for paths in parts().values() for path in paths}
    del files["bridle"]
    graph = {}
    for name, path in files.items():
        used = set()
        for _, imported in imports(path):
            # `from a.b import c` names a module `a.b.c` or something in `a.b`.
            known = imported if imported in files else imported.rpartition(".")[0]
            used |= {known} & files.keys()
        graph[name] = frozenset(used - {name})
    return graph


def cycles(graph: dict[str, frozenset[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        open_.append(module)
        for used in graph[module]:
            if used not in order:
                visit(used)
                lowest[module] = min(lowest[module], lowest[used])
            elif used in open_:
                lowest[module] = min(lowest[module], order[used])
        if lowest[module] == order[module]:
            at = open_.index(module)
            group = sorted(open_[at:])
            del open_[at:]
            if len(group) > 1:
                found.append(group)

    for module in graph:
        if module not in order:
            visit(module)
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert cycles(module_graph()) == []


def test_a_cycle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"f", "a"}}
    assert cycles({name: frozenset(used) for name, used in graph.items()}) == [["a", "b", "c"]]
    assert "bridle.runtimes.contract" in module_graph()["bridle.runtimes.registry"]
    # In a function, and for types alone.
    assert "bridle.sessions.handles" in module_graph()["bridle.runtime"]
    assert "bridle.drives.tmux.facts" in module_graph()["bridle.runtimes.contract"]


def test_no_adapter_knows_the_judge() -> None:
    """An adapter says how its agent asks (`turns.guard_contract`), never who answers."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: imports {name}"
        for path in SOURCE.glob("runtimes/*/**/*.py")
        for line, name in imports(path)
        if name.startswith("bridle.guard")
    ]
    assert wrong == []


def test_no_module_knows_an_adapter() -> None:
    """The registry loads adapters by the names that entry points and declarations give. `acp` is a
    protocol, which several products speak."""
    folders = {path.name for path in (SOURCE / "runtimes").iterdir() if path.is_dir()} - {"acp"}
    wrong = []
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        own = inside[1] if inside[0] == "runtimes" and len(inside) > 2 else None
        for line, name in imports(path):
            words = name.split(".")
            if words[:2] != ["bridle", "runtimes"] or len(words) < 3:
                continue
            if words[2] in folders and words[2] != own:
                wrong.append(f"{'/'.join(inside)}:{line}: imports the adapter {words[2]}")
    assert wrong == []


IMPORTED_AS = {"ruamel-yaml": "ruamel"}
PROGRAMS = {"shfmt-py": "shfmt"}
"""Packages that bring a program and nothing to import, with a word that its user names."""


def test_every_required_package_is_used() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[<>=!~\[ ]", each)[0].replace(".", "-") for each in project["dependencies"]]
    files = [path for paths in parts().values() for path in paths]
    imported = {name.split(".")[0] for path in files for _, name in imports(path)}
    text = "\n".join(path.read_text() for path in files)
    unused = [
        name
        for name in names
        if IMPORTED_AS.get(name, name) not in imported
        and not (name in PROGRAMS and f'"{PROGRAMS[name]}"' in text)
    ]
    assert unused == []
