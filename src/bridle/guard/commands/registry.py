"""From a command name to what is known of it."""

import re
from collections.abc import Callable

from bridle.guard.commands import (
    archives,
    awk,
    containers,
    files,
    git,
    infrastructure,
    packages,
    programs,
    search,
    sed,
    system,
    tools_more,
    unknowns,
    wrappers,
)
from bridle.guard.commands.options import read
from bridle.guard.commands.programs import output_options
from bridle.guard.commands.table import CHECKERS, READERS, SPECS, Spec
from bridle.guard.effects import Command, Doubt, Effect, Mutates, Write, hook
from bridle.guard.names import names
from bridle.guard.values import Value, literal

Handler = Callable[[Command], list[Effect]]

HANDLERS: dict[str, Handler] = {
    "git": git.git,
    "sed": sed.sed, "gsed": sed.sed, "ssed": sed.sed,
    "awk": awk.awk, "gawk": awk.awk, "mawk": awk.awk, "nawk": awk.awk, "original-awk": awk.awk,
    "cp": files.copy, "gcp": files.copy, "mv": files.move, "ln": files.link,
    "link": files.hard_link, "install": files.install, "rsync": files.rsync, "scp": files.scp,
    "dd": files.dd, "tar": archives.tar, "gtar": archives.tar, "bsdtar": archives.tar,
    "unzip": archives.unzip, "cpio": archives.cpio, "ar": archives.ar, "ip": system.ip,
    "hg": system.version_control, "svn": system.version_control, "jj": system.version_control,
    "sl": system.version_control, "bzr": system.version_control, "fossil": system.version_control,
    "patch": files.patch,
    "mktemp": files.mktemp, "tempfile": files.mktemp, "ed": files.editor_text,
    "red": files.editor_text, "apply_patch": files.apply_patch, "applypatch": files.apply_patch,
    "prename": files.rename_all, "busybox": files.run_applet, "toybox": files.run_applet,
    "env": wrappers.env, "command": wrappers.command_builtin, "exec": wrappers.exec_builtin,
    "xargs": wrappers.xargs, "gxargs": wrappers.xargs, "parallel": wrappers.parallel,
    "find": search.find, "gfind": search.find, "fd": search.fd, "fdfind": search.fd,
    "rg": search.rg, "flock": wrappers.flock, "script": wrappers.script,
    "hyperfine": wrappers.shell_texts, "concurrently": wrappers.shell_texts,
    "ld.so": wrappers.loader,
    "source": programs.source, ".": programs.source,
    "python": programs.python, "pypy": programs.python, "perl": programs.perl,
    "make": programs.make, "gmake": programs.make, "ninja": programs.make,
    "just": programs.make, "task": programs.make, "cmake": programs.cmake,
    "ruff": packages.ruff, "tsc": packages.tsc, "curl": packages.curl, "wget": packages.wget,
    "systemctl": system.systemctl, "kill": system.kill, "pkill": system.kill_by_name,
    "killall": system.kill_by_name, "killall5": system.kill_by_name, "skill": system.kill_by_name,
    "jar": tools_more.jar, "sqlite3": tools_more.sqlite, "less": tools_more.pager,
    "gdb": tools_more.debugger, "lldb": tools_more.debugger, "hostname": tools_more.host_name,
    "openssl": tools_more.openssl, "dbus-send": tools_more.bus, "gdbus": tools_more.bus,
    "busctl": tools_more.bus,
    "qdbus": tools_more.bus, "watch": tools_more.watch,
    "sass": unknowns.sass, "ssh-keygen": unknowns.key_maker,
    "gh": system.github, "glab": system.github, "hub": system.github, "tea": system.github,
}  # fmt: skip

for _handler, _names in (
    (programs.shell, programs.SHELLS),
    (archives.seven_zip, names("7z 7za 7zr unrar rar")),
    (programs.interpreter, frozenset(programs._CODE_OPTIONS) - {"bun", "deno"}),
    (programs.editor, frozenset(n for n, s in SPECS.items() if s is SPECS["vim"])),
    (tools_more.release, tools_more.RELEASES),
    (tools_more.compiler, names("gcc cc clang g++ clang++ c++ ld ghc gfortran as rustc")),
    (unknowns.hooks, unknowns.HOOK_PLANTERS),
    (unknowns.sql_client, names("duckdb psql mysql mariadb")),
    (system.agent_cli, system.AGENT_CLIS),
    (system.privilege, system.PRIVILEGE),
    (system.scheduler, system.SCHEDULERS),
    (system.system, system.SYSTEM),
    (system.session_control, system.SESSION_CONTROL),
    (system.remote_shell, names("ssh sftp telnet rsh rlogin rexec ftp lftp sshpass autossh "
                                    "socat nc ncat netcat")),
    (containers.container, names("docker podman nerdctl docker-compose podman-compose "
                             "buildah finch")),
    (containers.machine, containers.MACHINES),
    (infrastructure.terraform, names("terraform tofu packer terragrunt")),
    (system.kubectl, names("kubectl helm oc aws gcloud az heroku vercel netlify "
                               "fly flyctl pulumi ansible ansible-playbook")),
    (packages.package_tool, frozenset(packages._QUERIES) - {"ruff", "helm"}
     | {"twine", "flit",     "mvnw", "gradlew", "sbt", "ant", "lerna", "nx",
        "turbo", "tox", "nox", "bazel", "meson", "zig", "stack", "cabal"}),
    (packages.test_runner, names("pytest py.test jest vitest mocha ava tap rspec phpunit bats "
                                     "ctest nosetests nose2 behave karma cypress playwright "
                                     "coverage green ginkgo gotestsum nextest")),
):  # fmt: skip
    for _name in _names:
        HANDLERS.setdefault(_name, _handler)

SPECS.update(tools_more.MORE_SPECS)
_COMMANDS = frozenset(HANDLERS) | frozenset(SPECS) | frozenset(wrappers.WRAPPERS)
HANDLERS["chmod"] = lambda command: chmod(command)

_STANDARD_BINS = re.compile(
    r"(/usr/local/s?bin|/usr/s?bin|/s?bin|/opt/[^/]+/bin|/usr/lib/git-core|/usr/libexec/git-core"
    r"|/home/[^/]+/\.local/bin|.*/\.?venv/bin|\.?venv/bin|.*/node_modules/\.bin|node_modules/\.bin"
    r"|/nix/store/[^/]+/bin|/snap/bin)/"
)
_VERSIONED = re.compile(r"(python|pypy|pip|perl|ruby|node|php|lua|gcc|g\+\+|clang|awk)[-\d.]+\Z")
_LOADER = re.compile(r"ld-linux[\w.-]*\.so[\w.]*\Z|ld-musl[\w.-]*\.so[\w.]*\Z|ld\.so\Z")
_ONLY_ASKS = frozenset({"--version", "--help", "-V", "-h", "-version", "version", "help"})


def base_name(name: str) -> str:
    """The name a command is known by: no path, no version, no zsh `=`."""
    base = name.rsplit("/", 1)[-1].removesuffix(".exe")
    if "@" in base[1:]:
        # A package with its version, as runners take it: codex@latest.
        base = base[0] + base[1:].partition("@")[0]
    if base.startswith("=") and len(base) > 1:
        base = base[1:]
    if _LOADER.match(base):
        return "ld.so"
    versioned = _VERSIONED.match(base)
    if versioned is not None:
        return versioned.group(1)
    if base not in HANDLERS and base not in SPECS and base not in READERS:
        folded = base.lower()
        if folded in HANDLERS or folded in SPECS or folded in READERS:
            return folded
    return base


def is_local(name: str) -> bool:
    """Whether the name is the path of a program that is not one of the system's own."""
    return "/" in name and _STANDARD_BINS.match(name) is None


def effects_of(command: Command, path: str, own: str, safe: tuple[str, ...]) -> list[Effect]:
    """What the command does. `path` is the name as written, `own` the orchestrator's command."""
    name = command.name
    effects = _effects(command, own, safe)
    if is_local(path) and not any(isinstance(e, Mutates) for e in effects):
        effects = [*effects, Mutates(f"the program {path}")]
    elif name not in HANDLERS and name not in SPECS and name not in READERS and "/" in path:
        return effects
    return effects


def _effects(command: Command, own: str, safe: tuple[str, ...]) -> list[Effect]:
    name = command.name
    if name == own or name == "bridle":
        return system.orchestrator(command)
    if name in safe:
        return system.tracker(command)
    if name in wrappers.WRAPPERS:
        wrapped = wrappers.wrapped(command, wrappers.WRAPPERS[name])
        if wrapped is not None:
            return wrapped
    handler = HANDLERS.get(name)
    if handler is not None:
        return handler(command)
    spec = SPECS.get(name)
    if spec is not None:
        return by_spec(command, spec)
    if name in READERS:
        return []
    if name in CHECKERS:
        return output_options(command.args)
    if name.startswith("git-") and len(name) > 4:
        return git.dashed(command)
    if name.startswith("mkfs"):
        return system.system(command)
    return unknown(command)


def unknown(command: Command) -> list[Effect]:
    """A program that is not known: it may change anything, above all what its options name."""
    if len(command.args) == 1 and command.args[0].text in _ONLY_ASKS:
        return []
    effects: list[Effect] = [Mutates(f"the program {command.name}")]
    if command.name.startswith(
        ("create-", "degit", "tiged", "cookiecutter", "django-admin", "rails")
    ):
        # They make a folder at the path they are given.
        paths = [a for a in command.args if not a.lead.startswith("-") and "/" in a.show()]
        effects.extend(Write(a, "merge") for a in paths if "://" not in a.show())
    effects.extend(unknowns.program_texts(command))
    effects.extend(unknowns.rewritten(command.args))
    effects.extend(unknowns.carried(command, _COMMANDS))
    return effects + output_options(command.args)


def by_spec(command: Command, spec: Spec) -> list[Effect]:
    """Effects by the command's row in the table."""
    options = read(
        command.args, spec.short, spec.long, optional=spec.optional,
        flags=(*spec.flags, *(n for n in (*spec.deep, *spec.when, *spec.unless) if len(n) > 1)),
    )  # fmt: skip
    if [a.text for a in command.args] in (["--version"], ["--help"]):
        return []
    effects: list[Effect] = [Write(v) for v in options.values(*spec.writes) if v.text != "-"]
    effects.extend(Write(v, "merge") for v in options.values(*spec.into))
    effects.extend(hook(v) for v in options.values(*spec.runs))
    changes = not spec.mutates_when or options.has(*spec.mutates_when)
    if spec.mutates and changes and not options.has(*spec.unless):
        effects.append(Mutates(spec.mutates))
    if options.open_options and (spec.writes or spec.when or spec.runs or spec.into):
        effects.append(Doubt(command.name))
    if options.has(*spec.unless) or (spec.when and not options.has(*spec.when)):
        return effects
    deep = options.has(*spec.deep)
    targets = _targets(options.operands, spec, options.has("reference"))
    for target in targets:
        if target.text == "-":
            continue
        mode = spec.mode
        if deep:
            mode = "tree" if spec.mode == "entry" or not _only_adds(command) else "write"
        effects.append(Write(target, mode))
    if spec.when and spec.mode == "merge" and not targets:
        # A formatter that is given no path rewrites what is here.
        effects.append(Write(literal("."), "merge"))
    if spec.here and not targets and not options.has(*spec.writes, *spec.into):
        effects.append(Write(literal("."), "merge"))
    return effects


def chmod(command: Command) -> list[Effect]:
    """chmod: a mode may look like options (`chmod -w file`)."""
    args = tuple(
        literal("a" + (a.text or "")) if re.fullmatch(r"-[rwxXst]+(,.*)?", a.text or "") else a
        for a in command.args
    )
    return by_spec(Command(command.name, args, directories=command.directories), SPECS["chmod"])


def _only_adds(command: Command) -> bool:
    """chmod -R u+w and the like: nothing below is taken away."""
    return any(re.match(r"[ugoa]*\+[rwxXst]+\Z", a.text or "") for a in command.args)


def _targets(operands: list[Value], spec: Spec, reference: bool) -> list[Value]:
    if spec.operands == "all" or (spec.operands == "rest" and reference):
        return operands
    if spec.operands == "rest":
        return operands[1:]
    if spec.operands == "first":
        return operands[:1]
    if spec.operands == "last":
        return operands[-1:] if len(operands) > 1 else []
    if spec.operands == "second":
        return operands[1:2]
    return []
