"""What claims, leases and outcomes of many deliveries at once must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.domain.subscriptions import ATTEMPTS_KEPT, Attempt, DeadLetter, Health, Subscription
from tests.support.builders import LEASE, NOW, PTK, add, claim, job
from tests.support.databases import OnPostgresql, OnSqlite, until_somebody_waits

SECOND = timedelta(seconds=1)


def notify(name: str, state: JobState = JobState.READY, **more: Any) -> Job:
    made = job(f"notify/{name}", JobKind.NOTIFY, window=None, ptk_id=PTK, state=state)
    return replace(made, subscription_id=name, **more)


def attempt(name: str, sequence: int, at: datetime = NOW) -> Attempt:
    return Attempt(name, sequence, at, 7, 2, True, "status-5xx", 503, 1_200)


def taken(catalog: SqlCatalog, *, fresh: int = 100, retried: int = 100, now: object = NOW) -> list[Job]:
    with catalog.begin() as uow:
        found = uow.deliveries.claim(now, LEASE, fresh=fresh, retried=retried)
        uow.commit()
    return list(found)


class DeliveriesContract:
    def test_due_deliveries_are_claimed_once_the_longest_due_first(self, catalog: SqlCatalog) -> None:
        add(
            catalog,
            notify("b", due_at=NOW - SECOND),
            notify("a"),
            notify("late", due_at=NOW + SECOND),
            notify("idle", JobState.IDLE),
            job("train/x", JobKind.TRAIN, ptk_id=PTK),
        )
        assert [one.id for one in taken(catalog, fresh=1)] == ["notify/b"]
        (second,) = taken(catalog)
        assert (second.id, second.fence, second.attempt) == ("notify/a", 1, 1)
        assert second.lease_until == NOW + LEASE
        assert taken(catalog) == []
        assert [one.fence for one in taken(catalog, now=NOW + LEASE)] == [2, 2, 1]

    def test_those_that_failed_before_have_places_of_their_own(self, catalog: SqlCatalog) -> None:
        add(catalog, *(notify(f"old{n}", attempt=3, due_at=NOW - SECOND) for n in range(5)), notify("new"))
        assert [one.id for one in taken(catalog, fresh=2, retried=1)] == ["notify/new", "notify/old0"]
        assert taken(catalog, fresh=2, retried=0) == []

    def test_a_claim_that_was_lost_is_no_attempt_of_the_endpoint(self, catalog: SqlCatalog) -> None:
        add(catalog, notify("a"), notify("b", attempt=3))
        for number in range(4):
            found = taken(catalog, now=NOW + number * LEASE)
            assert sorted((one.id, one.fence, one.attempt) for one in found) == [
                ("notify/a", number + 1, 1),
                ("notify/b", number + 1, 4),
            ]
            with catalog.begin() as uow:
                assert [uow.jobs.get(one.id) for one in found] == found
        with catalog.begin() as uow:  # who keeps it to the end says what became of it
            uow.deliveries.save(replace(one, due_at=NOW) for one in uow.deliveries.held(found))
            uow.commit()
        assert sorted(one.attempt for one in taken(catalog)) == [2, 5]

    def test_deliveries_of_a_relay_that_died_do_not_wait_behind_those_that_fail(
        self, catalog: SqlCatalog
    ) -> None:
        add(catalog, *(notify(f"down{n}", attempt=3, due_at=NOW - SECOND) for n in range(5)))
        add(catalog, notify("a"), notify("b", attempt=1, due_at=NOW - SECOND))
        assert [one.id for one in taken(catalog, fresh=9, retried=0)] == ["notify/a"]
        again = taken(catalog, fresh=9, retried=1, now=NOW + LEASE)
        assert [one.id for one in again] == ["notify/a", "notify/b"]

    @pytest.mark.parametrize(("kind", "attempts"), [(JobKind.NOTIFY, 1), (JobKind.TRAIN, 3)])
    def test_claims_that_were_lost_count_where_they_tell_of_the_work(
        self, catalog: SqlCatalog, kind: JobKind, attempts: int
    ) -> None:
        made = notify("a") if kind is JobKind.NOTIFY else job("train/x", kind, ptk_id=PTK)
        add(catalog, made)
        for number in range(3):
            found = claim(catalog, made.id, NOW + number * LEASE)
        assert found is not None
        assert (found.attempt, found.fence) == (attempts, 3)

    def test_of_many_relays_each_delivery_has_one(self, catalog: SqlCatalog) -> None:
        add(catalog, *(notify(f"{n:03}") for n in range(200)))
        with ThreadPoolExecutor(6) as pool:
            parts = list(pool.map(lambda _: taken(catalog, fresh=25), range(16)))
        names = [one.id for part in parts for one in part]
        assert len(names) == len(set(names)) == 200

    def test_outcomes_of_others_are_not_overwritten(self, catalog: SqlCatalog) -> None:
        add(catalog, notify("a"), notify("b"))
        first = taken(catalog)
        again = claim(catalog, "notify/a", NOW + LEASE)
        assert again is not None
        with catalog.begin() as uow:
            held = uow.deliveries.held(first)
            assert [one.id for one in held] == ["notify/b"]
            assert uow.deliveries.held(first, beside=["a", "b", "c"]) == held
            uow.deliveries.save(replace(one, position=7, state=JobState.IDLE) for one in first)
            uow.deliveries.extend(first, NOW + 2 * LEASE, LEASE)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.jobs.get("notify/a") == again
            done = uow.jobs.get("notify/b")
            assert (done.position, done.state, done.lease_until) == (7, JobState.IDLE, None)

    def test_leases_are_kept_for_those_that_are_held(self, catalog: SqlCatalog) -> None:
        add(catalog, notify("a"), notify("b"))
        held = taken(catalog, fresh=1)
        with catalog.begin() as uow:
            (kept,) = uow.deliveries.extend([*held, notify("b"), notify("c")], NOW + SECOND, LEASE)
            assert (kept.id, kept.lease_until) == ("notify/a", NOW + SECOND + LEASE)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.jobs.get("notify/a").lease_until == NOW + SECOND + LEASE
            assert uow.jobs.get("notify/b").lease_until is None

    def test_news_wake_the_idle_subscribers_of_their_ptk(self, catalog: SqlCatalog) -> None:
        add(
            catalog,
            notify("idle", JobState.IDLE, attempt=5),
            notify("ended", JobState.ENDED),
            notify("waiting", due_at=NOW + SECOND, attempt=2),
            replace(notify("other", JobState.IDLE), ptk_id="taxi.other"),
            replace(notify("again", JobState.IDLE), id="redeliver/again", kind=JobKind.REDELIVER),
        )
        with catalog.begin() as uow:
            uow.deliveries.wake(PTK, NOW)
            uow.commit()
        assert [one.id for one in taken(catalog)] == ["notify/idle"]
        with catalog.begin() as uow:
            assert uow.jobs.get("notify/waiting").attempt == 2
            assert uow.jobs.get("notify/ended").state is JobState.ENDED

    def test_a_subscription_comes_back_as_it_was_saved(self, catalog: SqlCatalog) -> None:
        plain = Subscription("sub_a", PTK, "https://a.example/", "taxi")
        failing = replace(
            plain,
            health=Health(3, NOW, NOW - SECOND, "timeout"),
            disabled_at=NOW + SECOND,
            disabled_code="gone",
        )
        with catalog.begin() as uow:
            uow.subscriptions.add(plain)
            uow.subscriptions.add(replace(plain, id="sub_b"))
            uow.subscriptions.save([failing, replace(failing, id="sub_missing")])
            uow.commit()
        with catalog.begin() as uow:
            assert uow.subscriptions.many(["sub_a", "sub_missing"]) == {"sub_a": failing}
            assert uow.subscriptions.get("sub_b") == replace(plain, id="sub_b")
            assert [one.id for one in uow.subscriptions.of(PTK)] == ["sub_a", "sub_b"]

    def test_dead_letters_are_asked_for_one_by_one_or_since_a_time(self, catalog: SqlCatalog) -> None:
        letters = [DeadLetter("sub", number, "timeout", NOW + number * SECOND) for number in range(1, 5)]
        with catalog.begin() as uow:
            for letter in (*letters, DeadLetter("other", 1, "timeout", NOW)):
                uow.subscriptions.add_dead_letter(letter)
            assert uow.subscriptions.ask_for("sub", NOW, number=2) == 1
            assert uow.subscriptions.ask_for("sub", NOW + SECOND, since=letters[1].at) == 3
            assert uow.subscriptions.ask_for("sub", NOW, number=9) == 0
            uow.subscriptions.mark_reported("sub", [1, 2])
            uow.subscriptions.remove_dead_letter("sub", 4)
            uow.commit()
        with catalog.begin() as uow:
            assert [
                (one.number, one.asked_at, one.told) for one in uow.subscriptions.dead_letters("sub")
            ] == [
                (1, None, True),
                (2, NOW, True),
                (3, NOW + SECOND, False),
            ]
            assert set(uow.subscriptions.dead_letters_of(["sub", "other", "nobody"])) == {"sub", "other"}
            newest = uow.subscriptions.newest_dead_letters(["sub", "other", "nobody"], 2)
            assert [(one.subscription_id, one.number) for one in newest] == [("sub", 3), ("sub", 2)]
            assert uow.subscriptions.missed(["sub", "other", "nobody"]) == {"sub": 3, "other": 1}

    def test_subscriptions_and_dead_letters_are_found_in_parts(self, catalog: SqlCatalog) -> None:
        teams = {"sub_d": "ads", "sub_b": "ads", "sub_a": "taxi", "sub_c": "ads"}
        with catalog.begin() as uow:
            for name, team in teams.items():
                uow.subscriptions.add(Subscription(name, PTK, "redis-stream:s", team))
            uow.subscriptions.add(Subscription("sub_bb", "taxi.other", "redis-stream:s", "ads"))
            for number in (3, 1, 2):
                uow.subscriptions.add_dead_letter(DeadLetter("sub_a", number, "timeout", NOW))
            uow.commit()
        with catalog.begin() as uow:
            found = uow.subscriptions.of

            def ids(*given: Any, **more: Any) -> list[str]:
                return [one.id for one in found(*given, **more)]

            assert ids() == ["sub_a", "sub_b", "sub_bb", "sub_c", "sub_d"]
            assert ids(team="ads", limit=2) == ["sub_b", "sub_bb"]
            assert ids(team="ads", after="sub_bb", limit=2) == ["sub_c", "sub_d"]
            assert ids(PTK, team="ads", after="sub_b") == ["sub_c", "sub_d"]
            assert ids(after="sub_d") == ids(team="nobody") == []
            letters = uow.subscriptions.dead_letters
            assert [one.number for one in letters("sub_a", limit=2)] == [1, 2]
            assert [one.number for one in letters("sub_a", after=2, limit=2)] == [3]

    def test_attempts_are_kept_up_to_a_number_of_each_subscription(self, catalog: SqlCatalog) -> None:
        n = ATTEMPTS_KEPT + 3
        with catalog.begin() as uow:
            uow.subscriptions.add(Subscription("sub_a", PTK, "https://a.example/", "taxi"))
            uow.subscriptions.save([Subscription("sub_a", PTK, "https://a.example/", "taxi", attempts=n)])
            for number in range(1, n + 1):
                uow.subscriptions.add_attempts(
                    [attempt("sub_a", number), attempt("sub_b", number)][: 1 + (number < 4)]
                )
            uow.commit()
        with catalog.begin() as uow:
            assert uow.subscriptions.get("sub_a").attempts == n
            kept = uow.subscriptions.attempts("sub_a", NOW)
            assert [one.sequence for one in kept] == list(range(n, n - ATTEMPTS_KEPT, -1))
            assert kept[0] == attempt("sub_a", n)
            assert uow.subscriptions.attempts("sub_b", NOW) == tuple(attempt("sub_b", i) for i in (3, 2, 1))
            assert [one.sequence for one in uow.subscriptions.attempts("sub_a", NOW, before=n, limit=2)] == [
                n - 1,
                n - 2,
            ]
            assert uow.subscriptions.attempts("nobody", NOW) == ()

    def test_old_attempts_are_forgotten_in_parts(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.subscriptions.add_attempts([attempt("sub_a", i, NOW + i * SECOND) for i in range(1, 6)])
            uow.commit()
        with catalog.begin() as uow:
            assert uow.subscriptions.expire_attempts(NOW + 4 * SECOND, 2) == 2
            assert uow.subscriptions.expire_attempts(NOW + 4 * SECOND, 2) == 1
            assert uow.subscriptions.expire_attempts(NOW + 4 * SECOND, 2) == 0
            assert [one.sequence for one in uow.subscriptions.attempts("sub_a", NOW)] == [5, 4]
            assert [one.sequence for one in uow.subscriptions.attempts("sub_a", NOW + 5 * SECOND)] == [5]
            uow.subscriptions.remove("sub_a")
            assert uow.subscriptions.attempts("sub_a", NOW) == ()


class TestDeliveriesOnSqlite(OnSqlite, DeliveriesContract):
    pass


class TestDeliveriesOnPostgresql(OnPostgresql, DeliveriesContract):
    @pytest.mark.parametrize("wake_first", [True, False])
    def test_news_are_never_lost_against_deliveries_that_finish(
        self, catalog: SqlCatalog, outsider: Engine, wake_first: bool
    ) -> None:
        """The news is a position of `flip`; whoever comes second sees what the first has written."""
        flip = job("flip", JobKind.FLIP, window=None, ptk_id=PTK)
        add(catalog, flip, *(notify(f"{n}") for n in range(3)))
        notifying, flipping = taken(catalog), claim(catalog, "flip")
        assert flipping is not None
        looked, woke = threading.Event(), threading.Event()

        def waker() -> None:
            with catalog.begin() as uow:
                uow.jobs.save(replace(uow.jobs.held(flipping), position=1, state=JobState.IDLE))
                if not wake_first:
                    assert looked.wait(30)
                uow.deliveries.wake(PTK, NOW)
                woke.set()
                if wake_first:
                    until_somebody_waits(outsider)
                uow.commit()

        def finisher() -> None:
            if wake_first:
                assert woke.wait(30)
            with catalog.begin() as uow:
                held = uow.deliveries.held(notifying)
                behind = uow.jobs.get("flip").position > held[0].position
                looked.set()
                if not wake_first:
                    until_somebody_waits(outsider)
                state = JobState.READY if behind else JobState.IDLE
                uow.deliveries.save(replace(one, state=state) for one in held)
                uow.commit()

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(waker), pool.submit(finisher)]:
                done.result(timeout=60)
        assert len(taken(catalog)) == 3
