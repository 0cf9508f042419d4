"""Types, keys and names of what is served."""

import sys

import pyarrow as pa
import pytest

from ptklib.team import TeamCode
from ptkstore.adapters.feast.names import is_view_of, view_name
from ptkstore.application.versions.servable import NotServable, check_servable, check_team_code
from ptkstore.errors import InvalidRequest, SchemaMismatch, UnknownName
from tests.support.feast_values import COLUMNS, MOMENT
from tests.support.team_code import described

_KINDS = {pa.int64(): "int64", pa.float64(): "float64", pa.string(): "string", pa.bool_(): "bool"}
VIEW = "taxi__speed_by_hour"
FIRST = {
    "big": 2**53 + 1,
    "small": 1,
    "half": 0.5,
    "text": "é:@",
    "coded": "a",
    "flag": True,
    "day": "2026-03-01",
    "raw": b"\x00\xff",
    "vector": [0.5, 0.25],
    "counts": [1, 2],
    "names": ["x"],
    "nothing": None,
    "moment": MOMENT,
}


def one_table(make, columns: dict, keys: tuple[str, ...]):
    return make.state(1, tables={"t": pa.table(columns)}, keys={"t": keys})


@pytest.mark.real
def test_every_served_type_comes_back_exactly(light_repo, light_store, make, consumer):
    make.publish(light_store, one_table(make, {"k": ["a", "b"], **COLUMNS}, ("k",)))
    refs = [f"{VIEW}:{name}" for name in COLUMNS]
    first, second = light_store.look_up(refs, [{"k": "a"}, {"k": "b"}])
    assert first == FIRST
    assert second == {**dict.fromkeys(FIRST), "small": 2, "coded": "b", "counts": []}
    simple = [name for name in COLUMNS if name not in {"moment", "raw"}]
    plain = consumer(
        "online", repo=str(light_repo), features=[f"{VIEW}:{n}" for n in simple], rows=[{"k": "a"}]
    )
    assert {name: plain[name][0] for name in simple} == {name: FIRST[name] for name in simple}


TEXTS = ["", " ", "é" * 512, "x" * 1024, "\n", "\t|,;:@/", "'\"\\", "\U0001f695", "\ufeff", "%s{}", "null"]
ACCEPTED = {
    "texts": ({"k": TEXTS, "v": TEXTS[::-1]}, ["k"]),
    "numbers": ({"k": [-(2**63), 0, 2**63 - 1], "v": [5e-324, -0.0, sys.float_info.max]}, ["k"]),
    "truths": ({"k": [True, False], "v": [1, -(2**63)]}, ["k"]),
    "several keys": ({"k": ["a", "a", "b"], "n": [1, 2, 1], "v": [True, False, True]}, ["k", "n"]),
    "keys alone": ({"k": TEXTS}, ["k"]),
    "one row": ({"v": ["x" * 1024], "w": [2**63 - 1]}, []),
    "many rows": ({"k": list(range(3_000)), "v": [0.5] * 3_000}, ["k"]),
    "no row": ({"k": pa.array([], pa.string()), "v": pa.array([], pa.float64())}, ["k"]),
}


@pytest.mark.real
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_may_be_elected_can_be_placed_and_flipped_to_twice(store, make, name):
    columns, keys = ACCEPTED[name]
    table = pa.table(columns)
    forms = {"t": {"keys": keys, "columns": [[f.name, _KINDS[f.type]] for f in table.schema]}}
    check_servable({"t": table}, forms)
    check_team_code({"t": table}, {}, TeamCode(**described(b"", tables=forms)["params"]))
    for version in (1, 2):  # the second goes on from the history of the first
        make.publish(store, make.state(version, tables={"t": table}, keys={"t": tuple(keys)}))
    asked = table.slice(0, 20).to_pylist()
    entities = [{key: row[key] for key in keys} or {"ptk": "taxi.speed_by_hour"} for row in asked]
    features = [column for column in table.column_names if column not in keys] or ["ptk_version"]
    if entities:
        found = store.look_up([f"{VIEW}:{feature}" for feature in features], entities)
        assert found == [{name: row.get(name, 2) for name in features} for row in asked]


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ({"k": ["a", "a"], "v": [1, 2]}, ["k"]),
        ({"k": [True, True], "v": [1, 2]}, ["k"]),
        ({"k": ["a", "a"], "n": [1, 1]}, ["k", "n"]),
        ({"k": [0.5], "v": [1]}, ["k"]),
        ({"v": [1, 2]}, []),
        ({"v": pa.array([], pa.int64())}, []),
        ({"ptk": [1]}, []),
    ],
)
def test_what_cannot_be_served_may_not_be_elected(light_store, make, columns, keys):
    table = pa.table(columns)
    forms = {"t": {"keys": keys, "columns": [[f.name, _KINDS[f.type]] for f in table.schema]}}
    with pytest.raises(SchemaMismatch):
        light_store.stage(make.state(1, tables={"t": table}, keys={"t": tuple(keys)}))
    with pytest.raises(NotServable):
        check_servable({"t": table}, forms)


@pytest.mark.real
def test_every_served_type_has_later_versions_and_a_history(light_repo, light_store, make, consumer):
    tables = {version: {"k": ["a", "b"] if version == 1 else ["a", "c"], **COLUMNS} for version in (1, 2, 3)}
    make.publish(
        light_store,
        *(
            make.state(version, tables={"t": pa.table(columns)}, keys={"t": ("k",)})
            for version, columns in tables.items()
        ),
    )
    refs = [f"{VIEW}:{name}" for name in COLUMNS]
    assert light_store.look_up(refs, [{"k": "a"}]) == [FIRST]
    assert light_store.look_up([f"{VIEW}:counts"], [{"k": "b"}, {"k": "c"}]) == [
        {"counts": None},
        {"counts": []},
    ]
    vectors = ["vector", "counts", "text"]
    moments = [{"k": "a", "event_timestamp": make.day(day).isoformat()} for day in (0.5, 1.5, 3.5)]
    told = consumer(
        "historical", repo=str(light_repo), features=[f"{VIEW}:{name}" for name in vectors], rows=moments
    )
    assert [[row[name] for name in vectors] for row in told] == [
        [None] * 3,
        *[[FIRST[name] for name in vectors]] * 2,
    ]


@pytest.mark.real
def test_keys_may_be_several_and_numbers_texts_or_truths(light_repo, light_store, make, consumer):
    columns = {"n": pa.array([1, 1], pa.int16()), "s": ["x", "y"], "b": [True, False], "v": [0.5, 1.5]}
    make.publish(light_store, one_table(make, columns, ("n", "s", "b")))
    rows = [{"n": "1", "s": "x", "b": True}, {"n": 1, "s": "y", "b": 0}, {"n": 1, "s": "y", "b": True}]
    assert [row["v"] for row in light_store.look_up([f"{VIEW}:v"], rows)] == [0.5, 1.5, None]
    rows[0]["n"] = 1
    assert consumer("online", repo=str(light_repo), features=[f"{VIEW}:v"], rows=rows)["v"] == [
        0.5,
        1.5,
        None,
    ]


@pytest.mark.real
def test_two_ptks_may_give_one_key_two_types(light_repo, light_store, make, consumer):
    make.publish(
        light_store,
        make.state(1, ptk_id="a.x", tables={"t": pa.table({"hour": [8], "v": [1.0]})}, keys={"t": ("hour",)}),
        make.state(
            1, ptk_id="a.y", tables={"t": pa.table({"hour": ["8"], "v": [2.0]})}, keys={"t": ("hour",)}
        ),
    )
    for view, key, value in (("a__x", 8, 1.0), ("a__y", "8", 2.0)):
        assert light_store.look_up([f"{view}:v"], [{"hour": key}]) == [{"v": value}]
        answer = consumer("online", repo=str(light_repo), features=[f"{view}:v"], rows=[{"hour": key}])
        assert answer["v"] == [value]
    from feast import FeatureStore

    entities = {
        (e.name, e.join_key, e.value_type.name)
        for e in FeatureStore(repo_path=str(light_repo)).list_entities()
    }
    assert entities >= {("hour__int64", "hour", "INT64"), ("hour__string", "hour", "STRING")}


@pytest.mark.real
def test_a_table_without_keys_is_looked_up_by_its_ptk(light_repo, light_store, make, consumer):
    make.publish(light_store, one_table(make, {"cov": [[1.0, 0.5]]}, ()))
    row = {"ptk": "taxi.speed_by_hour"}
    assert light_store.look_up([f"{VIEW}:cov"], [row]) == [{"cov": [1.0, 0.5]}]
    assert consumer("online", repo=str(light_repo), features=[f"{VIEW}:cov"], rows=[row])["cov"] == [
        [1.0, 0.5]
    ]


@pytest.mark.real
def test_features_and_types_may_change_with_a_version(light_repo, light_store, make, consumer):
    def state(version: int, **columns):
        return make.state(version, tables={"t": pa.table({"k": ["a"], **columns})}, keys={"t": ("k",)})

    make.publish(light_store, state(1, gone=[1.0], kept=["x"]), state(2, kept=[7.5], new=[3]))
    refs = [f"{VIEW}:kept", f"{VIEW}:new"]
    assert light_store.look_up(refs, [{"k": "a"}]) == [{"kept": 7.5, "new": 3}]
    with pytest.raises(UnknownName):
        light_store.look_up([f"{VIEW}:gone"], [{"k": "a"}])
    assert light_store.look_up([f"{VIEW}@v1:gone", f"{VIEW}@v1:kept"], [{"k": "a"}]) == [
        {"gone": 1.0, "kept": "x"}
    ]
    rows = [{"k": "a", "event_timestamp": make.day(day).isoformat()} for day in (1.5, 2.5)]
    answer = consumer("historical", repo=str(light_repo), features=refs, rows=rows)
    assert [(row["kept"], row["new"]) for row in answer] == [(None, None), (7.5, 3)]


@pytest.mark.parametrize(
    ("columns", "keys", "message"),
    [
        ({"k": ["secret", "secret"], "v": [1, 2]}, ("k",), "several rows for one value"),
        ({"k": ["secret", None], "v": [1, 2]}, ("k",), "must not be null"),
        ({"k": [0.123], "v": [1]}, ("k",), "integer, string or boolean"),
        ({"v": [1]}, ("k",), "lacks its join keys"),
        ({"v": [1, 2]}, (), "has no join keys"),
        ({"k": ["a"], "v": pa.array([2**64 - 1], pa.uint64())}, ("k",), "does not fit into int64"),
        ({"k": ["a"], "v": [{"secret": 1}]}, ("k",), "cannot be served"),
        ({"k": ["a"], "v": [["secret", None]]}, ("k",), "lists that hold nulls"),
        ({"k": ["a"], "ptk_version": [1]}, ("k",), "uses itself"),
        ({"k": ["a"], "v:w": [1]}, ("k",), "must have no space"),
        ({"k": ["a"], "v__w": [1]}, ("k",), "must have no space"),
    ],
)
def test_a_table_that_feast_would_serve_wrongly_is_refused_without_its_values(
    light_store, make, columns, keys, message
):
    with pytest.raises(SchemaMismatch, match=message) as refused:
        light_store.stage(one_table(make, columns, keys))
    assert refused.value.__cause__ is refused.value.__context__ is None
    for value in ("'secret'", "0.123", str(2**64 - 1)):
        assert value not in str(refused.value)


@pytest.mark.real
def test_lookups_say_what_is_unknown_or_malformed(light_store, make):
    make.publish(light_store, make.state(1))
    for reference, name in (
        ("no__such:value", "no__such"),
        (f"{VIEW}:speed", f"{VIEW}:speed"),
        (f"{VIEW}@v9:value", f"{VIEW}@v9"),
        (f"{VIEW}@v0:value", f"{VIEW}@v0"),
    ):
        with pytest.raises(UnknownName) as unknown:
            light_store.look_up([reference], [{"hour": 8}])
        assert unknown.value.name == name
    for features, row in (
        (["value"], {"hour": 8}),
        ([f"{VIEW}@3:value"], {"hour": 8}),
        ([], {"hour": 8}),
        (f"{VIEW}:value", {"hour": 8}),
        ([f"{VIEW}:value", f"{VIEW}@v1:value"], {"hour": 8}),
        ([f"{VIEW}:value"], {"day": 8}),
        ([f"{VIEW}:value"], {"hour": "secret"}),
        ([f"{VIEW}:value"], {"hour": 8.5}),
        ([f"{VIEW}:value"], {"hour": 2**63}),
        (["ptk_state:version"], {"ptk": 7}),
    ):
        with pytest.raises(InvalidRequest) as refused:
            light_store.look_up(features, [row])
        assert "secret" not in str(refused.value)
    assert light_store.look_up([f"{VIEW}:value"], []) == []


def test_names_of_views_are_unambiguous(light_store):
    assert view_name("taxi.speed", "statistics", 1) == "taxi__speed"
    assert view_name("taxi.speed", "statistics", 2) == "taxi__speed__statistics"
    assert is_view_of("a__b", "a__b")
    assert is_view_of("a__b", "a__b__t")
    assert not is_view_of("a__b", "a__b_c")
    assert not is_view_of("a__b", "a__b___t")  # table t of a.b_
    for table in ("../x", "filled"):  # the last would be a view of another kind
        with pytest.raises(SchemaMismatch, match="not be 'filled'"):
            view_name("taxi.speed", table, 2)
    with pytest.raises(SchemaMismatch, match="none may be named 'computed'"):  # and so would this
        light_store.check_names("taxi.speed", {"computed": (), "other": ()})
    light_store.check_names("taxi.speed", {"computed": ("value",)})
    with pytest.raises(InvalidRequest):
        view_name("taxi/../speed", "t", 1)
