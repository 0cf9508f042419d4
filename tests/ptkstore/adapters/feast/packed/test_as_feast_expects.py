"""What Feast expects of an online store, held against the packed one and against Feast's own on the same Redis."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tests.support.packed_stores import same

pytestmark = pytest.mark.real

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def drivers(**columns: list) -> pd.DataFrame:
    n = len(columns["driver"])
    frame = {"trips": [1] * n, "rate": [0.5] * n, "mean": [0.25] * n, "city": ["x"] * n, **columns}
    return pd.DataFrame({"event_timestamp": [NOW] * n, **frame})


def key(fe: SimpleNamespace, driver: int):
    return fe.EntityKey(join_keys=["driver"], entity_values=[fe.Value(int64_val=driver)])


def table(store: Any, name: str) -> Any:
    return store.registry.get_feature_view(name, store.project)


def write(store: Any, view: Any, *rows: tuple) -> None:
    store.provider.online_store.online_write_batch(store.config, view, list(rows), None)


def read(store: Any, view: Any, keys: list, features: list[str] | None = None) -> list:
    return store.provider.online_store.online_read(store.config, view, keys, features)


@pytest.mark.long
def test_written_rows_come_back_with_their_event_times(store):
    store.write_to_online_store(
        "stats", drivers(driver=[1, 2], trips=[4, 5], mean=[0.5, None], city=["a", "ü"])
    )
    asked = ["stats:trips", "stats:rate", "stats:mean", "stats:city"]
    answer = store.get_online_features(asked, [{"driver": 2}, {"driver": 1}]).to_dict(True)
    assert {name: answer[name] for name in ("driver", "trips", "rate", "mean", "city")} == {
        "driver": [2, 1],
        "trips": [5, 4],
        "rate": [0.5, 0.5],
        "mean": [None, 0.5],
        "city": ["ü", "a"],
    }
    assert answer["trips__ts"] == answer["mean__ts"] == [int(NOW.timestamp())] * 2
    later = asyncio.run(store.get_online_features_async(asked, [{"driver": 2}, {"driver": 1}]))
    asyncio.run(store.provider.online_store.close())
    store.provider.online_store._client_async = None
    assert later.to_dict(True) == answer
    assert list(later.to_df()["trips"]) == [5, 4]


def test_a_row_is_replaced_by_a_newer_one_only(store):
    def city(number: int) -> str:
        return store.get_online_features(["stats:city"], [{"driver": number}]).to_dict()["city"][0]

    store.write_to_online_store("stats", drivers(driver=[1], city=["first"]))
    early = drivers(driver=[1, 2], city=["early", "alone"], event_timestamp=[NOW - HOUR, NOW - HOUR])
    store.write_to_online_store("stats", early)
    assert (city(1), city(2)) == ("first", "alone")
    store.write_to_online_store("stats", drivers(driver=[1], city=["equal"]))
    assert city(1) == "first"
    many = drivers(
        driver=[1, 1, 1], city=["a", "last", "b"], event_timestamp=[NOW + HOUR, NOW + 2 * HOUR, NOW]
    )
    store.write_to_online_store("stats", many)
    assert city(1) == "last"


def test_without_that_check_the_last_write_counts(store):
    store.config.online_store.skip_dedup = True
    for city, at in (("first", NOW), ("second", NOW - HOUR)):
        store.write_to_online_store("stats", drivers(driver=[1], city=[city], event_timestamp=[at]))
    answer = store.get_online_features(["stats:city"], [{"driver": 1}]).to_dict(True)
    assert answer["city"] == ["second"]
    assert answer["city__ts"] == [int((NOW - HOUR).timestamp())]


@pytest.mark.parametrize("skip_dedup", [True, False])
def test_a_write_of_some_features_leaves_the_others(store, fe, skip_dedup):
    store.config.online_store.skip_dedup = skip_dedup
    view, one = table(store, "stats"), key(fe, 1)
    write(store, view, (one, {"trips": fe.Value(int64_val=7), "city": fe.Value(string_val="x")}, NOW, None))
    write(store, view, (one, {"city": fe.Value(), "mean": fe.Value(double_val=0.5)}, NOW + HOUR, None))
    ((at, values),) = read(store, view, [one])
    assert at == NOW + HOUR
    assert values == {
        "trips": fe.Value(int64_val=7),
        "rate": fe.Value(),
        "mean": fe.Value(double_val=0.5),
        "city": fe.Value(),
    }


@pytest.mark.parametrize("skip_dedup", [True, False])
def test_a_batch_may_hold_a_key_more_than_once(store, fe, skip_dedup):
    store.config.online_store.skip_dedup = skip_dedup
    view, one = table(store, "stats"), key(fe, 1)
    rows = [
        (one, {"trips": fe.Value(int64_val=n), "city": fe.Value(string_val="x")}, NOW + n * HOUR, None)
        for n in (1, 2)
    ]
    write(store, view, *rows)
    ((at, values),) = read(store, view, [one], ["trips"])
    assert (at, values) == (NOW + 2 * HOUR, {"trips": fe.Value(int64_val=2)})


def sample(fe: SimpleNamespace, field: Any):
    """A value of one of the types that Feast has."""
    given = fe.Value()
    if field.message_type is None:
        samples = {"bytes_val": b"\x00\xff", "bool_val": True, "null_val": 0}
        text = field.cpp_type == field.CPPTYPE_STRING
        setattr(given, field.name, samples.get(field.name, "é" if text else 7))
        return given
    message = getattr(given, field.name)
    message.SetInParent()
    inner = message.DESCRIPTOR.fields_by_name.get("val")
    if inner is None:
        for part in message.DESCRIPTOR.fields:
            if part.message_type is None:
                setattr(message, part.name, "UTC" if part.cpp_type == part.CPPTYPE_STRING else 7)
    elif inner.message_type is None:
        text = {inner.TYPE_STRING: ["a", ""], inner.TYPE_BYTES: [b"\x00", b""]}
        message.val.extend(text.get(inner.type, [True, False] if inner.type == inner.TYPE_BOOL else [1, 0]))
    elif field.name in {"map_val", "struct_val"}:
        message.val["k"].int64_val = 3
    elif field.name in {"list_val", "set_val"}:
        message.val.add().double_val = 0.5
    return given


def test_every_type_of_value_survives_exactly(store, fe):
    fields = list(fe.Value.DESCRIPTOR.fields)
    assert len(fields) > 30
    values = {f"f_{field.name}": sample(fe, field) for field in fields}
    assert {value.WhichOneof("val") for value in values.values()} == {field.name for field in fields}
    edges = [
        fe.Value(double_val=float("inf")),
        fe.Value(double_val=-0.0),
        fe.Value(float_val=1e-45),
        fe.Value(int64_val=-(2**63)),
        fe.Value(int32_val=2**31 - 1),
        fe.Value(string_val=""),
        fe.Value(bytes_val=b""),
        fe.Value(unix_timestamp_val=-1),
        fe.Value(),
    ]
    edges += [fe.Value(float_list_val={"val": []}), fe.Value(double_list_val={"val": [float("-inf")]})]
    values |= {f"edge_{n}": value for n, value in enumerate(edges)}
    view, one, two = table(store, "stats"), key(fe, 1), key(fe, 2)
    write(
        store,
        view,
        (one, values, NOW, None),
        (two, {**values, "f_int64_val": fe.Value(string_val="s")}, NOW, None),
    )
    for entity, name in ((one, "int64_val"), (two, "string_val")):
        ((_, found),) = read(store, view, [entity], list(values))
        expected = {**values, "f_int64_val": found["f_int64_val"]}
        assert found == expected
        assert [v.SerializeToString() for v in found.values()] == [
            v.SerializeToString() for v in expected.values()
        ]
        assert found["f_int64_val"].WhichOneof("val") == name
    nan = fe.Value(double_val=float("nan"))
    write(store, view, (key(fe, 3), {"mean": nan}, NOW, None))
    ((_, found),) = read(store, view, [key(fe, 3)], ["mean"])
    assert found["mean"].SerializeToString() == nan.SerializeToString()


def test_only_the_features_asked_for_are_read_and_no_list_of_the_caller_is_changed(packed, fe):
    view = table(packed, "stats")
    write(
        packed,
        view,
        (key(fe, 1), {"trips": fe.Value(int64_val=1), "city": fe.Value(string_val="x")}, NOW, None),
    )
    asked = ["city", "unheard"]
    ((_, found),) = read(packed, view, [key(fe, 1)], asked)
    assert found == {"city": fe.Value(string_val="x"), "unheard": fe.Value()}
    assert asked == ["city", "unheard"]
    ((_, all_of_them),) = read(packed, view, [key(fe, 1)])
    assert set(all_of_them) == {"trips", "rate", "mean", "city"}
    assert read(packed, view, []) == []


def test_an_unknown_key_is_not_found(packed, fe):
    packed.write_to_online_store("stats", drivers(driver=[1]))
    assert read(packed, table(packed, "stats"), [key(fe, 9)]) == [(None, None)]
    for entities in ([{"driver": 9}, {"driver": 1}], [{"driver": 9}]):
        response = packed.get_online_features(["stats:trips"], entities)
        (result,) = response.proto.results[1:]
        statuses = [fe.Status.NOT_FOUND, fe.Status.PRESENT]
        assert list(result.statuses) == statuses[: len(entities)]
        assert [v.WhichOneof("val") for v in result.values] == [None, "int64_val"][: len(entities)]
        assert response.to_dict(True)["trips__ts"][0] == 0


def test_writers_of_different_features_lose_nothing(packed, fe):
    """Feast's store writes fields; a packed row is read, changed and written back."""
    packed.config.online_store.skip_dedup = True
    view = table(packed, "stats")
    features = {"trips": "int64_val", "mean": "double_val", "city": "string_val"}
    kinds = {"int64_val": int, "double_val": float, "string_val": str}

    def work(feature: str, field: str) -> None:
        for n in range(30):
            rows = [
                (key(fe, d), {feature: fe.Value(**{field: kinds[field](n)})}, NOW, None) for d in range(5)
            ]
            write(packed, view, *rows)

    threads = [threading.Thread(target=work, args=item) for item in features.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, found in read(packed, view, [key(fe, d) for d in range(5)], list(features)):
        assert found == {
            "trips": fe.Value(int64_val=29),
            "mean": fe.Value(double_val=29.0),
            "city": fe.Value(string_val="29"),
        }


def test_rows_expire_if_that_is_configured(store, fe):
    store.config.online_store.key_ttl_seconds = 100
    store.write_to_online_store("stats", drivers(driver=[1]))
    client = store.provider.online_store._get_client(store.config.online_store)
    assert [0 < client.ttl(name) <= 100 for name in client.keys()] == [True]  # noqa: SIM118  (of Redis)


def test_a_deleted_view_leaves_others_of_the_same_entity(store, fe, definitions):
    other = definitions.view("stats_v2", [definitions.driver], trips=fe.types.Int64)
    store.apply([other])
    for name in ("stats", "stats_v2"):
        store.write_to_online_store(name, drivers(driver=[1], trips=[3]))
    store.apply([], objects_to_delete=[other], partial=False)
    assert store.get_online_features(["stats:trips"], [{"driver": 1}]).to_dict()["trips"] == [3]
    store.apply([other])
    assert store.get_online_features(["stats_v2:trips"], [{"driver": 1}]).to_dict()["trips"] == [None]
    store.apply([], objects_to_delete=[other], partial=False)


def test_teardown_deletes_every_version_of_its_views_and_nothing_else(packed, fe, definitions):
    online = packed.provider.online_store
    client = online._get_client(packed.config.online_store)
    client.flushdb()
    for name in ("ptk/stats", "ptk/stats_v1", "ptk/stats_v12", "ptk/stats_va", "ptk/stats2_v1", "ptk/statsX"):
        client.hset(name, "a", "b")
    online.teardown(packed.config, [table(packed, "stats")], [])
    assert sorted(client.keys()) == [b"ptk/stats2_v1", b"ptk/statsX", b"ptk/stats_va"]


@pytest.fixture(scope="module")
def filled(stores, fe, definitions) -> dict[str, Any]:
    """Both stores with equal rows, a feature service and an on-demand view."""

    @fe.on_demand(
        sources=[
            definitions.stats,
            fe.RequestSource(name="ask", schema=[fe.Field(name="add", dtype=fe.types.Float64)]),
        ],
        schema=[fe.Field(name="sum", dtype=fe.types.Float64)],
        mode="pandas",
    )
    def added(inputs: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"sum": inputs["mean"] + inputs["add"]})

    service = fe.FeatureService(name="model", features=[definitions.stats[["trips", "mean"]]])
    for store in stores.values():
        store.provider.online_store._get_client(store.config.online_store).flushdb()
        store.apply([service, added])
        store.write_to_online_store(
            "stats", drivers(driver=[1, 2, 3], trips=[4, 5, 6], mean=[0.5, None, 0.1], city=["a", None, "c"])
        )
        sales = {
            "driver": [1, 1],
            "shop": ["s", "t"],
            "amount": [1.5, 2.5],
            "vip": [True, None],
            "at": [NOW, None],
            "event_timestamp": [NOW - HOUR] * 2,
        }
        store.write_to_online_store("sales", pd.DataFrame(sales))
    return stores


STATS = ["stats:trips", "stats:city"]
BOTH = ["stats:trips", "sales:amount", "sales:vip", "sales:at"]
PAIRS = [
    {"driver": 1, "shop": "s"},
    {"driver": 1, "shop": "t"},
    {"driver": 2, "shop": "s"},
    {"driver": 1, "shop": "s"},
]


@pytest.mark.parametrize(
    ("features", "entities"),
    [
        (STATS, [{"driver": 3}, {"driver": 1}, {"driver": 3}, {"driver": 9}]),
        (STATS, {"driver": [2, 1]}),
        (STATS, {"driver": (2, 1)}),
        (BOTH, PAIRS),
        (["sales:at"], [{"shop": "t", "driver": 1}]),
        (["stats:trips"], [{"driver": 1, "unheard": 5}]),
        (["stats:trips"], [{"driver": 1, "shop": "s"}]),
        (["stats:trips"], [{"driver": True}]),
        (["stats:trips"], [{"driver": 1.0}]),
        (["stats:trips"], [{"driver": "1"}]),
        (["stats:trips"], [{"driver": None}]),
        (["stats:trips"], [{"driver": 2**63}]),
        (["stats:trips"], [{"driver": 1}, {"shop": "s"}]),
        (["stats:trips"], [{"driver": 1}, {}]),
        (["stats:trips"], []),
        (["stats:trips"], {"driver": []}),
        (["sales:amount"], [{"driver": 1}]),
        (["sales:amount"], {"driver": [1, 2], "shop": ["s"]}),
        (["stats:unheard"], [{"driver": 1}]),
        (["unheard:trips"], [{"driver": 1}]),
        (["stats:trips", "stats:trips"], [{"driver": 1}]),
        ([], [{"driver": 1}]),
        (["added:sum"], [{"driver": 1, "add": 2.0}, {"driver": 2, "add": 1.0}]),
        (["added:sum", "stats:trips"], [{"driver": 1}]),
    ],
)
def test_requests_are_answered_and_refused_as_by_feasts_own_store(filled, features, entities):
    for full in (False, True):

        def ask(store: Any, full: bool = full) -> Any:
            given = [dict(row) for row in entities] if isinstance(entities, list) else dict(entities)
            response = store.get_online_features(features, given, full_feature_names=full)
            return response.to_dict(), set(response.to_df(True)), set(response.to_arrow().column_names)

        same(filled, ask)


def test_services_and_keys_from_frames_are_served_alike(filled):
    import numpy as np

    def service(store: Any) -> dict:
        return store.get_online_features(store.get_feature_service("model"), [{"driver": 1}]).to_dict()

    assert same(filled, service) == {"driver": [1], "trips": [4], "mean": [0.5]}
    keys = [{"driver": np.int64(1)}]
    assert same(filled, lambda s: s.get_online_features(STATS, keys).to_dict())["city"] == ["a"]

    def with_versions(store: Any) -> Any:
        asked = store.get_online_features(STATS, [{"driver": 1}], include_feature_view_version_metadata=True)
        return asked.to_dict(), [m.name for m in asked.proto.metadata.feature_view_metadata]

    assert same(filled, with_versions)[1] == ["stats"]


def test_the_message_of_a_response_is_that_of_feasts_own_store(filled):
    def message(store: Any) -> dict:
        proto = store.get_online_features(BOTH, PAIRS[:2]).proto
        columns = zip(proto.metadata.feature_names.val, proto.results, strict=True)
        return {name: result.SerializeToString(deterministic=True) for name, result in columns}

    assert same(filled, message).keys() == {"driver", "shop", "trips", "amount", "vip", "at"}


def test_the_feature_server_answers_alike(filled):
    """`feast serve`, which reads asynchronously."""
    from fastapi.testclient import TestClient
    from feast.feature_server import get_app

    def ask(store: Any) -> Any:
        with TestClient(get_app(store), raise_server_exceptions=False) as client:
            body = {"features": BOTH, "entities": {"driver": [1, 1], "shop": ["s", "t"]}}
            answers = [client.post("/get-online-features", json=body).json() for _ in range(2)]
            assert answers[0] == answers[1]
            body = {"features": ["stats:trips"], "entities": {"driver": ["no number"]}}
            refused = client.post("/get-online-features", json=body).status_code
        store.provider.online_store._client_async = None
        columns = zip(answers[0]["metadata"]["feature_names"], answers[0]["results"], strict=True)
        return dict(columns), refused

    columns, refused = same(filled, ask)
    assert columns["amount"]["values"] == [1.5, 2.5]
    assert refused >= 400


def test_a_view_may_gain_features_in_place(packed, fe, definitions):
    narrow = definitions.view("grows", [definitions.driver], a=fe.types.Int64)
    wide = definitions.view("grows", [definitions.driver], a=fe.types.Int64, b=fe.types.String)
    packed.apply([narrow])
    packed.write_to_online_store("grows", pd.DataFrame({"driver": [1], "a": [1], "event_timestamp": [NOW]}))
    packed.apply([wide])
    # The registry counts this as version 1 of the view; rows of version 0 stay where they are.
    unversioned = packed.registry.get_feature_view("grows", packed.project)
    unversioned.current_version_number = None
    write(
        packed,
        unversioned,
        (key(fe, 2), {"a": fe.Value(int64_val=2), "b": fe.Value(string_val="x")}, NOW, None),
    )
    found = [values for _, values in read(packed, unversioned, [key(fe, 1), key(fe, 2)])]
    assert found == [
        {"a": fe.Value(int64_val=1), "b": fe.Value()},
        {"a": fe.Value(int64_val=2), "b": fe.Value(string_val="x")},
    ]


def test_copies_of_a_view_find_their_version(packed, fe):
    """Feast 0.67 loses the version of a copy, which floating services and on-demand views make; its tags it keeps."""
    import copy

    view = table(packed, "stats")
    view.tags = {"ptk.version": "3"}
    view.current_version_number = 3
    copied = copy.copy(view)
    online = packed.provider.online_store
    assert online.hash_key(packed.config, view) == online.hash_key(packed.config, copied) == b"ptk/stats_v3"
    view.current_version_number = None
    view.tags = {"ptk.version": "no number"}
    assert online.hash_key(packed.config, view) == b"ptk/stats"
