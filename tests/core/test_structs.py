"""Typed decoding: safe when several threads decode a type for the first time at once."""

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import bridle
from bridle.core import structs

PACKAGE = Path(bridle.__file__).parent

RACE = """
import sys
import threading
import msgspec
from bridle.core import structs

DEPTH, THREADS, ROUNDS = 40, 4, 8
sys.setswitchinterval(1e-6)
plain = {"a": 1, "b": "x", "z": {"q": 1.0}}
for _ in range(DEPTH - 1):
    plain = {"a": 1, "b": "x", "z": {"q": 1.0}, "child": plain}
text = msgspec.json.encode(plain)


def nested():
    inner, made = None, []
    for number in range(DEPTH):
        fields = {"a": "int", "b": "str | None", "z": "dict[str, float]"}
        if inner is not None:
            fields["child"] = inner | None
        given = [(name, kind, None) for name, kind in fields.items()]
        inner = msgspec.defstruct(f"T{number}", given)
        made.append(inner)
    return made


problems = []
for _ in range(ROUNDS):
    types = nested()
    together = threading.Barrier(THREADS)

    def first_use(number):
        try:
            together.wait()
            kind = types[-1 - number // 2]
            if number % 2:
                found = structs.convert(plain, kind)
            else:
                found = structs.decode(text, kind)
            assert type(found) is kind and found.child.a == 1
        except BaseException as problem:
            problems.append(repr(problem))

    threads = [threading.Thread(target=first_use, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert not problems, problems
"""


FORK = """
import os
import threading
import time
import msgspec
from bridle.core import structs

Kind = msgspec.defstruct("Kind", [("a", "int")])
held = threading.Event()


def examine():
    with structs._lock:
        held.set()
        time.sleep(0.3)


thread = threading.Thread(target=examine)
thread.start()
held.wait()
if os.fork() == 0:
    os._exit(0 if structs.decode(b'{"a":1}', Kind).a == 1 else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
thread.join()
assert structs.decode(b'{"a":2}', Kind).a == 2
"""


class Point(msgspec.Struct):
    x: int
    y: int = 0


def test_threads_that_decode_a_type_for_the_first_time_at_once_do_not_crash() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_forks_while_a_thread_examines_a_type_decodes_in_both() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_type_has_one_decoder() -> None:
    assert structs.decoder(Point) is structs.decoder(Point)
    assert structs.decode(b'{"x":1}', Point) == Point(1)
    assert structs.decode('[{"x":1}]', list[Point]) == [Point(1)]
    assert structs.convert({"x": "1"}, Point, strict=False) == Point(1)
    with pytest.raises(msgspec.ValidationError):
        structs.convert({"x": "1"}, Point)
    with pytest.raises(msgspec.DecodeError):
        structs.decode(b"{", Point)


def test_no_other_module_decodes_to_a_type() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == PACKAGE / "core/structs.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            typed = bool(node.args[1:] or node.keywords)
            if called.startswith("msgspec.") and (
                called.endswith("convert")
                or (called.endswith(".decode") and typed)
                or (called.endswith("Decoder") and (node.args or typed))
            ):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {called}")
    assert found == []
