"""How `ptk` ends where the installation lacks a package that it needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ptkstore.errors import missing_package


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End with exit code 1 and one line that says what to install; a module of our own that is missing is a fault."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (message := missing_package(error)) is None:
            raise
        sys.stderr.write(f"ptk: {message}\n")
        raise SystemExit(1) from None
