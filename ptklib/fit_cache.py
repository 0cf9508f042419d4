"""Facts that follow from the parameters of an estimator, computed once per fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

Fact = TypeVar("Fact")

_facts: ContextVar[dict[tuple[int, Callable[..., Any]], tuple[Any, Any]] | None] = ContextVar(
    "ptklib_facts", default=None
)


@contextmanager
def one_fit() -> Iterator[None]:
    """Keep what `once` methods return until the block ends; parameters must not change meanwhile.

    The cache belongs to the block and to its thread, never to the estimator. After a fit the estimator has
    its parameters and what it released.
    """
    token = _facts.set({})
    try:
        yield
    finally:
        _facts.reset(token)


def once(method: Callable[[Any], Fact]) -> Callable[[Any], Fact]:
    """Compute a method of parameters alone once per `one_fit`, and outside of one at each call.

    Callers share what it returns and must not change it.
    """

    @wraps(method)
    def kept(self: Any) -> Fact:
        facts = _facts.get()
        if facts is None:
            return method(self)
        place = (id(self), method)
        if place not in facts:
            facts[place] = (self, method(self))  # the estimator stays alive, so its id stays its own
        fact: Fact = facts[place][1]
        return fact

    return kept
