"""Devices begin with what a central PTK of their team learnt, if that predicts the same from the same columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptklib import AdaSSPRegressor, DrawDiscardModel
from ptklib.base import DPEstimator
from ptklib.draw_discard.instances import drift_limit
from ptklib.state import ReleasedState
from ptklib.warm_start import warm_start
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import InvalidRequest, Unavailable, UnknownName
from ptkstore.sdk.documents.lineage import lineage_of
from tests.support.device_streams import AVERAGING, PTK, DeviceWorld, device_policy
from tests.support.world import CHAIN, DAY, ORIGIN, SCHEMA

HANDSETS = "handsets"
BOUNDS = {"hour": (0.0, 24.0)}
LABEL_BOUNDS = (0.0, 60.0)


def central(**params: Any) -> Mapping[str, Any]:
    said = {"label": "speed", "bounds": BOUNDS, "label_bounds": LABEL_BOUNDS, "epsilon": 0.1, "delta": 1e-6}
    spec: Mapping[str, Any] = AdaSSPRegressor(**{**said, **params}).to_spec()
    return spec


def on_devices(**params: Any) -> Mapping[str, Any]:
    said = {
        "features": BOUNDS,
        "label": "speed",
        "model": "linear",
        "label_bounds": LABEL_BOUNDS,
        "epsilon": 3.4,
    }
    spec: Mapping[str, Any] = DrawDiscardModel(**{**said, "k": 3, **params}).to_spec()
    return spec


def begin_with(ptk_id: str = "taxi.central", version: int = 1) -> dict[str, Any]:
    return {"start_from": {"ptk": ptk_id, "version": version}}


@pytest.fixture
def world(tmp_path: Path, devices_redis: ForgetfulRedisServer) -> Iterator[DeviceWorld]:
    made = DeviceWorld(tmp_path / "home", devices_redis, 8)
    made.stream(capacity_delta=1e-4)
    made.register("central", estimator=central())
    made.service.create_stream(Stream(HANDSETS, "taxi", SCHEMA, device_policy()))
    made.publish(0)
    yield made
    made.service.close()


def register(world: DeviceWorld, config: Mapping[str, Any], **params: Any) -> None:
    world.register_phishy(stream=HANDSETS, estimator=on_devices(**params), config=config)


def close(world: DeviceWorld, windows: int) -> None:
    world.service.close_windows(HANDSETS, ORIGIN + windows * DAY)
    world.work(*AVERAGING)


def weights(world: DeviceWorld, ptk_id: str, number: int) -> Any:
    files = state_files_of(world.service.version(ptk_id, number), world.service.lake)
    return DPEstimator.from_state(ReleasedState.from_files(files))


def test_the_first_version_is_around_the_central_one_and_says_so(world: DeviceWorld) -> None:
    register(world, begin_with())
    specification, epoch = world.begin_epoch()
    start = warm_start(specification, weights(world, "taxi.central", 1))
    close(world, 1)
    found, manifest = weights(world, PTK, 1).weights_, world.service.version(PTK, 1).content
    deviation = np.sqrt(specification.noise_variance / 2) / 2.0**specification.grid_bits
    assert np.abs(found - start).max() < 12 * deviation < 0.1 * np.abs(start).max()
    assert manifest["instances"]["moved"] == pytest.approx(np.linalg.norm(found - start))
    limit = drift_limit(specification, 128, 0.01) / 2.0**specification.grid_bits
    assert manifest["instances"]["limit"] == pytest.approx(limit)
    origin = {
        "ptk_id": "taxi.central",
        "version": 1,
        "sha256": world.service.version("taxi.central", 1).sha256,
    }
    assert (manifest["made_from"], manifest["start_from"]) == ([origin], begin_with()["start_from"])
    assert manifest["instances"]["epoch"] == epoch.id


def test_later_versions_go_on_and_their_lineage_ends_at_the_central_one(world: DeviceWorld) -> None:
    register(world, begin_with())
    close(world, 2)
    first, second = (world.service.version(PTK, number).content for number in (1, 2))
    assert first["instances"]["epoch"] == second["instances"]["epoch"]
    assert second["instances"]["moved"] == 0
    found = lineage_of(PTK, 2, lambda ptk_id, number: world.service.version(ptk_id, number).content)
    assert [(one.ptk_id, one.version, one.intact) for one in found] == [
        (PTK, 2, True),
        ("taxi.central", 1, True),
    ]
    traced = world.service.trace_window(HANDSETS, 0)
    assert [(one.ptk_id, one.version, one.made_from) for one in traced] == [(PTK, 1, ("taxi.central v1",))]


@pytest.mark.parametrize("config", [{}, begin_with(version=2)])
def test_another_start_begins_anew(world: DeviceWorld, config: Mapping[str, Any]) -> None:
    world.publish(1)
    register(world, begin_with())
    close(world, 1)
    world.service.update_ptk(PTK, config=config)
    specification, epoch = world.begin_epoch()
    close(world, 2)
    first, second = (world.service.version(PTK, number).content for number in (1, 2))
    assert first["instances"]["epoch"] != second["instances"]["epoch"] == epoch.id
    assert [one["version"] for one in second["made_from"]] == ([2] if config else [])
    around = warm_start(specification, weights(world, "taxi.central", 2)) if config else 0.0
    deviation = np.sqrt(specification.noise_variance / 2) / 2.0**specification.grid_bits
    assert np.abs(weights(world, PTK, 2).weights_ - around).max() < 12 * deviation
    assert world.notices() == []


def test_after_a_refused_average_the_first_epoch_begins_with_it_again(world: DeviceWorld) -> None:
    register(world, begin_with())
    world.poison(300)
    close(world, 2)
    assert [code for _, code in world.notices()] == ["average-moved-too-far"]
    specification, _ = world.begin_epoch()
    start = warm_start(specification, weights(world, "taxi.central", 1))
    deviation = np.sqrt(specification.noise_variance / 2) / 2.0**specification.grid_bits
    assert np.abs(weights(world, PTK, 1).weights_ - start).max() < 12 * deviation


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (begin_with("fleet.central"), "names a PTK of its own team"),
        ({"start_from": "taxi.central"}, 'says {"ptk": "team.name", "version": 1}'),
        ({"start_from": {"ptk": "taxi.central"}}, 'says {"ptk": "team.name", "version": 1}'),
        (begin_with(version=True), "a whole number from 1 on"),
        (begin_with(version=0), "a whole number from 1 on"),
        (begin_with("central"), "central"),
    ],
)
def test_a_start_that_says_no_version_is_refused(
    world: DeviceWorld, config: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        register(world, config)
    assert [one.ptk_id for one in world.service.ptks()] == ["taxi.central"]


def test_a_version_that_is_not_there_is_unknown(world: DeviceWorld) -> None:
    for config in (begin_with(version=2), begin_with("taxi.none")):
        with pytest.raises(UnknownName):
            register(world, config)


def test_a_model_that_does_not_match_is_refused_with_the_reason(world: DeviceWorld) -> None:
    with pytest.raises(
        InvalidRequest, match=r"cannot begin with taxi\.central v1: 'hour' has the bounds \(0, 23\)"
    ):
        register(world, begin_with(), features={"hour": (0.0, 23.0)})
    register(world, begin_with())
    with pytest.raises(InvalidRequest, match="has the columns hour, and this one hour, long"):
        world.service.update_ptk(PTK, estimator=on_devices(features={**BOUNDS, "long": (0.0, 1.0)}))


def test_it_begins_with_no_version_of_devices(world: DeviceWorld) -> None:
    register(world, {})
    close(world, 1)
    with pytest.raises(InvalidRequest, match="trained on rows in the store"):
        world.register_phishy("other", stream=HANDSETS, estimator=on_devices(), config=begin_with(PTK))


def test_a_ptk_on_rows_has_no_such_start(world: DeviceWorld) -> None:
    with pytest.raises(InvalidRequest, match="leave start_from out"):
        world.register("other", config=begin_with())


def test_devices_wait_until_it_is_in_the_lake(world: DeviceWorld) -> None:
    world.ingest((1.5,))
    world.close(2)
    world.work(*(kind for kind in CHAIN if kind != "place"))
    register(world, begin_with(version=2))
    with pytest.raises(Unavailable, match="on its way to the lake"):
        world.begin_epoch()
    world.work("place")
    world.begin_epoch()


def test_nothing_is_measured_against_a_version_that_cannot_be_read(world: DeviceWorld) -> None:
    register(world, begin_with())
    close(world, 1)
    world.damage(PTK, 1)
    close(world, 2)
    close(world, 3)
    first, second, third = (world.service.version(PTK, number).content for number in (1, 2, 3))
    assert {one["instances"]["epoch"] for one in (first, second, third)} == {first["instances"]["epoch"]}
    assert (second["instances"]["moved"], second["instances"]["limit"]) == (None, None)
    assert third["instances"]["moved"] == 0
    assert third["instances"]["limit"] > 0
    assert world.notices() == []


def test_where_the_last_version_cannot_be_read_devices_begin_with_the_central_one(world: DeviceWorld) -> None:
    register(world, begin_with())
    close(world, 1)
    world.damage(PTK, 1)
    world.lose_instances()
    specification, _ = world.begin_epoch()
    close(world, 2)
    start = warm_start(specification, weights(world, "taxi.central", 1))
    deviation = np.sqrt(specification.noise_variance / 2) / 2.0**specification.grid_bits
    assert np.abs(weights(world, PTK, 2).weights_ - start).max() < 12 * deviation


def test_where_neither_can_be_read_devices_wait_and_an_epoch_goes_on(world: DeviceWorld) -> None:
    register(world, begin_with())
    close(world, 1)
    world.damage(PTK, 1)
    world.damage("taxi.central", 1)
    close(world, 2)
    assert world.service.version(PTK, 2).content["instances"]["moved"] is None
    world.damage(PTK, 2)
    world.lose_instances()
    with pytest.raises(Unavailable, match=r"cannot begin with version 1 of taxi\.central"):
        world.begin_epoch()
