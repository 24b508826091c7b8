"""Package managers, build tools, test runners and downloaders."""

import re

from bridle.guard.commands.options import read
from bridle.guard.commands.programs import output_options
from bridle.guard.commands.system import AGENT_PACKAGES
from bridle.guard.commands.wrappers import packaged
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.names import names
from bridle.guard.values import Value, literal

_QUERIES: dict[str, frozenset[str]] = {
    "npm": names("ls list view info show search outdated root prefix bin help config explain fund "
                     "audit ping doctor why version --version -v ll la query"),
    "pnpm": names("ls list why outdated root bin help config view info -v --version ll"),
    "yarn": names("list info why outdated versions help config bin --version -v"),
    "bun": names("pm outdated --version -v --help"),
    "pip": names("list show freeze check search config debug help index inspect hash "
                     "--version -V"),
    "uv": names("tree version help --version -V"),
    "poetry": names("show check env about search version --version config"),
    "cargo": names("tree metadata search locate-project pkgid read-manifest verify-project "
                       "version help --version -V --list"),
    "go": names("list version env doc vet help"),
    "gem": names("list search query info environment which --version contents"),
    "bundle": names("list show info outdated check --version"),
    "composer": names("show info outdated validate why depends licenses --version"),
    "mvn": frozenset(("--version", "-v")),
    "gradle": frozenset(("--version", "-v", "tasks", "projects", "dependencies")),
    "conda": frozenset(("list", "info", "search", "--version")),
    "pipx": frozenset(("list", "--version")),
    "rustup": frozenset(("show", "--version", "which", "check")),
    "nvm": names("ls list current --version which use"),
    "pyenv": names("versions version which root init --version"),
    "dotnet": frozenset(("--version", "--info", "--list-sdks", "list")),
    "swift": frozenset(("--version",)),
    "deno": frozenset(("--version", "info", "lint", "check", "doc", "types")),
    "helm": frozenset(("list", "status", "version", "show", "lint", "template", "get")),
    "mix": frozenset(("help", "deps.tree", "--version")),
    "ruff": frozenset(("rule", "config", "linter", "version", "--version", "analyze")),
    "pdm": frozenset(("list", "show", "info", "--version")),
    "hatch": frozenset(("version", "env", "--version")),
}  # fmt: skip
"""First words with which the tool only looks."""

_PUBLISH = names(
    "publish unpublish deprecate owner adduser login logout dist-tag access token yank upload push"
)
_PLACES = ("prefix", "C", "dir", "cwd", "target", "t", "root", "directory", "manifest-path",
           "target-dir", "project", "install-dir", "out-dir", "outdir", "o", "output",
           "working-dir", "modules-folder", "cache-dir", "src", "chdir")  # fmt: skip

_VALUED = (
    *(place for place in _PLACES if len(place) > 1),
    "package", "filter", "workspace", "registry", "features", "python", "bin", "requirement",
    "index-url", "constraint", "profile", "group", "extra", "example", "test", "jobs",
)  # fmt: skip


_OWN_PLACES: dict[str, tuple[str, ...]] = {
    "pip": ("d", "w", "dest", "wheel-dir", "log"),
    "npm": ("pack-destination",),
    "pnpm": ("pack-destination", "store-dir", "virtual-store-dir"),
    "composer": ("d", "working-dir"),
    "mvn": ("f", "file"), "mvnw": ("f", "file"),
    "gradle": ("p", "project-dir", "project-cache-dir"),
    "gradlew": ("p", "project-dir", "project-cache-dir"),
    "conda": ("p", "prefix"), "mamba": ("p", "prefix"),
    "gem": ("i", "install-dir", "n", "bindir", "output"),
    "bundle": ("path", "gemfile"),
    "bazel": ("output_base", "output_user_root", "symlink_prefix"),
    "go": ("coverprofile", "cpuprofile", "memprofile", "modfile", "overlay"),
    "tox": ("workdir",), "nox": ("envdir",), "meson": ("d", "destdir"),
}  # fmt: skip
"""Options of one tool that name where it writes or works; single letters are short options."""

_QUERIES_OF_TWO: dict[str, tuple[tuple[str, str], ...]] = {
    "go": (("mod", "graph"), ("mod", "why"), ("mod", "verify"), ("tool", "dist")),
    "uv": (("pip", "list"), ("pip", "show"), ("pip", "tree"), ("python", "list"),
           ("python", "find"), ("cache", "dir"), ("tool", "list")),
    "npm": (("run", "--list"), ("pkg", "get"), ("cache", "ls")),
    "dotnet": (("nuget", "list"),),
}  # fmt: skip
"""First two words with which the tool only looks."""


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
    """Effects of a package manager or build tool by its first word."""
    name = "pip" if re.fullmatch(r"pip[\d.]*", command.name) else command.name
    own = _OWN_PLACES.get(name, ())
    letters = "Ctopw" if name != "cargo" else "CpFjZ"
    letters += "".join(place for place in own if len(place) == 1)
    options = read(command.args, short=letters, long=(*_VALUED, *own))
    words = [o.text or "" for o in options.operands]
    first = words[0] if words else ""
    queries = _QUERIES.get(name, frozenset())
    texts = [a.text or "" for a in command.args]
    if texts and texts[0] in queries and not first:
        return []
    sets = first == "config" and len(words) > 1 and words[1] not in ("list", "get", "ls")
    sets = sets or ((name, first) == ("go", "env") and bool({"-w", "-u"}.intersection(texts)))
    bumps = first in ("version", "env", "pm") and len(words) > 1 and name in ("npm", "poetry")
    fixes = first == "audit" and words[1:2] == ["fix"]
    if first in queries and not sets and not bumps and not fixes:
        return []
    if tuple(words[:2]) in _QUERIES_OF_TWO.get(name, ()) or (
        first == "run" and len(words) == 1 and name in ("npm", "pnpm", "yarn", "bun")
    ):
        return []
    nested = _nested(name, command, options.operands)
    if nested is not None:
        return nested
    if _publishes(name, words):
        return [Deny("publish", f"{name} {first}")]
    effects: list[Effect] = [
        Mutates(f"{name} {first}".strip(), _first_place(options.values("C", "cwd")))
    ]
    if _is_global(name, words, texts):
        effects.append(Deny("system", f"{name} {first} installs outside the worktree"))
    places = [v for v in options.values(*_PLACES, *own) if v.parts]
    effects.extend(Write(place, "merge") for place in places)
    effects.extend(output_options(command.args))
    if first in ("new", "init", "venv", "create", "startproject", "generate", "setup"):
        effects.extend(Write(v, "merge") for v in options.operands[1:] if "/" in v.show())
    if any(AGENT_PACKAGES.match(word) for word in words[1:]) and first not in (
        "install",
        "i",
        "add",
    ):
        effects.append(Deny("agent-cli", f"{name} starts another agent"))
    return effects


def _first_place(values: list[Value]) -> Value | None:
    return values[-1] if values else None


def _nested(name: str, command: Command, operands: list[Value]) -> list[Effect] | None:
    """`npm exec`, `pnpm dlx`, `uv pip`, `uv tool run`, `go run`, `cargo run`: another command."""
    words = [o.text or "" for o in operands]
    first = words[0] if words else ""
    args = list(command.args)
    texts = [a.text for a in args]
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
    if name == "bun" and any((a.text or "") in ("-e", "--eval", "-p", "--print") for a in args):
        return [Code(args[-1] if args else None, "bun")]
    if name == "deno" and first == "eval":
        return [Code(operands[1] if len(operands) > 1 else None, "deno")]
    if (name == "go" and first in ("fmt", "generate", "fix")) or (name, first) == ("cargo", "fmt"):
        if name == "cargo" and any((a.text or "") == "--check" for a in args):
            return []
        places = read(args, short="C", long=("manifest-path",)).values("C", "manifest-path")
        return [
            Mutates(f"{name} {first}"),
            *(Write(place, "merge") for place in places or [literal(".")]),
        ]
    if name == "go" and first == "vet":
        return []
    if name == "cargo" and first in ("check", "clippy", "fix") and "--fix" in texts:
        return [Mutates(f"cargo {first} --fix"), Write(literal("."), "merge")]
    return None


def _is_global(name: str, words: list[str], texts: list[str]) -> bool:
    first = words[0] if words else ""
    if name in ("npm", "pnpm", "pip", "poetry", "conda") and first == "config":
        # The file in the home directory, unless the project's own is named.
        return not any(
            t in ("--location=project", "--project", "--local", "--site", "--env", "project")
            for t in texts
        )
    if name == "go" and first == "env":
        return "-w" in texts or "-u" in texts
    if name in ("npm", "yarn", "pnpm") and first == "link" and (name == "npm" or len(words) == 1):
        return True
    if name in ("npm", "pnpm", "bun") and first in (
        "install", "i", "add", "uninstall", "remove", "rm", "update", "link", "un", "up"
    ):  # fmt: skip
        return any(t in ("-g", "--global", "--location=global") for t in texts)
    if name in ("yarn", "composer"):
        return first == "global"
    if name == "bundle":
        return first == "config" and "--global" in texts
    if name == "pip":
        return any(t in ("--user", "--break-system-packages") for t in texts)
    if name == "uv":
        return words[:2] in (["tool", "install"], ["python", "install"], ["self", "update"]) or (
            "--system" in texts or "--break-system-packages" in texts
        )
    if name == "cargo":
        return first in ("install", "uninstall") and not any(t.startswith("--root") for t in texts)
    if name in ("pipx", "rustup", "nvm", "pyenv"):
        return True
    return (
        name == "gem" and first in ("install", "uninstall", "update") and "--user-install" in texts
    )


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


def test_runner(command: Command) -> list[Effect]:
    """Effects of a test runner: it runs the worktree's code; its report options write."""
    texts = [a.text for a in command.args]
    if texts in (["--version"], ["-V"], ["--help"], ["-h"]) or "--collect-only" in texts:
        return [] if texts != ["--collect-only"] else [Mutates("collects tests")]
    effects = [Mutates(f"{command.name} runs code of the worktree"), *output_options(command.args)]
    for number, arg in enumerate(command.args):
        # pytest --cov-report=html:DIR, pytest -o cache_dir=DIR, coverage html -d DIR
        before = texts[number - 1] if number else ""
        report = re.match(r"(?:--cov-report[= ])?(?:html|xml|json|lcov|annotate):", arg.lead)
        setting = re.match(r"(?:--override-ini=|-o)?(?:cache_dir|log_file)=", arg.lead)
        if report and (arg.lead.startswith("--cov-report") or before == "--cov-report"):
            effects.append(Write(arg.after(report.end()), "merge"))
        elif setting and (arg.lead.startswith("-") or before in ("-o", "--override-ini")):
            effects.append(Write(arg.after(setting.end()), "merge"))
        elif command.name == "coverage" and before in ("-d", "--directory", "--data-file"):
            effects.append(Write(arg, "merge"))
    return effects


def tsc(command: Command) -> list[Effect]:
    """Effects of tsc: it writes output unless told not to."""
    options = read(command.args, short="p", long=("project", "outDir", "outFile", "declarationDir"))
    texts = [a.text or "" for a in command.args]
    if any(t in ("--noEmit", "--version", "-v", "--help", "-h", "--showConfig", "--listFilesOnly")
           for t in texts):  # fmt: skip
        return []
    effects: list[Effect] = [Mutates("tsc writes its output")]
    effects.extend(Write(v, "merge") for v in options.values("outDir", "outFile", "declarationDir"))
    return effects


_CURL_SHORT = "AbCcDdEeFHhKmoPQrTtUuwXxYyz"
_CURL_WRITES = ("o", "output", "D", "dump-header", "c", "cookie-jar", "trace", "trace-ascii",
                "stderr", "libcurl", "etag-save", "hsts", "alt-svc", "output-dir")  # fmt: skip


def curl(command: Command) -> list[Effect]:
    """Effects of curl: the files it is told to write."""
    options = read(
        command.args, short=_CURL_SHORT,
        long=("output", "dump-header", "cookie-jar", "trace", "trace-ascii", "stderr", "libcurl",
              "etag-save", "etag-compare", "hsts", "alt-svc", "output-dir", "header", "data",
              "data-raw", "data-binary", "data-urlencode", "request", "url", "user", "user-agent",
              "form", "config", "max-time", "connect-timeout", "retry", "proxy", "upload-file",
              "cookie", "write-out", "range", "referer", "cacert", "cert", "key", "resolve",
              "retry-delay", "limit-rate", "unix-socket", "json"),
        flags=("remote-name", "remote-name-all", "remote-header-name", "silent", "show-error",
               "fail", "location", "insecure", "create-dirs", "head", "include", "verbose",
               "compressed"),
    )  # fmt: skip
    effects: list[Effect] = [
        Write(v, "merge" if v in options.values("output-dir") else "write")
        for v in options.values(*_CURL_WRITES) if v.text != "-"
    ]  # fmt: skip
    if options.has("O", "remote-name", "remote-name-all", "J", "remote-header-name"):
        places = options.values("output-dir") or [literal(".")]
        effects.extend(Write(place, "merge") for place in places)
    if any("%output{" in form.show() for form in options.values("w", "write-out")):
        effects.append(Deny("path-unresolved", "curl writes a file named in its format"))
    if options.has("K", "config"):
        effects.append(Mutates("curl with a configuration file"))
    if options.has("unix-socket", "abstract-unix-socket"):
        effects.append(Deny("sandbox-escape", "curl talks to a local socket"))
    if any(o.lead.startswith("file:") for o in options.operands) and options.has("T"):
        effects.append(Deny("path-outside", "curl writes a local file by URL"))
    return effects


def wget(command: Command) -> list[Effect]:
    """Effects of wget: it writes to the current directory unless told otherwise."""
    options = read(
        command.args, short="oaeiBtOTwQPUlARDIX",
        long=("output-document", "output-file", "append-output", "directory-prefix", "execute",
              "input-file", "tries", "timeout", "wait", "user-agent", "header", "post-data",
              "save-cookies", "load-cookies", "warc-file", "level", "accept", "reject",
              "base", "user", "password", "method", "body-data", "use-askpass"),
        flags=("quiet", "spider", "recursive", "no-clobber", "continue", "mirror", "version"),
    )  # fmt: skip
    effects: list[Effect] = [
        Write(v) for v in options.values("o", "output-file", "a", "append-output", "save-cookies",
                                         "warc-file", "O", "output-document") if v.text != "-"
    ]  # fmt: skip
    effects.extend(Shell(v) for v in options.values("use-askpass"))
    effects.extend(Write(v, "merge") for v in options.values("P", "directory-prefix"))
    if options.has("spider", "version"):
        return effects
    if not options.has("O", "output-document", "P", "directory-prefix"):
        effects.append(Write(literal("."), "merge"))
    return effects
