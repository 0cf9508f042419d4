"""What a PTK asks of its states, as its config says it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ptkstore.domain.evaluations import AskedSums
from ptkstore.domain.ptks.accept import Accept, asked_sums
from ptkstore.errors import InvalidRequest

ALL = {"metric": "accuracy", "epsilon": 1, "reject_epsilon": 0.5, "confidence": 0.9, "timeout": "3d"}


def test_a_ptk_that_names_no_verdict_asks_for_none() -> None:
    assert Accept.of({}) is None
    assert Accept.of({"accept": None}) is None


def test_each_term_is_read() -> None:
    terms = {name: value for name, value in ALL.items() if name != "timeout"}
    assert Accept.of({"accept": ALL}) == Accept(
        AskedSums(1.0, "accuracy", 0.5), 0.9, timedelta(days=3), terms
    )
    assert ALL["timeout"] == "3d"


def test_what_is_not_said_has_a_default() -> None:
    least = {"epsilon": 0.05}
    assert Accept.of({"accept": least}) == Accept(AskedSums(0.05, "loss", None), 0.95, None, least)
    assert Accept.of({"accept": {**least, "timeout": None}}) == Accept.of({"accept": least})


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (0.1, "accept of a PTK says"),
        ([], "accept of a PTK says"),
        ({}, "accept of a PTK says"),
        ({"confidence": 0.9}, "accept of a PTK says"),
        ({"epsilon": 0}, "epsilon of accept must be"),
        ({"epsilon": 11}, "epsilon of accept must be"),
        ({"epsilon": "a"}, "epsilon of accept must be a number"),
        ({"epsilon": 1, "reject_epsilon": 0}, "reject_epsilon of accept must be"),
        ({"epsilon": 1, "reject_epsilon": True}, "reject_epsilon of accept must be a number"),
        ({"epsilon": 1, "reject_epsilon": None}, "reject_epsilon of accept must be a number"),
        ({"epsilon": 1, "confidence": 1}, "confidence must be"),
        ({"epsilon": 1, "confidence": "high"}, "confidence must be a number"),
        ({"epsilon": 1, "timeout": "soon"}, "no duration"),
        ({"epsilon": 1, "timeout": 3}, "no duration"),
    ],
)
def test_terms_that_cannot_be_used_are_refused(wrong: Any, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        Accept.of({"accept": wrong})


def test_a_verdict_pays_for_the_estimate_as_well() -> None:
    evaluate = {"epsilon": 0.1}
    assert asked_sums({"accept": {"epsilon": 0.05}, "evaluate": evaluate}) == AskedSums(0.05)
    assert asked_sums({"evaluate": evaluate}) == AskedSums(0.1)
    assert asked_sums({}) is None
