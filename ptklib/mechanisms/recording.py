"""A record of draws: which mechanism drew how many values at which scale."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draw:
    """One use of a mechanism: public numbers only, never a value."""

    mechanism: str
    """Its name in events, for example ``"DiscreteLaplace"``."""
    scale: float
    """The scale the sampler was given, in units of the integers it noised."""
    size: int
    """Number of values noised, or of candidates."""


_record: ContextVar[list[Draw] | None] = ContextVar("ptklib_draws", default=None)


@contextmanager
def recorded_draws() -> Iterator[list[Draw]]:
    """Yield a list that takes every draw of this thread until the block ends."""
    draws: list[Draw] = []
    token = _record.set(draws)
    try:
        yield draws
    finally:
        _record.reset(token)


def note(mechanism: str, scale: float, size: int) -> None:
    """Add a draw to the record, if one is kept; every sampler of this room calls it with what it draws at."""
    draws = _record.get()
    if draws is not None:
        draws.append(Draw(mechanism, float(scale), int(size)))
