"""Many messages at once: what hangs delays its own host only, and every message has one outcome."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from ptkstore.adapters.webhooks import HttpCourier, HttpMessenger, attempts, courier, new_secret
from ptkstore.ports.messages import (
    LEASE_UNSURE,
    WITHDRAWN,
    Delivered,
    Message,
    NotDelivered,
    NotTried,
    Tried,
)
from tests.support.raw_endpoints import (
    EMPTY_200,
    Raw,
    drips_a_body,
    drips_headers,
    raw,
    repeats_a_provisional_answer,
    says,
    says_nothing,
)
from tests.support.receiver import WebhookReceiver
from tests.support.slow_hosts import PATIENCE_SECONDS, slow_host
from tests.support.waiting import until

LOOPBACK = ("127.0.0.0/8",)
SECRET = new_secret()
LOST = NotDelivered("connection-failed", cause="timeout")  # a lookup without an answer


def message(key: str, endpoint: str, team: str = "") -> Message:
    return Message(key, endpoint, f"msg_{key}", b"{}", (SECRET,), team)


def collected(one: HttpCourier, n: int, seconds: float = PATIENCE_SECONDS) -> dict[str, Tried]:
    """The next so many outcomes; each message has one."""
    found: dict[str, Tried] = {}
    until = time.monotonic() + seconds
    while len(found) < n and time.monotonic() < until:
        ended = one.collect(0.5, n - len(found))
        assert not found.keys() & dict(ended).keys()
        found.update(ended)
    assert len(found) == n, found
    return found


@contextmanager
def running(messenger: HttpMessenger, **more: Any) -> Iterator[HttpCourier]:
    one = HttpCourier(messenger, **more)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def hanging(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.create_server((host, 0), backlog=512) as listener:
        yield listener.getsockname()[1]


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HttpCourier, Raw, threading.Event]]:
    """A courier that calls such a host, which has its first message."""
    messenger = HttpMessenger(LOOPBACK, timeout_seconds=PATIENCE_SECONDS)
    with slow_host(monkeypatch) as (server, let_go), running(messenger) as one:
        one.hand_over([message("first", server.url)])
        until(lambda: server.requests)
        yield one, server, let_go
        let_go.set()


def test_what_is_not_begun_in_time_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with held(monkeypatch) as (one, server, let_go):
        one.keep(["first"], time.monotonic())  # begun: it ends as it does
        one.hand_over([message("late", server.url)], time.monotonic())
        let_go.set()
        assert collected(one, 2) == {"first": Delivered(), "late": NotTried(LEASE_UNSURE)}
        assert len(server.requests) == 1


def test_what_is_kept_is_begun_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with held(monkeypatch) as (one, server, let_go):
        one.hand_over([message("late", server.url), message("kept", server.url)], time.monotonic())
        one.keep(["kept", "unknown"], time.monotonic() + PATIENCE_SECONDS)
        let_go.set()
        assert collected(one, 3) == {
            "first": Delivered(),
            "late": NotTried(LEASE_UNSURE),
            "kept": Delivered(),
        }


def test_what_is_withdrawn_is_given_back_at_once_and_what_is_on_its_way_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with held(monkeypatch) as (one, server, let_go):
        one.hand_over([message(f"{n}", server.url) for n in range(5)])
        one.withdraw()
        assert collected(one, 5) == {f"{n}": NotTried(WITHDRAWN) for n in range(5)}  # the first is held yet
        let_go.set()
        assert collected(one, 1) == {"first": Delivered()}
        assert len(server.requests) == 1


def test_what_is_broken_off_has_an_outcome_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with held(monkeypatch) as (one, _, _):
        one.close()
        assert one.collect(0.0, 9) == [("first", NotTried(WITHDRAWN))]


def test_every_message_arrives_signed_and_has_one_outcome(webhook_receiver: WebhookReceiver) -> None:
    webhook_receiver.trust(SECRET)
    with running(HttpMessenger(LOOPBACK)) as one:
        one.hand_over([message(f"{n}", webhook_receiver.endpoint(f"{n}")) for n in range(100)])
        found = collected(one, 100)
        assert one.room == courier.MOST_WAITING
    assert set(found.values()) == {Delivered()}
    assert sorted(call.path for call in webhook_receiver.accepted) == sorted(f"/{n}" for n in range(100))


def test_connections_are_kept_and_used_again() -> None:
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                opened.append(connection)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with suppress(OSError):
                while data := connection.recv(65536):
                    if data.endswith(b"{}"):  # the body; head and body may come apart
                        connection.sendall(EMPTY_200)

        threading.Thread(target=serve, daemon=True).start()
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with running(HttpMessenger(LOOPBACK)) as one:
            for n in range(5):
                one.hand_over([message(f"{n}", endpoint)])
                assert collected(one, 1) == {f"{n}": Delivered()}
    assert len(opened) == 1


def test_what_an_endpoint_sets_is_not_sent_to_another_on_the_same_connection() -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                while data := connection.recv(65536):
                    asked.append(data)
                    if data.endswith(b"{}"):
                        connection.sendall(
                            EMPTY_200.replace(b"\r\n\r\n", b"\r\nset-cookie: a=b; path=/\r\n\r\n")
                        )

        threading.Thread(target=answer, daemon=True).start()
        host = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with running(HttpMessenger(LOOPBACK)) as one:
            for name in ("mine", "yours"):
                one.hand_over([message(name, f"{host}/{name}")])
                assert collected(one, 1) == {name: Delivered()}
    sent = b"".join(asked)
    assert (sent.count(b"POST /mine"), sent.count(b"POST /yours")) == (1, 1)
    assert b"cookie" not in sent.lower()


@pytest.mark.long
@pytest.mark.parametrize("n_hanging", [60])
def test_endpoints_that_hang_delay_nobody_at_other_hosts(
    webhook_receiver: WebhookReceiver, n_hanging: int
) -> None:
    """Three times as many hang as there are quick places, each a host of its own, and all were there first."""
    webhook_receiver.trust(SECRET)
    messenger = HttpMessenger(LOOPBACK, timeout_seconds=PATIENCE_SECONDS)
    with hanging("0.0.0.0") as port, running(messenger, quick=20) as one:
        one.hand_over([message(f"slow{n}", f"http://127.0.1.{n + 1}:{port}/") for n in range(n_hanging)])
        one.hand_over([message(f"{n}", webhook_receiver.endpoint()) for n in range(30)])
        found = collected(one, 30, seconds=PATIENCE_SECONDS / 2)  # none of those that hang has ended
    assert set(found) == {f"{n}" for n in range(30)}
    assert set(found.values()) == {Delivered()}


@pytest.mark.long
def test_a_host_that_answers_nobody_gets_so_many_messages_and_no_more(
    webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "HOST_WAIT_SECONDS", 0.2)
    webhook_receiver.trust(SECRET)
    messenger = HttpMessenger(LOOPBACK, timeout_seconds=PATIENCE_SECONDS)
    with hanging() as port, running(messenger) as one:
        n_turned_away = 50
        one.hand_over(
            [
                message(f"slow{n}", f"http://127.0.0.1:{port}/{n}")
                for n in range(courier.PER_HOST + n_turned_away)
            ]
        )
        turned_away = collected(one, n_turned_away)
        assert set(turned_away.values()) == {NotTried()}
        one.hand_over([message("a", webhook_receiver.endpoint())])
        assert collected(one, 1) == {"a": Delivered()}


@pytest.mark.long
def test_calls_that_take_long_leave_room_for_others_and_end_in_time() -> None:
    with hanging() as port, running(HttpMessenger(LOOPBACK, timeout_seconds=2.0), waiting=8, quick=4) as one:
        one.hand_over([message(f"{n}", f"http://127.0.0.1:{port}/{n}") for n in range(8)])
        assert one.room == 0
        until = time.monotonic() + PATIENCE_SECONDS
        while one.room < 8:
            assert time.monotonic() < until
            time.sleep(0.05)
        found = collected(one, 8)
    assert set(found.values()) == {NotDelivered("timeout")}
    assert {one.seconds for one in found.values() if isinstance(one, NotDelivered)} == {2.0}


def test_each_failure_has_its_code() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()[1]
    with (
        raw(says(b"HTTP/1.1 302 Go\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n")) as moved,
        raw(says(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n")) as gone,
        raw(says(b"garbage")) as garbage,
        running(HttpMessenger(LOOPBACK)) as one,
    ):
        one.hand_over(
            [
                message("moved", moved.url),
                message("gone", gone.url),
                message("garbage", garbage.url),
                message("nobody", f"http://127.0.0.1:{nobody}/"),
                message("private", "http://10.0.0.1/"),
                message("form", "ftp://127.0.0.1/"),
                message("missing", "http://missing.invalid/"),
            ]
        )
        found = collected(one, 7)
    answers = {key: (tried.status, tried.seconds is not None) for key, tried in found.items()}  # type: ignore[union-attr]
    assert answers.pop("gone") == (410, True)
    assert set(answers.values()) == {(None, False)}
    assert found == {
        "moved": NotDelivered("redirect"),
        "gone": NotDelivered("gone"),
        "garbage": NotDelivered("connection-failed"),
        "nobody": NotDelivered("connection-failed"),
        "private": NotDelivered("connection-failed", cause="refused-address"),
        "form": NotDelivered("bad-endpoint"),
        "missing": NotDelivered("connection-failed"),
    }


def test_a_proxy_of_the_environment_is_not_used(
    webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook_receiver.trust(SECRET)
    with raw(says(EMPTY_200)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        with running(HttpMessenger(LOOPBACK)) as one:
            one.hand_over([message("a", webhook_receiver.endpoint())])
            assert collected(one, 1) == {"a": Delivered()}
        assert proxy.requests == []


def test_the_checked_address_is_the_one_connected_to_until_the_name_is_looked_up_again(
    webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def moves(host: str, port: int, *_: object) -> Any:
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    webhook_receiver.trust(SECRET)
    with running(HttpMessenger(LOOPBACK, resolver=moves)) as one:
        endpoint = webhook_receiver.endpoint().replace("127.0.0.1", "rebinds.example")
        for key in "ab":
            one.hand_over([message(key, endpoint)])
            assert collected(one, 1) == {key: Delivered()}
        assert asked == ["rebinds.example"]
        monkeypatch.setattr(time, "monotonic", later(courier.ADDRESSES_FRESH_SECONDS + 1))
        one.hand_over([message("c", endpoint)])
        (found,) = [outcome for _, outcome in one.collect(PATIENCE_SECONDS, 1)]
        monkeypatch.undo()
    assert found == NotDelivered("connection-failed", cause="refused-address")
    assert len(webhook_receiver.calls) == 2


def later(seconds: float) -> Any:
    real = time.monotonic
    return lambda: real() + seconds


@pytest.mark.long
def test_lookups_that_hang_end_their_own_messages_only(webhook_receiver: WebhookReceiver) -> None:
    let_go = threading.Event()

    def lookup(host: str, port: int, *_: object) -> Any:
        if host == "slow.example":
            let_go.wait(PATIENCE_SECONDS)
            return []
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    webhook_receiver.trust(SECRET)
    with running(HttpMessenger(LOOPBACK, timeout_seconds=3.0, resolver=lookup)) as one:
        one.hand_over([message("slow", "http://slow.example/"), message("a", webhook_receiver.endpoint())])
        assert collected(one, 2) == {"slow": LOST, "a": Delivered()}
        let_go.set()


def test_names_of_one_team_that_hang_leave_lookups_to_other_teams(
    webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "LOOKUPS_AT_ONCE", 4)
    monkeypatch.setattr(courier, "LOOKUPS_PER_TEAM", 2)
    let_go, asked = threading.Event(), []

    def lookup(host: str, port: int, *_: object) -> Any:
        asked.append(host)
        if host.endswith("slow.example"):
            let_go.wait(PATIENCE_SECONDS)
            return []
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    webhook_receiver.trust(SECRET)
    with running(HttpMessenger(LOOPBACK, timeout_seconds=PATIENCE_SECONDS, resolver=lookup)) as one:
        one.hand_over([message(f"s{n}", f"http://n{n}.slow.example/", "strangers") for n in range(8)])
        until(lambda: len(asked) == 2)
        one.hand_over([message("a", webhook_receiver.endpoint(), "taxi")])
        assert collected(one, 1) == {"a": Delivered()}
        assert len(asked) == 3
        let_go.set()
        assert set(collected(one, 8).values()) == {NotDelivered("connection-failed")}


def test_an_unexpected_error_is_an_outcome_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(attempts, "signed_headers", breaks)
    with running(HttpMessenger(LOOPBACK)) as one:
        one.hand_over([message("a", "http://127.0.0.1:9/")])
        assert collected(one, 1) == {"a": NotDelivered("failed")}
        assert one.room == courier.MOST_WAITING


@pytest.mark.parametrize("slow", [drips_a_body, drips_headers, repeats_a_provisional_answer, says_nothing])
def test_the_time_limit_holds_for_the_whole_attempt(slow: Any) -> None:
    stop = threading.Event()
    with (
        raw(lambda connection: slow(connection, stop)) as server,
        running(HttpMessenger(LOOPBACK, timeout_seconds=0.5)) as one,
    ):
        one.hand_over([message("a", server.url)])
        assert collected(one, 1) == {"a": NotDelivered("timeout")}
        stop.set()


def test_of_a_huge_answer_only_the_beginning_is_read_and_its_connection_is_not_used_again() -> None:
    cut_off = threading.Event()

    def floods(connection: socket.socket) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 100000000000\r\n\r\n"
        )
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            cut_off.set()

    with raw(floods) as server, running(HttpMessenger(LOOPBACK)) as one:
        for key in "ab":
            one.hand_over([message(key, server.url)])
            assert collected(one, 1) == {key: Delivered()}
        assert cut_off.wait(PATIENCE_SECONDS)
        assert len(server.requests) == 2


def test_two_who_close_it_end_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that leaves and its service: what is asked of a loop that stops is never answered."""
    begun, let_go, ends = threading.Event(), threading.Event(), []
    end = HttpCourier._end

    async def slow_end(self: HttpCourier) -> None:
        ends.append(1)
        begun.set()
        let_go.wait(PATIENCE_SECONDS)
        await end(self)

    monkeypatch.setattr(HttpCourier, "_end", slow_end)
    one = HttpCourier(HttpMessenger(LOOPBACK))
    threads = [threading.Thread(target=one.close, daemon=True) for _ in range(2)]
    threads[0].start()
    assert begun.wait(PATIENCE_SECONDS)
    threads[1].start()
    time.sleep(0.2)  # in which a second one would begin
    let_go.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert len(ends) == 1
