"""What a PTK may declare about its online answers."""

from datetime import timedelta

import pytest

from ptkstore.domain.ptks.serving import Derived, Serving, computed_of, serving_of
from ptkstore.errors import InvalidRequest

ONE = {
    "t": [
        ("mean", "double"),
        ("n", "int64"),
        ("yes", "bool"),
        ("name", "string"),
        ("vector", "list<item: float>"),
    ]
}
TWO = {**ONE, "u": [("k", "int32")]}


def declared(given, tables=ONE):
    return serving_of({"serve": given}, tables)


def test_a_declaration_of_one_table_needs_no_name():
    given = {
        "defaults": {"mean": 12, "n": 0},
        "fresh": "36h",
        "request": ["mph"],
        "derived": {"over": {"difference": ["mph", "mean"]}, "size": {"bucket": "n", "edges": [1, 10]}},
    }
    expected = Serving(
        {"mean": 12, "n": 0},
        timedelta(hours=36),
        ("mph",),
        (Derived("over", "difference", ("mph", "mean")), Derived("size", "bucket", ("n",), (1.0, 10.0))),
    )
    assert declared(given) == {"t": expected}
    assert declared({"t": given}) == {"t": expected}
    assert declared({"u": {"defaults": {"k": 3}}}, TWO) == {"u": Serving({"k": 3})}
    assert serving_of({}, ONE) == {}


def test_a_derived_column_may_use_those_before_it():
    derived = {"double": {"sum": ["mean", "mean"]}, "log_double": {"log": "double"}}
    (one,) = declared({"defaults": {"mean": 1.0}, "derived": derived}).values()
    assert [column.name for column in one.derived] == ["double", "log_double"]


D = {"mean": 1.0}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "is a mapping"),
        ({}, "is a mapping"),
        ({"default": {"mean": 1}}, "has 'default'"),
        ({"defaults": {}}, "with defaults"),
        ({"defaults": {"unheard": 1}}, "no feature"),
        ({"defaults": {"mean": "1"}}, "no double"),
        ({"defaults": {"mean": float("nan")}}, "no double"),
        ({"defaults": {"mean": True}}, "no double"),
        ({"defaults": {"n": 1.5}}, "no int64"),
        ({"defaults": {"n": 2**60}}, "53 bits"),
        ({"defaults": {"yes": 1}}, "no bool"),
        ({"defaults": {"name": "a\nb"}}, "printable"),
        ({"defaults": {"name": "x" * 201}}, "200 printable"),
        ({"defaults": {"vector": [1.0]}}, "no list"),
        ({"defaults": D, "fresh": "soon"}, "how long"),
        ({"defaults": D, "fresh": "0d"}, "how long"),
        ({"defaults": D, "fresh": 3}, "how long"),
        ({"defaults": D, "request": ["a b"]}, "a name in request"),
        ({"defaults": D, "request": ["a__b"]}, "a name in request"),
        ({"defaults": D, "request": ["mean"]}, "one name"),
        ({"defaults": D, "request": ["filled_version"]}, "one name"),
        ({"defaults": D, "request": "a"}, "a list of names"),
        ({"defaults": D, "derived": {"x": {"exec": ["mean"]}}}, "none of the forms"),
        ({"defaults": D, "derived": {"x": {"sum": ["mean", 1], "log": "mean"}}}, "none of the forms"),
        ({"defaults": D, "derived": {"x": {"sum": ["mean"]}}}, "takes 2"),
        ({"defaults": D, "derived": {"x": {"log": "n"}}}, "no number with a default"),
        ({"defaults": {"name": "a"}, "derived": {"x": {"log": "name"}}}, "no number with a default"),
        ({"defaults": D, "derived": {"x": {"sum": ["mean", None]}}}, "neither a name nor a number"),
        ({"defaults": D, "derived": {"x": {"bucket": "mean"}}}, "rising edges"),
        ({"defaults": D, "derived": {"x": {"bucket": "mean", "edges": [2, 1]}}}, "rising edges"),
        ({"defaults": D, "derived": {"x": {"log": "mean", "edges": [1]}}}, "none of the forms"),
        ({"defaults": D, "derived": {"a-b": {"log": "mean"}}}, "no name of a column"),
        ({"defaults": D, "derived": {"mean_filled": {"log": "mean"}}}, "one name"),
        ({"defaults": D, "derived": {"n": {"log": "mean"}}}, "one name"),
    ],
)
def test_what_is_none_is_refused_with_a_reason(given, complaint):
    with pytest.raises(InvalidRequest, match=complaint):
        declared(given)


def test_what_is_computed_is_declared_beside_the_tables():
    computed = {"computed": {"zone": "nearest"}}
    assert declared(computed) == {}
    assert declared({**computed, "defaults": D}) == declared({"defaults": D})
    assert declared({**computed, "u": {"defaults": {"k": 3}}}, TWO) == {"u": Serving({"k": 3})}
    assert computed_of({"serve": {**computed, "u": {"defaults": {"k": 3}}}}) == {"zone": "nearest"}
    assert computed_of({"serve": {"defaults": D}}) == computed_of({"serve": None}) == computed_of({}) == {}
    with pytest.raises(InvalidRequest, match="name of a table"):
        declared({**computed, "defaults": D}, {"computed": ONE["t"]})
    with pytest.raises(InvalidRequest, match="no name of a column"):
        computed_of({"serve": {"computed": {"event_timestamp": "nearest"}}})  # Feast's own, in joins in time


def test_of_several_tables_one_is_named():
    with pytest.raises(InvalidRequest, match="one of t, u"):
        declared({"defaults": D}, TWO)
    with pytest.raises(InvalidRequest, match="has 'v'"):
        declared({"v": {"defaults": D}}, TWO)
