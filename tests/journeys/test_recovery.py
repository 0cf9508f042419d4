"""A restored catalog is made usable again: what it may have forgotten can never be charged."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.ptks.earlier_looks import earlier_looks
from ptkstore.domain.jobs import JobKind, Outcome, job_id
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.errors import CatalogBehind, Refused
from ptkstore.wiring import Service
from tests.faults import scenario
from tests.faults.rig import Rig, Striking, rig
from tests.faults.steps import Point
from tests.journeys.backups import copy_database, lake_of, publish, restore, try_all
from tests.support.local import local

pytestmark = pytest.mark.long

NEVER = {"metric": "loss", "epsilon": 1.0, "confidence": 1 - 1e-7}
"""A test that a state cannot pass by chance: some twenty rows show nothing with this confidence."""


def states(one: Rig) -> dict[int, set[BlockState]]:
    """The states of each window's blocks."""
    found: dict[int, set[BlockState]] = {}
    for block in local(one.store).budget(scenario.STREAM):
        found.setdefault(block.number // 128, set()).add(block.state)
    return found


def test_recovery_retires_what_was_opened_and_goes_on_with_the_next_window(chain: Rig, old_catalog: Path):
    before = lake_of(chain)
    restored = restore(chain, old_catalog)  # knows the first window and not that the second was trained
    (outcome,) = local(restored.store).recover_ledger()
    assert (outcome.in_step, outcome.windows_in_doubt, outcome.versions_adopted) == (False, 2, 1)
    restored.store.close_windows(scenario.STREAM, scenario.end_of(1))
    steps, errors = try_all(restored)
    assert errors == []
    assert "opened" not in steps  # the second window's rows were opened once, and never again
    with local(restored.store).begin() as uow:
        assert uow.jobs.get(job_id(JobKind.TRAIN, scenario.LONG, 1)).outcome is Outcome.PUBLISHED
    assert states(restored)[1] == {BlockState.RETIRED}
    assert lake_of(restored) == before
    publish(restored, 2)
    assert [version.number for version in local(restored.store).versions(scenario.LONG)] == [1, 2, 3]
    assert states(restored)[2] == {BlockState.ACTIVE}
    assert local(restored.store).verify_ledger(scenario.STREAM).faults == ()
    assert lake_of(restored).items() > before.items()


def test_after_recovery_no_copy_from_before_opens_anything(chain: Rig, old_catalog: Path):
    restored = restore(chain, old_catalog)
    local(restored.store).recover_ledger()
    again = restore(restored, old_catalog)  # the same backup a second time
    again.store.close_windows(scenario.STREAM, scenario.end_of(1))
    steps, errors = try_all(again)
    assert {type(error) for error in errors} == {CatalogBehind}
    assert "opened" not in steps


def test_a_backup_that_is_restored_and_recovered_twice_is_in_doubt_twice(chain: Rig, old_catalog: Path):
    """The recovery had appended nothing to the journal, so the backup seemed to continue it, and spent once more."""
    restored = restore(chain, old_catalog)
    (first,) = local(restored.store).recover_ledger()
    again = restore(restored, old_catalog)
    (second,) = local(again.store).recover_ledger()
    assert (second.in_step, second.windows_in_doubt) == (first.in_step, first.windows_in_doubt) == (False, 2)
    again.store.close_windows(scenario.STREAM, scenario.end_of(1))
    steps, errors = try_all(again)
    assert (errors, "opened" in steps) == ([], False)
    assert states(again)[1] == {BlockState.RETIRED}
    publish(again, 2)
    assert states(again)[2] == {BlockState.ACTIVE}


def test_recovery_twice_is_recovery_once(chain: Rig, old_catalog: Path):
    restored = restore(chain, old_catalog)
    first = local(restored.store).recover_ledger()
    second = local(restored.store).recover_ledger()
    assert [one.in_step for one in (*first, *second)] == [False, True]
    publish(restored, 1)
    publish(restored, 2)
    assert restored.store.ptk(scenario.LONG).version == 3


def test_a_recovery_that_was_cut_off_before_the_keys_learned_of_it_is_done_again(
    chain: Rig, old_catalog: Path, monkeypatch
):
    restored = restore(chain, old_catalog)
    service = local(restored.store)
    with monkeypatch.context() as patch:
        patch.setattr(service.keys, "accept", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with suppress(KeyboardInterrupt):
            service.recover_ledger()
    restored.store.close_windows(scenario.STREAM, scenario.end_of(1))
    assert "opened" not in try_all(restored)[0]
    assert [one.in_step for one in service.recover_ledger()] == [False]
    restored.work(restored.service())
    publish(restored, 2)
    assert restored.store.ptk(scenario.LONG).version == 3


def test_a_run_that_was_opened_when_the_copy_was_taken_has_no_second_output(chain: Rig, tmp_path: Path):
    chain.close(0)
    service = chain.service()
    for kind in (JobKind.PREPARE, JobKind.ALLOCATE):
        assert service.work_on(job_id(kind, scenario.STREAM + "/0"))
    copy_database(chain.settings.root / "catalog.db", tmp_path / "reserved.db")  # before its spend
    chain.work(chain.service())
    before = lake_of(chain)
    restored = restore(chain, tmp_path / "reserved.db")
    (outcome,) = local(restored.store).recover_ledger()
    assert (outcome.runs_ended, outcome.versions_adopted) == (1, 1)
    steps, errors = try_all(restored)
    assert (errors, "opened" in steps) == ([], False)
    assert lake_of(restored) == before
    (shown,) = restored.store.look_up(["ptk_state:version"], [{"ptk": scenario.LONG}])
    assert shown == {"version": 1}


def test_a_catalog_in_step_is_left_as_it_is(chain: Rig):
    publish(chain, 0)
    identity = local(chain.store).catalog.journal_view().ledger_id
    (outcome,) = local(chain.store).recover_ledger()
    assert outcome.in_step
    assert local(chain.store).catalog.journal_view().ledger_id == identity
    publish(chain, 1)
    assert states(chain)[1] == {BlockState.ACTIVE}


def test_a_ptk_from_after_the_copy_goes_on_under_its_name(chain: Rig, old_catalog: Path):
    scenario.register(chain.store, [scenario.SPEED])
    publish(chain, 2)
    before = lake_of(chain)
    restored = restore(chain, old_catalog)
    (outcome,) = local(restored.store).recover_ledger()
    assert (outcome.ptks_to_register, outcome.versions_adopted) == ((scenario.SPEED,), 3)
    scenario.register(restored.store, [scenario.SPEED])
    for window in (1, 2):
        restored.store.close_windows(scenario.STREAM, scenario.end_of(window))
        restored.work(restored.service())
    assert lake_of(restored) == before
    publish(restored, 3)
    assert [v.number for v in local(restored.store).versions(scenario.SPEED)] == [1, 2]
    (shown,) = restored.store.look_up(["ptk_state:version"], [{"ptk": scenario.SPEED}])
    assert shown == {"version": 2}
    assert lake_of(restored).items() > before.items()
    assert local(restored.store).verify_ledger(scenario.STREAM).faults == ()


def test_nothing_is_recovered_while_a_job_is_worked_on(chain: Rig, old_catalog: Path):
    restored = restore(chain, old_catalog)
    restored.store.close_windows(scenario.STREAM, scenario.end_of(1))
    refused: list[Refused] = []

    def recover() -> None:
        with pytest.raises(Refused, match="stop all workers") as error:
            local(restored.store).recover_ledger()
        refused.append(error.value)

    restored.work(restored.service(Striking(Point("prepare", "parts-written"), recover)))
    assert len(refused) == 1
    assert [one.in_step for one in local(restored.store).recover_ledger()] == [False]


def test_a_worker_that_slept_through_a_recovery_does_no_job_any_more(chain: Rig, old_catalog: Path):
    with closing(Service(chain.settings, clock=chain.clock)) as sleeper:
        chain.store.close_windows(scenario.STREAM, scenario.end_of(2))
        due = sleeper.due()
        for path in chain.settings.root.glob(
            "catalog.db*"
        ):  # as a restore does under a process that has it open
            path.unlink()
        shutil.copy(old_catalog, chain.settings.root / "catalog.db")
        restored = Rig(chain.settings.root, chain.receiver)
        try:
            local(restored.store).recover_ledger()
            assert due == sleeper.due()  # it sees the catalog of before
            for job_id in due:
                with pytest.raises(CatalogBehind):
                    sleeper.work_on(job_id)
        finally:
            for service in restored.services:
                service.close()


def waits(one: Rig) -> dict[str, set[int]]:
    """Who waits, and the windows on which each has an allowance by the table."""
    service = local(one.store)
    found: dict[str, set[int]] = {ptk.ptk_id: set() for ptk in service.queue(scenario.STREAM)}
    with service.read() as uow:
        for share in uow.waits.allowed(scenario.STREAM):
            found[share.ptk_id].add(share.block // 128)
    return found


def test_who_waits_goes_on_waiting_and_allowances_are_divided_anew(tmp_path: Path):
    with rig(tmp_path / "home") as chain:
        scenario.create_stream(chain.store, retention=5, epsilon=2.0, scheduler="adaptive")
        scenario.register(chain.store, validated=[scenario.SPEED])
        local(chain.store).update_ptk(
            scenario.SPEED,
            config={"accept": NEVER, "epsilons": [0.6, 2.0]},
        )
        publish(chain, 0)
        copy_database(chain.settings.root / "catalog.db", tmp_path / "old.db")
        publish(chain, 1)
        restored = restore(chain, tmp_path / "old.db")
        assert waits(restored) == {scenario.SPEED: {0}}
        local(restored.store).recover_ledger()
        restored.store.close_windows(scenario.STREAM, scenario.end_of(1))
        steps, errors = try_all(restored)
        assert (errors, "opened" in steps) == ([], False)
        publish(restored, 2)
        assert waits(restored) == {scenario.SPEED: {2}}
        assert states(restored)[1] == {BlockState.RETIRED}
        assert [one.window_index for one in local(restored.store).versions(scenario.LONG)] == [0, 1, 2]
        assert local(restored.store).verify_ledger(scenario.STREAM).faults == ()
        for service in restored.services:
            service.close()


def test_windows_count_as_looks_of_a_name_unless_they_were_gone_when_it_was_surely_new(
    tmp_path: Path,
) -> None:
    """The time that is forgotten may have known names that come before the recovery or after it."""
    asked: dict[str, Any] = {
        "team": scenario.TEAM,
        "stream": scenario.STREAM,
        "config": {"accept": NEVER},
        "target": 0.5,
    }
    with rig(tmp_path / "home") as chain:
        scenario.create_stream(chain.store, epsilon=5.0)
        scenario.register(chain.store)
        estimator = local(chain.store).ptk(scenario.SPEED).estimator
        for window in range(4):
            publish(chain, window)
        local(chain.store).register_ptk(name="known", estimator=estimator, **asked)
        copy_database(chain.settings.root / "catalog.db", tmp_path / "old.db")
        local(chain.store).register_ptk(name="before", estimator=estimator, **asked)
        for window in (4, 5, 6):
            publish(chain, window)
        restored = restore(chain, tmp_path / "old.db")
        for window in (4, 5, 6):
            local(restored.store).close_windows(
                scenario.STREAM, scenario.end_of(window), expire_unfinished=True
            )
            try_all(restored)  # windows expire here as well
        service = local(restored.store)
        service.register_ptk(name="before", estimator=estimator, **asked)
        (recovered,) = service.recover_ledger()
        service.register_ptk(name="after", estimator=estimator, **asked)
        with service.read() as uow:
            looks = {
                name: earlier_looks(uow, uow.ptks.get(f"{scenario.TEAM}.{name}")).number
                for name in ("known", "before", "after")
            }
        assert recovered.windows_in_doubt == 7
        assert looks == {"known": 7 - 3, "before": 7, "after": 7}
