"""The facts of a runtime that a section of the configuration declares."""

from typing import TYPE_CHECKING

from bridle.core.features import Features
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.install import Installation, find_executable
from bridle.runtimes.product import Credentials, Product

if TYPE_CHECKING:
    from bridle.config.schema import AdapterSection

PLAIN_TEXT = Dialect(name="plain text", since=(), seen=(), capture="")
"""The one dialect of every declared program, whatever its version."""


def declared_product(name: str, section: "AdapterSection") -> Product:
    """The product that `section` declares under `name`: text in, text out."""
    return Product(
        id=name,
        binary=section.binary or "",
        find=_find,
        install_hint=section.install or "",
        dialects=(PLAIN_TEXT,),
        instruction_path=section.instruction_file,
        # Nothing is known about its login.
        credentials=Credentials(otherwise="unknown"),
        stability="experimental",
        tells_version=False,
        features=Features(
            options=frozenset({"model"} if section.model_flag else ()),
            streaming=True,
            instruction_file=section.instruction_file,
        ),
    )


def _find(wanted: str) -> Installation | None:
    """The program, without its version: an unknown program may take `--version` for a prompt."""
    path = find_executable(wanted)
    return Installation(binary=path, version=None) if path else None
