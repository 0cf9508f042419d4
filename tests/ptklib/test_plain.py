"""Forms of a state as plain numbers: what they need is known before any data are."""

import json
from typing import Any

import pytest

from ptklib import Clustering, CountFeaturizer, CovarianceMatrix, DrawDiscardModel, TreeFeaturizer
from ptklib.exceptions import InvalidParameterError
from ptklib.plain import NUMBERS_MAX, PlainForm, plain_form, plain_parameters
from tests.support.families import rows

BOUNDS = {"speed": (0.0, 60.0), "fare": (0.0, 50.0)}
FORMS = [
    ("nearest", Clustering(bounds=BOUNDS, n_clusters=4, epsilon=1.0), ("double", "double"), 1),
    ("project", CovarianceMatrix(bounds=BOUNDS, epsilon=1.0, delta=1e-6), ("double", "double"), 2),
    (
        "leaves",
        TreeFeaturizer(
            label="long",
            classes=[False, True],
            bounds={"speed": (0, 60)},
            domains={"hour": range(4), "zone": ["a", "b"]},
            n_estimators=3,
            max_depth=4,
            epsilon=1.0,
        ),
        ("double", "int64", "string"),
        3,
    ),
    (
        "score",
        DrawDiscardModel(
            {"speed": (0, 60), "hour": {"values": [*range(4)]}, "zone": {"hash_buckets": 5}, "on": [True]},
            "long",
            classes=[False, True],
            crosses=[["speed", "hour"], ["zone", "on"]],
            average="predictions",
            k=3,
            epsilon=1.0,
        ),
        ("int64", "bool", "double", "string"),
        2,
    ),
    (
        "score",
        DrawDiscardModel({"speed": (0, 60)}, "fare", model="linear", label_bounds=(0, 50), epsilon=1.0),
        ("double",),
        1,
    ),
]


def count(value: Any) -> int:
    """Values in a document."""
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    return sum(map(count, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize(("form", "estimator", "kinds", "outputs"), FORMS)
def test_the_numbers_of_a_form_are_as_many_as_was_said_before(form, estimator, kinds, outputs):
    said = plain_form(estimator, form)
    names = [name for name, _ in said.columns]
    assert said == PlainForm(tuple(zip(names, kinds, strict=True)), outputs, said.numbers)
    table = rows()
    found = plain_parameters(estimator.fit(table.assign(on=table["long"])), form)
    assert count(found) == said.numbers
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_form_of_another_family_and_one_that_is_too_large_are_refused():
    with pytest.raises(InvalidParameterError, match="CountFeaturizer has no form 'nearest': it has none"):
        plain_form(
            CountFeaturizer(["zone"], "long", classes=[0, 1], domains={"zone": ["a"]}, epsilon=1.0), "nearest"
        )
    with pytest.raises(InvalidParameterError, match="Clustering has no form 'leaves': it has nearest only"):
        plain_form(FORMS[0][1], "leaves")
    with pytest.raises(InvalidParameterError, match="has no form 'exec'"):
        plain_form(FORMS[0][1], "exec")
    wide = {f"c{i}": (0, 1) for i in range(70)}
    with pytest.raises(InvalidParameterError, match=f"5111 numbers, more than {NUMBERS_MAX}"):
        plain_form(CovarianceMatrix(bounds=wide, epsilon=1.0, delta=1e-6), "project")
