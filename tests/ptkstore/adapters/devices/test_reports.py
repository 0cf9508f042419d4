"""Draws and puts in a real Redis: each ticket once, at random places, and nothing after its epoch."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import redis
from scipy import stats

from ptkstore.adapters.devices import RedisInstances, RedisReports
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.domain.tickets import Refusal
from ptkstore.errors import Unavailable
from ptkstore.ports.devices import Epoch
from tests.support.waiting import until

PTK, K, BYTES = "team.model", 5, 16
Answer = TypeVar("Answer")


@pytest.fixture
def epoch(instances: RedisInstances) -> Epoch:
    return instances.begin(PTK, "a" * 64, np.arange(4 * K, dtype=np.int32).reshape(K, 4))


def asked(url: str, ask: Callable[[RedisReports], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        reports = RedisReports(url)
        try:
            return await ask(reports)
        finally:
            reports.close()

    return asyncio.run(run())


def mark() -> bytes:
    return os.urandom(16)


def test_a_draw_and_a_put_spend_one_ticket(url: str, epoch: Epoch, client: Any) -> None:
    ticket = mark()

    async def once(reports: RedisReports) -> list[object]:
        return [
            await reports.draw(PTK, epoch.id, K, ticket, 60),
            await reports.draw(PTK, epoch.id, K, ticket, 60),
            await reports.may_put(PTK, epoch.id, ticket),
            await reports.spend(PTK, epoch.id, ticket),
            await reports.put(PTK, epoch.id, K, b"x" * BYTES),
            await reports.may_put(PTK, epoch.id, ticket),
            await reports.spend(PTK, epoch.id, ticket),
            await reports.draw(PTK, epoch.id, K, ticket, 60),
        ]

    drawn, *rest = asked(url, once)
    assert drawn in {np.arange(4 * i, 4 * i + 4, dtype="<i4").tobytes() for i in range(K)}
    assert rest == [Refusal.USED, None, None, None, Refusal.USED, Refusal.USED, Refusal.USED]
    values = client.hvals(f"ptkd:{PTK}:{epoch.id}:instances")
    assert len(values) == K
    assert values.count(b"x" * BYTES) == 1
    assert 0 < client.ttl(b"ptkd:ticket:" + ticket) <= 60
    instances = RedisInstances(url)
    assert instances.puts(PTK, epoch.id) == 1
    instances.begin(PTK, "b" * 64, np.zeros((K, 4), dtype=np.int32), replaces=epoch)
    assert instances.puts(PTK, epoch.id) == 0
    instances.close()


def test_nothing_is_put_without_a_draw(url: str, epoch: Epoch, client: Any) -> None:
    ticket = mark()
    assert asked(url, lambda reports: reports.may_put(PTK, epoch.id, ticket)) is Refusal.NOT_DRAWN
    assert asked(url, lambda reports: reports.spend(PTK, epoch.id, ticket)) is Refusal.NOT_DRAWN
    assert not client.exists(b"ptkd:ticket:" + ticket)


def test_of_many_uses_at_once_one_counts(url: str, epoch: Epoch) -> None:
    ticket = mark()

    async def race(reports: RedisReports) -> tuple[list[object], list[object]]:
        others = [RedisReports(url) for _ in range(4)]
        many = [reports, *others] * 10
        draws = await asyncio.gather(*(one.draw(PTK, epoch.id, K, ticket, 60) for one in many))
        spent = await asyncio.gather(*(one.spend(PTK, epoch.id, ticket) for one in many))
        for one in others:
            one.close()
        return list(draws), list(spent)

    draws, spent = asked(url, race)
    assert sum(isinstance(one, bytes) for one in draws) == 1
    assert draws.count(Refusal.USED) == len(draws) - 1
    assert spent.count(None) == 1
    assert spent.count(Refusal.USED) == len(spent) - 1


def test_places_of_draws_and_puts_are_uniform_and_independent(url: str, epoch: Epoch, client: Any) -> None:
    """False alarm once in 10**6 runs."""
    key = f"ptkd:{PTK}:{epoch.id}:instances"
    rounds = 4000

    async def many(reports: RedisReports) -> Counter[tuple[int, int]]:
        places: Counter[tuple[int, int]] = Counter()
        for _ in range(rounds):
            drawn = await reports.draw(PTK, epoch.id, K, mark(), 60)
            assert isinstance(drawn, bytes)
            await reports.put(PTK, epoch.id, K, b"x" * BYTES)
            (where,) = [int(place) for place, value in client.hgetall(key).items() if value == b"x" * BYTES]
            places[int(np.frombuffer(drawn, "<i4")[0]) // 4, where] += 1
            client.hset(key, where, np.arange(4 * where, 4 * where + 4, dtype="<i4").tobytes())
        return places

    places = asked(url, many)
    counts = [places[i, j] for i in range(K) for j in range(K)]
    assert stats.chisquare(counts).pvalue > 1e-6


def test_after_an_epoch_nothing_is_drawn_and_a_put_leaves_nothing(
    url: str, epoch: Epoch, client: Any
) -> None:
    instances, ticket = RedisInstances(url), mark()
    asked(url, lambda reports: reports.draw(PTK, epoch.id, K, ticket, 60))
    later = instances.begin(PTK, "b" * 64, np.zeros((K, 4), dtype=np.int32), replaces=epoch)
    instances.close()

    async def late(reports: RedisReports) -> list[object]:
        return [
            await reports.draw(PTK, epoch.id, K, mark(), 60),
            await reports.may_put(PTK, epoch.id, ticket),
            await reports.spend(PTK, epoch.id, ticket),
            await reports.put(PTK, epoch.id, K, b"x" * BYTES),
            await reports.count_refused(PTK, epoch.id, "range"),
        ]

    assert asked(url, late) == [*[Refusal.EPOCH_OVER] * 4, None]
    assert client.keys("*:instances") == [f"ptkd:{PTK}:{later.id}:instances".encode()]
    assert client.keys("*:counts") == []
    assert set(client.hvals(f"ptkd:{PTK}:{later.id}:instances")) == {bytes(BYTES)}


def test_processes_count_what_came_of_reports_together(url: str, epoch: Epoch) -> None:
    async def many(reports: RedisReports) -> None:
        others = [reports, RedisReports(url), RedisReports(url)]
        puts = (one.put(PTK, epoch.id, K, b"x" * BYTES) for one in others * 4)
        refusals = (one.count_refused(PTK, epoch.id, "norm") for one in others)
        await asyncio.gather(*puts, *refusals, reports.count_refused(PTK, epoch.id, "ticket-used"))
        for one in others[1:]:
            one.close()

    asked(url, many)
    instances = RedisInstances(url)
    found, counts = instances.read_window(PTK, epoch.id, 0, since=None)
    assert found.reports == 12
    assert np.array_equal(found.instances, instances.all(PTK, epoch.id))
    assert counts == {"put": 12, "norm": 3, "ticket-used": 1}
    assert instances.puts(PTK, epoch.id) == 12
    instances.close()


def test_a_server_that_lost_everything_knows_no_epoch(url: str, epoch: Epoch, client: Any) -> None:
    client.flushdb()

    async def late(reports: RedisReports) -> list[object]:
        return [
            await reports.draw(PTK, epoch.id, K, mark(), 60),
            await reports.put(PTK, epoch.id, K, b"x" * BYTES),
        ]

    assert asked(url, late) == [Refusal.EPOCH_OVER] * 2
    assert client.keys("*:instances") == []


def test_large_instances_of_many_requests_come_whole(url: str, client: Any) -> None:
    instances = RedisInstances(url)
    large = np.arange(3 * 50_000, dtype=np.int32).reshape(3, -1)
    epoch = instances.begin("team.large", "a" * 64, large)
    instances.close()

    async def many(reports: RedisReports) -> list[bytes | Refusal]:
        return await asyncio.gather(*(reports.draw("team.large", epoch.id, 3, mark(), 60) for _ in range(30)))

    known = {row.astype("<i4").tobytes() for row in large}
    assert set(asked(url, many)) <= known


def test_what_redis_refuses_to_keep_is_unavailable_and_the_next_is_answered(
    url: str, epoch: Epoch, client: Any
) -> None:
    async def full(reports: RedisReports) -> object:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Unavailable, match="refuses to keep"):
                await reports.draw(PTK, epoch.id, K, mark(), 60)
        finally:
            client.config_set("maxmemory", 0)
        return await reports.draw(PTK, epoch.id, K, mark(), 60)

    assert isinstance(asked(url, full), bytes)


def test_a_kill_9_of_the_server_fails_those_who_wait_and_it_is_found_again(tmp_path: Path) -> None:
    with ForgetfulRedisServer(tmp_path / "home") as server:
        instances = RedisInstances(server.client_url)
        instances.begin(PTK, "a" * 64, np.zeros((K, 4), dtype=np.int32))

        async def killed(reports: RedisReports) -> None:
            epoch = instances.epoch(PTK)
            assert epoch is not None
            assert isinstance(await reports.draw(PTK, epoch.id, K, mark(), 60), bytes)
            with redis.Redis.from_url(server.client_url) as client:
                pid = client.info("server")["process_id"]
            os.kill(pid, signal.SIGSTOP)
            waiting = [asyncio.create_task(reports.draw(PTK, epoch.id, K, mark(), 60)) for _ in range(20)]
            await asyncio.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
            failed = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(one) for one in failed} == {Unavailable}
            await asyncio.to_thread(until, server.answers)
            await asyncio.sleep(0.3)
            assert await reports.draw(PTK, epoch.id, K, mark(), 60) is Refusal.EPOCH_OVER

        asked(server.client_url, killed)
        assert instances.epoch(PTK) is None
        instances.close()


def test_a_server_that_hangs_is_given_up(url: str, epoch: Epoch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptkstore.adapters.devices.connection.PATIENCE_SECONDS", 0.5)
    with redis.Redis.from_url(url) as client:
        client.client_pause(4000)

        async def hangs(reports: RedisReports) -> None:
            with pytest.raises(Unavailable, match="does not answer"):
                await reports.draw(PTK, epoch.id, K, mark(), 60)

        try:
            asked(url, hangs)
        finally:
            client.client_unpause()


def test_a_password_and_a_database_are_used(tmp_path: Path) -> None:
    with ForgetfulRedisServer(tmp_path / "home") as server:
        with redis.Redis.from_url(server.client_url) as client:
            client.config_set("requirepass", "secret")
        url = f"{server.client_url}?db=2&password=secret"
        instances = RedisInstances(url)
        epoch = instances.begin(PTK, "a" * 64, np.zeros((K, 4), dtype=np.int32))
        instances.close()
        assert asked(url, lambda one: one.draw(PTK, epoch.id, K, mark(), 60)) == bytes(16)
        with pytest.raises(Unavailable, match="does not answer"):
            asked(f"{server.client_url}?password=wrong", lambda one: one.draw(PTK, epoch.id, K, mark(), 60))
