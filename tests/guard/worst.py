"""Made-up calls that make a judge work hard: each kind grows with `size`, about its characters."""

from collections.abc import Callable

from bridle.guard import Call
from bridle.guard.shell.values import names


def _bash(command: str) -> Call:
    return Call(tool="Bash", input={"command": command})


UNITS = ("/", "'", '"', "`", "\\", "(", "[", "{", "}", "-", " ", "\n", ".", "a", "$", "=", ";",
         "/a", "' ", '"/', "`\\", "(/", "=/[", "/[a", "\\'", "git ", "git -", "../", "~/",
         "'/x", " /tmp", " '../a'", ".git ", "'a/b'", "open(", "open(a,", "copy ", "git reset ",
         "chdir('", "cwd = ", "> ", "<< ", "%(", "s/a/", "x=", "a,", "to ", "\\o ", "{}", "[[",
         "a.b.c.", "${", "*", "?", "0", "#", "|", "&", "%s", "@{", "X", "é")  # fmt: skip
"""What a long text is made of, repeated: the starts of whatever scanners look for."""

_TAKERS: dict[str, Callable[[str], str]] = {
    "node -e": lambda text: f"node -e {_quoted(text)}",
    "node stdin": lambda text: f"node <<'E'\n{text}\nE",
    "python -c": lambda text: f"python3 -c {_quoted(text)}",
    "perl -e": lambda text: f"perl -e {_quoted('write ' + text)}",
    "ruby -e": lambda text: f"ruby -e {_quoted('File.write ' + text)}",
    "php -r": lambda text: f"php -r {_quoted('system ' + text)}",
    "sed": lambda text: f"sed {_quoted(text)} a.txt",
    "sed -i": lambda text: f"sed -i -e {_quoted('s/a/b/;' + text)} a.txt",
    "awk": lambda text: f"awk {_quoted(text)} a.txt",
    "awk body": lambda text: f"awk {_quoted('{ print > ' + text + '}')} a.txt",
    "sqlite3": lambda text: f"sqlite3 a.db {_quoted('select ' + text)}",
    "psql": lambda text: f"psql -c {_quoted('copy ' + text)}",
    "jq": lambda text: f"jq {_quoted(text)} a.json",
    "grep": lambda text: f"grep {_quoted(text)} a.txt",
    "printf": lambda text: f"x=$(printf {_quoted(text)} a b c); echo $x",
    "echo": lambda text: f"echo {_quoted(text)} | xargs touch",
    "vim": lambda text: f"vim -c {_quoted(text)} a.txt",
    "gdb": lambda text: f"gdb -ex {_quoted(text)} a.out",
    "make": lambda text: f"make -f - <<'E'\n{text}\nE",
    "eval": lambda text: f"eval {_quoted(text)}",
    "bash -c": lambda text: f"bash -c {_quoted(text)}",
    "env -S": lambda text: f"env -S {_quoted(text)}",
    "find": lambda text: f"find . -name {_quoted(text)} -printf {_quoted(text)}",
    "tar": lambda text: f"tar --transform {_quoted(text)} -cf a.tar src",
    "patch": lambda text: f"patch -p1 <<'E'\n{text}\nE",
    "git apply": lambda text: f"git apply <<'E'\n{text}\nE",
    "git -c": lambda text: f"git -c alias.x={_quoted('!' + text)} x",
    "git commit": lambda text: f"git commit -m {_quoted(text)}",
    "git log": lambda text: f"git log --format={_quoted(text)}",
    "touch": lambda text: f"touch {_quoted(text)}",
    "redirect": lambda text: f"echo > {_quoted(text)}",
    "heredoc": lambda text: f"cat <<E > a.txt\n{text}\nE",
    "heredoc quoted": lambda text: f"cat <<'E' > a.txt\n{text}\nE",
    "variable": lambda text: f"x={_quoted(text)}; y=${{x%%a*b}}; z=${{x#*a*b}}; echo $x $y $z",
    "replace": lambda text: f"x={_quoted(text)}; echo ${{x//a/b}} ${{x/*/b}}",
    "ansi": lambda text: f"echo $'{text.replace(chr(39), chr(92) + chr(39))}'",
    "double": lambda text: f'echo "{text}"',
    "bare": lambda text: f"echo {text}",
    "unknown": lambda text: f"frobnicate --out={_quoted(text)} {_quoted(text)}",
    "curl": lambda text: f"curl -o a.txt {_quoted(text)}",
    "docker": lambda text: f"docker run -v {_quoted(text)} x",
    "test": lambda text: f"[[ {_quoted(text)} =~ x ]]",
    "arith": lambda text: f"echo $(( {text} ))",
    "mktemp": lambda text: f"rm $(mktemp {_quoted(text)})",
    "basename": lambda text: f"rm $(basename {_quoted(text)} x) $(dirname {_quoted(text)})",
    "duckdb": lambda text: f"duckdb -c {_quoted(text)}",
    "cd": lambda text: f"cd {_quoted(text)} && touch x",
}

_REPEATED: dict[str, Callable[[int], str]] = {
    "words": lambda n: "rm " + "a " * (n // 2),
    "words of paths": lambda n: "rm " + "src/a/b/c " * (n // 10),
    "words outside last": lambda n: "rm " + "a " * (n // 2) + "/etc/x",
    "options": lambda n: "ls " + "-l " * (n // 3),
    "bundled": lambda n: "ls -" + "l" * n,
    "long options": lambda n: "grep " + "--color=auto " * (n // 13),
    "unknown options": lambda n: "frob " + "--out a " * (n // 8),
    "git words": lambda n: "git add " + "a.txt " * (n // 6),
    "git checkout": lambda n: "git checkout -- " + "a.txt " * (n // 6),
    "git globals": lambda n: "git " + "-c a.b=c " * (n // 9) + "status",
    "git directories": lambda n: "git " + "-C . " * (n // 5) + "status",
    "statements": lambda n: "true; " * (n // 6),
    "writes": lambda n: "touch a; " * (n // 9),
    "links": lambda n: "".join(f"ln -s a l{i}; " for i in range(n // 12)),
    "directories": lambda n: "cd a; " * (n // 6),
    "directories up": lambda n: "cd ..; " * (n // 7),
    "directories both": lambda n: "cd a || cd b; " * (n // 14),
    "pushd": lambda n: "pushd a; " * (n // 9),
    "assignments": lambda n: "".join(f"a{i}=b; " for i in range(n // 9)),
    "assignments in subshells": lambda n: "".join(f"a{i}=$(pwd); " for i in range(n // 14)),
    "exports": lambda n: "".join(f"export GIT_A{i}=b; git status; " for i in range(n // 30)),
    "appends": lambda n: "x=a; " + "x+=aaaaaaaa; " * (n // 13) + "echo $x",
    "doubling": lambda n: "x=aaaaaaaaaaaaaaaa; " + "x=$x$x; " * (n // 8) + "touch $x",
    "array": lambda n: "x=(" + "a " * (n // 2) + '); touch "${x[@]}"',
    "array appends": lambda n: "".join("x+=(a); " for _ in range(n // 8)) + 'touch "${x[@]}"',
    "positional": lambda n: "set -- " + "a " * (n // 2) + "; for i; do touch $i; done",
    "positional nested": lambda n: "set -- " + "a " * (n // 8) + '; f() { g "$@" "$@"; }; '
    'g() { h "$@" "$@"; }; h() { touch "$@" "$@"; }; f "$@" "$@"',
    "loop of words": lambda n: "for i in " + "a " * (n // 2) + "; do touch $i; done",
    "loops in loops": lambda n: "for i in a b c d e f g h i j; do " * (n // 45) + "touch $i"
    + "; done" * (n // 45),
    "loops of variables": lambda n: "".join(f"for i{k} in a b; do " for k in range(n // 30))
    + "touch x" + "; done" * (n // 30),
    "pipes": lambda n: "cat a | " * (n // 8) + "cat",
    "ands": lambda n: "true && " * (n // 8) + "true",
    "ors": lambda n: "true || " * (n // 8) + "true",
    "ors with cd": lambda n: "cd a || " * (n // 8) + "true",
    "ifs": lambda n: "if true; then true; fi; " * (n // 24),
    "elifs": lambda n: "if true; then true; " + "elif true; then true; " * (n // 22) + "fi",
    "cases": lambda n: "case x in " + "a) x=b;; " * (n // 9) + "esac",
    "functions": lambda n: "".join(f"f{i}() {{ true; }}; " for i in range(n // 18)),
    "functions called": lambda n: "f0() { true; }; " + "".join(
        f"f{i}() {{ f{i - 1}; f{i - 1}; }}; " for i in range(1, n // 24)) + "f9",
    "function recursion": lambda n: "f() { " + "f; " * (n // 3) + "}; f",
    "function twice": lambda n: "f() { true; }; " + "f; " * (n // 3),
    "functions in branches": lambda n: "f() { true; }; "
    + "if true; then f() { f; }; fi; " * (n // 29) + "f",
    "aliases": lambda n: "".join(f"alias a{i}=ls; " for i in range(n // 13)),
    "traps": lambda n: "trap 'rm -f $x' EXIT; " * (n // 22) + "x=a",
    "substitutions": lambda n: "echo " + "$(pwd) " * (n // 7),
    "substitutions nested": lambda n: "echo " + "$(echo " * (n // 8) + "a" + ")" * (n // 8),
    "backticks": lambda n: "echo " + "`pwd` " * (n // 6),
    "subshells nested": lambda n: "(" * (n // 2) + "true" + ")" * (n // 2),
    "groups nested": lambda n: "{ " * (n // 5) + "true" + "; }" * (n // 5),
    "parameters": lambda n: "echo " + "$a" * (n // 2),
    "parameters nested": lambda n: "echo " + "${a:-" * (n // 6) + "b" + "}" * (n // 6),
    "parameters nested set": lambda n: "echo " + "${a:=" * (n // 6) + "b" + "}" * (n // 6),
    "parameters known": lambda n: "a=b; echo " + "$a " * (n // 3),
    "parameters of two": lambda n: "if x; then a=b; else a=c; fi; echo " + "$a " * (n // 3),
    "worlds": lambda n: "".join(f"if x; then a{i}=b; else a{i}=c; fi; " for i in range(n // 60))
    + "touch " + " ".join(f"$a{i}" for i in range(n // 60)),
    "worlds often": lambda n: "for i in a b c d e f g h i j k l; do "
    + "touch $i; " * (n // 10) + "done",
    "braces": lambda n: "echo " + "{" * (n // 2) + "a" + "}" * (n // 2),
    "braces open": lambda n: "echo " + "{" * n,
    "braces pairs": lambda n: "echo " + "{}" * (n // 2),
    "braces nested": lambda n: "echo " + "{a," * (n // 4) + "b" + "}" * (n // 4),
    "braces with commas": lambda n: "echo {" + "a," * (n // 2) + "}",
    "braces of words": lambda n: "echo " + "{a,b} " * (n // 6),
    "sequences": lambda n: "echo " + "{1..199} " * (n // 9),
    "globs": lambda n: "rm " + "*" * n,
    "globs of words": lambda n: "rm " + "*.o " * (n // 4),
    "globs apart": lambda n: "rm " + "a*" * (n // 2),
    "globs of dots": lambda n: "rm ." + "*?" * (n // 2),
    "extglobs": lambda n: "rm " + "@(a|b)" * (n // 6),
    "brackets": lambda n: "rm " + "[a" * (n // 2),
    "components": lambda n: "touch " + "a/" * (n // 2) + "b",
    "components up": lambda n: "touch " + "a/../" * (n // 5) + "b",
    "arithmetic": lambda n: "echo $((" + "1+" * (n // 2) + "1))",
    "arithmetic nested": lambda n: "echo $((" + "(" * (n // 2) + "1" + ")" * (n // 2) + "))",
    "redirects": lambda n: "echo " + "> a " * (n // 4),
    "heredocs": lambda n: "".join(f"cat <<E{i}\na\nE{i}\n" for i in range(n // 16)),
    "heredoc of parameters": lambda n: "a=b; cat <<E\n" + "$a\n" * (n // 3) + "E",
    "heredoc of substitutions": lambda n: "cat <<E\n" + "$(pwd)\n" * (n // 7) + "E",
    "wrappers": lambda n: "nice " * (n // 5) + "true",
    "envs": lambda n: "env " + "A=b " * (n // 4) + "true",
    "evals": lambda n: "eval " * (n // 5) + "true",
    "evals apart": lambda n: "".join(f"eval 'true;{i}'; " for i in range(n // 16)),
    "shells in shells": lambda n: _nested(n),
    "xargs": lambda n: "echo " + "a " * (n // 2) + "| xargs -I{} touch {}",
    "xargs of lines": lambda n: "printf '%s\\n' " + "a " * (n // 2) + "| xargs -I{} touch {}",
    "parallel": lambda n: "parallel touch {} ::: " + "a " * (n // 2),
    "find exec": lambda n: "find . " + "-exec touch {} \\; " * (n // 18),
    "find tests": lambda n: "find . " + "-name a -o " * (n // 11) + "-print",
    "comments": lambda n: "# x\n" * (n // 4) + "true",
    "newlines": lambda n: "\n" * n + "true",
    "process substitutions": lambda n: "cat " + "<(pwd) " * (n // 7),
    "coprocs": lambda n: "coproc true; " * (n // 13),
    "tests": lambda n: "[[ " + "a && " * (n // 5) + "b ]]",
    "declares": lambda n: "declare " + "".join(f"a{i}=b " for i in range(n // 6)),
    "name references": lambda n: "".join(f"declare -n a{i}=a{i + 1}; " for i in range(n // 22)),
    "hashes": lambda n: "".join(f"hash -p /bin/ls a{i}; a{i}; " for i in range(n // 25)),
    "reads": lambda n: "printf '%s\\n' " + "a " * (n // 2) + "| while read x; do touch $x; done",
    "mapfile": lambda n: "mapfile x < <(printf '%s\\n' " + "a " * (n // 2) + '); touch "${x[@]}"',
    "printf many": lambda n: "touch $(printf '%s/%s\\n' " + "a " * (n // 2) + ")",
    "sed lines": lambda n: "sed '" + "s/a/b/;" * (n // 7) + "' a.txt",
    "sed scripts": lambda n: "sed " + "-e s/a/b/ " * (n // 10) + "a.txt",
    "sed braces": lambda n: "sed '" + "{" * n + "' a.txt",
    "awk rules": lambda n: "awk '" + "/a/ { print $1 > \"b\" } " * (n // 25) + "' a.txt",
    "awk strings": lambda n: "awk '{ x = " + '"a" ' * (n // 4) + "}' a.txt",
    "node regexes": lambda n: "node -e '" + "x=/[a/]/g;" * (n // 10) + "'",
    "node regex open": lambda n: "node -e 'x=/" + "[a" * (n // 2) + "'",
    "node slashes": lambda n: "node -e '" + "=/" * (n // 2) + "'",
    "node templates": lambda n: "node -e '" + "`${a}`;" * (n // 7) + "'",
    "node quotes": lambda n: 'node -e \'"' + '\\\\"' * (n // 3) + "'",
    "node escapes": lambda n: "node -e '=/" + "\\" * n + "'",
    "node blanks": lambda n: "node -e '=" + " " * n + "'",
    "code paths": lambda n: "python3 -c \"write('x')\n" + "open('a/b')\n" * (n // 12) + '"',
    "code paths outside": lambda n: "python3 -c \"" + "read('/usr/x')\n" * (n // 15) + '"',
    "code guarded": lambda n: "python3 -c \"write('x')\n" + "'.github/x'\n" * (n // 12) + '"',
    "code git": lambda n: "python3 -c \"system('git" + " -a" * (n // 3) + "')\"",
    "code git words": lambda n: "python3 -c \"system('" + "git reset -q " * (n // 13) + "')\"",
    "code open": lambda n: "python3 -c \"" + "open(" * (n // 5) + '"',
    "code chdir": lambda n: "python3 -c \"write " + "chdir " * (n // 6) + '"',
}  # fmt: skip

_TOOLS: dict[str, Callable[[int], Call]] = {
    "write": lambda n: Call(tool="Write", input={"file_path": "a.txt", "content": "x" * n}),
    "write path": lambda n: Call(tool="Write", input={"file_path": "a/" * (n // 2)}),
    "edits": lambda n: Call(
        tool="MultiEdit", input={"file_path": "a", "edits": [{"path": "a/b"}] * (n // 15)}
    ),
    "patch": lambda n: Call(
        tool="apply_patch",
        input={"input": "*** Begin Patch\n" + "*** Update File: a\n+x\n" * (n // 22)},
    ),
    "patch lines": lambda n: Call(
        tool="apply_patch", input={"input": "--- a/x\n+++ b/x\n" + "+x\n" * (n // 3)}
    ),
    "words of a list": lambda n: Call(tool="shell", input={"command": ["rm"] + ["a"] * (n // 4)}),
    "shell in a list": lambda n: Call(
        tool="shell", input={"command": ["bash", "-lc", "true; " * (n // 6)]}
    ),
    "commands": lambda n: Call(tool="run_commands", input={"commands": ["ls -l"] * (n // 8)}),
    "environment": lambda n: Call(
        tool="terminal/create",
        input={"command": "ls", "args": [], "env": {f"A{i}": "b" for i in range(n // 8)}},
    ),
    "unknown nested": lambda n: Call(tool="mcp__x__do", input=_deep(n // 10)),
    "unknown wide": lambda n: Call(
        tool="mcp__x__do", input={"items": [{"path": "a/b"} for _ in range(n // 16)]}
    ),
    "unknown keys": lambda n: Call(
        tool="mcp__x__do", input={f"path_{i}": "src/a" for i in range(n // 16)}
    ),
    "unknown text": lambda n: Call(tool="mcp__x__do", input={"text": "/etc/x " * (n // 7)}),
    "unknown commands": lambda n: Call(
        tool="mcp__x__run", input={"steps": [{"command": "ls -l"} for _ in range(n // 20)]}
    ),
    "unknown name": lambda n: Call(tool="aB_" * (n // 3), input={}),
    "input as text": lambda n: Call(tool="Write", input='{"a":' * (n // 5)),
    "typed": lambda n: Call(tool="write_stdin", input={"chars": "ls\r" * (n // 3)}),
    "batch": lambda n: Call(
        tool="batch",
        input={"tool_calls": [{"tool": "Bash", "input": {"command": "ls"}}] * (n // 40)},
    ),
}


def kinds() -> dict[str, Callable[[int], Call]]:
    """Every kind of call, by name."""
    found: dict[str, Callable[[int], Call]] = {}
    for taker, make in _TAKERS.items():
        for unit in UNITS:
            found[f"{taker}: {unit!r}"] = _repeated(make, unit)
    return found | GROWING | CROSSING


def _repeated(make: Callable[[str], str], unit: str) -> Callable[[int], Call]:
    return lambda size: _bash(make(unit * max(1, size // len(unit))))


def _command(text: Callable[[int], str]) -> Callable[[int], Call]:
    return lambda size: _bash(text(size))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _nested(size: int) -> str:
    command = "true; " * (size // 6)
    for _ in range(4):
        command = f"bash -c {_quoted(command)}"
    return command


def _deep(levels: int) -> dict[str, object]:
    inner: dict[str, object] = {"path": "a"}
    for _ in range(levels):
        inner = {"a": [inner]}
    return inner


_CROSSING = names("""
    links assignments-in-subshells exports functions-in-branches positional-nested array-appends
    """)
"""Kinds in which each part looks at what all parts before it left behind."""

GROWING: dict[str, Callable[[int], Call]] = {}
CROSSING: dict[str, Callable[[int], Call]] = {}
for _name, _text in _REPEATED.items():
    (CROSSING if _name.replace(" ", "-") in _CROSSING else GROWING)[_name] = _command(_text)
for _name, _call in _TOOLS.items():
    GROWING[f"tool, {_name}"] = _call
