"""Events in a real Redis: once each, bounded in length, and failures as codes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.streams import RedisStreams, appending
from ptkstore.domain.subscriptions import message_id
from ptkstore.errors import Unavailable
from ptkstore.ports.messages import Delivered, Message, NotDelivered

KEY = "ptk:events:taxi:news"


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(f"{redis_server.client_url}?db=7") as made:
        made.flushdb()
        yield made


@pytest.fixture
def streams(redis_server: RedisServer, client: redis.Redis) -> Iterator[RedisStreams]:
    made = RedisStreams(f"{redis_server.client_url}?db=7")
    yield made
    made.close()


def event(number: int, subscription: str = "sub_a") -> Message:
    body = f'{{"type":"ptk.state.published","data":{{"version":{number}}}}}'.encode()
    return Message("job", "redis-stream:news", message_id(subscription, number), body, ())


def append(streams: RedisStreams, number: int, name: str = "sub_a", *, redelivered: bool = False) -> object:
    return streams.append(KEY, event(number, name), number, redelivered=redelivered)


def ids(client: redis.Redis) -> list[str]:
    return [fields[b"id"].decode() for _, fields in client.xrange(KEY)]


def test_an_entry_has_id_type_and_body(streams: RedisStreams, client: redis.Redis) -> None:
    assert append(streams, 1) == Delivered()
    ((_, fields),) = client.xrange(KEY)
    assert fields == {b"id": b"msg_sub_a_00000001", b"type": b"ptk.state.published", b"body": event(1).body}


def test_an_event_is_appended_once_however_often_and_by_whomever(
    streams: RedisStreams, redis_server: RedisServer, client: redis.Redis
) -> None:
    others = [RedisStreams(f"{redis_server.client_url}?db=7") for _ in range(4)]
    for number in range(1, 11):
        with ThreadPoolExecutor(8) as pool:
            done = [pool.submit(append, one, number) for one in others * 4]
        assert {one.result() for one in done} == {Delivered()}
    assert ids(client) == [f"msg_sub_a_{number:08d}" for number in range(1, 11)]
    for one in others:
        one.close()


def test_subscriptions_that_share_a_stream_do_not_hide_each_others_events(
    streams: RedisStreams, client: redis.Redis
) -> None:
    for number, name in ((5, "sub_a"), (1, "sub_b"), (2, "sub_b"), (6, "sub_a")):
        append(streams, number, name)
    assert ids(client) == [
        "msg_sub_a_00000005",
        "msg_sub_b_00000001",
        "msg_sub_b_00000002",
        "msg_sub_a_00000006",
    ]


def test_a_dead_letter_that_comes_late_is_appended_once_too(
    streams: RedisStreams, client: redis.Redis
) -> None:
    append(streams, 3)
    for _ in range(2):
        append(streams, 2, redelivered=True)
    append(streams, 4)
    assert ids(client) == ["msg_sub_a_00000003", "msg_sub_a_00000002", "msg_sub_a_00000004"]


def test_a_stream_is_cut_to_about_its_length(
    streams: RedisStreams, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "STREAM_LENGTH", 100)
    for number in range(1, 1001):
        append(streams, number)
    kept = ids(client)
    assert 100 <= len(kept) <= 300  # Redis cuts whole nodes, of 100 entries
    assert kept[-1] == "msg_sub_a_00001000"
    assert append(streams, 1) == Delivered()  # it was there once
    assert ids(client)[-1] == "msg_sub_a_00001000"


def test_what_is_no_stream_refuses(streams: RedisStreams, client: redis.Redis) -> None:
    client.set(KEY, "something else")
    assert append(streams, 1) == NotDelivered("stream-refused")
    client.delete(KEY)
    assert append(streams, 1) == Delivered()


def test_nothing_is_remembered_of_what_was_refused_for_lack_of_memory(
    streams: RedisStreams, client: redis.Redis
) -> None:
    (before,) = client.config_get("maxmemory").values()
    client.config_set("maxmemory", 1)
    try:
        assert append(streams, 1) == NotDelivered("stream-refused")
    finally:
        client.config_set("maxmemory", before)
    assert append(streams, 1) == Delivered()
    assert ids(client) == ["msg_sub_a_00000001"]


def test_what_is_forgotten_is_appended_once_more_and_nothing_else_is(
    streams: RedisStreams, client: redis.Redis
) -> None:
    for number, name in ((1, "sub_a"), (2, "sub_a"), (2, "sub_b")):
        append(streams, number, name)
    before = ids(client)
    streams.forget(KEY, message_id("sub_a", 2), 2)
    streams.forget(KEY, message_id("sub_a", 9), 9)  # it was never there: nothing between is hidden
    for number, name in ((1, "sub_a"), (2, "sub_a"), (2, "sub_a"), (2, "sub_b"), (3, "sub_a")):
        append(streams, number, name)
    assert ids(client) == [*before, "msg_sub_a_00000002", "msg_sub_a_00000003"]


def test_what_cannot_be_forgotten_is_an_error_without_a_word_of_the_server(
    streams: RedisStreams, client: redis.Redis, tmp_path: Path
) -> None:
    client.set(f"{KEY}:appended", "something else")
    for one in (streams, RedisStreams(f"unix://{tmp_path}/none.sock")):
        with pytest.raises(Unavailable, match=r"^the streams of events cannot be written to; retry later\n"):
            one.forget(KEY, message_id("sub_a", 1), 1)


def test_a_redis_that_is_not_there_is_a_failed_attempt(tmp_path: Path) -> None:
    assert append(RedisStreams(f"unix://{tmp_path}/none.sock"), 1) == NotDelivered("stream-unavailable")


def test_a_redis_that_comes_back_takes_events_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        streams = RedisStreams(server.client_url)
        assert append(streams, 1) == Delivered()
    assert append(streams, 2) == NotDelivered("stream-unavailable")
    with RedisServer(tmp_path) as server, redis.Redis.from_url(server.client_url) as client:
        for number in (1, 2, 2):
            assert append(streams, number) == Delivered()
        assert ids(client) == ["msg_sub_a_00000001", "msg_sub_a_00000002"]
