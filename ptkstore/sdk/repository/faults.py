"""Where in a team's repository a fault is: the PTK and the file that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptkstore.errors import InvalidRequest, PtkRejected, PtkStoreError
from ptkstore.sdk.repository.team_code import DECLARATIONS


def named(error: PtkStoreError, ptk_id: str) -> PtkStoreError:
    """Let an error that a declaration can mend say which PTK it is about, and the file that declares it; return it."""
    if isinstance(error, InvalidRequest | PtkRejected) and not error.about:
        names_it = isinstance(error, PtkRejected) or ptk_id in str(error)
        error.about = DECLARATIONS if names_it else f"PTK {ptk_id} in {DECLARATIONS}"
    return error


@contextmanager
def naming(ptk_id: str) -> Iterator[None]:
    """Do so with what is raised in this block."""
    try:
        yield
    except PtkStoreError as error:
        named(error, ptk_id)
        raise


def line_of(error: BaseException, source: Path) -> str:
    """Return the line of a file that an error comes from, as `, line 3,`; nothing where it comes from none."""
    number, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(source):
            number = trace.tb_lineno
        trace = trace.tb_next
    return "" if number is None else f", line {number},"
