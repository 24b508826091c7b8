"""What Parrot is: its facts as data."""

import os
import sys

import msgspec

from bridle.adapter import (
    Credentials,
    Dialect,
    ErrorRow,
    ErrorTable,
    Features,
    Installation,
    Product,
    Unavailable,
    ask_version,
    find_executable,
    remembered_version,
)

DIALECTS = (Dialect(name="parrot-1", since=(1,), seen=("1.0.0",), capture="hello.jsonl"),)


class ParrotOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`runtime.adapters.parrot.options` of the configuration."""

    api_base: str = ""
    """The model's address; the variable PARROT_URL when absent."""
    model: str = "parrot-large"
    """The model of runs that name none."""


def find(wanted: str) -> Installation | None:
    """The program called `wanted`; the one in this package by its own name."""
    # Most adapters look for a command on PATH in every case.
    own = wanted == "parrot"
    found = os.path.join(os.path.dirname(__file__), "parrot.py") if own else find_executable(wanted)
    if found is None:
        return None
    launcher = (sys.executable,) if own else ()
    version = remembered_version(found, lambda: ask_version((*launcher, found)))
    return Installation(binary=found, version=version, launcher=launcher)


PRODUCT = Product(
    id="parrot",
    binary="parrot",
    find=find,
    install_hint="pip install bridle-parrot",
    key_variable="PARROT_KEY",
    dialects=DIALECTS,
    instruction_path="PARROT.md",
    stability="experimental",
    credentials=Credentials(variables=("PARROT_KEY",)),
    features=Features(
        options=frozenset({"system_prompt", "append_system_prompt", "model", "provider"})
        | {"model_server"},
        thinking=True,
        message_usage=True,
        retries=True,
        instruction_file="PARROT.md",
    ),
    errors=ErrorTable(
        login_hint="set PARROT_KEY",
        calls=(ErrorRow(Unavailable, ("no answer",), hint="check the address in PARROT_URL"),),
    ),
)
