"""What released columns may hold, as classes say it and as a description of team code declares it."""

from typing import Any

import pyarrow as pa
import pytest
from sklearn.base import clone

from ptklib import TeamCode, estimator_from_spec
from ptklib.declared import DeclaredValues, as_declared
from ptklib.exceptions import InvalidParameterError
from tests.support.families import EXAMPLES, Example, label_of, rows

every_family = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


@every_family
def test_released_keys_and_texts_of_every_family_are_within_its_domains_unless_they_are_selected(
    example: Example,
) -> None:
    data = rows()
    fitted = clone(example.estimator).fit(data, label_of(example, data))
    domains = clone(example.estimator).released_domains()
    for name, schema in fitted.table_schemas().items():
        for field in schema.schema:
            kind = str(field.type)
            if (
                name in fitted.released_keys()
                or kind == "double"
                or (kind == "int64" and field.name not in schema.keys)
            ):
                continue
            declared = DeclaredValues(field.name, kind, as_declared(domains[name][field.name]))
            assert declared.hold(fitted.tables_[name].column(field.name)), (name, field.name)


@every_family
def test_noise_has_the_same_names_with_no_row_at_all(example: Example) -> None:
    data = rows()
    fitted = clone(example.estimator).fit(data, label_of(example, data))
    assert set(clone(example.estimator).finalize([]).noise_variance_) == set(fitted.noise_variance_)


@pytest.mark.parametrize(
    ("given", "travels"),
    [
        (range(24), {"first": 0, "last": 23}),
        ([3, 4, 5], {"first": 3, "last": 5}),
        (range(0, 10, 5), [0, 5]),
        ((2, 1), [2, 1]),
        (["a", "b"], ["a", "b"]),
        ([True, False], [True, False]),
        ([], []),
    ],
)
def test_a_run_of_integers_travels_by_its_ends(given: Any, travels: Any) -> None:
    assert as_declared(given) == travels
    assert as_declared(travels) == travels


def test_both_forms_hold_the_same_integers() -> None:
    run, listed = (
        DeclaredValues("k", "int64", {"first": -2, "last": 1}),
        DeclaredValues("k", "int64", [-2, -1, 0, 1]),
    )
    for values in ([], [-2, 1], [-3], [2], [0, 2**63 - 1], [-(2**63)]):
        column = pa.chunked_array([pa.array(values, pa.int64())])
        assert run.hold(column) == listed.hold(column) == (set(values) <= {-2, -1, 0, 1})


def test_a_description_says_which_columns_are_not_declared() -> None:
    columns = [["k", "int64"], ["b", "bool"], ["n", "int64"], ["x", "float64"], ["w", "string"]]
    given: dict[str, Any] = {"bundle": "0" * 64, "code": "a:b", "columns": ["k"], "epsilon": 1.0}
    open_ = TeamCode(**given, tables={"t": {"keys": ["k", "b"], "columns": columns}})
    assert open_.undeclared_columns() == (("t", "k"), ("t", "w"))
    domains = {"k": {"first": 0, "last": 3}, "w": ["a"]}
    closed = TeamCode(**given, tables={"t": {"keys": ["k", "b"], "columns": columns, "domains": domains}})
    assert closed.undeclared_columns() == ()
    assert estimator_from_spec(closed.to_spec()).undeclared_columns() == ()
    assert closed.table_schemas()["t"].to_json() == open_.table_schemas()["t"].to_json()


@pytest.mark.parametrize("names", ["count", ["a b"], ["é"], [5], {"a": 1}])
def test_names_of_noise_are_plain(names: Any) -> None:
    with pytest.raises(InvalidParameterError, match="noise_names"):
        TeamCode(
            bundle="0" * 64,
            code="a:b",
            columns=["k"],
            epsilon=1.0,
            tables={"t": {"keys": [], "columns": [["x", "float64"]]}},
            noise_names=names,
        ).declared_loss()
