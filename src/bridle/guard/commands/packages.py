"""Package managers, build tools, test runners and downloaders."""

import re

from bridle.guard.commands.given import given
from bridle.guard.commands.options import read
from bridle.guard.commands.system import AGENT_PACKAGES
from bridle.guard.commands.wrappers import packaged
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.shell.values import Value, literal, names

_PUBLISH = names(
    "publish unpublish deprecate owner adduser login logout dist-tag access token yank upload push"
)


def _publishes(name: str, words: list[str]) -> bool:
    first = words[0] if words else ""
    if name == "dotnet" and first == "publish":
        # It builds into a folder.
        return False
    if first in _PUBLISH or words[:2] in (
        ["profile", "set"],
        ["nuget", "push"],
        ["npm", "publish"],
    ):
        return True
    if name in ("mvn", "mvnw"):
        return any(w in ("deploy", "site-deploy") or w.startswith("release:") for w in words)
    if name in ("gradle", "gradlew"):
        return any(re.search(r"(^|:)(publish|upload)(?!ToMavenLocal)\w*$", w) for w in words)
    return False


def package_tool(command: Command) -> list[Effect]:
    """Effects of a package manager or build tool by its first word; queries are in `queries`."""
    name = "pip" if re.fullmatch(r"pip[\d.]*", command.name) else command.name
    options = read(
        command.args, short="CpFjZ" if name == "cargo" else "C",
        long=("prefix", "cwd", "dir", "directory", "package", "filter", "workspace", "registry",
              "features", "python", "project", "index-url", "profile", "group", "extra"),
    )  # fmt: skip
    words = subcommand([o.text or "" for o in options.operands], command)
    first = words[0] if words else ""
    texts = [a.text or "" for a in command.args]
    if texts in (["--version"], ["-V"], ["-v"], ["--help"], ["-h"], ["--list"], ["--info"],
                 ["--list-sdks"]):  # fmt: skip
        return []
    nested = _nested(name, command, options.operands)
    if nested is not None:
        return nested
    if _publishes(name, words):
        return [Deny("publish", f"{name} {first}")]
    places = options.values("C", "cwd")
    place = places[-1] if places else None
    effects: list[Effect] = [Mutates(f"{name} {first}".strip(), place)]
    if "--fix" in texts or first in ("fmt", "fix"):
        # A quality gate with this option would change the sources.
        effects.append(Write(literal("."), "merge", place))
    if _is_global(name, words, texts):
        effects.append(Deny("system", f"{name} {first} installs outside the worktree"))
    if any(AGENT_PACKAGES.match(word) for word in words[1:]) and first not in (
        "install",
        "i",
        "add",
    ):
        effects.append(Deny("agent-cli", f"{name} starts another agent"))
    return effects


def subcommand(operands: list[str], command: Command) -> list[str]:
    """The operands from the one that publishes on, where those before it may be the values of
    options (`--tag beta publish`) or name a toolchain (`+stable publish`)."""
    texts = [a.text or "" for a in command.args]
    for number, word in enumerate(operands):
        if word in _PUBLISH:
            return operands[number:]
        before = texts[texts.index(word) - 1] if word in texts and texts.index(word) else ""
        if not word.startswith("+") and (not before.startswith("-") or "=" in before):
            break
    return operands


TOOLS = names("""
    npm pnpm yarn bun pip uv poetry cargo go gem bundle composer mvn gradle conda pipx rustup nvm
    pyenv dotnet deno twine mvnw gradlew
    """)

TEST_RUNNERS = names("""
    pytest py.test jest vitest mocha ava tap rspec phpunit bats ctest nosetests nose2 behave karma
    cypress playwright coverage green ginkgo gotestsum nextest
    """)
"""Programs that run tests: as a quality gate they are recognized by name alone."""


def _nested(name: str, command: Command, operands: list[Value]) -> list[Effect] | None:
    """`npm exec`, `pnpm dlx`, `uv pip`, `uv tool run`, `go run`, `cargo run`: another command."""
    words = [o.text or "" for o in operands]
    first = words[0] if words else ""
    args = list(command.args)
    if name in ("npm", "pnpm", "yarn", "bun") and first in ("exec", "x", "dlx"):
        position = next(i for i, a in enumerate(args) if a.text == first)
        rest = read(args[position + 1 :], short="pc", long=("package", "call"), permute=False)
        effects: list[Effect] = [Shell(v) for v in rest.values("c", "call")]
        if rest.operands:
            effects.append(Run(tuple(rest.operands), functions=False))
            effects.extend(packaged(rest.operands[0]))
        return effects or [Mutates(f"{name} {first}")]
    if name == "uv" and first == "pip":
        position = next(i for i, a in enumerate(args) if a.text == "pip")
        return [Run((literal("pip"), *args[position + 1 :]), functions=False)]
    if name == "uv" and words[:2] == ["tool", "run"]:
        return [Run(tuple(operands[2:]), functions=False)] if operands[2:] else []
    evals = ("-e", "--eval", "-p", "--print")
    if name == "bun" and any(a.lead.partition("=")[0] in evals for a in args):
        return [Code(args[-1] if args else None, "bun")]
    if name == "deno" and first == "eval":
        return [Code(operands[1] if len(operands) > 1 else None, "deno")]
    return None


_GLOBAL_FLAGS = frozenset(
    {"-g", "--global", "--location=global", "--user", "--break-system-packages", "--system",
     "--home", "--user-install"}
)  # fmt: skip
_GLOBAL_USES: dict[str, str] = {
    "npm": r"link", "yarn": r"global|link\Z", "pnpm": r"link\Z", "composer": r"global",
    "uv": r"tool install|python install|self update", "go": r"env .*-[wu]\b",
    "pipx": r"", "rustup": r"", "nvm": r"", "pyenv": r"",
}  # fmt: skip
"""Uses of one tool that change the user's own installation."""
_PROJECT = frozenset({"--location=project", "--project", "--local", "--site", "--env", "project"})


def _is_global(name: str, words: list[str], texts: list[str]) -> bool:
    """Whether a package tool always acts outside the project."""
    first = words[0] if words else ""
    if name in ("npm", "pnpm", "pip", "poetry", "conda") and first == "config":
        # It changes the file in the home directory, unless the project's own is named.
        return not _PROJECT.intersection(texts)
    if first == "run" or (name == "yarn" and first == "config" and "--home" not in texts):
        return False
    if name == "cargo":
        return first in ("install", "uninstall") and not any(t.startswith("--root") for t in texts)
    if _GLOBAL_FLAGS.intersection(texts):
        return True
    uses = _GLOBAL_USES.get(name)
    return uses is not None and re.match(uses, " ".join(t for t in texts)) is not None


def ruff(command: Command) -> list[Effect]:
    """Effects of ruff: check only reads without --fix, format only with --check or --diff."""
    options = read(
        command.args, short="o", long=("output-file", "config", "select", "ignore", "extend-select",
                                       "line-length", "target-version", "output-format",
                                       "cache-dir", "exclude", "stdin-filename"),
        flags=("fix", "fix-only", "unsafe-fixes", "add-noqa", "check", "diff", "no-fix", "watch"),
    )  # fmt: skip
    words = [o.text for o in options.operands]
    first = words[0] if words else ""
    effects: list[Effect] = [Write(v) for v in options.values("o", "output-file", "cache-dir")]
    targets = options.operands[1:] or [literal(".")]
    if first == "format" and not options.has("check", "diff"):
        effects.extend(Write(t, "merge") for t in targets)
    elif first == "clean":
        effects.append(Mutates("ruff clean"))
    elif options.has("fix", "fix-only", "add-noqa") and not options.has("diff"):
        effects.extend(Write(t, "merge") for t in targets)
    return effects


def curl(command: Command) -> list[Effect]:
    """Effects of curl beyond its listed options: what it writes, and sockets of the machine."""
    from bridle.guard.commands.readers import LISTED

    row = LISTED["curl"]
    valued = [name for name, kind in row.options.items() if kind]
    options = read(
        command.args, "".join(name for name in valued if len(name) == 1),
        ["output-dir", "abstract-unix-socket", "upload-file", "config",
         *(name for name in valued if len(name) > 1)],
        flags=[name for name in row.options if len(name) > 1],
    )  # fmt: skip
    effects: list[Effect] = [
        Write(v) for v in options.values("o", "output") if v.text not in ("-", "")
    ]
    places = options.values("output-dir")
    if options.has("O", "remote-name", "remote-name-all", "J", "remote-header-name"):
        places = places or [literal(".")]
    effects.extend(Write(place, "merge") for place in places)
    if any("%output{" in form.show() for form in options.values("w", "write-out")):
        effects.append(Deny("path-unresolved", "curl writes a file named in its format"))
    if options.has("K", "config"):
        effects.append(Mutates("curl with a configuration file"))
        effects.extend(given(command, (literal(command.stdin.script or ""),)))
    if options.has("unix-socket", "abstract-unix-socket"):
        effects.append(Deny("sandbox-escape", "curl talks to a local socket"))
    if any(o.lead.startswith("file:") for o in options.operands) and options.has("T"):
        effects.append(Deny("path-outside", "curl writes a local file by URL"))
    unlisted = [arg for arg in command.args if arg.lead[:2] == "--"
                and arg.lead[2:].partition("=")[0] not in row.options]  # fmt: skip
    letters = set("DcTKQEtUhPC") & {name for name in options.options if len(name) == 1}
    if (unlisted or letters) and not options.has("T", "upload-file"):
        effects.extend(given(command, command.args))
    return effects


def wget(command: Command) -> list[Effect]:
    """Effects of wget: it writes to the current directory unless an option names another place."""
    options = read(
        command.args, short="oaeiBtOTwQPUlARDIX", long=("output-document", "directory-prefix"),
        flags=("spider", "output-file"),
    )  # fmt: skip
    effects = given(command, command.args)
    written = options.values("O", "output-document", "o", "a", "P", "directory-prefix")
    effects.extend(Write(v, "merge") for v in written if v.text != "-")
    if not written and not options.has("spider"):
        effects.append(Write(literal("."), "merge"))
    return effects


def hooks(command: Command) -> list[Effect]:
    """Tools that plant git hooks: the hooks are shared by all worktrees."""
    words = [a.text or "" for a in command.args]
    if {"--version", "--help", "-v", "-h", "-V"}.intersection(words):
        return []
    first = next((w for w in words if not w.startswith("-") or w in _PLANTS), "")
    if first in _PLANTS or command.name in ("husky", "simple-git-hooks"):
        return [Deny("git-shared", f"{command.name} {first} plants git hooks")]
    return [Mutates(f"{command.name} {first}".strip())]


_PLANTS = names("install uninstall init init-templatedir add set --install -i --uninstall -u")
HOOK_PLANTERS = names("pre-commit prek husky lefthook simple-git-hooks overcommit")
