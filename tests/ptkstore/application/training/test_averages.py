"""What devices put back is averaged as a window closes: a version like any other, whose guarantee is local."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import redis
import sqlalchemy as sa

from ptklib.base import DPEstimator
from ptklib.canonical_json import canonical_json
from ptklib.draw_discard import average_instances, report_loss
from ptklib.draw_discard.instances import drift_limit
from ptklib.state import ReleasedState
from ptkstore.adapters.devices.keys import instances_key
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.application.training.average_ptk import described
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.streams.windows import WindowState
from ptkstore.domain.versions.versions import table_of
from ptkstore.errors import Unavailable
from tests.support.device_streams import AVERAGING, PHONES, PTK, DeviceWorld, device_table, phishy
from tests.support.world import DAY
from workers.checkpoints import Checkpoints

JOB = f"average/{PTK}/0"


@pytest.fixture
def world(tmp_path: Path, devices_redis: ForgetfulRedisServer) -> Iterator[DeviceWorld]:
    made = DeviceWorld(tmp_path / "home", devices_redis, 10)
    made.phones()
    made.register_phishy()
    yield made
    made.service.close()


def published(world: DeviceWorld, number: int) -> tuple[dict[str, Any], np.ndarray]:
    manifest, files = world.service.ptk_version(PTK, number)
    tables = {f"{table_of(name)}.parquet": data for name, data in files.items()}
    state = ReleasedState.from_files({**tables, "state.json": canonical_json(manifest["state"]).encode()})
    return manifest, DPEstimator.from_state(state).weights_


def test_a_window_publishes_the_mean_of_the_instances(world: DeviceWorld) -> None:
    instances = world.report([device_table()] * 20)
    specification, epoch = world.begin_epoch()
    world.close_phones(1)
    assert world.work(*AVERAGING) == [JOB, f"place/{PTK}", f"flip/{PTK}"]
    manifest, weights = published(world, 1)
    assert np.array_equal(weights, average_instances(specification, instances))
    assert (manifest["blocks"], manifest["stream"]) == ([], PHONES)
    spread = np.var(instances, axis=0, ddof=1).mean() / specification.instance_variance
    assert manifest["instances"] == {
        "epoch": epoch.id,
        "k": 3,
        "spread": pytest.approx(spread),
        "moved": pytest.approx(np.linalg.norm(weights)),
        "limit": pytest.approx(drift_limit(specification, 0 + 128, 0.01) / 2.0**specification.grid_bits),
        "reports": 0,
        "reports_at_most": {"taken": 128, "refused": {}},
    }
    loss = report_loss(specification)
    assert manifest["guarantee"] == {
        "model": "local",
        "of": "one report of a device",
        "epsilon": pytest.approx(loss.whole.epsilon, abs=1e-9),
        "delta": 0.0,
        "one_weight": {"epsilon": pytest.approx(loss.one_weight.epsilon, abs=1e-9), "delta": 0.0},
        "reports_per_window": 1,
        "reports_in_all": 8,
        "one_window": {"epsilon": 3.47, "delta": 0.0},
        "in_all": {"epsilon": 27.76, "delta": 0.0},
        "event": loss.whole.event.to_json(),
        "privacy_unit": "device",
        "relation": "any-two-tables",
        "accountant": "basic",
        "assurance": "library",
        "clip": "l1",
        "max_norm": 1.0,
        "noise": "laplace",
        "specification": specification.digest,
    }
    assert (manifest["newest_contributing_window"]["index"], manifest["release_decision"]) == (0, "elected")
    assert world.views.shown == {PTK: 1}
    assert world.drafts() == []
    assert world.notices() == []


def test_it_reserves_nothing_and_opens_no_row(world: DeviceWorld) -> None:
    world.close_phones(1)
    world.work(*AVERAGING)
    with world.service.begin() as uow:
        assert uow.ledger.blocks(PHONES) == ()
        assert len(uow.ledger.chain(PHONES)) == 1  # its policy
        assert [job.kind.value for job in uow.jobs.find(stream=PHONES)] == ["average", "flip", "place"]
    assert world.state(0, PHONES) is WindowState.EXPIRED
    assert world.service.keys.windows(PHONES) == ()
    assert world.service.raw.windows(PHONES) == ()


def test_a_version_says_how_far_it_moved(world: DeviceWorld) -> None:
    world.close_phones(1)
    world.work(*AVERAGING)
    world.report([device_table()] * 20)
    world.close_phones(2)
    world.work(*AVERAGING)
    (_, first), (manifest, second) = published(world, 1), published(world, 2)
    assert manifest["instances"]["moved"] == pytest.approx(np.linalg.norm(second - first))
    assert manifest["instances"]["moved"] > 0


def reports(world: DeviceWorld) -> list[int]:
    """Reports that were taken, as each version tells them."""
    return [one.content["instances"]["reports_at_most"]["taken"] for one in world.service.versions(PTK)]


def test_a_version_counts_the_reports_since_the_one_before(world: DeviceWorld) -> None:
    for window, count in enumerate((140, 20, 0), 1):
        world.report([device_table()] * count)
        world.close_phones(window)
        world.work(*AVERAGING)
    assert reports(world) == [256, 128, 0]


def test_a_second_try_counts_a_window_from_where_the_first_did(world: DeviceWorld) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    world.report([device_table()] * 20)
    world.close_phones(1)
    world.work(*AVERAGING)
    world.report([device_table()] * 110)
    world.close_phones(2)
    world.steps.at["averaged"] = kill
    with pytest.raises(Killed):
        world.service.work_on(f"average/{PTK}/1")
    world.report([device_table()] * 20)
    world.clock.pass_(minutes=2)
    world.work(*AVERAGING)
    assert reports(world) == [128, 256]


def test_a_new_epoch_counts_from_its_beginning(world: DeviceWorld) -> None:
    world.report([device_table()] * 140)
    world.close_phones(1)
    world.work(*AVERAGING)
    world.lose_instances()
    world.report([device_table()] * 20)
    world.close_phones(2)
    world.work(*AVERAGING)
    assert reports(world) == [256, 128]


def test_after_a_rollback_a_window_counts_its_own_reports(world: DeviceWorld) -> None:
    for window in (1, 2, 3):
        world.report([device_table()] * 60)
        world.close_phones(window)
        world.work(*AVERAGING)
    world.service.rollback_ptk(PTK, 1)
    world.work(*AVERAGING)
    world.report([device_table()] * 20)
    world.close_phones(4)
    world.work(*AVERAGING)
    assert reports(world)[-1] == 128


def test_a_single_instance_has_no_spread(world: DeviceWorld) -> None:
    world.service.update_ptk(PTK, estimator=phishy(k=1))
    world.close_phones(1)
    world.work(*AVERAGING)
    assert published(world, 1)[0]["instances"]["spread"] is None


def test_windows_without_a_report_publish_the_model_as_it_is(world: DeviceWorld) -> None:
    world.close_phones(3)
    world.work(*AVERAGING)
    (_, first), (_, second), (_, third) = (published(world, number) for number in (1, 2, 3))
    assert np.array_equal(first, second)
    assert np.array_equal(second, third)
    ends = [one.content["newest_contributing_window"]["index"] for one in world.service.versions(PTK)]
    assert ends == [0, 1, 2]


def test_windows_that_closed_together_are_published_in_order(world: DeviceWorld) -> None:
    world.close_phones(3)
    for window in (2, 1):
        assert not world.service.work_on(f"average/{PTK}/{window}")
    assert world.service.work_on(f"average/{PTK}/0")
    with pytest.raises(Unavailable, match="on its way to the lake"):
        world.service.work_on(f"average/{PTK}/1")
    world.clock.pass_(minutes=2)
    assert world.service.work_on(f"place/{PTK}")
    assert world.service.work_on(f"average/{PTK}/1")
    assert not world.service.work_on(f"average/{PTK}/1")


def test_instances_that_were_lost_wait_for_the_last_version_to_begin_around(world: DeviceWorld) -> None:
    world.close_phones(2)
    assert world.service.work_on(f"average/{PTK}/0")
    world.lose_instances()
    with pytest.raises(Unavailable, match="on its way to the lake"):
        world.service.work_on(f"average/{PTK}/1")
    assert world.notices() == []  # of a server that does not answer
    world.clock.pass_(minutes=2)
    world.work(*AVERAGING)
    assert np.linalg.norm(published(world, 2)[1] - published(world, 1)[1]) > 0
    assert world.notices() == [(f"{PTK} average of window 1", "instances-lost")]


def test_without_its_server_a_window_waits_and_its_owner_is_told_once(world: DeviceWorld) -> None:
    world.go_away()
    world.close_phones(1)
    for _ in range(3):
        with pytest.raises(Unavailable):
            world.service.work_on(JOB)
        world.clock.pass_(minutes=2)
    assert world.job(JOB).state is JobState.READY
    assert world.notices() == [(f"{PTK} average of window 0", "instances-unavailable")]
    world.come_back()
    world.work(*AVERAGING)
    assert [one.number for one in world.service.versions(PTK)] == [1]


def test_instances_that_were_lost_begin_anew_around_the_last_version_and_the_owner_is_told(
    world: DeviceWorld,
) -> None:
    world.report([device_table()] * 20)
    world.close_phones(1)
    world.work(*AVERAGING)
    world.lose_instances()
    world.close_phones(2)
    world.work(*AVERAGING)
    (before, first), (after, second) = published(world, 1), published(world, 2)
    assert before["instances"]["epoch"] != after["instances"]["epoch"]
    specification, _ = world.begin_epoch()
    spread = np.sqrt(specification.instance_variance) / 2.0**specification.grid_bits
    assert np.abs(second - first).max() < 20 * spread
    assert world.notices() == [(f"{PTK} average of window 1", "instances-lost")]


def write_down(world: DeviceWorld) -> None:
    Checkpoints(world.service, Event()).pass_once()


@pytest.mark.parametrize("wrong", [False, True], ids=["all", "shape"])
def test_instances_that_were_lost_before_the_first_version_are_told_once(
    world: DeviceWorld, wrong: bool
) -> None:
    world.report([device_table()] * 5)
    write_down(world)
    if wrong:
        _, epoch = world.begin_epoch()
        with redis.Redis.from_url(world.url) as client:
            client.hset(instances_key(PTK, epoch.id), "3", bytes(16))
    else:
        world.lose_instances()
    for window in (1, 2):
        world.close_phones(window)
        world.work(*AVERAGING)
    assert world.notices() == [(f"{PTK} average of window 0", "instances-lost")]


@pytest.mark.parametrize("change", ["specification", "name"])
def test_a_model_that_simply_begins_has_lost_nothing(world: DeviceWorld, change: str) -> None:
    """A changed one, and one whose name is registered again, though there is a checkpoint of another."""
    world.report([device_table()] * 5)
    write_down(world)
    if change == "specification":
        world.service.update_ptk(PTK, estimator=phishy(epsilon=2.0))
        world.lose_instances()
    else:
        world.service.deregister_ptk(PTK)
        write_down(world)
        world.register_phishy()
    world.close_phones(1)
    world.work(*AVERAGING)
    assert len(world.service.versions(PTK)) == 1
    assert "instances-lost" not in [code for _, code in world.notices()]


def test_a_version_of_an_early_program_says_its_epoch_elsewhere(world: DeviceWorld) -> None:
    world.report([device_table()] * 5)
    world.close_phones(1)
    world.work(*AVERAGING)
    with world.service.catalog.begin() as uow:
        row = uow._connection.exec_driver_sql("SELECT manifest FROM version").scalar_one()
        said = json.loads(row)
        said["epoch"] = said.pop("instances")["epoch"]
        uow._connection.execute(
            sa.text("UPDATE version SET manifest = :manifest"), {"manifest": canonical_json(said)}
        )
        uow.commit()
    world.close_phones(2)
    world.work(*AVERAGING)
    assert world.service.version(PTK, 2).content["instances"]["limit"] is None
    assert world.notices() == []
    world.lose_instances()
    world.close_phones(3)
    world.work(*AVERAGING)
    assert world.notices() == [(f"{PTK} average of window 2", "instances-lost")]


@pytest.mark.parametrize("wrong", [{"3": bytes(16)}, dict.fromkeys("012", bytes(20)), {"1": b"abc"}])
def test_instances_of_another_shape_are_lost(world: DeviceWorld, wrong: dict[str, bytes]) -> None:
    world.report([device_table()] * 5)
    world.close_phones(1)
    world.work(*AVERAGING)
    _, epoch = world.begin_epoch()
    with redis.Redis.from_url(world.url) as client:
        client.hset(instances_key(PTK, epoch.id), mapping=wrong)
    world.close_phones(2)
    world.work(*AVERAGING)
    (_, first), (_, second) = published(world, 1), published(world, 2)
    assert first.shape == second.shape
    assert world.notices() == [(f"{PTK} average of window 1", "instances-lost")]


def test_a_server_that_may_keep_what_is_overwritten_gets_no_instances(world: DeviceWorld) -> None:
    with redis.Redis.from_url(world.url) as client:
        client.config_set("appendonly", "yes")
        try:
            world.close_phones(1)
            with pytest.raises(Unavailable, match="may keep"):
                world.service.work_on(JOB)
            assert client.keys("*") == []
        finally:
            client.config_set("appendonly", "no")
    assert world.notices() == [(f"{PTK} average of window 0", "instances-unavailable")]


def test_a_changed_model_begins_anew_and_nobody_is_told_of_a_loss(world: DeviceWorld) -> None:
    world.report([device_table()] * 5)
    world.close_phones(1)
    world.work(*AVERAGING)
    world.service.update_ptk(PTK, estimator=phishy(epsilon=2.0))
    world.close_phones(2)
    world.work(*AVERAGING)
    first, second = (published(world, number)[0] for number in (1, 2))
    assert (first["guarantee"]["epsilon"], second["guarantee"]["epsilon"]) == (3.47, 2.0)
    assert first["guarantee"]["specification"] != second["guarantee"]["specification"]
    assert world.notices() == []


def test_a_ptk_that_is_gone_publishes_nothing(world: DeviceWorld) -> None:
    world.close_phones(1)
    world.service.deregister_ptk(PTK)
    world.work(*AVERAGING)
    assert (world.job(JOB).state, world.job(JOB).outcome) == (JobState.ENDED, Outcome.WITHDRAWN)
    assert world.drafts() == []


def die_with_a_draft(world: DeviceWorld) -> None:
    """Claim the average of the first window, and be killed before its election."""

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    world.steps.at["average-staged"] = kill
    world.close_phones(1)
    with pytest.raises(Killed):
        world.service.work_on(JOB)


def test_a_claim_that_died_leaves_no_draft_behind(world: DeviceWorld) -> None:
    die_with_a_draft(world)
    assert len(world.drafts()) == 1
    world.clock.pass_(minutes=2)
    world.work(*AVERAGING)
    assert world.drafts() == []
    assert world.service.keys.draft_ids() == ()
    assert [one.number for one in world.service.versions(PTK)] == [1]


def test_a_claim_that_died_before_its_ptk_was_withdrawn_leaves_no_draft_behind(world: DeviceWorld) -> None:
    die_with_a_draft(world)
    world.service.deregister_ptk(PTK)
    world.clock.pass_(minutes=2)
    world.work(*AVERAGING)
    assert world.drafts() == []
    assert world.service.keys.draft_ids() == ()
    assert world.job(JOB).outcome == Outcome.WITHDRAWN


def lose_the_lease(world: DeviceWorld, step: str) -> None:
    """Work on the average of the first window; at a step of that, its lease has ended and another process does it."""

    def overtaken() -> None:
        world.clock.pass_(minutes=5)
        assert world.service.work_on(JOB)

    world.steps.at[step] = overtaken
    world.close_phones(1)
    world.service.work_on(JOB)


def test_a_claim_that_lost_its_lease_elects_nothing(world: DeviceWorld) -> None:
    lose_the_lease(world, "average-staged")
    world.work(*AVERAGING)
    assert [one.number for one in world.service.versions(PTK)] == [1]
    assert world.drafts() == []


def test_a_claim_that_lost_its_lease_destroys_no_draft_that_was_elected_meanwhile(world: DeviceWorld) -> None:
    lose_the_lease(world, "averaged")
    assert len(world.drafts()) == 1
    world.work(*AVERAGING)
    assert published(world, 1)[0]["version"] == 1


def test_only_windows_at_its_frequency_are_published(world: DeviceWorld) -> None:
    world.register_phishy("weekly", train_frequency="2d")
    world.close_phones(4)
    world.work(*AVERAGING)
    assert [one.window_index for one in world.service.versions("taxi.weekly")] == [0, 2]


def test_a_ptk_that_comes_back_counts_its_versions_on(world: DeviceWorld) -> None:
    world.close_phones(1)
    world.work(*AVERAGING)
    world.service.deregister_ptk(PTK)
    world.work(*AVERAGING)
    world.register_phishy()
    world.close_phones(2)
    world.work(*AVERAGING)
    assert [one.number for one in world.service.versions(PTK)] == [1, 2]


def test_an_older_version_is_shown_again(world: DeviceWorld) -> None:
    world.close_phones(2)
    world.work(*AVERAGING)
    assert world.service.rollback_ptk(PTK, 1) == 3
    world.work(*AVERAGING)
    manifest, weights = published(world, 3)
    assert manifest["guarantee"]["model"] == "local"
    assert np.array_equal(weights, published(world, 1)[1])


def test_trainings_and_traces_tell_of_averages(world: DeviceWorld) -> None:
    world.close_phones(2)
    world.work(*AVERAGING)
    assert [(one.window, one.version) for one in world.service.trainings(PTK)] == [(0, 1), (1, 2)]
    found = world.service.trace_window(PHONES, 0)
    assert [(one.ptk_id, one.version) for one in found] == [(PTK, 1)]
    assert (found[0].window_end, DAY.days) == (
        world.service.version(PTK, 1).content["newest_contributing_window"]["end"],
        1,
    )


def test_an_average_that_poison_moved_is_no_version_and_devices_begin_anew_around_the_last_one(
    world: DeviceWorld,
) -> None:
    world.report([device_table()] * 300)
    world.close_phones(1)
    world.work(*AVERAGING)
    poisoned, (_, epoch) = world.poison(300), world.begin_epoch()
    world.close_phones(2)
    assert world.work(*AVERAGING) == [f"average/{PTK}/1"]
    job = world.job(f"average/{PTK}/1")
    assert (job.state, job.outcome) == (JobState.ENDED, Outcome.REFUSED)
    assert world.notices() == [(f"{PTK} average of window 1", "average-moved-too-far")]
    assert (world.drafts(), world.service.keys.draft_ids()) == ([], ())
    ended = world.service.trainings(PTK)[1]
    assert (ended.code, ended.version) == ("average-moved-too-far", None)
    world.close_phones(3)
    world.work(*AVERAGING)
    (first, one), (second, two) = published(world, 1), published(world, 2)
    assert [each.window_index for each in world.service.versions(PTK)] == [0, 2]
    specification, after = world.begin_epoch()
    assert after.id == second["instances"]["epoch"] != epoch.id == first["instances"]["epoch"]
    assert np.linalg.norm(two - one) == pytest.approx(second["instances"]["moved"])
    assert second["instances"]["moved"] < 0.1 * np.linalg.norm(
        average_instances(specification, poisoned) - one
    )
    assert len(world.notices()) == 1  # nothing was lost


def test_a_first_average_that_poison_moved_is_no_version(world: DeviceWorld) -> None:
    world.poison(300)
    world.close_phones(2)
    world.work(*AVERAGING)
    assert [(one.number, one.window_index) for one in world.service.versions(PTK)] == [(1, 1)]
    assert published(world, 1)[0]["instances"]["reports"] == 0


def test_a_checkpoint_of_what_poison_moved_begins_no_epoch(world: DeviceWorld) -> None:
    written = Checkpoints(world.service, Event())
    world.poison(300)
    written.pass_once()
    world.close_phones(1)
    world.work(*AVERAGING)
    world.lose_instances()
    specification, epoch = world.begin_epoch()
    spread = np.sqrt(specification.instance_variance)
    assert np.abs(world.service.instances.all(PTK, epoch.id)).max() < 20 * spread


def test_reports_of_before_a_loss_count_with_their_checkpoint(world: DeviceWorld) -> None:
    written = Checkpoints(world.service, Event())
    world.report([device_table()] * 300)
    written.pass_once()
    world.lose_instances()
    world.report([device_table()] * 300)
    world.close_phones(1)
    world.work(*AVERAGING)
    manifest, _ = published(world, 1)
    assert manifest["instances"]["reports"] == (2 + 600) // 128 * 128 == 512
    world.lose_instances()  # what was put since the checkpoint is lost, and the version has it
    world.close_phones(2)
    world.work(*AVERAGING)
    specification, _ = world.begin_epoch()
    manifest, _ = published(world, 2)
    limit = (
        drift_limit(specification, 256 + 128, 0.01) / 2.0**specification.grid_bits
    )  # 512 + 127 - 302 is above 256
    assert (manifest["instances"]["reports"], manifest["instances"]["limit"]) == (768, pytest.approx(limit))


def test_after_a_rollback_devices_begin_anew_around_the_version_and_nobody_is_told_of_a_loss(
    world: DeviceWorld,
) -> None:
    for window in (1, 2):
        world.report([device_table()] * 200)
        world.close_phones(window)
        world.work(*AVERAGING)
    Checkpoints(world.service, Event()).pass_once()
    world.service.rollback_ptk(PTK, 1)
    with pytest.raises(Unavailable, match="on its way to the lake"):
        world.begin_epoch()
    world.work(*AVERAGING)
    for window in (3, 4):
        world.close_phones(window)
        world.work(*AVERAGING)
    specification, epoch = world.begin_epoch()
    (_, one), (before, two) = published(world, 1), published(world, 2)
    (after, four), (goes_on, five) = published(world, 4), published(world, 5)
    assert before["instances"]["epoch"] != after["instances"]["epoch"] == epoch.id
    deviation = np.sqrt(specification.instance_variance) / 2.0**specification.grid_bits
    assert np.linalg.norm(two - one) > 0
    assert after["instances"]["moved"] == pytest.approx(np.linalg.norm(four - one))
    limit = drift_limit(specification, 128, 0.01) / 2.0**specification.grid_bits
    assert (after["instances"]["reports"], after["instances"]["limit"]) == (128, pytest.approx(limit))
    assert np.abs(four - one).max() < 12 * deviation
    assert goes_on["instances"]["epoch"] == epoch.id
    assert np.array_equal(four, five)
    assert world.notices() == []


def test_after_a_rollback_to_another_model_devices_begin_with_zero(world: DeviceWorld) -> None:
    world.report([device_table()] * 200)
    world.close_phones(1)
    world.work(*AVERAGING)
    world.service.update_ptk(PTK, estimator=phishy(epsilon=2.0))
    world.report([device_table()] * 200)
    world.close_phones(2)
    world.work(*AVERAGING)
    world.service.rollback_ptk(PTK, 1)
    world.work(*AVERAGING)
    world.close_phones(3)
    world.work(*AVERAGING)
    manifest, four = published(world, 4)
    assert manifest["instances"]["epoch"] != published(world, 2)[0]["instances"]["epoch"]
    assert manifest["instances"]["moved"] == pytest.approx(np.linalg.norm(four))
    assert world.notices() == []


def test_after_a_version_that_does_not_count_reports_there_is_no_limit(world: DeviceWorld) -> None:
    world.report([device_table()] * 20)
    world.close_phones(1)
    world.work(*AVERAGING)
    _, epoch = world.begin_epoch()
    found, ptk = world.service.instances.counted(PTK, epoch.id), world.service.device_ptk(PTK)
    of_before = replace(ptk, last=lambda: replace(ptk.start(), reports=None))
    assert described(of_before, found) == {**described(ptk, found), "limit": None}
