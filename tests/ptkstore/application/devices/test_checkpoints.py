"""What a lost Redis costs: the reports since the last checkpoint, and the epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptklib.draw_discard import Numeric, Specification
from ptklib.draw_discard.instances import drift_limit
from ptkstore.adapters.devices import RedisInstances
from ptkstore.adapters.keys import AesGcmSealer, FileKeyStore
from ptkstore.adapters.objects import FsspecCheckpoints
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.application.devices.checkpoints import CheckpointWriter, start_of
from ptkstore.application.devices.epochs import epoch_of
from ptkstore.application.training.average_ptk import described
from ptkstore.errors import Unavailable
from ptkstore.ports.devices import DevicePtk, Epoch, Start

PTK = "team.model"


def specification(epsilon: float = 3.0) -> Specification:
    columns = [Numeric(f"x{i}", 0.0, 1.0) for i in range(6)]
    return Specification(features=columns, label=Numeric("y", 0.0, 1.0), epsilon=epsilon, k=5)


@dataclass
class Home:
    """The parts of a home that instances pass through."""

    instances: RedisInstances
    client: Any
    checkpoints: FsspecCheckpoints
    keys: FileKeyStore
    folder: Path
    ptk: DevicePtk

    def writer(self) -> CheckpointWriter:
        return CheckpointWriter(lambda _: self.ptk, self.instances, self.checkpoints, self.keys)

    def epoch(self) -> Epoch:
        _, epoch = epoch_of(
            PTK,
            read_ptk=lambda _: self.ptk,
            instances=self.instances,
            start=lambda ptk: start_of(ptk, checkpoints=self.checkpoints, keys=self.keys),
        )
        return epoch

    def weights(self) -> Any:
        return self.instances.all(PTK, self.epoch().id)

    def put(self, value: int) -> None:
        row = np.full(self.ptk.specification.n_weights, value, dtype="<i4")
        self.client.hset(f"ptkd:{PTK}:{self.epoch().id}:instances", "2", row.tobytes())

    def key(self) -> bytes:
        """Of the one checkpoint that has a key, which is the last one and of this epoch."""
        ((_, name),) = self.keys.checkpoints()
        assert name == self.checkpoints.newest(PTK)
        return self.keys.checkpoint_key(PTK, name)

    def file(self) -> bytes:
        return (self.folder / "_staging" / "_checkpoints" / PTK).read_bytes()


@pytest.fixture
def home(instances: RedisInstances, client: Any, tmp_path: Path) -> Home:
    ptk = DevicePtk(PTK, "phones", specification(), 3, datetime(2026, 1, 1, tzinfo=UTC), 3.0, 1, 8)
    return Home(
        instances,
        client,
        FsspecCheckpoints(str(tmp_path / "raw"), AesGcmSealer()),
        FileKeyStore(tmp_path / "keys"),
        tmp_path / "raw",
        ptk,
    )


def test_a_lost_redis_costs_what_came_since_the_checkpoint_and_the_epoch(home: Home) -> None:
    first = home.epoch()
    home.put(7)
    home.writer().write(PTK)
    kept = home.weights()
    home.put(8)
    home.client.flushdb()
    second = home.epoch()
    assert second.id != first.id
    assert np.array_equal(home.weights(), kept)


def test_each_checkpoint_has_a_key_and_that_of_the_one_before_is_destroyed(home: Home) -> None:
    writer, keys = home.writer(), set()
    home.epoch()
    for value in range(4):
        home.put(value)
        writer.write(PTK)
        keys.add(home.key())
    assert len(keys) == 4
    (left,) = (home.folder.parent / "keys" / "devices").glob("*.key")
    assert left.read_bytes() == home.key()


def test_a_second_loss_at_once_costs_no_more(home: Home) -> None:
    writer = home.writer()
    home.epoch()
    writer.write(PTK)
    kept, key = home.weights(), home.key()
    for _ in range(2):
        home.client.flushdb()
        assert np.array_equal(home.weights(), kept)
        assert home.key() == key
    writer.write(PTK)
    assert home.key() != key


def test_a_changed_specification_begins_anew_and_the_old_instances_cannot_be_read(home: Home) -> None:
    first = home.epoch()
    home.writer().write(PTK)
    before = home.weights()
    home.ptk = replace(home.ptk, specification=specification(epsilon=2.0))
    second = home.epoch()
    assert second.begun_for != first.begun_for
    assert not np.array_equal(home.weights(), before)
    key = home.key()
    home.writer().write(PTK)
    assert home.key() != key


def test_fresh_instances_are_around_the_weights_of_the_last_version(home: Home) -> None:
    spec = home.ptk.specification
    around = np.linspace(-0.5, 0.5, spec.n_weights)
    home.ptk = replace(home.ptk, start=lambda: Start(around))
    far = 12 * np.sqrt(spec.instance_variance)
    assert np.abs(home.weights() - around * 2.0**spec.grid_bits).max() < far
    assert far < 0.5 * 2.0**spec.grid_bits


def test_fresh_instances_count_as_half_as_many_reports_as_they_are_from_the_last_version_on(
    home: Home,
) -> None:
    around = np.zeros(home.ptk.specification.n_weights)
    home.ptk = replace(home.ptk, start=lambda: Start(around, 1000))
    assert home.instances.counted(PTK, home.epoch().id).reports == 1000 + 3


@pytest.mark.parametrize(
    ("version", "checkpoint"), [(255, 127), (255, 130), (128, 127), (255, 400), (0, 127)]
)
@pytest.mark.parametrize("more", [0, 1, 126, 127, 254])
def test_after_a_loss_the_limit_is_for_at_least_as_many_reports_as_came_on_both_ways(
    home: Home, version: int, checkpoint: int, more: int
) -> None:
    def reports(count: int) -> None:
        home.client.hincrby(f"ptkd:{PTK}:{home.epoch().id}:counts", "put", count)

    reports(checkpoint - home.instances.counted(PTK, home.epoch().id).reports)
    home.writer().write(PTK)
    said = version // 128 * 128
    home.ptk = replace(home.ptk, start=lambda: Start(np.zeros(home.ptk.specification.n_weights), said))
    home.client.flushdb()
    home.epoch()
    reports(more)
    limit = described(home.ptk, home.instances.counted(PTK, home.epoch().id))["limit"]
    spec = home.ptk.specification
    least = drift_limit(spec, abs(version - checkpoint) + more, 0.01) / 2.0**spec.grid_bits
    assert limit >= least


def test_what_did_not_change_is_not_written_again(home: Home) -> None:
    writer = home.writer()
    home.epoch()
    writer.write(PTK)
    before = home.file()
    writer.write(PTK)
    assert home.file() == before
    home.put(9)
    writer.write(PTK)
    assert home.file() != before


def test_without_an_epoch_nothing_is_written(home: Home) -> None:
    home.writer().write(PTK)
    assert home.keys.checkpoints() == frozenset()
    assert home.checkpoints.newest(PTK) is None


def test_what_a_writer_that_stood_still_wrote_of_an_epoch_that_is_over_is_overwritten(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the epoch, stood still while another began and was written down, and goes on."""
    slow, other = home.writer(), home.writer()
    first, make = home.epoch(), home.keys.make_checkpoint_key

    def meanwhile(ptk_id: str, name: str) -> bytes:
        monkeypatch.undo()
        home.ptk = replace(home.ptk, specification=specification(epsilon=2.0))
        home.epoch()
        other.write(PTK)
        return make(ptk_id, name)

    monkeypatch.setattr(home.keys, "make_checkpoint_key", meanwhile)
    slow.write(PTK)
    kept = home.weights()
    assert home.epoch().id != first.id
    other.write(PTK)  # nothing has changed since it did so
    home.client.flushdb()
    assert np.array_equal(home.weights(), kept)


@pytest.mark.parametrize("at", ["listed", "key", "file"])
def test_of_two_who_write_at_once_neither_destroys_the_key_of_the_last_file(
    home: Home, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    one, other = home.writer(), home.writer()
    home.epoch()
    for writer in (one, other, one):
        home.put(6)
        writer.write(PTK)
    home.put(7)
    place, name = {
        "listed": (home.checkpoints, "newest"),
        "key": (home.keys, "make_checkpoint_key"),
        "file": (home.checkpoints, "write"),
    }[at]
    act = getattr(place, name)

    def interrupted(*said: Any) -> Any:
        done = act(*said)
        monkeypatch.undo()
        other.write(PTK)
        return done

    monkeypatch.setattr(place, name, interrupted)
    one.write(PTK)
    kept = home.weights()
    home.client.flushdb()
    assert np.array_equal(home.weights(), kept)
    for _ in range(3):
        one.write(PTK)
        other.write(PTK)
    assert home.key()  # no other is left


def test_a_key_that_was_destroyed_while_its_file_was_written_costs_one_pass(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = home.writer()
    home.epoch()
    write = home.checkpoints.write

    def stands_still(ptk_id: str, name: str, *said: Any) -> None:
        home.keys.destroy_checkpoint(ptk_id, name)
        write(ptk_id, name, *said)

    monkeypatch.setattr(home.checkpoints, "write", stands_still)
    one.write(PTK)
    assert home.keys.checkpoints() == frozenset()
    monkeypatch.undo()
    one.write(PTK)
    assert home.key()


@pytest.mark.parametrize("fault", ["torn", "key", "name", "shape"])
def test_a_checkpoint_that_cannot_be_read_is_none(home: Home, fault: str) -> None:
    home.epoch()
    home.writer().write(PTK)
    before = home.weights()
    path = home.folder / "_staging" / "_checkpoints" / PTK
    if fault == "torn":
        path.write_bytes(home.file()[:-3])
    elif fault == "key":
        home.keys.destroy_checkpoint(PTK, home.checkpoints.newest(PTK) or "")
    elif fault == "shape":
        name = home.checkpoints.newest(PTK) or ""
        content = home.checkpoints.read(PTK, name, home.key())
        home.checkpoints.write(PTK, name, content + bytes(28), home.key())
    else:
        path.write_bytes(b"\xff" * 16 + home.file()[16:])
    home.client.flushdb()
    assert not np.array_equal(home.weights(), before)


@pytest.mark.parametrize("wrong", [{"5": bytes(28)}, dict.fromkeys("01234", bytes(32)), {"4": b"abc"}])
def test_instances_of_another_shape_are_not_written_over_the_last_checkpoint(
    home: Home, wrong: dict[str, bytes]
) -> None:
    writer, epoch = home.writer(), home.epoch()
    writer.write(PTK)
    before, kept, key = home.weights(), home.file(), home.key()
    home.client.hset(f"ptkd:{PTK}:{epoch.id}:instances", mapping=wrong)
    writer.write(PTK)
    assert (home.file(), home.key()) == (kept, key)
    home.client.flushdb()
    assert np.array_equal(home.weights(), before)


def test_an_epoch_that_is_over_is_not_written_over_the_last_checkpoint(home: Home) -> None:
    home.epoch()
    home.writer().write(PTK)
    kept = home.file()
    home.put(9)
    home.ptk = replace(home.ptk, specification=specification(epsilon=2.0))
    home.writer().write(PTK)
    assert home.file() == kept


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("none", True),
        ("torn", True),
        ("specification", False),
        ("no checkpoint", False),
        ("forgotten", False),
    ],
)
def test_an_epoch_says_whether_others_were_lost_before_it(home: Home, fault: str, told: bool) -> None:
    assert not home.instances.counted(PTK, home.epoch().id).after_loss
    if fault != "no checkpoint":
        home.writer().write(PTK)
    if fault == "torn":
        (home.folder / "_staging" / "_checkpoints" / PTK).write_bytes(home.file()[:-3])
    elif fault == "forgotten":
        home.writer().forget(PTK)
    elif fault == "specification":
        home.ptk = replace(home.ptk, specification=specification(epsilon=2.0))
    home.client.flushdb()
    for _ in range(2):
        assert home.instances.counted(PTK, home.epoch().id).after_loss == told


def test_a_changed_model_lost_nothing_though_its_checkpoint_of_before_is_there(home: Home) -> None:
    first = home.ptk
    home.epoch()
    home.writer().write(PTK)
    home.ptk = replace(first, specification=specification(epsilon=2.0))
    home.epoch()
    home.ptk = first
    assert not home.instances.counted(PTK, home.epoch().id).after_loss


def test_what_is_forgotten_leaves_neither_key_nor_file_nor_instance(home: Home) -> None:
    writer = home.writer()
    home.epoch()
    writer.write(PTK)
    for _ in range(2):
        writer.forget(PTK)
        assert home.keys.checkpoints() == frozenset()
        assert home.checkpoints.newest(PTK) is None
        assert home.client.keys("*:instances") == []


def test_no_instance_is_legible_in_any_file(home: Home) -> None:
    home.epoch()
    home.put(0x41424344)
    home.writer().write(PTK)
    assert home.writer().write(PTK) is None
    for path in home.folder.parent.rglob("*"):
        assert not path.is_file() or b"DCBA" not in path.read_bytes()


def test_a_redis_that_is_away_writes_nothing_over_the_last_checkpoint(home: Home, tmp_path: Path) -> None:
    home.epoch()
    home.writer().write(PTK)
    before = home.file()
    away = RedisInstances(ForgetfulRedisServer(tmp_path / "away").client_url)
    with pytest.raises(Unavailable):
        CheckpointWriter(lambda _: home.ptk, away, home.checkpoints, home.keys).write(PTK)
    assert home.file() == before
