"""The relay's deliveries: many at once, each outcome written down once, nothing lost when it is killed."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from ptkstore.adapters.streams import RedisStreams, appending
from ptkstore.adapters.webhooks import HttpMessenger
from ptkstore.application.delivery.deliver_due import DueDeliveries
from ptkstore.application.delivery.deliveries import Outgoing, outgoing, settle
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.errors import Unavailable
from ptkstore.ports.messages import LEASE_UNSURE, Delivered, NotDelivered, NotTried
from ptkstore.wiring import subscribing
from tests.support.raw_endpoints import raw, says
from tests.support.receiver import WebhookReceiver
from tests.support.slow_hosts import slow_host
from tests.support.waiting import until
from tests.support.world import World

PTK = "taxi.speed"
PATIENCE_SECONDS = 120.0


def subscribe(world: World, receiver: WebhookReceiver, n: int) -> list[str]:
    made = []
    for number in range(n):
        subscription, secret = world.service.subscribe_to_ptk(PTK, receiver.endpoint(f"{number}"))
        receiver.trust(secret)
        made.append(subscription.id)
    return made


def deliver(deliveries: DueDeliveries) -> None:
    """Until nothing is under way any more."""
    until(lambda: not deliveries.pass_once(0.2), pause=0.0)


def positions(world: World, names: list[str]) -> list[int]:
    return [world.cursor(JobKind.NOTIFY, name).position for name in names]


def versions(receiver: WebhookReceiver, number: int) -> list[int]:
    return [
        call.message["data"]["version"]
        for call in receiver.accepted
        if call.message and call.path == f"/{number}"
    ]


def test_every_subscriber_hears_of_every_version_in_order(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    names = subscribe(published, webhook_receiver, 20)
    for day in (1, 2):
        published.publish(day)
    deliveries = published.service.due_deliveries()
    deliver(deliveries)
    deliver(deliveries)  # a cursor that was behind is due again after its first version
    assert positions(published, names) == [3] * 20
    assert [versions(webhook_receiver, number) for number in range(20)] == [[2, 3]] * 20
    assert deliveries.pass_once(0.0) == 0


def test_endpoints_that_fail_hold_up_nobody_and_are_tried_again_after_their_wait(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    names = subscribe(published, webhook_receiver, 3)
    dead = [published.service.subscribe_to_ptk(PTK, f"http://127.0.0.1:1/{n}")[0].id for n in range(10)]
    published.publish(1)
    deliveries = published.service.due_deliveries()
    deliver(deliveries)
    assert positions(published, names) == [2] * 3
    assert positions(published, dead) == [1] * 10
    assert {published.cursor(JobKind.NOTIFY, name).attempt for name in dead} == {1}
    assert deliveries.pass_once(0.0) == 0
    published.clock.pass_(seconds=2)
    deliver(deliveries)
    assert {published.cursor(JobKind.NOTIFY, name).attempt for name in dead} == {2}


def test_what_a_killed_relay_had_claimed_is_delivered_when_its_lease_ends_under_the_same_id(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    names = subscribe(published, webhook_receiver, 5)
    published.publish(1)
    killed = published.service.due_deliveries()
    killed.pass_once(0.0)  # claimed and handed over; nothing of it is ever written down
    assert len(webhook_receiver.wait_for(5, PATIENCE_SECONDS)) == 5
    del published.service.__dict__["courier"]
    another = published.service.due_deliveries()
    assert another.pass_once(0.0) == 0
    published.clock.time += published.service.settings.lease
    deliver(another)
    assert positions(published, names) == [2] * 5
    ids = sorted(call.webhook_id for call in webhook_receiver.accepted)
    assert ids == sorted(2 * [f"msg_{name}_00000002" for name in names])


def test_a_relay_that_lost_its_leases_writes_nothing(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    names = subscribe(published, webhook_receiver, 3)
    published.publish(1)
    webhook_receiver.answer_next(3, 500)
    late = published.service.due_deliveries()
    late.pass_once(0.0)
    until(lambda: len(webhook_receiver.calls) >= 3)
    published.clock.time += published.service.settings.lease
    assert len(published.work("notify")) == 3  # somebody else did it
    deliver(late)
    assert positions(published, names) == [2] * 3
    assert [published.cursor(JobKind.NOTIFY, name).state for name in names] == [JobState.IDLE] * 3


@pytest.mark.parametrize("stale_first", [True, False])
def test_of_two_claims_of_one_delivery_the_last_tells_its_end(
    published: World, webhook_receiver: WebhookReceiver, stale_first: bool
) -> None:
    """A call that outlasts its lease may end in one batch with the call of the next claim."""
    service, lease = published.service, published.service.settings.lease
    [name] = subscribe(published, webhook_receiver, 1)
    published.publish(1)
    claims: list[Outgoing] = []
    for _ in range(2):
        with service.begin() as uow:
            jobs = uow.deliveries.claim(published.clock.now(), lease, fresh=1, retried=1)
            uow.commit()
        with service.read() as uow:
            claims += outgoing(jobs, uow, service.lake)
        published.clock.time += lease
    stale, fresh = claims
    ended = [(stale, Delivered()), (fresh, NotDelivered("timeout"))]
    settle(ended if stale_first else ended[::-1], begin=service.begin, clock=published.clock)
    job = published.cursor(JobKind.NOTIFY, name)
    assert (job.position, job.attempt, job.state) == (1, 1, JobState.READY)
    [followed] = service.subscriptions(PTK)
    assert followed.subscription.health.failures == 1


def test_a_message_that_could_not_be_tried_costs_no_attempt(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    (name,) = subscribe(published, webhook_receiver, 1)
    published.publish(1)
    deliveries = published.service.due_deliveries()
    courier = published.service.courier
    outcomes = [NotTried(), Delivered()]
    collect = courier.collect
    courier.collect = lambda wait, enough: [  # type: ignore[method-assign]
        (key, outcomes.pop(0)) for key, _ in collect(wait, enough)
    ]
    deliver(deliveries)
    waiting = published.cursor(JobKind.NOTIFY, name)
    assert (waiting.position, waiting.attempt, waiting.state) == (1, 0, JobState.READY)
    published.clock.pass_(seconds=1)
    deliver(deliveries)
    assert positions(published, [name]) == [2]


@pytest.mark.long
def test_leases_are_kept_while_an_endpoint_takes_its_time(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    (name,) = subscribe(published, webhook_receiver, 1)
    published.publish(1)
    webhook_receiver.delay_next(1, seconds=2.0)
    deliveries = published.service.due_deliveries()
    deliveries.pass_once(0.0)
    first = published.cursor(JobKind.NOTIFY, name)
    assert first.lease_until is not None
    published.clock.pass_(seconds=10)
    deliveries._extended_at = -math.inf  # long ago
    deliveries.pass_once(0.0)
    second = published.cursor(JobKind.NOTIFY, name)
    assert second.lease_until is None or second.lease_until > first.lease_until  # None: it has ended already
    assert second.fence == first.fence  # it was kept, not lost and claimed anew
    deliver(deliveries)
    assert positions(published, [name]) == [2]


def follow(world: World, url: str, n: int) -> list[str]:
    return [world.service.subscribe_to_ptk(PTK, f"{url}/{number}")[0].id for number in range(n)]


@pytest.mark.long
def test_a_relay_that_cannot_keep_its_leases_begins_nothing_more_and_says_so_once(
    published: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, str, str]] = []
    monkeypatch.setattr(subscribing, "log_code", lambda *words: said.append(words))
    with slow_host(monkeypatch) as (server, let_go):
        names = follow(published, server.url, 6)
        published.publish(1)
        deliveries = published.service.due_deliveries()
        monkeypatch.setattr(deliveries, "_lease", timedelta(seconds=2))
        cut_off = time.monotonic()
        with monkeypatch.context() as cut:

            def nobody(*_: object) -> NoReturn:
                raise Unavailable("the catalog does not answer")

            until(lambda: deliveries.pass_once(0.1) and server.requests)
            cut_off = time.monotonic()
            cut.setattr(deliveries, "_begin", nobody)
            while time.monotonic() < cut_off + 2.5:  # longer than the lease
                with suppress(Unavailable):
                    deliveries.pass_once(0.1)
            let_go.set()

            def all_ended() -> bool:
                with suppress(Unavailable):
                    deliveries.pass_once(0.1)
                return not deliveries._under_way

            until(all_ended)
            assert len(server.requests) == 1
            assert said == [("deliveries not begun", "-", LEASE_UNSURE)]
        deliver(deliveries)
        deliver(deliveries)  # what was given back is due at once
        assert positions(published, names) == [2] * 6
        assert len(server.requests) == 6  # nobody else had it: the one that was begun is not sent again
        assert {published.cursor(JobKind.NOTIFY, name).attempt for name in names} == {0}


def test_a_relay_that_leaves_lets_calls_end_and_gives_the_rest_back_at_once(
    published: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_host(monkeypatch) as (server, let_go):
        names = follow(published, server.url, 6)
        published.publish(1)
        leaving = published.service.due_deliveries()
        leaving.pass_once(0.0)
        until(lambda: server.requests)
        threading.Timer(0.5, let_go.set).start()
        leaving.drain(PATIENCE_SECONDS)
        assert sorted(positions(published, names)) == [1] * 5 + [2]
        left = [published.cursor(JobKind.NOTIFY, name) for name in names]
        assert {(job.lease_until, job.attempt) for job in left} == {(None, 0)}
        del published.service.__dict__["courier"]
        deliver(published.service.due_deliveries())  # the clock stands still: due at once
        assert positions(published, names) == [2] * 6
        assert len(server.requests) == 6


def test_a_call_that_outlasts_the_farewell_is_broken_off_and_comes_again_under_its_id(
    published: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_host(monkeypatch) as (server, let_go):
        (name,) = follow(published, server.url, 1)
        published.publish(1)
        leaving = published.service.due_deliveries()
        leaving.pass_once(0.0)
        until(lambda: server.requests)
        leaving.drain(0.2)
        given_back = published.cursor(JobKind.NOTIFY, name)
        assert (given_back.lease_until, given_back.attempt, given_back.position) == (None, 0, 1)
        assert published.service.deliveries(name).subscription.status == "ok"  # not its endpoint's fault
        let_go.set()
        del published.service.__dict__["courier"]
        deliver(published.service.due_deliveries())
        assert positions(published, [name]) == [2]
        ids = [re.findall(rb"webhook-id: (\S+)", request) for request in server.requests]
        assert ids == [[f"msg_{name}_00000002".encode()]] * 2


@pytest.mark.parametrize(
    ("asked", "shortest", "longest"),
    [
        ("600", 600, 750),
        ("0", 0.75, 1.25),
        ("99999999999", 4 * 3600, 5 * 3600),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 4 * 3600, 5 * 3600),
        ("Sun, 04 Jan 2026 00:00:00 GMT", 0.75, 1.25),
    ],
)
def test_an_endpoint_that_asks_for_a_wait_gets_it_within_the_bounds_of_ours(
    published: World, asked: str, shortest: float, longest: float
) -> None:
    answer = f"HTTP/1.1 503 X\r\nretry-after: {asked}\r\ncontent-length: 0\r\n\r\n".encode()
    with raw(says(answer)) as server:
        (name,) = follow(published, server.url, 1)
        published.publish(1)
        deliver(published.service.due_deliveries())
    job = published.cursor(JobKind.NOTIFY, name)
    assert job.attempt == 1
    assert shortest <= (job.due_at - published.clock.now()).total_seconds() <= longest


def test_a_subscriber_is_not_told_whether_a_name_leads_into_our_network_and_the_log_says_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, str, str]] = []
    monkeypatch.setattr(subscribing, "log_code", lambda *words: said.append(words))
    inside = {"theirs.example": "93.184.216.34", "db.internal.example": "10.1.2.3"}
    moved: dict[str, str] = {}

    def lookup(host: str, port: int, *_: object) -> object:
        address = inside.get(moved.get(host, "theirs.example"))
        if address is None:
            raise OSError
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    world.register()
    world.publish(0)
    world.service.__dict__["messenger"] = HttpMessenger(resolver=lookup)
    names = {
        host: world.service.subscribe_to_ptk(PTK, f"https://{host}/")[0].id
        for host in ("there.example", "nowhere.example")
    }
    moved |= {"there.example": "db.internal.example", "nowhere.example": "no.internal.example"}
    world.publish(1)
    deliver(world.service.due_deliveries())
    told = [world.service.deliveries(name).subscription.health.last_code for name in names.values()]
    assert told == ["connection-failed"] * 2
    assert said == [("delivery refused", f"notify/{names['there.example']}", "refused-address")]
    world.service.close()


def test_a_delivery_that_cannot_be_written_fails_alone(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    (before, name, after) = subscribe(published, webhook_receiver, 3)
    published.publish(1)
    with published.service.begin() as uow:  # a version that nobody has
        job = uow.jobs.lock(f"notify/{name}")
        uow.jobs.save(replace(job, position=9))
        uow.commit()
    deliver(published.service.due_deliveries())
    assert positions(published, [before, name, after]) == [2, 9, 2]
    assert published.service.deliveries(name).subscription.health.last_code == "failed"


def test_an_unsubscribed_endpoint_is_left_out(published: World, webhook_receiver: WebhookReceiver) -> None:
    names = subscribe(published, webhook_receiver, 2)
    published.publish(1)
    published.service.unsubscribe(names[0])
    deliver(published.service.due_deliveries())
    assert versions(webhook_receiver, 0) == []
    assert versions(webhook_receiver, 1) == [2]


def test_a_secret_that_cannot_be_read_now_delays_its_own_message_only(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    names = subscribe(published, webhook_receiver, 5)
    published.publish(1)
    secret = published.service.settings.root / "keys" / "webhooks" / f"{names[2]}.secret"
    away = secret.rename(secret.with_suffix(".away"))
    secret.mkdir()  # an error of the file system, not a secret that is missing
    deliveries = published.service.due_deliveries()
    deliver(deliveries)
    assert positions(published, names) == [2, 2, 1, 2, 2]
    waiting = published.cursor(JobKind.NOTIFY, names[2])
    assert (waiting.attempt, waiting.state, waiting.lease_until) == (0, JobState.READY, None)
    assert published.service.deliveries(names[2]).subscription.status == "ok"  # not its endpoint's fault
    secret.rmdir()
    away.rename(secret)
    published.clock.pass_(seconds=1)
    deliver(deliveries)
    assert positions(published, names) == [2] * 5


def test_a_secret_that_is_none_fails_alone(published: World, webhook_receiver: WebhookReceiver) -> None:
    (before, name, after) = subscribe(published, webhook_receiver, 3)
    published.publish(1)
    secret = published.service.settings.root / "keys" / "webhooks" / f"{name}.secret"
    secret.write_text("whsec_x no-time")
    deliver(published.service.due_deliveries())
    assert positions(published, [before, name, after]) == [2, 1, 2]
    assert published.service.deliveries(name).subscription.health.last_code == "failed"


def test_a_server_of_streams_that_does_not_answer_is_asked_once_and_holds_up_no_webhook(
    published: World, webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [published.service.subscribe_to_ptk(PTK, f"redis-stream:news{n}")[0].id for n in range(20)]
    (hook,) = subscribe(published, webhook_receiver, 1)
    published.publish(1)
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setattr(appending, "PATIENCE_SECONDS", 0.2)
        streams = RedisStreams(f"redis://127.0.0.1:{nobody.getsockname()[1]}")
        append = streams.append

        def counted(*given: object, **named: Any) -> object:
            asked.append(given)
            return append(*given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(streams, "append", counted)
        published.service.__dict__["event_streams"] = streams
        deliver(published.service.due_deliveries())
    assert len(asked) == 1
    assert positions(published, [*names, hook]) == [1] * 20 + [2]
    assert sorted(published.cursor(JobKind.NOTIFY, name).attempt for name in names) == [0] * 19 + [1]
