"""Back to an older state: a new version, the same bytes, no budget, the whole way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from ptkstore.application.versions.rollback_ptk import rollback_ptk
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.versions.versions import event_time_of, window_end_of
from ptkstore.errors import Conflict, InvalidRequest, UnknownName
from ptkstore.ports.catalog import UnitOfWork
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.receiver import WebhookReceiver
from tests.support.world import World, speed

PTK = "taxi.speed"


@pytest.fixture
def published(world: World) -> World:
    """A PTK with three versions shown."""
    world.register()
    for day in range(3):
        world.publish(day)
    return world


def content(world: World, number: int) -> dict[str, Any]:
    with world.service.begin() as uow:
        return uow.versions.get(PTK, number).content


def journal(world: World) -> list[Any]:
    with world.service.begin() as uow:
        return list(uow.ledger.journal("taxi"))


def test_a_rollback_publishes_the_old_bytes_as_a_new_version_and_spends_nothing(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription, secret = published.service.subscribe_to_ptk(PTK, webhook_receiver.endpoint())
    webhook_receiver.trust(secret)
    spent = journal(published)
    assert published.service.rollback_ptk(PTK, 1) == 4
    assert published.views.shown[PTK] == 3  # elected; nothing is out yet
    published.work("place", "flip", "notify")
    assert journal(published) == spent
    assert published.views.shown[PTK] == 4
    assert [c.message["data"]["version"] for c in webhook_receiver.accepted if c.message] == [4]
    (old, old_files), (new, new_files) = (published.service.ptk_version(PTK, n) for n in (1, 4))
    assert new_files == old_files
    with published.service.begin() as uow:
        target, replaced = (uow.versions.get(PTK, n) for n in (1, 3))
    assert new["made_from"] == [{"ptk_id": PTK, "version": 1, "sha256": target.sha256}]
    assert new["repeats"] == {
        "version": 1,
        "sha256": target.sha256,
        "takes_effect_at": window_end_of(replaced.content).isoformat(),
    }
    changed = {"version", "release_decision", "published_at", "made_from", "repeats"}
    assert {k: v for k, v in new.items() if k not in changed} == {
        k: v for k, v in old.items() if k not in changed
    }
    assert (new["version"], new["release_decision"]) == (4, "rolled-back")
    assert subscription.ptk_id == PTK


def test_it_is_published_to_the_second_as_other_versions(published: World) -> None:
    published.clock.pass_(seconds=7, microseconds=123456)
    second = published.clock.now().replace(microsecond=0)
    published.service.rollback_ptk(PTK, 1)
    assert content(published, 4)["published_at"] == second.isoformat()
    with published.service.begin() as uow:
        assert uow.versions.get(PTK, 4).elected_at == second
    published.work("place", "flip")
    published.clock.pass_(
        microseconds=1
    )  # in the same second it is later all the same, or joins in time see a tie
    published.service.rollback_ptk(PTK, 3)
    assert content(published, 5)["published_at"] == published.clock.now().isoformat()


def test_a_repeated_request_changes_nothing(published: World) -> None:
    assert published.service.rollback_ptk(PTK, 2) == 4
    assert published.service.rollback_ptk(PTK, 2) == 4
    published.work("place", "flip")
    assert published.service.rollback_ptk(PTK, 2) == 4
    assert [v.number for v in published.service.versions(PTK)] == [1, 2, 3, 4]


def test_going_forward_again_is_a_rollback_too(published: World) -> None:
    published.service.rollback_ptk(PTK, 1)
    published.work("place", "flip")
    back = content(published, 4)
    assert event_time_of(back) == window_end_of(content(published, 3)) > window_end_of(back)
    assert published.service.rollback_ptk(PTK, 3) == 5
    published.work("place", "flip")
    last = content(published, 5)
    assert last["repeats"]["version"] == 3
    assert event_time_of(last) == window_end_of(content(published, 3))
    assert published.service.rollback_ptk(PTK, 4) == 6
    published.work("place", "flip")
    assert content(published, 6)["files"] == content(published, 1)["files"]


@pytest.mark.long
def test_the_next_training_goes_on_from_the_state_that_was_gone_back_to(published: World) -> None:
    assert [origin["version"] for origin in content(published, 3)["made_from"]] == [2]
    assert content(published, 1)["made_from"] == []
    published.service.rollback_ptk(PTK, 1)
    published.work("place", "flip")
    published.publish(3)
    assert [origin["version"] for origin in content(published, 5)["made_from"]] == [4]
    assert [block["number"] // 128 for block in content(published, 5)["blocks"]] == [0, 3]


def test_a_changed_model_is_made_from_nothing(published: World) -> None:
    published.service.update_ptk(PTK, estimator=speed(0.1, top=70.0))
    published.publish(3)
    assert content(published, 4)["made_from"] == []


def test_what_cannot_be_gone_back_to_is_refused(published: World) -> None:
    with pytest.raises(InvalidRequest, match="newest already"):
        published.service.rollback_ptk(PTK, 3)
    for ptk_id, number in ((PTK, 4), (PTK, 0), (PTK, -1), ("taxi.nobody", 1)):
        with pytest.raises(UnknownName):
            published.service.rollback_ptk(ptk_id, number)
    published.service.deregister_ptk(PTK)
    with pytest.raises(UnknownName):
        published.service.rollback_ptk(PTK, 1)
    assert len(published.service.versions(PTK)) == 3


def test_a_version_not_yet_in_the_lake_cannot_be_gone_back_to(published: World) -> None:
    published.ingest((3.5,))
    published.close(4)
    published.work("prepare", "allocate", "train")
    assert published.service.rollback_ptk(PTK, 3) == 5
    with pytest.raises(UnknownName):
        published.service.rollback_ptk(PTK, 4)
    published.work("place", "flip")
    assert published.views.shown[PTK] == 5
    assert content(published, 5)["repeats"]["version"] == 3
    assert published.service.rollback_ptk(PTK, 4) == 6


def test_a_training_under_way_goes_first(published: World) -> None:
    refused = []

    def meanwhile() -> None:
        with pytest.raises(Conflict, match="under way"):
            published.service.rollback_ptk(PTK, 1)
        refused.append(True)

    published.trainer.meanwhile = meanwhile
    published.publish(3)
    assert refused == [True]
    assert published.service.rollback_ptk(PTK, 1) == 5


def test_a_training_that_is_claimed_while_a_rollback_looks_goes_first(published: World) -> None:
    published.ingest((3.5,))
    published.close(4)
    published.work("prepare", "allocate")
    service = published.service
    with service.begin() as uow:
        seen = uow.jobs.find(ptk_id=PTK)
    (waiting,) = (job.id for job in seen if job.kind is JobKind.TRAIN and job.state is JobState.READY)
    with service.begin() as uow:
        assert uow.jobs.claim(waiting, published.clock.now(), timedelta(minutes=1)) is not None
        uow.commit()

    @contextmanager
    def begin() -> Iterator[UnitOfWork]:
        with service.begin() as uow:
            # As it looks in PostgreSQL to a transaction that read just before the claim was committed.
            uow.jobs.find = lambda **_: seen  # type: ignore[method-assign]
            yield uow

    with pytest.raises(Conflict, match="under way"):
        rollback_ptk(PTK, 1, begin=begin, clock=published.clock)


def test_a_crash_after_the_lake_has_it_is_made_good(published: World) -> None:
    published.service.rollback_ptk(PTK, 1)

    def crash() -> None:
        raise RuntimeError

    published.steps.at["placed"] = crash
    with pytest.raises(RuntimeError):
        published.work("place")
    published.clock.pass_(hours=1)
    published.work("place", "flip")
    assert published.views.shown[PTK] == 4
    assert published.job(f"rollback/{PTK}/4").state is JobState.ENDED


def test_a_diff_tells_facts_and_rows_and_columns(published: World) -> None:
    published.service.update_ptk(PTK, target=0.05, estimator=speed(0.2))
    published.publish(3)
    found = published.service.diff_versions(PTK, 3, 4)
    assert found.versions == (3, 4)
    assert found.facts["tau"] == (0.1, 0.05)
    assert [g["epsilon"] for g in found.facts["guarantee"]] == [0.1, 0.2]
    assert "family" not in found.facts
    (table,) = found.tables
    assert (table.table, table.n_added, table.n_dropped, table.n_kept) == ("statistics", 0, 0, 24)
    assert table.columns_added == table.columns_dropped == ()
    assert {column.column for column in table.columns} >= {"speed_mean"}
    for column in table.columns:
        assert column.largest is not None
        assert column.mean is not None
        assert column.largest >= column.mean >= 0
    published.service.rollback_ptk(PTK, 3)
    published.work("place", "flip")
    same = published.service.diff_versions(PTK, 3, 5)
    assert set(same.facts) == {"release_decision", "repeats"}
    assert [column.n_changed for column in same.tables[0].columns] == [0] * len(table.columns)
    with pytest.raises(UnknownName):
        published.service.diff_versions(PTK, 1, 9)


def test_a_recovery_takes_a_rollback_over_from_the_lake(published: World) -> None:
    """A catalog from before it: the lake knows better, and the next version follows it."""
    home = published.service.settings.root
    earlier = catalog_of(home)
    published.service.rollback_ptk(PTK, 1)
    published.work("place", "flip")
    published.publish(3)
    published.service.close()
    put_back(home, earlier)
    restored = World(home)
    restored.service.recover_ledger()
    assert content(restored, 4)["repeats"]["version"] == 1
    assert restored.job(f"rollback/{PTK}/4").state is JobState.ENDED
    assert [origin["version"] for origin in content(restored, 5)["made_from"]] == [4]
    restored.work("place", "flip")
    assert restored.views.shown[PTK] == 5
    restored.service.close()
