"""Subscriptions and dead letters in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, select, update

from ptkstore.adapters.sql import tables as t
from ptkstore.domain.subscriptions import DeadLetter, Health, Subscription
from ptkstore.errors import UnknownName

Id = TypeVar("Id", str, int)
IDS_AT_ONCE = 500  # SQLite binds no more than 999 in old versions


class SqlSubscriptions:
    """Subscriptions, how their endpoints answer, and what they missed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, subscription: Subscription) -> None:
        """Record a subscription."""
        self._connection.execute(
            insert(t.subscriptions).values(
                id=subscription.id,
                ptk_id=subscription.ptk_id,
                endpoint=subscription.endpoint,
                team=subscription.team,
                **_standing(subscription),
            )
        )

    def get(self, subscription_id: str) -> Subscription:
        """`UnknownName` if there is none."""
        query = select(t.subscriptions).where(t.subscriptions.c.id == subscription_id)
        row = self._connection.execute(query).one_or_none()
        if row is None:
            raise UnknownName("subscription", subscription_id)
        return _subscription(row)

    def many(self, subscription_ids: Iterable[str]) -> Mapping[str, Subscription]:
        """Those of these that exist."""
        by_id: dict[str, Subscription] = {}
        for ids in parts(subscription_ids):
            query = select(t.subscriptions).where(t.subscriptions.c.id.in_(ids))
            by_id.update((row.id, _subscription(row)) for row in self._connection.execute(query))
        return by_id

    def of(
        self,
        ptk_id: str | None = None,
        *,
        team: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> tuple[Subscription, ...]:
        """Of one PTK, of one team or all, by id."""
        query = select(t.subscriptions).where(t.subscriptions.c.id > after).order_by(t.subscriptions.c.id)
        if ptk_id is not None:
            query = query.where(t.subscriptions.c.ptk_id == ptk_id)
        if team is not None:
            query = query.where(t.subscriptions.c.team == team)
        return tuple(map(_subscription, self._connection.execute(query.limit(limit))))

    def save(self, subscriptions: Iterable[Subscription]) -> None:
        """Write health and status."""
        rows = [{"b_id": s.id, **_standing(s)} for s in sorted(subscriptions, key=lambda s: s.id)]
        if rows:
            change = update(t.subscriptions).where(t.subscriptions.c.id == bindparam("b_id"))
            names = (name for name in rows[0] if name != "b_id")
            self._connection.execute(change.values({name: bindparam(name) for name in names}), rows)

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription; its dead letters stay."""
        self._connection.execute(delete(t.subscriptions).where(t.subscriptions.c.id == subscription_id))

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """A version that was not delivered; if it fails once more it stays one letter."""
        values = {
            "code": letter.code,
            "at": letter.at,
            "told": int(letter.told),
            "asked_at": letter.asked_at,
        }
        updated = self._connection.execute(
            update(t.dead_letters).where(_letter(letter.subscription_id, letter.number)).values(**values)
        )
        if not updated.rowcount:
            self._connection.execute(
                insert(t.dead_letters).values(
                    subscription_id=letter.subscription_id, number=letter.number, **values
                )
            )

    def remove_dead_letter(self, subscription_id: str, number: int) -> None:
        """It was delivered after all."""
        self._connection.execute(delete(t.dead_letters).where(_letter(subscription_id, number)))

    def dead_letters(
        self, subscription_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[DeadLetter, ...]:
        """By version."""
        letter = t.dead_letters.c
        query = select(t.dead_letters).where(letter.subscription_id == subscription_id, letter.number > after)
        return tuple(map(_dead_letter, self._connection.execute(query.order_by(letter.number).limit(limit))))

    def dead_letters_of(self, subscription_ids: Iterable[str]) -> Mapping[str, tuple[DeadLetter, ...]]:
        """The dead letters of each of these that has any."""
        letters: list[DeadLetter] = []
        for ids in parts(subscription_ids):
            query = (
                select(t.dead_letters)
                .where(t.dead_letters.c.subscription_id.in_(ids))
                .order_by(t.dead_letters.c.subscription_id, t.dead_letters.c.number)
            )
            letters += map(_dead_letter, self._connection.execute(query))
        return {name: tuple(some) for name, some in groupby(letters, lambda one: one.subscription_id)}

    def missed(self, subscription_ids: Iterable[str]) -> Mapping[str, int]:
        """How many dead letters each of these has that has any."""
        owner, counts = t.dead_letters.c.subscription_id, dict[str, int]()
        for ids in parts(subscription_ids):
            query = select(owner, func.count()).where(owner.in_(ids)).group_by(owner)
            counts.update((name, int(count)) for name, count in self._connection.execute(query))
        return counts

    def mark_reported(self, subscription_id: str, numbers: Sequence[int]) -> None:
        """A message has told the subscriber of these."""
        self._connection.execute(
            update(t.dead_letters)
            .where(
                t.dead_letters.c.subscription_id == subscription_id,
                t.dead_letters.c.number.in_(list(numbers)),
            )
            .values(told=1)
        )

    def ask_for(
        self, subscription_id: str, now: datetime, *, number: int | None = None, since: datetime | None = None
    ) -> int:
        """Have dead letters sent again; those that are waiting for it keep their place."""
        wanted = [t.dead_letters.c.subscription_id == subscription_id]
        if number is not None:
            wanted.append(t.dead_letters.c.number == number)
        if since is not None:
            wanted.append(t.dead_letters.c.at >= since)
        self._connection.execute(
            update(t.dead_letters).where(*wanted, t.dead_letters.c.asked_at.is_(None)).values(asked_at=now)
        )
        waiting = select(func.count()).select_from(t.dead_letters).where(*wanted)
        return int(self._connection.execute(waiting).scalar_one())


def parts(ids: Iterable[Id]) -> Iterable[list[Id]]:
    """Ids or numbers in parts that a statement can take."""
    every = sorted(ids)
    return (every[start : start + IDS_AT_ONCE] for start in range(0, len(every), IDS_AT_ONCE))


def _letter(subscription_id: str, number: int) -> Any:
    return and_(t.dead_letters.c.subscription_id == subscription_id, t.dead_letters.c.number == number)


def _standing(subscription: Subscription) -> dict[str, Any]:
    health = subscription.health
    return {
        "failures": health.failures,
        "failing_since": health.failing_since,
        "last_success": health.last_success,
        "last_code": health.last_code,
        "disabled_at": subscription.disabled_at,
        "disabled_code": subscription.disabled_code,
    }


def _subscription(row: Row[Any]) -> Subscription:
    return Subscription(
        row.id,
        row.ptk_id,
        row.endpoint,
        row.team,
        Health(row.failures, row.failing_since, row.last_success, row.last_code),
        row.disabled_at,
        row.disabled_code,
    )


def _dead_letter(row: Row[Any]) -> DeadLetter:
    return DeadLetter(row.subscription_id, row.number, row.code, row.at, bool(row.told), row.asked_at)
