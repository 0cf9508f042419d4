"""Subscriptions and dead letters in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, delete, func, insert, select, update

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, given, row_of
from ptkstore.domain.fields import fields_of
from ptkstore.domain.subscriptions import ATTEMPTS_KEPT, Attempt, DeadLetter, Health, Subscription

_HEALTH = tuple(fields_of(Health()))


class SqlSubscriptions(CatalogPart):
    """Subscriptions, how their endpoints answer, and what they missed."""

    def add(self, subscription: Subscription) -> None:
        """Record a subscription."""
        row = row_of(t.subscriptions, subscription, **fields_of(subscription.health))
        self._connection.execute(insert(t.subscriptions).values(row))

    def get(self, subscription_id: str) -> Subscription:
        """Read a subscription; `UnknownName` if there is none."""
        query = select(t.subscriptions).where(t.subscriptions.c.id == subscription_id)
        return _subscription(self._one(query, "subscription", subscription_id))

    def many(self, subscription_ids: Iterable[str]) -> Mapping[str, Subscription]:
        """Read those of these that exist."""
        rows = self._rows_with(select(t.subscriptions), t.subscriptions.c.id, subscription_ids)
        return {row.id: _subscription(row) for row in rows}

    def of(
        self,
        ptk_id: str | None = None,
        *,
        team: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> tuple[Subscription, ...]:
        """Return the subscriptions of one PTK, of one team or all, by id."""
        key = t.subscriptions.c.id
        query = select(t.subscriptions).where(key > after, *given(t.subscriptions, ptk_id=ptk_id, team=team))
        return tuple(map(_subscription, self._connection.execute(query.order_by(key).limit(limit))))

    def save(self, subscriptions: Iterable[Subscription]) -> None:
        """Write health and status."""
        rows = [{"b_id": s.id, **_standing(s)} for s in sorted(subscriptions, key=lambda s: s.id)]
        if rows:
            change = update(t.subscriptions).where(t.subscriptions.c.id == bindparam("b_id"))
            names = (name for name in rows[0] if name != "b_id")
            self._connection.execute(change.values({name: bindparam(name) for name in names}), rows)

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription and its attempts; its dead letters stay."""
        mine = t.attempts.c.subscription_id == subscription_id
        self._connection.execute(delete(t.attempts).where(mine))
        self._connection.execute(delete(t.subscriptions).where(t.subscriptions.c.id == subscription_id))

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Keep a version that was not delivered; if it fails once more it stays one letter."""
        row = row_of(t.dead_letters, letter, told=int(letter.told))
        change = update(t.dead_letters).where(*_is(letter.subscription_id, letter.number))
        if not self._connection.execute(change.values(row)).rowcount:
            self._connection.execute(insert(t.dead_letters).values(row))

    def remove_dead_letter(self, subscription_id: str, number: int) -> None:
        """Forget a dead letter that was delivered after all."""
        self._connection.execute(delete(t.dead_letters).where(*_is(subscription_id, number)))

    def dead_letters(
        self, subscription_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[DeadLetter, ...]:
        """Return the dead letters of a subscription by version."""
        letter = t.dead_letters.c
        query = select(t.dead_letters).where(letter.subscription_id == subscription_id, letter.number > after)
        return tuple(map(_dead_letter, self._connection.execute(query.order_by(letter.number).limit(limit))))

    def dead_letters_of(self, subscription_ids: Iterable[str]) -> Mapping[str, tuple[DeadLetter, ...]]:
        """Return the dead letters of each of these that has any."""
        owner = t.dead_letters.c.subscription_id
        query = select(t.dead_letters).order_by(owner, t.dead_letters.c.number)
        letters = map(_dead_letter, self._rows_with(query, owner, subscription_ids))
        return {name: tuple(some) for name, some in groupby(letters, lambda one: one.subscription_id)}

    def newest_dead_letters(self, subscription_ids: Iterable[str], limit: int) -> tuple[DeadLetter, ...]:
        """Return so many of the dead letters of these, the newest first."""
        owner, at, number = (t.dead_letters.c[name] for name in ("subscription_id", "at", "number"))
        query = select(t.dead_letters).order_by(at.desc(), owner, number.desc()).limit(limit)
        found = map(_dead_letter, self._rows_with(query, owner, subscription_ids))
        return tuple(sorted(found, key=lambda one: one.at, reverse=True)[:limit])

    def missed(self, subscription_ids: Iterable[str]) -> Mapping[str, int]:
        """Count the dead letters of each of these that has any."""
        owner = t.dead_letters.c.subscription_id
        query = select(owner, func.count().label("missed")).group_by(owner)
        rows = self._rows_with(query, owner, subscription_ids)
        return {row.subscription_id: int(row.missed) for row in rows}

    def attempts(
        self, subscription_id: str, since: datetime, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Attempt, ...]:
        """Return attempts of a subscription, the newest first."""
        made = t.attempts.c
        query = select(t.attempts).where(made.subscription_id == subscription_id, made.at >= since)
        if before is not None:
            query = query.where(made.sequence < before)
        rows = self._connection.execute(query.order_by(made.sequence.desc()).limit(limit))
        return tuple(Attempt(**{**row._mapping, "redelivered": bool(row.redelivered)}) for row in rows)

    def add_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Record attempts, and forget the oldest of the same subscriptions."""
        if not attempts:
            return
        rows = [row_of(t.attempts, one, redelivered=int(one.redelivered)) for one in attempts]
        self._connection.execute(insert(t.attempts), rows)
        self._forget((one.subscription_id, one.sequence - ATTEMPTS_KEPT) for one in attempts)

    def expire_attempts(self, before: datetime, limit: int) -> int:
        """Forget old attempts; those that another transaction is forgetting are passed over."""
        made = t.attempts.c
        query = select(made.subscription_id, made.sequence).where(made.at < before).order_by(made.at)
        old = self._connection.execute(query.limit(limit).with_for_update(skip_locked=True)).all()
        return self._forget((row.subscription_id, row.sequence) for row in old)

    def _forget(self, attempts: Iterable[tuple[str, int]]) -> int:
        rows = [{"b_id": name, "b_sequence": number} for name, number in attempts if number > 0]
        if rows:
            made = t.attempts.c
            this = (made.subscription_id == bindparam("b_id"), made.sequence == bindparam("b_sequence"))
            self._connection.execute(delete(t.attempts).where(*this), rows)
        return len(rows)

    def mark_reported(self, subscription_id: str, numbers: Sequence[int]) -> None:
        """Note that a message has told the subscriber of these."""
        these = (*_is(subscription_id), t.dead_letters.c.number.in_(list(numbers)))
        self._connection.execute(update(t.dead_letters).where(*these).values(told=1))

    def ask_for(
        self, subscription_id: str, now: datetime, *, number: int | None = None, since: datetime | None = None
    ) -> int:
        """Have dead letters sent again; those that are waiting for it keep their place."""
        wanted = _is(subscription_id, number)
        if since is not None:
            wanted.append(t.dead_letters.c.at >= since)
        self._connection.execute(
            update(t.dead_letters).where(*wanted, t.dead_letters.c.asked_at.is_(None)).values(asked_at=now)
        )
        waiting = select(func.count()).select_from(t.dead_letters).where(*wanted)
        return int(self._connection.execute(waiting).scalar_one())


def _is(subscription_id: str, number: int | None = None) -> list[ColumnElement[bool]]:
    return given(t.dead_letters, subscription_id=subscription_id, number=number)


def _standing(subscription: Subscription) -> dict[str, Any]:
    disabled = {"disabled_at": subscription.disabled_at, "disabled_code": subscription.disabled_code}
    return {**fields_of(subscription.health), **disabled, "attempts": subscription.attempts}


def _subscription(row: Row[Any]) -> Subscription:
    plain = dict(row._mapping)
    health = Health(**{name: plain.pop(name) for name in _HEALTH})
    return Subscription(**plain, health=health)


def _dead_letter(row: Row[Any]) -> DeadLetter:
    return DeadLetter(**{**row._mapping, "told": bool(row.told)})
