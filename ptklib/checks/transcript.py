"""The outputs of the mechanisms of one training, and how much likelier they were with a unit than without it.

A training is noise on exact numbers, and arithmetic on what came out. `record` keeps both sides of each draw.
`replay` trains on other rows and gives out the same once more. So the exact numbers of the other rows are
seen for the same outputs, however a later draw depends on earlier ones. Only audits of made-up rows do this:
exact numbers are private.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from threading import RLock
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.checks.likelihood_ratios import divergence, log_ratio
from ptklib.mechanisms import additive, selection
from ptklib.mechanisms.partition import PartitionSelection
from ptklib.mechanisms.recording import Draw, recorded_draws

Train = Callable[[], Any]


class DivergedError(Exception):
    """Other rows lead to other draws after the same outputs, so the two cannot be compared."""


class _Enough(BaseException):
    """The last draw was seen. It stops a training whatever errors that catches."""


@dataclass(frozen=True, eq=False)
class Step:
    """One draw."""

    mechanism: str
    scale: float
    exact: tuple[Ints, ...]
    """What noise was added to, or the scores of candidates. **Private**."""
    given: tuple[Ints, ...]
    """What came out."""


@dataclass(eq=False)
class Transcript:
    """All draws of one training, in order."""

    steps: list[Step] = field(default_factory=list)

    def log_ratio(self, other: "Transcript") -> Floats:
        """Return, for each step, the log of how much likelier its output is here than on the rows of `other`."""
        return np.array(
            [
                log_ratio(mine.mechanism, mine.scale, mine.given, mine.exact, theirs.exact)
                for mine, theirs in zip(self.steps, other.steps, strict=True)
            ]
        )

    def noised_the_same(self, other: "Transcript") -> bool:
        """Return whether the exact numbers of all draws are equal."""
        return len(self.steps) == len(other.steps) and all(
            np.array_equal(one, two)
            for mine, theirs in zip(self.steps, other.steps, strict=True)
            for one, two in zip(mine.exact, theirs.exact, strict=True)
        )

    def divergence(self, other: "Transcript") -> float:
        """Return how far the laws of what follows the same outputs are apart on these rows and those of `other`."""
        return sum(
            divergence(mine.mechanism, mine.scale, mine.exact, theirs.exact)
            for mine, theirs in zip(self.steps, other.steps, strict=True)
        )


def record(train: Train) -> Transcript:
    """Train, and return what was drawn."""
    return _watched(train, None)


def replay(transcript: Transcript, train: Train, *, to_the_end: bool = True) -> Transcript:
    """Train on other rows with the outputs of `transcript` in place of noise, and return what they would noise.

    Parameters
    ----------
    to_the_end : bool
        Whether training continues after the last draw: the rest is arithmetic on what was given out.

    Raises
    ------
    DivergedError
        When other mechanisms, other scales or other numbers of values are asked for.
    """
    return _watched(train, iter(transcript.steps), None if to_the_end else len(transcript.steps))


class _Watch:
    """Takes the place of noise while one training runs."""

    def __init__(self, given: Iterator[Step] | None, last: int | None, draws: list[Draw]) -> None:
        self._given, self._last, self._draws = given, last, draws
        self.seen = Transcript()

    def noted(self) -> tuple[str, float]:
        """Return mechanism and scale of the last use; samplers of vectors and selections note it before they draw."""
        return self._draws[-1].mechanism, self._draws[-1].scale

    def drawn(
        self,
        use: tuple[str, float],
        exact: tuple[Ints, ...],
        draw: Callable[[], tuple[Ints, ...]],
    ) -> tuple[Ints, ...]:
        """Draw, or give out what was drawn before; and remember."""
        if self._given is None:
            given = draw()
        else:
            step = next(self._given, None)
            if step is None or (step.mechanism, step.scale) != use:
                raise DivergedError("other draws")
            if [e.shape for e in step.exact] != [e.shape for e in exact]:
                raise DivergedError("other numbers of values")
            given = step.given
        self.seen.steps.append(Step(*use, exact, given))
        if len(self.seen.steps) == self._last:
            raise _Enough
        return given


_watch: ContextVar[_Watch | None] = ContextVar("ptklib_watch", default=None)
_one_at_a_time = RLock()


def _watched(train: Train, given: Iterator[Step] | None, last: int | None = None) -> Transcript:
    with recorded_draws() as draws, _samplers_watched():
        watch = _Watch(given, last, draws)
        token = _watch.set(watch)
        try:
            train()
        except _Enough:
            pass
        finally:
            _watch.reset(token)
    if given is not None and next(given, None) is not None:
        raise DivergedError("fewer draws")
    return watch.seen


@contextmanager
def _samplers_watched() -> Iterator[None]:
    """Let the samplers of ptklib.mechanisms ask the watch of their thread, which others do not have, while it lasts."""
    with _one_at_a_time:
        own = [(owner, name, getattr(owner, name)) for owner, name, _ in _SAMPLERS]
        for owner, name, wrapper in _SAMPLERS:
            setattr(owner, name, wrapper(getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, sampler in own:
                setattr(owner, name, sampler)


def _adding(sampler: Any) -> Any:
    @wraps(sampler)
    def noised(units: Any, *arguments: Any) -> Any:
        watch = _watch.get()
        if watch is None:
            return sampler(units, *arguments)
        exact = np.array(units, dtype=np.int64)
        return watch.drawn(watch.noted(), (exact,), lambda: (sampler(units, *arguments),))[0].copy()

    return noised


def _selecting(measurements: Any) -> Any:
    @wraps(measurements)
    def measurement(*arguments: Any) -> Any:
        select, watch = measurements(*arguments), _watch.get()
        if watch is None:
            return select

        def chosen(scores: Any) -> int:
            exact = np.array(scores, dtype=np.int64)
            return int(watch.drawn(watch.noted(), (exact,), lambda: (np.array([select(scores)]),))[0][0])

        return chosen

    return measurement


def _partitioning(draw: Any) -> Any:
    @wraps(draw)
    def drawn(selection_: PartitionSelection, public: Any, private: Any) -> Any:
        watch = _watch.get()
        if watch is None:
            return draw(selection_, public, private)
        exact = np.array(public, dtype=np.int64), np.array(private, dtype=np.int64)
        use = selection_.mechanism, selection_.scale
        noisy, passed, places = watch.drawn(use, exact, lambda: draw(selection_, public, private))
        return noisy.copy(), passed.copy(), places.copy()

    return drawn


_SAMPLERS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (additive, "_noised", _adding),
    (selection, "_measurement", _selecting),
    (PartitionSelection, "draw", _partitioning),
)
