"""The PTK and the epoch that belong together, whoever changes either meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ptklib.draw_discard import Numeric, Specification, start_instances
from ptkstore.adapters.devices import RedisInstances
from ptkstore.application.devices.epochs import epoch_of, read_epoch
from ptkstore.errors import Unavailable
from ptkstore.ports.devices import Counted, DevicePtk, Epoch

PTK = "team.model"


def ptk_of(epsilon: float = 3.0, n_features: int = 6) -> DevicePtk:
    columns = [Numeric(f"x{i}", 0.0, 1.0) for i in range(n_features)]
    specification = Specification(features=columns, label=Numeric("y", 0.0, 1.0), epsilon=epsilon, k=5)
    return DevicePtk(PTK, "phones", specification, 3, datetime(2026, 1, 1, tzinfo=UTC), 3.0, 1, 8)


def start(ptk: DevicePtk) -> Counted:
    return Counted(start_instances(ptk.specification), 0)


def test_a_ptk_that_is_changed_while_its_epoch_begins_is_returned_with_its_own(
    instances: RedisInstances,
) -> None:
    """Another process begins one of the changed PTK between the look and the beginning."""
    before, after = ptk_of(), ptk_of(epsilon=2.0, n_features=7)
    now = [before]

    def changed_meanwhile(ptk: DevicePtk) -> Counted:
        if now[0] is before:
            now[0] = after
            instances.begin(PTK, after.begun_for, start(after).instances)
        return start(ptk)

    ptk, epoch = epoch_of(PTK, read_ptk=lambda _: now[0], instances=instances, start=changed_meanwhile)
    assert ptk is after
    assert epoch == instances.epoch(PTK)
    assert epoch.begun_for == after.begun_for


def test_one_that_changes_without_end_is_unavailable(instances: RedisInstances) -> None:
    others = iter(range(1000))

    def changed(ptk: DevicePtk) -> Counted:
        instances.begin(PTK, f"{next(others):064}", start(ptk).instances, replaces=instances.epoch(PTK))
        return start(ptk)

    with pytest.raises(Unavailable, match="being changed"):
        epoch_of(PTK, read_ptk=lambda _: ptk_of(), instances=instances, start=changed)


@pytest.mark.parametrize(
    "wrong",
    [{"5": bytes(28)}, dict.fromkeys("01234", bytes(32)), dict.fromkeys("01234", b"abc"), {"4": b""}],
    ids=["more", "longer", "bytes", "empty"],
)
def test_instances_that_are_none_of_the_ptk_begin_anew(
    instances: RedisInstances, client: Any, wrong: dict[str, bytes]
) -> None:
    ptk = ptk_of()
    _, first = epoch_of(PTK, read_ptk=lambda _: ptk, instances=instances, start=start)
    client.hset(f"ptkd:{PTK}:{first.id}:instances", mapping=wrong)

    def read(ptk: DevicePtk, epoch: Epoch) -> Any:
        return instances.all(PTK, epoch.id, shape=ptk.shape)

    _, second, found = read_epoch(PTK, read, read_ptk=lambda _: ptk, instances=instances, start=start)
    assert second.id != first.id
    assert found.shape == (5, 7)
    assert np.array_equal(found, instances.all(PTK, second.id))


def test_none_begins_in_a_server_that_may_keep_what_is_overwritten(
    instances: RedisInstances, client: Any
) -> None:
    client.config_set("appendonly", "yes")
    try:
        with pytest.raises(Unavailable, match="may keep"):
            epoch_of(PTK, read_ptk=lambda _: ptk_of(), instances=instances, start=start)
    finally:
        client.config_set("appendonly", "no")
    assert client.keys("*") == []
    _, epoch = epoch_of(PTK, read_ptk=lambda _: ptk_of(), instances=instances, start=start)
    assert epoch.begun_for == ptk_of().begun_for
