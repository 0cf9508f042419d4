"""Somebody writes to the catalog's tables: nothing is opened beyond the policy that the stream was created with."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.journal import GENESIS, next_policy_entry
from ptkstore.domain.losses import Loss
from ptkstore.domain.streams import Closing
from ptkstore.domain.windows import WindowId
from ptkstore.errors import CatalogBehind, InvariantBroken, NameTaken, UnknownName
from ptkstore.sdk import check_report
from tests.ptkstore.application.world import STREAM, World

RAISED = [5 * 10**9, 0]


@contextmanager
def as_administrator(world: World) -> Iterator[sqlite3.Connection]:
    """A connection of whoever may do anything in the database, and has nothing of the key store."""
    with closing(sqlite3.connect(world.service.settings.root / "catalog.db")) as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        yield connection
        connection.commit()


def raise_row(connection: sqlite3.Connection, **changes: Any) -> None:
    (text,) = connection.execute("SELECT content FROM stream").fetchone()
    content = {**json.loads(text), **(changes or {"capacity": RAISED})}
    connection.execute("UPDATE stream SET content = ?", (json.dumps(content, sort_keys=True),))


def raise_blocks(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE block SET capacity_epsilon_nano = ?, lines = ?, revision = revision + 1",
        (RAISED[0], json.dumps({"common": RAISED})),
    )


def rewrite_policy(connection: sqlite3.Connection) -> None:
    """Forge the whole chain of a stream that has only its policy."""
    (text,) = connection.execute("SELECT content FROM policy").fetchone()
    forged = next_policy_entry(
        (0, GENESIS), STREAM, json.dumps({**json.loads(text), "capacity": RAISED}), "n"
    )
    connection.execute(
        "UPDATE policy SET content = ?, digest = ?, nonce = 'n'", (forged.policy_text, forged.digest)
    )


def rewrite_charges(connection: sqlite3.Connection, epsilon_nano: int) -> None:
    """Say of all that was charged that it was this."""
    (text,) = connection.execute("SELECT charge FROM journal").fetchone()
    charge = [epsilon_nano] * (len(json.loads(text)) - 1)
    connection.execute(
        "UPDATE journal SET epsilon_nano = ?, charge = ?", (epsilon_nano, json.dumps([*charge, 0]))
    )


@pytest.fixture
def elsewhere(world: World) -> Iterator[World]:
    """The same home in a process that has read nothing yet."""
    other = World(world.service.settings.root)
    yield other
    other.service.close()


def ready(world: World) -> None:
    """Four PTKs of .4 each have room after a raise, and two before it."""
    world.register("first", 0.4)
    world.register("second", 0.4)
    world.ingest()


def opened(world: World) -> float:
    """What blocks of the first window spent, in epsilon."""
    with closing(sqlite3.connect(world.service.settings.root / "catalog.db")) as connection:
        (nano,) = connection.execute(
            "SELECT coalesce(sum(epsilon_nano), 0) FROM journal WHERE kind = 'spend'"
        ).fetchone()
    return float(nano) / 1e9


def tried(world: World) -> list[Exception]:
    """Work on what is due as far as it goes."""
    errors: list[Exception] = []
    for job_id in world.service.due():
        try:
            world.service.work_on(job_id)
        except Exception as error:  # noqa: BLE001
            errors.append(error)
    return errors


def test_a_raised_policy_is_seen_and_blocks_keep_their_capacity(world: World, elsewhere: World) -> None:
    ready(world)
    with as_administrator(world) as connection:
        raise_row(connection)
    elsewhere.close(1)
    assert {block.capacity for block in elsewhere.service.budget(STREAM)} == {Loss(10**9)}
    check = elsewhere.service.verify_ledger(STREAM)
    assert check.faults == ("the catalog's policy: epsilon is 5, not 1 as in the journal",)


def test_nothing_is_charged_under_a_raised_policy(world: World, elsewhere: World) -> None:
    ready(world)
    world.close(1)
    world.work("prepare")
    with as_administrator(world) as connection:
        raise_row(connection)
        raise_blocks(connection)
    for service in (world, elsewhere):  # one that knows the blocks as they were, and one that does not
        (error,) = tried(service)
        assert type(error) is InvariantBroken
        assert "ptk ledger verify taxi" in str(error)
        for one in (world, elsewhere):
            one.clock.pass_(hours=1)
    assert opened(world) == 0


def test_nothing_is_charged_on_raised_blocks(world: World, elsewhere: World) -> None:
    ready(world)
    world.close(1)
    world.work("prepare")
    with as_administrator(world) as connection:
        raise_blocks(connection)
    (error,) = tried(elsewhere)
    assert "block 0 has another capacity" in str(error)
    assert opened(world) == 0
    assert (
        "block 2 has another capacity than the policy in the journal"
        in world.service.verify_ledger(STREAM).faults
    )


def test_a_block_that_spent_more_than_its_policy_is_over_it_whatever_the_tables_say(world: World) -> None:
    """Capacities are recomputed from the policy: rows that all say 5 do not make 2.0 add up."""
    world.register("first", 0.9)
    world.publish(0)
    with as_administrator(world) as connection:
        raise_row(connection)
        raise_blocks(connection)
        rewrite_charges(connection, 2 * 10**9)
    faults = world.service.verify_ledger(STREAM).faults
    assert "block 2 is over its capacity" in faults
    made = world.service.export_ledger(STREAM)
    assert made.faults == faults
    assert check_report(made.content).summary["adds_up"] is False


def test_a_forged_chain_opens_nothing(world: World, elsewhere: World) -> None:
    """A digest is no signature, so that a chain can be forged; the key store knows the policy itself."""
    ready(world)
    with as_administrator(world) as connection:
        raise_row(connection)
        rewrite_policy(connection)
    elsewhere.close(1)
    elsewhere.work("prepare", "allocate")
    assert {block.capacity for block in elsewhere.service.budget(STREAM)} == {Loss(*RAISED)}
    errors = tried(elsewhere)
    assert {type(error) for error in errors} == {CatalogBehind}
    assert "another policy" in str(errors[0])
    (fault,) = elsewhere.service.verify_ledger(STREAM).faults
    assert "another policy" in fault
    with pytest.raises(UnknownName):
        elsewhere.service.ptk_version("taxi.first", 1)


def test_recovery_takes_no_forged_policy(world: World, elsewhere: World) -> None:
    world.register()
    world.publish(0)
    with as_administrator(world) as connection:
        raise_row(connection)
        raise_blocks(connection)
        connection.execute("DELETE FROM journal")
        rewrite_policy(connection)
    with pytest.raises(CatalogBehind, match="another policy"):
        elsewhere.service.recover_ledger()


def test_a_second_policy_is_a_fault_and_charges_nothing(world: World, elsewhere: World) -> None:
    ready(world)
    world.close(1)
    world.work("prepare")
    with world.service.begin() as uow:
        uow.ledger.add_policy(STREAM, uow.ledger.policies(STREAM)[0].policy_text)
        uow.commit()
    (error,) = tried(elsewhere)
    assert "second policy" in str(error)
    assert "entry 2 is a second policy; a stream keeps the one it was created with" in (
        world.service.verify_ledger(STREAM).faults
    )


def test_deleted_last_rows_show(world: World) -> None:
    world.register()
    world.publish(0)
    assert world.service.verify_ledger(STREAM).faults == ()
    with as_administrator(world) as connection:
        connection.execute("DELETE FROM journal WHERE sequence = (SELECT max(sequence) FROM journal)")
    (fault,) = world.service.verify_ledger(STREAM).faults
    assert "ends before the last spend that was seen" in fault


def test_a_process_that_starts_charges_nothing_on_a_changed_journal(world: World, elsewhere: World) -> None:
    """The head is as the key store saw it: only who recomputes the digests sees an older entry that was changed."""
    world.register("first", 0.9)
    world.publish(0)
    world.register("second", 0.1)
    with as_administrator(world) as connection:
        rewrite_charges(connection, 1)
    with (
        elsewhere.service.begin() as uow,
        pytest.raises(InvariantBroken, match=r"line 2 .* does not match its digest"),
    ):
        uow.ledger.filters(STREAM)


def test_rows_leave_at_the_end_of_the_retention_that_was_promised(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(closing=Closing.CLOCK, retention_windows=2)
    world.clock.time = world.clock.time.replace(day=5, month=1)
    world.ingest()
    with as_administrator(world) as connection:
        raise_row(connection, retention_windows=9_000)
    world.clock.pass_(days=4)
    world.service.close_windows(STREAM)
    world.work("prepare", "expire")
    assert WindowId(STREAM, 0) not in {
        *world.service.keys.windows(STREAM),
        *world.service.raw.windows(STREAM),
    }
    world.service.close()


def test_a_stream_without_its_policy_in_the_journal_does_not_add_up(world: World) -> None:
    with as_administrator(world) as connection:
        connection.execute("DELETE FROM policy")
    assert world.service.verify_ledger(STREAM).faults[0] == "the journal holds no policy of the stream"


def test_a_stream_that_was_used_is_created_again_under_its_policy_alone(world: World, tmp_path: Path) -> None:
    """After a restore of a catalog that did not have the stream yet."""
    world.register()
    world.publish(0)
    world.service.catalog._engine.dispose()
    for path in world.service.settings.root.glob("catalog.db*"):
        path.unlink()
    restored = World(world.service.settings.root)
    with pytest.raises(NameTaken, match=r"before the catalog was restored: epsilon is 1, not 2\. Create it"):
        restored.stream(epsilon=2)
    restored.stream()
    restored.service.recover_ledger()
    assert restored.service.verify_ledger(STREAM).faults == ()
    restored.service.close()
