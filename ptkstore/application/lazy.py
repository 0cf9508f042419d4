"""Import modules of a package when they are first named."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def modules_of(package: str) -> Callable[[str], ModuleType]:
    """Return a `__getattr__` for the package: it imports the module that is named."""

    def import_named(name: str) -> ModuleType:
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":  # something that the module needs
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return import_named
