"""The catalog's own promises: durable settings, one identity, clear errors about what it cannot open."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.content import ptk_of, ptk_text, stream_of, stream_text
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.notices import Notice
from ptkstore.domain.streams.policies import Closing, Policy
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest, NameTaken, Unavailable, UnknownName
from ptkstore.ports.streams import Progress
from tests.support.builders import NOW, ORIGIN, PTK, STREAM, ptk_spec, stream_named


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "catalog.db"


@pytest.fixture
def catalog(file: Path) -> Iterator[SqlCatalog]:
    with SqlCatalog(f"sqlite:///{file}") as catalog:
        yield catalog


def test_every_connection_to_sqlite_syncs_fully_and_writes_a_wal(catalog: SqlCatalog) -> None:
    with catalog.begin() as one:
        connection = one._connection  # the live one, which transactions use
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
    with ThreadPoolExecutor(4) as pool:

        def setting(_: int) -> object:
            with catalog.begin() as uow:
                return uow._connection.exec_driver_sql("PRAGMA synchronous").scalar_one()

        assert set(pool.map(setting, range(8))) == {2}


def test_who_finds_no_free_connection_is_told_to_come_again(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_is_free() -> None:
        raise PoolTimeout

    monkeypatch.setattr(catalog._engine, "connect", none_is_free)
    with pytest.raises(Unavailable, match="no free connection"), catalog.begin():
        pass


def test_a_transaction_on_sqlite_holds_the_write_lock_from_its_start(catalog: SqlCatalog, file: Path) -> None:
    impatient = create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.0})
    with catalog.begin(), impatient.connect() as other, pytest.raises(Exception, match="locked"):
        other.exec_driver_sql("INSERT INTO meta VALUES ('x', 'y')")
    impatient.dispose()


def test_who_only_reads_waits_for_no_writer_and_sees_the_last_commit(catalog: SqlCatalog) -> None:
    stream = stream_named(STREAM)
    with catalog.begin() as writer, catalog.read() as reader:  # a second writer would wait for the first
        writer.streams.add(stream)
        assert reader.streams.all() == ()
        writer.commit()
    with catalog.read() as reader:
        assert reader.streams.all() == (stream,)


@pytest.mark.parametrize("vendor", ["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def test_the_database_refuses_to_write_in_a_transaction_that_only_reads(
    vendor: str, file: Path, request: pytest.FixtureRequest
) -> None:
    sqlite = f"sqlite:///{file}"
    url = sqlite if vendor == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    with SqlCatalog(url) as catalog:
        for _ in range(3):  # the pool gives the same connection back
            with pytest.raises((Unavailable, DBAPIError)), catalog.read() as uow:
                uow.streams.add(stream_named(STREAM))
        with catalog.begin() as uow:
            uow.streams.add(stream_named(STREAM))
            uow.commit()
        with catalog.read() as uow:
            assert uow.streams.all() == (stream_named(STREAM),)


@pytest.mark.parametrize("vendor", ["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def test_many_who_open_a_new_catalog_at_once_make_one(
    vendor: str, file: Path, request: pytest.FixtureRequest
) -> None:
    sqlite = f"sqlite:///{file}"
    url = sqlite if vendor == "sqlite" else request.getfixturevalue("fresh_postgres_url")

    def identity(_: int) -> str:
        with SqlCatalog(url) as catalog:
            return catalog.journal_view().ledger_id

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(identity, range(6)))) == 1


def test_a_catalog_of_another_schema_is_not_touched(catalog: SqlCatalog, file: Path) -> None:
    with catalog.begin() as uow:
        uow._connection.exec_driver_sql("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
        uow.commit()
    with pytest.raises(Unavailable, match="schema 99"):
        SqlCatalog(f"sqlite:///{file}")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://root:hunter2@host/db", "sqlite or postgresql"),
        ("hunter2", "cannot be read"),
        ("postgresql://me:hunter2@host:port/db", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refusal:
        SqlCatalog(url)
    assert "hunter2" not in f"{refusal.value!r} {refusal.value.__cause__!r}"


@pytest.mark.parametrize("obstacle", ["a file that is no database", "a directory", "a file for the home"])
def test_a_place_that_holds_something_else_is_unavailable(file: Path, obstacle: str) -> None:
    if obstacle == "a file for the home":
        file.parent.write_text("in the way")
    else:
        file.parent.mkdir()
        file.mkdir() if obstacle == "a directory" else file.write_bytes(b"no database, " * 100)
    with pytest.raises(Unavailable):
        SqlCatalog(f"sqlite:///{file}")


def test_errors_of_the_database_carry_no_values(catalog: SqlCatalog) -> None:
    with pytest.raises(IntegrityError) as error, catalog.begin() as uow:
        for _ in range(2):
            uow._connection.execute(text("INSERT INTO meta VALUES (:name, 'x')"), {"name": "canary-4711"})
    assert "canary-4711" not in str(error.value)


def test_a_stream_is_kept_word_for_word_and_its_name_is_used_once(catalog: SqlCatalog) -> None:
    policy = Policy(
        Loss.capacity(2.5, 1e-7),
        timedelta(hours=6),
        datetime(2026, 1, 5, 6, tzinfo=UTC),
        lateness=timedelta(microseconds=1_500_001),
        retention_windows=3,
        n_max=77,
        rows_per_window=7,
        minimum_assurance=Assurance.COMPOSED,
        closing=Closing.OPERATOR,
        future_skew=timedelta(seconds=1),
        profile_share=Decimal("0.05"),
        test_share=Decimal("0.15"),
        train_partitions=4,
    )
    stream = replace(stream_named(), policy=policy)
    assert stream_of(stream_text(stream)) == stream
    with catalog.begin() as uow:
        uow.streams.add(stream)
        uow.streams.add(stream)
        with pytest.raises(NameTaken):
            uow.streams.add(replace(stream, team="bikes"))
        assert uow.streams.all() == (stream,)
        assert uow.streams.progress(STREAM) == Progress(0, policy.origin)
        with pytest.raises(UnknownName):
            uow.streams.lock("bikes")
        with pytest.raises(UnknownName):
            uow.streams.progress("bikes")


def test_a_ptk_id_is_never_used_for_a_second_ptk_and_comes_back_to_its_stream(catalog: SqlCatalog) -> None:
    spec = ptk_spec()
    assert ptk_of(ptk_text(spec)) == spec
    with catalog.begin() as uow:
        uow.ptks.add(spec)
        with pytest.raises(NameTaken, match="registered already"):
            uow.ptks.add(spec)
        uow.ptks.remove(PTK)
        assert uow.ptks.lock(PTK) is None
        assert uow.ptks.find() == ()
        with pytest.raises(UnknownName):
            uow.ptks.get(PTK)
        for stream in ("bikes", "x"):
            with pytest.raises(NameTaken, match=f"deregistered on stream '{spec.stream}'"):
                uow.ptks.add(replace(spec, stream=stream))
            with pytest.raises(NameTaken, match="deregistered"):
                uow.ptks.check_free(PTK, stream)
        uow.ptks.check_free(PTK, spec.stream)
        uow.ptks.add(replace(spec, target=0.9))
        assert uow.ptks.get(PTK).target == 0.9


def test_batches_belong_to_the_windows_that_were_open_when_they_came(catalog: SqlCatalog) -> None:
    with catalog.begin() as uow:
        uow.streams.add(stream_named())
        for batch, closed_before in (("a", 0), ("b", 1), ("c", 1), ("d", 2)):
            uow.streams.add_batch(STREAM, batch, f"token-{batch}", closed_before)
        uow.commit()
    with catalog.begin() as uow:
        found = [uow.streams.tokens_for(WindowId(STREAM, index)) for index in range(3)]
        assert uow.streams.stored_part(STREAM, "a") == (1, 1)
        assert uow.streams.stored_part("bikes", "a") is None
    assert found == [
        ("token-a",),
        ("token-a", "token-b", "token-c"),
        ("token-a", "token-b", "token-c", "token-d"),
    ]
    with pytest.raises(IntegrityError), catalog.begin() as uow:
        uow.streams.add_batch(STREAM, "a", "token-x", 2)


def test_a_batch_is_as_far_as_its_last_part(catalog: SqlCatalog) -> None:
    with catalog.begin() as uow:
        uow.streams.add(stream_named())
        for number in range(1, 12):
            uow.streams.add_batch(STREAM, "a", f"token-{number}", 0, (number, 12))
            assert uow.streams.stored_part(STREAM, "a") == (number, 12)
        assert uow.streams.stored_part(STREAM, "a\x1f1/12") is None
    with pytest.raises(IntegrityError), catalog.begin() as uow:
        uow.streams.add(stream_named())
        for _ in range(2):
            uow.streams.add_batch(STREAM, "a", "token", 0, (1, 12))


def test_notices_are_read_by_team_in_order(catalog: SqlCatalog) -> None:
    first = Notice(
        NOW, "taxi", "expired", "a", "a.b", 3, 4, JobKind.EVALUATE, "sub_1", "of before"
    )  # every field
    second = Notice(ORIGIN, "bikes", "failed")
    with catalog.begin() as uow:
        uow.notify_owner(first)
        uow.notify_owner(second)
        uow.commit()
    with catalog.begin() as uow:
        assert list(uow.notices()) == [first, second]
        assert list(uow.notices("bikes")) == [second]


def test_a_stream_of_before_texts_had_to_be_declared_keeps_its_text_and_wants_them_declared() -> None:
    stream = stream_named(STREAM)
    text = stream_text(stream)
    assert "asserted_text" not in text
    assert not stream_of(text).policy.asserted_text
    free = replace(stream, policy=replace(stream.policy, asserted_text=True))
    assert stream_of(stream_text(free)) == free


def test_a_stream_of_before_cells_had_a_bound_keeps_its_text_and_has_the_usual_one() -> None:
    stream = stream_named(STREAM)
    text = stream_text(stream)
    assert "max_cell_bytes" not in text
    assert stream_of(text).policy.max_cell_bytes == 65_536
    longer = replace(stream, policy=replace(stream.policy, max_cell_bytes=100_000))
    assert stream_of(stream_text(longer)) == longer
