"""Epochs and their instances in a real Redis."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from ptkstore.adapters.devices import RedisInstances
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.errors import Unavailable, UnknownName
from ptkstore.ports.devices import Epoch

PTK, FIRST, SECOND = "team.model", "a" * 64, "b" * 64


def weights(start: int, k: int = 3, n_weights: int = 4) -> np.ndarray:
    return (np.arange(k * n_weights, dtype=np.int32) + start).reshape(k, n_weights)


def test_what_began_is_read_as_it_was(instances: RedisInstances) -> None:
    extremes = np.array([[-(2**31), 2**31 - 1], [0, -1]], dtype=np.int32)
    epoch = instances.begin(PTK, FIRST, extremes)
    assert epoch.begun_for == FIRST
    assert instances.epoch(PTK) == epoch
    found = instances.all(PTK, epoch.id)
    assert found.dtype == np.int32
    assert np.array_equal(found, extremes)


def test_more_than_ten_instances_keep_their_order(instances: RedisInstances) -> None:
    epoch = instances.begin(PTK, FIRST, weights(0, k=23))
    assert np.array_equal(instances.all(PTK, epoch.id), weights(0, k=23))


def test_without_an_epoch_there_is_none(instances: RedisInstances) -> None:
    assert instances.epoch(PTK) is None
    with pytest.raises(UnknownName):
        instances.all(PTK, "0" * 16)


def test_an_instance_that_was_lost_is_missed(instances: RedisInstances, client: Any) -> None:
    epoch = instances.begin(PTK, FIRST, weights(0))
    client.hdel(f"ptkd:{PTK}:{epoch.id}:instances", "1")
    with pytest.raises(UnknownName):
        instances.all(PTK, epoch.id)
    client.hset(f"ptkd:{PTK}:{epoch.id}:instances", "1", b"short")
    with pytest.raises(UnknownName):
        instances.all(PTK, epoch.id)


@pytest.mark.parametrize("row", [b"", b"abc", b"abcde"])
def test_rows_that_are_no_instances_are_missed(instances: RedisInstances, client: Any, row: bytes) -> None:
    epoch = instances.begin(PTK, FIRST, weights(0))
    client.hset(f"ptkd:{PTK}:{epoch.id}:instances", mapping={str(place): row for place in range(3)})
    with pytest.raises(UnknownName):
        instances.all(PTK, epoch.id)


def test_a_new_epoch_forgets_the_instances_of_the_one_that_its_caller_saw(
    instances: RedisInstances, client: Any
) -> None:
    first = instances.begin(PTK, FIRST, weights(0))
    second = instances.begin(PTK, SECOND, weights(50), replaces=first)
    assert second.id != first.id
    assert instances.epoch(PTK) == second
    assert np.array_equal(instances.all(PTK, second.id), weights(50))
    assert client.keys("*:instances") == [f"ptkd:{PTK}:{second.id}:instances".encode()]


def test_nobody_brings_back_what_was_replaced_meanwhile(instances: RedisInstances) -> None:
    first = instances.begin(PTK, FIRST, weights(0))
    second = instances.begin(PTK, SECOND, weights(50), replaces=first)
    assert instances.begin(PTK, FIRST, weights(0), replaces=first) == second
    assert instances.begin(PTK, FIRST, weights(0)) == second
    assert np.array_equal(instances.all(PTK, second.id), weights(50))


def test_of_many_who_begin_at_once_all_agree_on_one(url: str, client: Any) -> None:
    at_once, gate = 8, Barrier(8)

    def begin(number: int) -> Epoch:
        one = RedisInstances(url)
        try:
            one.epoch(PTK)
            gate.wait()
            return one.begin(PTK, FIRST, weights(1000 * number))
        finally:
            one.close()

    for _ in range(10):
        client.flushdb()
        with ThreadPoolExecutor(at_once) as threads:
            epochs = set(threads.map(begin, range(at_once)))
        assert len(epochs) == 1
        assert len(client.keys("*:instances")) == 1


def test_what_is_forgotten_leaves_nothing(instances: RedisInstances, client: Any) -> None:
    epoch = instances.begin(PTK, FIRST, weights(0))
    other = instances.begin("team.model2", FIRST, weights(0))
    client.incr(f"ptkd:{PTK}:{epoch.id}:puts")
    assert instances.ptk_ids() == {PTK, "team.model2"}
    instances.forget(PTK)
    instances.forget(PTK)
    assert instances.epoch(PTK) is None
    assert instances.ptk_ids() == {"team.model2"}
    left = ["ptkd:ptks", "ptkd:team.model2:epoch", f"ptkd:team.model2:{other.id}:instances"]
    assert sorted(client.keys("*")) == sorted(key.encode() for key in left)


def test_an_epoch_that_began_while_its_ptk_was_forgotten_is_found_and_forgotten_again(
    instances: RedisInstances, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances.begin(PTK, FIRST, weights(0))
    older = instances.forget_older

    def begins(ptk_id: str) -> None:
        instances.begin(PTK, FIRST, weights(0))
        older(ptk_id)

    monkeypatch.setattr(instances, "forget_older", begins)
    instances.forget(PTK)
    monkeypatch.undo()
    now = instances.epoch(PTK)
    assert now is not None
    assert np.array_equal(instances.all(PTK, now.id), weights(0))
    assert instances.ptk_ids() == {PTK}
    instances.forget(PTK)
    assert client.keys("*") == []


def test_what_a_late_put_left_in_a_server_that_lost_its_epochs_is_forgotten(
    instances: RedisInstances, client: Any
) -> None:
    first = instances.begin(PTK, FIRST, weights(0))
    client.flushdb()
    client.hset(f"ptkd:{PTK}:{first.id}:instances", "2", b"late")
    client.set(b"ptkd:ticket:mark", b"put")
    second = instances.begin(PTK, FIRST, weights(0))
    instances.forget_older(PTK)
    assert client.keys("*:instances") == [f"ptkd:{PTK}:{second.id}:instances".encode()]
    assert client.get(b"ptkd:ticket:mark") == b"put"
    assert np.array_equal(instances.all(PTK, second.id), weights(0))


def test_what_a_late_put_left_of_an_epoch_that_is_over_is_forgotten(
    instances: RedisInstances, client: Any
) -> None:
    first = instances.begin(PTK, FIRST, weights(0))
    second = instances.begin(PTK, SECOND, weights(50), replaces=first)
    client.hset(f"ptkd:{PTK}:{first.id}:instances", "2", b"late")
    instances.forget_older(PTK)
    assert client.keys("*:instances") == [f"ptkd:{PTK}:{second.id}:instances".encode()]


def put(client: Any, epoch: Epoch, **outcomes: int) -> None:
    for outcome, count in outcomes.items():
        client.hincrby(f"ptkd:{PTK}:{epoch.id}:counts", outcome, count)


def test_a_window_counts_from_the_one_that_its_caller_names(instances: RedisInstances, client: Any) -> None:
    epoch = instances.begin(PTK, FIRST, weights(0))

    def counted(window: int, since: int | None) -> Mapping[str, int]:
        return instances.read_window(PTK, epoch.id, window, since=since)[1]

    assert counted(0, None) == {}
    put(client, epoch, put=5)
    assert counted(1, 0) == {"put": 5}
    put(client, epoch, put=2, norm=1)
    assert counted(1, 0) == {"put": 7, "norm": 1}  # a second try counts from the same place
    put(client, epoch, put=1)
    assert counted(2, 1) == {"put": 3, "norm": 1}  # from where window 1 was read first
    put(client, epoch, put=1)
    assert counted(3, 1) == {"put": 4, "norm": 1}  # window 2 was not published
    marks = f"ptkd:{PTK}:{epoch.id}:marks"
    assert set(client.hkeys(marks)) == {b"1", b"2", b"3"}
    assert counted(4, 3) == {"put": 0, "norm": 0}
    assert set(client.hkeys(marks)) == {b"3", b"4"}
    assert counted(5, None) == {"put": 9, "norm": 1}
    put(client, epoch, put=1)
    for _ in range(2):
        assert counted(6, 0) == {"put": 1, "norm": 0}  # from the newest mark, as that of window 0 is gone


def test_who_reads_a_window_late_takes_no_report_from_the_next(
    instances: RedisInstances, client: Any
) -> None:
    """Two claims of one job: the one whose version is published read before the other."""
    epoch = instances.begin(PTK, FIRST, weights(0))
    put(client, epoch, put=5)
    assert instances.read_window(PTK, epoch.id, 0, since=None)[1] == {"put": 5}
    put(client, epoch, put=3)
    instances.read_window(PTK, epoch.id, 0, since=None)
    put(client, epoch, put=1)
    assert instances.read_window(PTK, epoch.id, 1, since=0)[1] == {"put": 4}


@pytest.mark.parametrize("at", ["start", "mark"])
def test_who_reads_a_window_after_later_ones_leaves_no_mark_of_it(
    instances: RedisInstances, client: Any, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """A claim that lost its lease long ago: its mark was not needed any more, and would be of another moment."""
    epoch = instances.begin(PTK, FIRST, weights(0))

    def read(window: int, since: int | None) -> None:
        instances.read_window(PTK, epoch.id, window, since=since)

    def later(*said: Any) -> None:
        monkeypatch.undo()
        for window in (1, 2, 3):
            read(window, window - 1)
        if said:
            mark(*said)

    read(0, None)
    mark = instances._mark
    if at == "mark":
        client.delete(f"ptkd:{PTK}:{epoch.id}:marks")
        monkeypatch.setattr(instances, "_mark", later)
    else:
        later()
    read(0, None)
    assert set(client.hkeys(f"ptkd:{PTK}:{epoch.id}:marks")) <= {b"1", b"2", b"3"}


def test_counts_end_with_their_epoch(instances: RedisInstances, client: Any) -> None:
    first = instances.begin(PTK, FIRST, weights(0))
    put(client, first, put=5)
    instances.read_window(PTK, first.id, 0, since=None)
    second = instances.begin(PTK, SECOND, weights(50), replaces=first)
    assert client.keys("*:counts") + client.keys("*:marks") == []
    assert instances.read_window(PTK, second.id, 1, since=None)[1] == {}
    put(client, first, put=1)  # by a put that was on its way
    with pytest.raises(UnknownName):
        instances.read_window(PTK, first.id, 1, since=0)
    instances.forget_older(PTK)
    assert client.keys(f"*:{first.id}:*") == []
    instances.forget(PTK)
    assert client.keys("*:counts") + client.keys("*:marks") == []


def test_a_server_that_is_away_is_unavailable(tmp_path_factory: pytest.TempPathFactory) -> None:
    away = RedisInstances(ForgetfulRedisServer(tmp_path_factory.mktemp("away")).client_url)
    for ask in (
        lambda: away.epoch(PTK),
        lambda: away.all(PTK, "e"),
        lambda: away.read_window(PTK, "e", 0, since=None),
        lambda: away.begin(PTK, FIRST, weights(0)),
        lambda: away.forget(PTK),
        away.check,
    ):
        with pytest.raises(Unavailable, match="does not answer"):
            ask()


def test_reports_count_on_from_those_that_an_epoch_begins_with(
    instances: RedisInstances, client: Any
) -> None:
    epoch = instances.begin(PTK, FIRST, weights(0), reports=40, after_loss=True)
    put(client, epoch, put=5, norm=3)
    found, counts = instances.read_window(PTK, epoch.id, 0, since=None)
    assert (found.reports, found.after_loss, counts) == (45, True, {"put": 5, "norm": 3})
    again = instances.counted(PTK, epoch.id)
    assert (again.reports, again.after_loss) == (45, True)
    assert np.array_equal(again.instances, found.instances)
