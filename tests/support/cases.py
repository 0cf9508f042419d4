"""Cases of one test that share a set-up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: str) -> Iterator[None]:
    """Name the case in what fails in it.

    pytest's own subtests exchange what is captured at each case; a server in a thread that writes at that moment ends
    the process.
    """
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise
