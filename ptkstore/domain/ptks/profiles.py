"""Profiles by samples: what a PTK asks for, what was released, for how long that is used, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from ptklib.canonical_json import json_digest
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.streams.blocks import BlockRange


@dataclass(frozen=True, slots=True)
class ProfileAsk:
    """How one PTK is profiled: public numbers, fixed when it is registered or changed.

    Two PTKs with the same `key` ask for the same profile, and one answer serves both. `line` is part of it: what one
    context of a stream paid for is not shown to another. `population` are the privacy units that the profile set of a
    window can expect, and `n_min` to `n_max` the expected units of training samples. `tries` windows are asked at
    most; after `max_age` windows an answer is renewed, and `drift` is what one drift test may cost, None for no test.
    """

    stream: str
    line: str
    fingerprint: str
    target: float
    epsilons: tuple[float, ...]
    budget: float
    n_min: int
    n_max: int
    growth: float
    models: int
    loss_bounds: tuple[float, float]
    evaluation: str
    batch: int
    confidence: float
    tries: int
    population: int
    groups: tuple[int, int]
    max_age: int
    drift: float | None

    @property
    def key(self) -> str:
        """The identity of the profile: everything but how long it is used and how it is watched."""
        content = {name: value for name, value in asdict(self).items() if name not in ("max_age", "drift")}
        return json_digest(content)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` gave, after a way through JSON."""
        pairs = {name: tuple(content[name]) for name in ("epsilons", "loss_bounds", "groups")}
        return cls(**{**content, **pairs})


class Verdict(StrEnum):
    """The answer of a profile for one epsilon: so many units are enough, more are needed, or none are ever enough."""

    FOUND = "found"
    NEEDS_MORE = "needs-more"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Point:
    """A released answer; `n` are the units found, or the most that were tried."""

    epsilon: float
    verdict: Verdict
    n: int = 0


@dataclass(frozen=True, slots=True)
class Paid:
    """The charge for a profile, and its blocks and window."""

    what: str
    window: int
    blocks: BlockRange
    loss: Loss


class ProfileState(StrEnum):
    """An open profile continues with the next window's profile set; a given-up one keeps what it has found."""

    OPEN = "open"
    ANSWERED = "answered"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """One profile, and what is known of it: DP output and public numbers.

    `number` grows with each renewal under the same key, `asked_at` is the first window it was asked of, and `job_id`
    the last job about it. `tries` counts the windows whose rows were opened for it.
    """

    key: str
    number: int
    stream: str
    asked_at: int
    job_id: str
    state: ProfileState = ProfileState.OPEN
    tries: int = 0
    points: tuple[Point, ...] = ()
    paid: tuple[Paid, ...] = ()
    drifted_at: int | None = None
    code: str = ""

    @property
    def settled(self) -> bool:
        """Whether nothing more will be asked for it."""
        return self.state is not ProfileState.OPEN

    @property
    def menu(self) -> tuple[tuple[float, int], ...]:
        """(epsilon, units) to choose from: epsilon rises, units fall; an answer is valid for larger epsilons."""
        pairs: list[tuple[float, int]] = []
        for point in self.points:
            if point.verdict is Verdict.FOUND and (not pairs or point.n < pairs[-1][1]):
                pairs.append((point.epsilon, point.n))
        return tuple(pairs)

    def unanswered(self, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Return the epsilons of the grid that have no answer yet."""
        answered = {point.epsilon for point in self.points if point.verdict is not Verdict.NEEDS_MORE}
        return tuple(epsilon for epsilon in epsilons if epsilon not in answered)

    @property
    def n_tried(self) -> int:
        """The largest sample that was tried and not enough."""
        return max((point.n for point in self.points if point.verdict is Verdict.NEEDS_MORE), default=0)

    def charged(self, paid: Paid) -> ProfileRecord:
        """Return the record once rows may be opened for it."""
        tries = self.tries + (not self.settled)
        return replace(self, tries=tries, paid=(*self.paid, paid))

    def with_answers(self, points: Sequence[Point], ask: ProfileAsk) -> ProfileRecord:
        """Return the record with further answers."""
        point_of = {point.epsilon: point for point in (*self.points, *points)}
        merged = replace(self, points=tuple(point_of[epsilon] for epsilon in sorted(point_of)), code="")
        if not merged.unanswered(ask.epsilons):
            return replace(merged, state=ProfileState.ANSWERED)
        if merged.tries >= ask.tries or merged.n_tried >= ask.n_max:
            return merged.given_up()
        return merged

    def given_up(self) -> ProfileRecord:
        """Return the record, with what it has found for good."""
        return replace(self, state=ProfileState.GIVEN_UP)


def usable(records: Sequence[ProfileRecord]) -> ProfileRecord | None:
    """Of all profiles under one key the one to plan with.

    That is the newest one that is settled, unless it drifted; then, or where there is none, what the one on its way
    has found so far. So an aged profile is used until its renewal has come to an end, and a drifted one no longer.
    """
    newest = max((record for record in records if record.settled), key=_number, default=None)
    if newest is not None and newest.drifted_at is None:
        return newest
    return max((record for record in records if not record.settled), key=_number, default=None)


def _number(record: ProfileRecord) -> int:
    return record.number


class Step(StrEnum):
    """The work of a window for a profile."""

    START = "start"
    GO_ON = "go-on"
    GIVE_UP = "give-up"
    TEST = "test"
    REST = "rest"


def next_step(
    newest: ProfileRecord | None, asks: Sequence[ProfileAsk], window: int, *, running: bool
) -> Step:
    """Return what comes next for the PTKs that share a profile, of which the last one is `newest`.

    Their config and target are the same, since the key is; the shortest `max_age` of them counts.
    """
    if newest is None:
        return Step.START
    if running:
        return Step.REST
    if not newest.settled:
        return Step.GIVE_UP if newest.tries >= asks[0].tries else Step.GO_ON
    if newest.drifted_at is not None or window - newest.asked_at > min(ask.max_age for ask in asks):
        return Step.START
    tested = newest.menu and any(ask.drift is not None for ask in asks)
    return Step.TEST if tested else Step.REST
