"""Streams whose rows stay on devices: what they take, what they refuse, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ptklib import DrawDiscardModel
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.reports import read_signed
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.windows import WindowState
from ptkstore.errors import InvalidRequest, NameTaken, PtkRejected, Refused
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.device_streams import AVERAGING, PHONES, PTK, DeviceWorld, phishy
from tests.support.world import STREAM, speed, trips


@pytest.fixture
def world(tmp_path: Path, devices_redis: ForgetfulRedisServer) -> Iterator[DeviceWorld]:
    made = DeviceWorld(tmp_path / "home", devices_redis, 11)
    made.phones()
    yield made
    made.service.close()


def test_it_is_created_once(world: DeviceWorld) -> None:
    world.phones()
    with pytest.raises(NameTaken, match=r"report_epsilon is 3\.47, not 4"):
        world.phones(report_epsilon=4.0)


def test_no_row_enters(world: DeviceWorld) -> None:
    with pytest.raises(Refused, match="rows of stream 'phones' stay on devices"):
        world.service.ingest(PHONES, trips())
    assert world.service.raw.windows(PHONES) == ()
    assert world.service.keys.windows(PHONES) == ()


@pytest.mark.parametrize(
    "asked",
    [
        lambda service: service.forget(PHONES, "user-1"),
        lambda service: service.recommend_rows(PHONES),
        lambda service: service.prepare_again(PHONES, 0),
    ],
)
def test_what_needs_rows_is_refused_with_the_reason(
    world: DeviceWorld, asked: Callable[[Any], object]
) -> None:
    world.close_phones(1)
    with pytest.raises(Refused, match="stay on devices"):
        asked(world.service)


def test_windows_close_by_time_alone_and_many_at_once(world: DeviceWorld) -> None:
    world.register_phishy()
    world.close_phones(5)
    assert [world.state(index, PHONES) for index in range(5)] == [WindowState.EXPIRED] * 5
    with world.service.begin() as uow:
        jobs = [job.id for job in uow.jobs.find(stream=PHONES) if job.window_index is not None]
    assert jobs == [f"average/{PTK}/{window}" for window in range(5)]
    assert world.service.budget(PHONES) == ()


def test_nothing_is_exposed_and_that_is_said(world: DeviceWorld) -> None:
    world.register_phishy()
    world.close_phones(2)
    seen = world.service.exposure(PHONES)
    assert (seen.on_devices, seen.holds, seen.kept, seen.overdue, seen.remains) == (True, True, (), (), ())
    world.service.raw.write_batch  # noqa: B018 - there is one, and nobody called it
    assert world.service.raw.files(PHONES) == ()


# PTKs


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (speed(), "trained on rows, and the rows of stream 'phones' stay on devices"),
        (phishy(features={"age": (0.0, 1.0)}), "reads column 'age'; stream 'phones' has at, length"),
        (phishy(features={"kind": (0.0, 1.0)}), "reads column 'kind' as int64 or float64 or bool"),
        (
            phishy(features={"links": ["a", "b"]}),
            "reads column 'links' as string; in stream 'phones' it is int64",
        ),
        (phishy(features={"at": {"hash_buckets": 8}}), "reads column 'at' as"),
        (phishy(label="at"), "reads column 'at' as int64"),
    ],
)
def test_a_ptk_that_devices_cannot_train_is_refused(
    world: DeviceWorld, estimator: Mapping[str, Any], words: str
) -> None:
    said: dict[str, Any] = {} if estimator["family"] == "DrawDiscardModel" else {"target": 0.1}
    with pytest.raises(InvalidRequest, match=words):
        world.register_phishy(estimator=estimator, **said)
    assert world.service.ptks() == ()


def test_a_ptk_that_devices_train_is_refused_where_rows_are_in_the_store(world: DeviceWorld) -> None:
    world.stream()
    with pytest.raises(InvalidRequest, match="of the family DrawDiscardModel, which devices train"):
        world.register("phishy", estimator=phishy())


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"config": {"accept": {"metric": "loss", "epsilon": 0.05}}}, "names a stream with labelled rows"),
        ({"config": {"evaluate": {"epsilon": 0.1}}}, "leave evaluate out"),
        ({"config": {"epsilons": [0.1, 1.0]}}, "leave epsilons out"),
        ({"config": {"profile": {"budget": 0.1}}}, "leave profile out"),
        ({"config": {"pinned": {"rows": 10}}}, "leave pinned out"),
        ({"config": {"recency": 3}}, "leave recency out"),
        ({"config": {"where": {"kind": "mail"}}}, "leave where out"),
        ({"config": {"other": 1}}, "config has 'other'"),
        ({"target": 0.1}, "leave target out"),
        ({"windows": (1, 2)}, "leave windows out"),
    ],
)
def test_what_only_rows_could_answer_is_refused(
    world: DeviceWorld, said: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        world.register_phishy(**said)


def test_a_ptk_on_rows_still_needs_its_target(world: DeviceWorld) -> None:
    world.stream()
    with pytest.raises(InvalidRequest, match="needs a target"):
        world.register(target=None)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"epsilon": 3.48},
            "loses epsilon 3.48, delta 0, the whole model counted, and the stream allows epsilon 3.47",
        ),
        ({"clip": "coordinate"}, "clip='coordinate' promises its epsilon for one weight alone"),
        ({"noise": "gaussian", "delta": 1e-6}, "delta 0.000001|delta 1E-6"),
    ],
)
def test_a_report_loses_no_more_than_the_stream_allows(
    world: DeviceWorld, params: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(PtkRejected, match=words):
        world.register_phishy(estimator=phishy(**params))
    world.register_phishy()
    with pytest.raises(PtkRejected, match=words):
        world.service.update_ptk(PTK, estimator=phishy(**params))
    assert world.service.ptk(PTK).estimator == phishy()


def test_gaussian_noise_needs_a_stream_that_allows_its_delta(world: DeviceWorld) -> None:
    world.phones("tablets", report_delta=1e-6)
    ptk_id = world.register_phishy(
        "model", stream="tablets", estimator=phishy(noise="gaussian", delta=1e-6, epsilon=1.0)
    )
    assert world.service.ptk(ptk_id).loss == Loss(10**9, 10**12)


def test_a_repository_is_planned_and_exchanged(world: DeviceWorld) -> None:
    wanted = [
        WantedPtk("phishy", {"estimator": phishy(), "train_frequency": "1d"}),
        WantedPtk("loud", {"estimator": phishy(epsilon=5.0), "train_frequency": "1d"}),
        WantedPtk("speed", {"estimator": speed(), "target": 0.1, "train_frequency": "1d"}),
    ]
    admitted = world.service.admit_ptks(team="taxi", stream=PHONES, wanted=wanted)
    assert {name: type(error) for name, error in admitted.refusals.items()} == {
        "taxi.loud": PtkRejected,
        "taxi.speed": InvalidRequest,
    }
    assert admitted.room is None
    world.service.exchange_ptks(team="taxi", stream=PHONES, wanted=wanted[:1])
    assert [one.ptk_id for one in world.service.ptks()] == [PTK]


# What is told


def test_odometers_say_what_a_device_loses_beside_the_blocks(world: DeviceWorld) -> None:
    world.register_phishy(estimator=phishy(epsilon=2.0))
    world.close_phones(2)
    read = world.service.odometers(PHONES)
    assert (read.blocks, read.ptks, read.stream.releases) == ((), (), 0)
    (one,) = read.local
    assert (one.ptk_id, one.counts["reports_so_far"]) == (PTK, 3)
    assert {name: loss.epsilon for name, loss in one.losses.items()} == {
        "report": 2.0,
        "one_weight": 2.0,
        "report_limit": 3.47,
        "one_window": 3.47,
        "so_far": 10.41,
        "in_all": 27.76,
    }
    world.close_phones(30)
    assert world.service.odometers(PHONES).local[0].losses["so_far"] == one.loss.in_all


def test_what_devices_may_have_lost_never_becomes_less(world: DeviceWorld) -> None:
    from ptkstore.adapters.keys import verifies
    from ptkstore.domain.versions.provenance import provenance_in
    from ptkstore.sdk.documents.ledgers import local_rows

    def told(windows: int) -> tuple[set[tuple[float, float]], set[float]]:
        """What all interfaces say of by now and of in all, and of all versions."""
        odometers = world.service.odometers(PHONES)
        content = world.service.export_ledger(PHONES).content
        local = json.loads(content)["report"]["local"]
        summary = read_signed(content, verifies).summary
        figures = {(row["so_far_epsilon"], row["in_all_epsilon"]) for row in local_rows(odometers)}
        for one in (local, *local["ptks"]):
            figures.add((float(one["so_far"]["epsilon"]), float(one["in_all"]["epsilon"])))
        figures.add((float(summary["so_far_epsilon"]), float(summary["in_all_epsilon"])))
        assert len(odometers.local) == len(local["ptks"]) == len(world.service.ptks())
        manifests = [version.content for version in world.service.versions(PTK)]
        assert len(manifests) == windows
        shown = {provenance_in(one, PTK).tags()["dp.in_all_epsilon"] for one in manifests}
        return figures, {one["guarantee"]["in_all"]["epsilon"] for one in manifests} | set(map(float, shown))

    world.register_phishy()
    world.close_phones(4)
    world.work(*AVERAGING)
    assert told(4) == ({(17.35, 27.76)}, {27.76})
    world.service.update_ptk(PTK, estimator=phishy(epsilon=0.5))
    assert told(4) == ({(17.35, 27.76)}, {27.76})
    assert world.service.odometers(PHONES).local[0].losses["report"].epsilon == 0.5
    world.close_phones(5)
    world.work(*AVERAGING)
    assert told(5) == ({(20.82, 27.76)}, {27.76})
    world.service.deregister_ptk(PTK)
    assert told(5) == ({(20.82, 27.76)}, {27.76})


def test_the_whole_report_loses_more_than_a_weight_where_coordinates_are_clipped(world: DeviceWorld) -> None:
    world.phones("wide", report_epsilon=100.0)
    world.register_phishy("paper", stream="wide", estimator=phishy(clip="coordinate", epsilon=1.0))
    (one,) = world.service.odometers("wide").local
    n_weights = DrawDiscardModel(**phishy()["params"]).specification.n_weights
    assert one.loss.one_weight.epsilon == pytest.approx(1.0)
    assert one.loss.report.epsilon == pytest.approx(n_weights)


def test_the_officers_report_has_a_local_section_and_verifies(world: DeviceWorld) -> None:
    from ptkstore.adapters.keys import verifies

    world.register_phishy()
    world.close_phones(2)
    world.work(*AVERAGING)
    made = world.service.export_ledger(PHONES)
    reading = read_signed(made.content, verifies, world.service.report_key())
    assert (reading.fault, made.faults) == ("", ())
    assert reading.summary["guarantee"] == "local"
    assert (reading.summary["report_epsilon"], reading.summary["in_all_epsilon"]) == ("3.47", "27.76")
    report = json.loads(made.content)["report"]
    assert (report["blocks"], report["losses"], report["guarantee"]["model"]) == ([], [], "local")
    assert not {"spent", "ptks", "teams"} & set(report)
    assert not {"per_block", "promised", "accountant"} & set(report["guarantee"])
    local = report["local"]
    assert [(one["who"], one["epsilon"]) for one in local["promised"]] == [
        ("one report of a device", "3.47"),
        ("one device in one window", "3.47"),
        ("one device in all windows", "27.76"),
    ]
    (ptk,) = local["ptks"]
    assert (ptk["ptk"], ptk["so_far"]["epsilon"], ptk["noise"]) == (PTK, "10.41", "laplace")


def test_a_changed_report_does_not_verify(world: DeviceWorld) -> None:
    from ptkstore.adapters.keys import verifies

    content = world.service.export_ledger(PHONES).content
    assert read_signed(content, verifies).fault == ""
    assert read_signed(content.replace(b'"27.76"', b'"2.776"'), verifies).fault != ""


def test_the_ledger_of_its_policy_adds_up(world: DeviceWorld) -> None:
    world.close_phones(2)
    check = world.service.verify_ledger(PHONES)
    assert (check.faults, check.blocks, check.entries) == ((), 0, 1)


def test_reports_of_other_streams_have_no_such_section(world: DeviceWorld) -> None:
    world.stream()
    report = json.loads(world.service.export_ledger(STREAM).content)["report"]
    assert "local" not in report
    assert "per_block" in report["guarantee"]
    assert world.service.odometers(STREAM).local == ()


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_recovered_catalog_takes_its_versions_over(
    world: DeviceWorld, devices_redis: ForgetfulRedisServer, is_registered: bool
) -> None:
    home = world.service.settings.root
    if is_registered:
        world.register_phishy()
        world.close_phones(1)
        world.work(*AVERAGING)
    earlier = catalog_of(home)
    if not is_registered:
        world.register_phishy()
        world.close_phones(1)
    world.close_phones(3)
    world.work(*AVERAGING)
    manifests = [version.manifest for version in world.service.versions(PTK)]
    world.service.close()
    put_back(home, earlier)

    restored = DeviceWorld(home, devices_redis, 11)
    (recovered,) = restored.service.recover_ledger()
    assert (recovered.in_step, recovered.versions_adopted) == (False, 2 if is_registered else 3)
    assert recovered.ptks_to_register == (() if is_registered else (PTK,))
    assert restored.service.recover_ledger()[0].in_step
    if not is_registered:
        restored.register_phishy()
    restored.work(*AVERAGING)
    assert [version.manifest for version in restored.service.versions(PTK)] == manifests
    restored.close_phones(4)
    restored.work(*AVERAGING)
    versions = restored.service.versions(PTK)
    assert [version.number for version in versions] == [1, 2, 3, 4]
    assert [version.manifest for version in versions[:3]] == manifests
    assert restored.service.ptk_version(PTK, 4)[0]["newest_contributing_window"]["index"] == 3
    assert restored.views.shown == {PTK: 4}
    assert restored.service.verify_ledger(PHONES).faults == ()
    restored.service.close()


def test_versions_of_devices_are_taken_over_beside_a_stream_that_lost_no_spend(
    world: DeviceWorld, devices_redis: ForgetfulRedisServer
) -> None:
    home = world.service.settings.root
    world.register_phishy()
    world.stream()
    central = world.register()
    world.publish(0)
    earlier = catalog_of(home)
    world.close_phones(2)
    world.work(*AVERAGING)
    world.service.close()
    put_back(home, earlier)

    restored = DeviceWorld(home, devices_redis, 11)
    recovered = {one.stream: one for one in restored.service.recover_ledger()}
    assert (recovered[PHONES].versions_adopted, recovered[STREAM].in_step) == (2, True)
    assert restored.service.budget(STREAM)[0].state is not BlockState.RETIRED
    restored.publish(1)
    assert restored.views.shown == {PTK: 2, central: 2}
    restored.service.close()
