"""Somebody writes to the catalog's tables: nothing is opened beyond the policy that the stream was created with."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.ledger.recover_ledger import OTHER_POLICY
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.journal import GENESIS, next_policy_entry
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CatalogBehind, InvariantBroken, NameTaken, UnknownName
from ptkstore.ports.row_processes import ProfileRequest, RunFailed
from ptkstore.sdk import check_report
from tests.support.profiled_world import profiled_world, rides
from tests.support.profiled_world import register as register_profiled
from tests.support.world import DAY, ORIGIN, STREAM, World, trips

OTHER = "bikes"

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
    (found,) = elsewhere.service.recover_ledger()
    assert (found.stopped, found.in_step) == (True, False)
    assert (STREAM, OTHER_POLICY) in world.notices()
    with pytest.raises(CatalogBehind):
        elsewhere.service.keys.check_journal(STREAM, elsewhere.service.catalog.journal_view())


def ride(world: World, day: int) -> int:
    """One more window of the other stream; how many versions were made of it by now."""
    world.service.ingest(OTHER, trips((day + 0.5,)))
    world.service.close_windows(OTHER, ORIGIN + (day + 1) * DAY)
    world.work()
    return len(world.service.versions("taxi.ride"))


def test_recovery_stops_only_the_stream_that_has_another_policy(world: World, elsewhere: World) -> None:
    world.stream(OTHER)
    world.register()
    world.register("ride", stream=OTHER)
    world.publish(0)
    assert ride(world, 0) == 1
    with as_administrator(world) as connection:
        (policy,) = connection.execute("SELECT content FROM policy WHERE stream = 'taxi'").fetchone()
        forged = json.dumps({**json.loads(policy), "capacity": RAISED})
        connection.execute("DELETE FROM journal")
        connection.execute("UPDATE policy SET content = ? WHERE stream = 'taxi'", (forged,))
    found = {one.stream: one for one in elsewhere.service.recover_ledger()}
    assert (found[OTHER].stopped, found[OTHER].windows_in_doubt) == (False, 1)
    assert (found[STREAM].stopped, found[STREAM].blocks_retired) == (True, 0)
    assert ride(elsewhere, 1) == 2
    with as_administrator(world) as connection:  # put back, it is recovered like any other
        connection.execute("UPDATE policy SET content = ? WHERE stream = 'taxi'", (policy,))
    found = {one.stream: one for one in elsewhere.service.recover_ledger()}
    assert (found[STREAM].stopped, found[STREAM].windows_in_doubt) == (False, 1)
    assert found[OTHER].in_step
    assert ride(elsewhere, 2) == 3


OTHERWISE = {
    "rows_per_window": 9_000,
    "profile_share": "0.4",
    "test_share": "0.4",
    "train_partitions": 2,
    "privacy_unit": "user-in-window",
    "max_rows_per_unit": 7,
    "unit_column": "zone",
    "accountant": "zcdp",
}
"""Under such a row, other rows would lie behind a block, and its guarantee would be another."""


def interrupted(world: World, job_id: str) -> None:
    """A worker dies once its run has spent."""

    def die() -> None:
        raise KeyboardInterrupt

    world.steps.at["opened"] = die
    with pytest.raises(KeyboardInterrupt):
        world.service.work_on(job_id)
    world.clock.pass_(hours=2)


def of_rows(request: Any) -> tuple[object, ...]:
    """What says which rows a run opens."""
    opened = request.profile_set if isinstance(request, ProfileRequest) else request.rows
    return tuple((rows.part_urls, rows.low, rows.high) for rows in opened)


def rerun(world: World, elsewhere: World, job_id: str, requests: str) -> tuple[object, object]:
    """Which rows a run opens that is run again under a changed row, and under the row as it was."""
    interrupted(world, job_id)
    with as_administrator(world) as connection:
        (honest,) = connection.execute("SELECT content FROM stream").fetchone()
        raise_row(connection, **OTHERWISE)
    seen = []
    for one, text in ((elsewhere, None), (world, honest)):
        one.clock.time = world.clock.time
        if text is not None:
            with as_administrator(world) as connection:
                connection.execute("UPDATE stream SET content = ?", (text,))
                connection.execute("UPDATE job SET state = 'opened', outcome = NULL WHERE id = ?", (job_id,))
        one.service.__dict__[requests].failing = RunFailed("failed")
        assert one.service.work_on(job_id)
        seen.append(of_rows(one.service.__dict__[requests].requests[-1]))
    return seen[0], seen[1]


def test_a_training_that_is_run_again_opens_the_rows_that_it_paid_for(world: World, elsewhere: World) -> None:
    ready(world)
    world.close(1)
    world.work("prepare", "allocate")
    changed, honest = rerun(world, elsewhere, "train/taxi.first/0", "trainer")
    assert changed == honest


def test_an_evaluation_that_is_run_again_opens_the_rows_that_it_paid_for(
    world: World, elsewhere: World
) -> None:
    world.register(config={"evaluate": {"epsilon": 0.2}})
    world.ingest([row / 400 for row in range(400)])
    world.close(1)
    world.work()
    changed, honest = rerun(world, elsewhere, "evaluate/taxi.speed/1", "evaluator")
    assert changed == honest


def test_a_profile_that_is_run_again_opens_the_rows_that_it_paid_for(tmp_path: Path) -> None:
    world = profiled_world(tmp_path / "home")
    register_profiled(world)
    world.service.ingest(STREAM, rides(0))
    world.close(1)
    world.work("prepare", "allocate")
    (job_id,) = (one for one in world.service.due() if one.startswith("profile/"))
    elsewhere = World(tmp_path / "home")
    changed, honest = rerun(world, elsewhere, job_id, "profiler")
    assert changed == honest
    for one in (world, elsewhere):
        one.service.close()


def test_a_version_of_a_run_that_is_run_again_tells_the_guarantee_that_was_paid_for(
    world: World, elsewhere: World
) -> None:
    ready(world)
    world.close(1)
    world.work("prepare", "allocate")
    interrupted(world, "train/taxi.first/0")
    with as_administrator(world) as connection:
        raise_row(connection, **OTHERWISE)
    elsewhere.clock.time = world.clock.time
    assert elsewhere.service.work_on("train/taxi.first/0")
    elsewhere.work("place")
    (version,) = elsewhere.service.versions("taxi.first")
    told = version.content["guarantee"]
    assert (told["privacy_unit"], told["accountant"]) == ("record", "renyi")
    assert version.content["planned"]["rows_per_window"] == 100


def test_blocks_of_an_expired_window_are_those_of_the_policy_in_the_journal(world: World) -> None:
    """Under a row that says that users are protected, no block would be marked as erased."""
    world.register()
    world.publish(0)
    with as_administrator(world) as connection:
        raise_row(connection, privacy_unit="user", unit_column="zone", max_rows_per_unit=1)
    world.service.close_windows(STREAM, ORIGIN + 4 * DAY, expire_unfinished=True)
    world.work("expire")
    with world.service.begin() as uow:
        blocks, _ = uow.ledger.created(STREAM)
    assert {block.state for block in blocks if block.number < 128} == {BlockState.ERASED}


def test_rows_come_into_the_windows_of_the_policy_in_the_journal(world: World, elsewhere: World) -> None:
    """Under a row with longer windows, rows of many days would lie behind one block and be kept for longer."""
    with as_administrator(world) as connection:
        raise_row(connection, window_seconds=30 * 86_400, retention_windows=9_000)
    elsewhere.ingest((0.5, 3.5))
    assert [window.index for window in elsewhere.service.raw.windows(STREAM)] == [0, 3]


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
