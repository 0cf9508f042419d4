"""Lookups from packed rows without Feast: equal to Feast's, fresh at once, out of the way when they cannot be."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptkstore.adapters.feast import FeastFeatureStore, write_repo
from ptkstore.adapters.feast.reading.lookup import look_up
from ptkstore.errors import InvalidRequest, RowsLost, Unavailable, UnknownName
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.support.feast_values import COLUMNS

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"
PTK = "taxi.speed_by_hour"
FEATURES = [f"{VIEW}:value", f"{VIEW}:ptk_version"]


@pytest.fixture
def folder(tmp_path: Path, packed_online) -> Path:
    write_repo(
        tmp_path / "feast", f"sqlite:///{tmp_path}/feast/registry.db", packed_online, cache_ttl_seconds=600
    )
    return tmp_path / "feast"


@pytest.fixture
def store(folder):
    opened = FeastFeatureStore(folder)
    yield opened
    opened.close()


@pytest.fixture
def registry_reads(monkeypatch) -> list[str]:
    """The views that were asked of the registry."""
    from ptkstore.adapters.feast import versions

    asked: list[str] = []
    for name in ("served_view", "pinned_view"):
        original = getattr(versions, name)

        def noted(session: Any, view: str, *args: Any, original: Any = original) -> Any:
            asked.append(view)
            return original(session, view, *args)

        monkeypatch.setattr(versions, name, noted)
    return asked


def usual(store: FeastFeatureStore, features: list[str], entities: list[dict]) -> Any:
    """The way through the registry and Feast's own reading."""
    with store._sessions.use() as session:
        return look_up(session, features, entities, lambda *_: None)


def test_lookups_equal_those_through_feast(store, folder, make):
    from feast import FeatureStore

    hours = {
        "hour": [1, 2, -(2**63)],
        **{n: pa.concat_arrays([c, c.slice(0, 1)]) for n, c in COLUMNS.items()},
    }
    pairs = {"s": ["x", "x", "é"], "n": [1, 2, 1], "v": [0.5, None, -0.0]}
    make.publish(
        store,
        make.state(1, ptk_id="a.one", tables={"t": pa.table(hours)}, keys={"t": ("hour",)}),
        make.state(1, ptk_id="a.two", tables={"t": pa.table(pairs)}, keys={"t": ("s", "n")}),
        make.state(2, ptk_id="a.two", tables={"t": pa.table(pairs)}, keys={"t": ("s", "n")}),
    )
    one, two = [f"a__one:{name}" for name in COLUMNS], ["a__two:v", "a__two@v1:ptk_version"]
    state = ["ptk_state:version", "ptk_state:window_end", "ptk_state:manifest", "ptk_state:epsilon"]
    entities = [
        {"hour": hour, "s": s, "n": n, "ptk": ptk}
        for hour in (1, 2, 3, -(2**63))
        for s, n in (("x", 1), ("x", 2), ("é", 1), ("", 0))
        for ptk in ("a.one", "nobody")
    ]
    plain = FeatureStore(repo_path=str(folder))
    generator = random.Random(5)
    for _ in range(20):
        features = generator.sample([*one, *two, *state], generator.randint(1, 8))
        rows = generator.sample(entities, generator.randint(1, 6))
        direct = store.look_up(features, rows)
        assert direct == usual(store, features, rows)
        views = {feature.partition(":")[0].partition("@")[0] for feature in features}
        keys = {"a__one": ["hour"], "a__two": ["s", "n"], "ptk_state": ["ptk"]}
        needed = [{k: row[k] for view in sorted(views) for k in keys[view]} for row in rows]
        through_feast = plain.get_online_features(features, needed).to_dict()
        names = [feature.partition(":")[2] for feature in features]
        assert [{n: row[n] for n in names} for row in direct] == [
            {n: through_feast[n][i] for n in names} for i in range(len(rows))
        ]
        assert [list(row) for row in direct] == [list(usual(store, features, rows)[0])] * len(rows)


def test_a_second_lookup_asks_nothing_but_the_rows(store, make, registry_reads):
    make.publish(store, make.state(1))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 1.0, "ptk_version": 1}]
    registry_reads.clear()
    for hour in range(3):
        assert store.look_up(FEATURES, [{"hour": hour}, {"hour": 99}])[1] == {
            "value": None,
            "ptk_version": None,
        }
    assert registry_reads == []


def test_a_flip_by_another_process_is_seen_by_the_next_lookup(store, folder, make, registry_reads):
    publisher = FeastFeatureStore(folder)
    make.publish(publisher, make.state(1))
    for version in range(2, 5):
        publisher.stage(make.state(version))
        assert store.look_up(FEATURES, [{"hour": 8}]) == [
            {"value": version - 1.0, "ptk_version": version - 1}
        ]
        publisher.flip(make.state(version))
        assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": float(version), "ptk_version": version}]
        assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": version}]
    registry_reads.clear()
    store.look_up(FEATURES, [{"hour": 8}])
    assert registry_reads == []
    publisher.close()


def test_a_flip_that_died_before_its_marks_is_still_seen(store, folder, make, monkeypatch):
    """The registry says version 2, the rows still say version 1: until the flip is repeated, lookups may say either."""
    from ptkstore.adapters.feast import online

    make.publish(store, make.state(1))
    assert store.look_up(FEATURES, [{"hour": 8}])[0]["ptk_version"] == 1
    with monkeypatch.context() as patched:
        patched.setattr(online, "mark_served", lambda *_: None)
        make.publish(store, make.state(2))
    fresh = FeastFeatureStore(folder)
    assert fresh.look_up(FEATURES, [{"hour": 8}]) == [{"value": 2.0, "ptk_version": 2}]
    store.flip(make.state(2))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 2.0, "ptk_version": 2}]
    fresh.close()


def test_pinned_versions_are_read_until_nobody_can_name_them(folder, make):
    store = FeastFeatureStore(folder, keep_versions=2)
    make.publish(store, make.state(1), make.state(2))
    pinned = [f"{VIEW}@v1:value"]
    assert store.look_up(pinned, [{"hour": 8}]) == [{"value": 1.0}]
    from tests.support.feast_rows import age

    age(folder, store)
    make.publish(store, make.state(3))
    with pytest.raises(UnknownName):
        store.look_up(pinned, [{"hour": 8}])
    store.close()


def test_a_ptk_that_began_again_is_not_taken_for_the_old_one(store, make):
    make.publish(store, make.state(1))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 1.0, "ptk_version": 1}]
    store.withdraw(PTK)
    table = pa.table({"hour": ["8"], "other": [7]})
    again = make.state(1, tables={"t": table}, keys={"t": ("hour",)})
    make.publish(store, replace(again, sha256="f" * 64))
    with pytest.raises(UnknownName):
        store.look_up(FEATURES, [{"hour": 8}])
    assert store.look_up([f"{VIEW}:other"], [{"hour": "8"}]) == [{"other": 7}]


def test_lookups_that_need_conversion_or_are_wrong_go_the_usual_way(store, make):
    make.publish(store, make.state(1))
    for _ in range(2):
        assert store.look_up([f"{VIEW}:value"], [{"hour": "8"}]) == [{"value": 1.0}]
        assert store.look_up((f"{VIEW}:value",), [{"hour": True}]) == [{"value": 1.0}]
        assert store.look_up([f"{VIEW}:value"], [{"hour": 8, "unheard": 1}]) == [{"value": 1.0}]
        assert store.look_up([f"{VIEW}:value"], []) == []
        for features, row in (
            ([f"{VIEW}:value"], {"day": 8}),
            ([f"{VIEW}:value"], {"hour": 2**63}),
            (f"{VIEW}:value", {"hour": 8}),
            ([], {"hour": 8}),
        ):
            with pytest.raises(InvalidRequest):
                store.look_up(features, [row])
        with pytest.raises(UnknownName):
            store.look_up([f"{VIEW}:unheard"], [{"hour": 8}])


def test_connections_that_are_gone_do_not_break_lookups_and_rows_that_are_gone_are_told(
    store, make, redis_server
):
    import redis

    make.publish(store, make.state(1))
    client = redis.Redis.from_url(redis_server.client_url)
    assert store.look_up(FEATURES, [{"hour": 8}])[0]["value"] == 1.0
    client.client_kill_filter(_type="normal", skipme=True)
    assert store.look_up(FEATURES, [{"hour": 8}])[0]["value"] == 1.0
    client.flushdb()
    with pytest.raises(RowsLost):
        store.look_up(FEATURES, [{"hour": 8}])
    make.publish(store, make.state(1))
    assert store.look_up(FEATURES, [{"hour": 8}])[0]["value"] == 1.0


def test_a_repository_on_feasts_own_store_needs_no_plugin(light_store, make):
    make.publish(light_store, make.state(1))
    light_store.look_up(FEATURES, [{"hour": 8}])
    assert light_store._direct is None


@pytest.mark.parametrize("chosen", ["packed", "redis"])
def test_a_setting_chooses_the_store(tmp_path, redis_server, make, chosen):
    settings = Settings(
        home=tmp_path, redis_url=redis_server.client_url, online_store=chosen, keep_versions=2
    )
    service = Service(settings)
    make.publish(service.features, *(make.state(version) for version in (1, 2, 3)))
    assert service.look_up(FEATURES, [{"hour": 8}]) == [{"value": 3.0, "ptk_version": 3}]
    with service.features._sessions.use() as session:  # type: ignore[attr-defined]
        assert (session.packed is not None) == (chosen == "packed")
    assert service.features._publisher._keep_versions == 2  # type: ignore[attr-defined]
    service.features.close()  # type: ignore[attr-defined]
    service.close()


def hashes(client: Any) -> list[bytes]:
    return [key for key in client.scan_iter() if client.type(key) == b"hash"]


@pytest.mark.parametrize("value", [b"", b"\x00", b"\xff" * 40, b"secret-value" * 9])
def test_rows_that_nobody_of_ours_wrote_are_the_store_s_fault_and_not_told(store, make, redis_server, value):
    import redis

    make.publish(store, make.state(1))
    client = redis.Redis.from_url(redis_server.client_url)
    right = {key: client.hgetall(key) for key in hashes(client)}
    for key, fields in right.items():
        for name in fields:
            client.hset(key, name, value)
            for ask in (store.look_up, lambda *asked: usual(store, *asked)):
                try:
                    found = ask(FEATURES, [{"hour": 0}, {"hour": 1}])
                except Unavailable as error:
                    assert "secret" not in repr(error) + repr(error.__cause__)  # noqa: PT017 - it may do
                else:
                    assert all(set(row) == {"value", "ptk_version"} for row in found)
            client.hset(key, name, fields[name])
    assert store.look_up(FEATURES, [{"hour": 0}])[0]["ptk_version"] == 1


@pytest.mark.parametrize("reply", [None, 5, [], [b"x"], "text", [5, 5], [None, [b"x"]], {b"a": 1}])
def test_replies_that_redis_never_gives_are_the_store_s_fault(store, make, monkeypatch, reply):
    from ptkstore.adapters.feast.packed import direct

    make.publish(store, make.state(1))
    entities = [{"hour": 0}]
    store.look_up(FEATURES, entities)
    right = direct.exchange  # type: ignore[attr-defined]
    replies = [reply, [right]]

    def odd(client: Any, command: Any) -> Any:
        answer = replies.pop(0) if replies else reply
        return [right(client, command)[0], 7] if answer == [right] else answer

    monkeypatch.setattr(direct, "exchange", odd)
    with pytest.raises(Unavailable):
        store.look_up(FEATURES, entities)
    replies[:] = [[right]]
    with pytest.raises(Unavailable):
        store.look_up(FEATURES, entities)
