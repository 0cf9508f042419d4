"""Tokens, grants, the audit trail and stored answers, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.identity import (
    answer_once,
    authorize,
    grant_role,
    issue_token,
    revoke_token,
    rotate_token,
)
from ptkstore.application.identity.authorize import Named
from ptkstore.application.identity.create_team import create_team
from ptkstore.application.identity.read_audit_log import read_audit_log
from ptkstore.application.identity.record_action import recorded
from ptkstore.domain.audit import DONE, STARTED, AuditEntry, TrailFilter
from ptkstore.domain.identity import EVERY, Action, Grant, Principal, Role
from ptkstore.errors import (
    Conflict,
    InvalidRequest,
    NotAllowed,
    OutcomeUnknown,
    Refused,
    StillAtWork,
    Unauthenticated,
    Unavailable,
    UnknownName,
)
from ptkstore.ports.catalog import Begin, UnitOfWork
from tests.support.builders import NOW, stream_named
from tests.support.databases import OnPostgresql, OnSqlite
from tests.support.world import StandingClock

WHO = Principal("taxi", "0" * 16, frozenset({Role.PRODUCER}))


class Fragile:
    """A catalog that can be cut off."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.broken = False

    def __call__(self) -> AbstractContextManager[UnitOfWork]:
        if self.broken:
            raise Unavailable("the catalog does not answer")
        return self._begin()


class IdentityContract:
    @pytest.fixture
    def catalog(self, catalog: SqlCatalog) -> SqlCatalog:
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            uow.commit()
        create_team("taxi", begin=catalog.begin, clock=StandingClock(NOW))
        create_team("ads", begin=catalog.begin, clock=StandingClock(NOW))
        return catalog

    @pytest.fixture
    def clock(self) -> StandingClock:
        return StandingClock(NOW)

    @pytest.fixture
    def world(self, catalog: SqlCatalog, clock: StandingClock) -> dict[str, Any]:
        return {"begin": catalog.begin, "clock": clock}

    # tokens

    def test_a_token_identifies_its_team_and_only_its_hash_is_stored(
        self, catalog: SqlCatalog, world: dict[str, Any]
    ) -> None:
        token, text = issue_token.issue_token("taxi", [Role.PRODUCER], label="nightly", **world)
        assert authorize.identify(text, **world) == Principal("taxi", token.id, frozenset({Role.PRODUCER}))
        secret = text.removeprefix(token.prefix + "_")
        with catalog.begin() as uow:
            assert uow.identities.tokens() == (token,)
            assert secret not in repr(uow.identities.tokens())

    @pytest.mark.parametrize("text", [None, "", "ptk_x", "ptk_" + "0" * 16 + "_" + "s" * 43, "x" * 10_000])
    def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(
        self, world: dict[str, Any], clock: StandingClock, text: str | None
    ) -> None:
        _, expired = issue_token.issue_token("taxi", [Role.PRODUCER], life=timedelta(days=1), **world)
        revoked, revoked_text = issue_token.issue_token("taxi", [Role.PRODUCER], **world)
        revoke_token.revoke_token(revoked.id, **world)
        clock.pass_(days=1)
        told = set()
        for wrong in (text, expired, revoked_text, revoked_text[:-1] + "_"):
            with pytest.raises(Unauthenticated) as error:
                authorize.identify(wrong, **world)
            told.add(str(error.value))
        assert len(told) == 1

    def test_a_token_is_for_a_team_that_exists(self, world: dict[str, Any]) -> None:
        with pytest.raises(UnknownName):
            issue_token.issue_token("nobody", [Role.PRODUCER], **world)

    def test_two_tokens_hold_while_they_overlap(self, world: dict[str, Any], clock: StandingClock) -> None:
        old, old_text = issue_token.issue_token("taxi", [Role.PRODUCER], life=timedelta(days=10), **world)
        clock.pass_(days=9)
        new, new_text = rotate_token.rotate_token(old.id, timedelta(hours=2), **world)
        assert (new.team, new.scopes, new.expires_at) == (
            old.team,
            old.scopes,
            clock.now() + timedelta(days=10),
        )
        for text in (old_text, new_text):
            authorize.identify(text, **world)
        clock.pass_(hours=2)
        authorize.identify(new_text, **world)
        with pytest.raises(Unauthenticated):
            authorize.identify(old_text, **world)
        with pytest.raises(Refused):
            rotate_token.rotate_token(old.id, **world)

    def test_a_token_rotated_twice_gives_its_whole_life_twice_and_ends_when_it_was_first_told(
        self, world: dict[str, Any], clock: StandingClock
    ) -> None:
        old, old_text = issue_token.issue_token("taxi", [Role.PRODUCER], life=timedelta(days=10), **world)
        first, _ = rotate_token.rotate_token(old.id, timedelta(hours=2), **world)
        clock.pass_(hours=1)
        second, second_text = rotate_token.rotate_token(old.id, timedelta(hours=2), **world)
        assert (
            first.expires_at - first.created_at == second.expires_at - second.created_at == timedelta(days=10)
        )
        clock.pass_(hours=1)
        with pytest.raises(Unauthenticated):
            authorize.identify(old_text, **world)
        authorize.identify(second_text, **world)

    def test_a_token_rotated_at_once_without_overlap_ends(
        self, world: dict[str, Any], clock: StandingClock
    ) -> None:
        old, old_text = issue_token.issue_token("taxi", [Role.PRODUCER], **world)
        rotate_token.rotate_token(old.id, timedelta(0), **world)
        clock.pass_(microseconds=1)
        with pytest.raises(Unauthenticated):
            authorize.identify(old_text, **world)

    def test_a_rotation_never_lets_a_token_live_longer(
        self, world: dict[str, Any], clock: StandingClock
    ) -> None:
        old, old_text = issue_token.issue_token("taxi", [Role.PRODUCER], life=timedelta(days=1), **world)
        rotate_token.rotate_token(old.id, timedelta(days=30), **world)
        clock.pass_(days=1)
        with pytest.raises(Unauthenticated):
            authorize.identify(old_text, **world)

    def test_a_revoked_token_stays_revoked(self, world: dict[str, Any], clock: StandingClock) -> None:
        token, text = issue_token.issue_token("taxi", [Role.PRODUCER], **world)
        revoke_token.revoke_token(token.id, **world)
        clock.pass_(days=1)
        revoke_token.revoke_token(token.id, **world)
        with pytest.raises(Unauthenticated):
            authorize.identify(text, **world)
        with pytest.raises(UnknownName):
            revoke_token.revoke_token("f" * 16, **world)

    def test_a_rotated_token_that_still_holds_is_revoked_at_once(self, world: dict[str, Any]) -> None:
        token, text = issue_token.issue_token("taxi", [Role.PRODUCER], **world)
        rotate_token.rotate_token(token.id, timedelta(days=1), **world)
        authorize.identify(text, **world)
        revoke_token.revoke_token(token.id, **world)
        with pytest.raises(Unauthenticated):
            authorize.identify(text, **world)

    # grants

    def test_a_grant_opens_a_stream_and_its_end_closes_it(
        self, catalog: SqlCatalog, world: dict[str, Any]
    ) -> None:
        _, text = issue_token.issue_token("ads", [Role.PRODUCER], **world)
        named = Named(stream="taxi")
        with pytest.raises(UnknownName):
            authorize.authorize(text, Action.STREAM_INGEST, named, **world)
        grant = Grant("ads", "taxi", Role.CONSUMER)
        grant_role.grant_role(grant, begin=catalog.begin)
        with pytest.raises(UnknownName):  # the token may not act as a consumer
            authorize.authorize(text, Action.STREAM_INGEST, named, **world)
        mine = Grant("ads", "taxi", Role.PRODUCER)
        for _ in range(2):
            grant_role.grant_role(mine, begin=catalog.begin)
        authorize.authorize(text, Action.STREAM_INGEST, named, **world)
        with pytest.raises(NotAllowed):
            authorize.authorize(text, Action.BUDGET_READ, named, **world)
        grant_role.withdraw_role(mine, begin=catalog.begin)
        with pytest.raises(UnknownName):
            authorize.authorize(text, Action.STREAM_INGEST, named, **world)
        with pytest.raises(UnknownName):
            grant_role.withdraw_role(mine, begin=catalog.begin)

    def test_a_grant_is_for_a_team_and_a_stream_that_exist(self, catalog: SqlCatalog) -> None:
        for grant in (Grant("nobody", "taxi", Role.PRODUCER), Grant("ads", "nowhere", Role.PRODUCER)):
            with pytest.raises(UnknownName):
                grant_role.grant_role(grant, begin=catalog.begin)
        grant_role.grant_role(Grant(EVERY, EVERY, Role.CONSUMER), begin=catalog.begin)

    # trail

    def test_an_action_is_recorded_before_and_after_and_read_as_one(
        self, catalog: SqlCatalog, world: dict[str, Any]
    ) -> None:
        with recorded(Action.STREAM_INGEST, "stream/taxi", "r1", WHO, **world), catalog.begin() as uow:
            assert [e.outcome for e in uow.audit.after(0, 10)] == ["started"]  # before anything is done
        with pytest.raises(Unavailable), recorded(Action.PTK_REGISTER, "store", "r2", WHO, **world) as about:
            about.subject = "ptk/taxi.speed"
            raise Unavailable("no")
        with (
            pytest.raises(ZeroDivisionError),
            recorded(Action.STREAM_CLOSE, "stream/taxi", "r3", None, **world),
        ):
            raise ZeroDivisionError
        entries = read_audit_log(begin=catalog.begin)
        assert [(e.request_id, e.team, e.action, e.subject, e.outcome) for e in entries] == [
            ("r1", "taxi", "stream.ingest", "stream/taxi", "done"),
            ("r2", "taxi", "ptk.register", "ptk/taxi.speed", "unavailable"),
            ("r3", "local", "stream.close", "stream/taxi", "failed"),
        ]
        assert [e.request_id for e in read_audit_log(entries[0].number, 1, begin=catalog.begin)] == ["r2"]
        assert [e.request_id for e in read_audit_log(team="local", begin=catalog.begin)] == ["r3"]

    def test_the_newest_lines_are_those_asked_for_among_some_numbers(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            assert uow.audit.last_number() == 0
            for minute, (team, action, outcome) in enumerate(
                (
                    ("taxi", "grant.add", STARTED),
                    ("taxi", "grant.add", DONE),
                    ("ads", "grant.add", DONE),
                    ("taxi", "grant.remove", DONE),
                )
            ):
                at, request_id = NOW + timedelta(minutes=minute), f"r{max(1, minute)}"
                uow.audit.append(AuditEntry(at, request_id, team, "t", action, "grant/a", outcome))
            uow.commit()

        def found(numbers: range = range(1, 99), limit: int = 9, **asked: Any) -> list[int]:
            with catalog.read() as uow:
                return [one.number for one in uow.audit.newest(numbers, limit, TrailFilter(**asked))]

        with catalog.read() as uow:
            assert uow.audit.last_number() == 4
        assert found() == [4, 3, 2]  # a start whose end is there is none
        assert found(limit=2) == [4, 3]
        assert found(range(2, 4)) == [3, 2]
        assert found(action="grant.add") == [3, 2]
        assert found(team="taxi", action="grant.add") == [2]
        assert found(since=NOW + timedelta(minutes=2), until=NOW + timedelta(minutes=3)) == [3]

    def test_what_cannot_be_recorded_is_not_done(self, catalog: SqlCatalog, world: dict[str, Any]) -> None:
        with catalog.begin() as uow:
            uow._connection.exec_driver_sql("ALTER TABLE audit RENAME TO elsewhere")
            uow.commit()
        done = False
        broken = pytest.raises((DBAPIError, Unavailable))  # PostgreSQL and SQLite
        with broken, recorded(Action.STREAM_CLOSE, "stream/taxi", "r", WHO, **world):
            done = True
        assert not done

    @pytest.mark.parametrize(
        ("action", "ends_with", "told"),
        [
            (Action.STREAM_CLOSE, None, OutcomeUnknown),
            (Action.STREAM_CLOSE, OutcomeUnknown("cut"), OutcomeUnknown),
            (Action.STREAM_CLOSE, ZeroDivisionError(), OutcomeUnknown),
            (Action.STREAM_CLOSE, Refused("no"), Unavailable),
            (Action.LEDGER_EXPORT, None, Unavailable),
            (Action.AUDIT_READ, None, Unavailable),
        ],
    )
    def test_what_may_be_done_is_not_told_as_undone_when_its_end_cannot_be_recorded(
        self,
        catalog: SqlCatalog,
        world: dict[str, Any],
        action: Action,
        ends_with: Exception | None,
        told: type[Exception],
    ) -> None:
        fragile = Fragile(catalog.begin)
        with (
            pytest.raises(told) as raised,
            recorded(action, "stream/taxi", "r", WHO, **{**world, "begin": fragile}),
        ):
            fragile.broken = True
            if ends_with is not None:
                raise ends_with
        assert type(raised.value) is told
        assert [e.outcome for e in read_audit_log(begin=catalog.begin)] == ["started"]

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE audit SET outcome = 'done'",
            "DELETE FROM audit",
            "UPDATE audit SET team = 'ads' WHERE number = 1",
        ],
    )
    def test_the_trail_only_grows_whoever_writes_sql(
        self, catalog: SqlCatalog, world: dict[str, Any], statement: str
    ) -> None:
        with recorded(Action.STREAM_CLOSE, "stream/taxi", "r", WHO, **world):
            pass
        with catalog.begin() as uow, pytest.raises(DBAPIError, match="append-only"):
            uow._connection.exec_driver_sql(statement)

    # answers

    def test_a_request_sent_twice_is_done_once(self, world: dict[str, Any]) -> None:
        done: list[int] = []

        def act() -> tuple[int, str]:
            done.append(1)
            return 201, '{"n": 1}'

        first = answer_once.answer_once("taxi", "k", {"a": 1}, act, **world)
        second = answer_once.answer_once("taxi", "k", {"a": 1}, act, **world)
        assert (first[0].status, first[0].content, first[1]) == (201, '{"n": 1}', False)
        assert (second[0].content, second[1], len(done)) == ('{"n": 1}', True, 1)
        with pytest.raises(Conflict, match="another request"):
            answer_once.answer_once("taxi", "k", {"a": 2}, act, **world)
        answer_once.answer_once("ads", "k", {"a": 2}, act, **world)  # keys are a team's own
        assert len(done) == 2

    def test_a_request_that_failed_may_be_tried_again(self, world: dict[str, Any]) -> None:
        def fails() -> tuple[int, str]:
            raise Unavailable("no")

        with pytest.raises(Unavailable):
            answer_once.answer_once("taxi", "k", 1, fails, **world)
        answer, old = answer_once.answer_once("taxi", "k", 1, lambda: (200, ""), **world)
        assert (answer.status, old) == (200, False)

    def test_what_was_done_is_not_told_as_undone_when_its_answer_cannot_be_kept(
        self, catalog: SqlCatalog, world: dict[str, Any]
    ) -> None:
        fragile = Fragile(catalog.begin)

        def act() -> tuple[int, str]:
            fragile.broken = True
            return 201, ""

        with pytest.raises(OutcomeUnknown):
            answer_once.answer_once("taxi", "k", 1, act, **{**world, "begin": fragile})

    @pytest.mark.parametrize("error", [OutcomeUnknown("cut"), Refused("no")])
    def test_an_end_is_told_as_it_was_where_its_key_cannot_be_freed(
        self, catalog: SqlCatalog, world: dict[str, Any], error: Exception
    ) -> None:
        fragile = Fragile(catalog.begin)

        def fails() -> tuple[int, str]:
            fragile.broken = True
            raise error

        with pytest.raises(type(error)) as raised:
            answer_once.answer_once("taxi", "k", 1, fails, **{**world, "begin": fragile})
        assert raised.value is error
        with pytest.raises(StillAtWork):
            answer_once.answer_once("taxi", "k", 1, lambda: (200, ""), **world)

    @pytest.mark.parametrize(
        ("end", "at_once"),
        [("cut", OutcomeUnknown), ("dies", StillAtWork), ("unkept", StillAtWork)],
    )
    def test_what_may_have_been_made_is_not_made_again_under_its_key(
        self,
        catalog: SqlCatalog,
        world: dict[str, Any],
        clock: StandingClock,
        end: str,
        at_once: type[Exception],
    ) -> None:
        fragile, made = Fragile(catalog.begin), []
        fragile_world = {**world, "begin": fragile, "repeatable": False}

        def act() -> tuple[int, str]:
            made.append(1)
            if end == "cut":
                raise OutcomeUnknown("cut")
            if end == "dies":
                raise ZeroDivisionError  # as a killed process: nobody tidies up
            fragile.broken = True
            return 201, ""

        with pytest.raises((OutcomeUnknown, ZeroDivisionError)):
            answer_once.answer_once("taxi", "k", 1, act, **fragile_world)
        fragile.broken = False
        for told, wait in ((at_once, 601), (OutcomeUnknown, 80_000)):
            with pytest.raises(told):
                answer_once.answer_once("taxi", "k", 1, act, **fragile_world)
            clock.pass_(seconds=wait)
        with pytest.raises(OutcomeUnknown):
            answer_once.answer_once("taxi", "k", 1, act, **fragile_world)
        assert made == [1]

    def test_a_key_left_at_work_is_free_again_after_a_while(
        self, world: dict[str, Any], clock: StandingClock
    ) -> None:
        def dies() -> tuple[int, str]:
            raise ZeroDivisionError  # as a killed process: nobody tidies up

        with pytest.raises(ZeroDivisionError):
            answer_once.answer_once("taxi", "k", 1, dies, **world)
        with pytest.raises(Conflict, match="at work"):
            answer_once.answer_once("taxi", "k", 1, lambda: (200, ""), **world)
        clock.pass_(minutes=10, seconds=1)
        assert answer_once.answer_once("taxi", "k", 1, lambda: (200, ""), **world)[0].status == 200

    def test_an_answer_is_forgotten_after_a_day(self, world: dict[str, Any], clock: StandingClock) -> None:
        answer_once.answer_once("taxi", "k", 1, lambda: (200, "old"), **world)
        clock.pass_(days=1, seconds=1)
        assert answer_once.answer_once("taxi", "k", 2, lambda: (200, "new"), **world)[0].content == "new"

    @pytest.mark.parametrize("key", ["", "x" * 201, "é", "a\nb"])
    def test_a_key_is_short_printable_ascii(self, world: dict[str, Any], key: str) -> None:
        with pytest.raises(InvalidRequest):
            answer_once.answer_once("taxi", key, 1, lambda: (200, ""), **world)

    def test_of_many_at_once_one_acts(self, world: dict[str, Any]) -> None:
        done: list[int] = []

        def act() -> tuple[int, str]:
            done.append(1)
            return 201, "made"

        def ask(_: int) -> str:
            try:
                return answer_once.answer_once("taxi", "k", 1, act, **world)[0].content
            except Conflict:
                return "made"

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(16))) == {"made"}
        assert len(done) == 1


class TestSqlite(OnSqlite, IdentityContract):
    def test_a_replacement_is_no_way_around_the_trail(
        self, catalog: SqlCatalog, world: dict[str, Any]
    ) -> None:
        with recorded(Action.STREAM_CLOSE, "stream/taxi", "r", WHO, **world):
            pass
        with catalog.begin() as uow, pytest.raises(DBAPIError, match="append-only"):
            uow._connection.exec_driver_sql("INSERT OR REPLACE INTO audit SELECT * FROM audit")


class TestPostgres(OnPostgresql, IdentityContract):
    pass
