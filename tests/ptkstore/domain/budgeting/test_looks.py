"""Looks at validation data are paid for, unless it is public."""

from __future__ import annotations

import pytest

from ptkstore.domain.budgeting.looks import PUBLIC, Looks, NoLookLeft
from ptkstore.errors import InvalidRequest


def test_each_look_is_paid_for() -> None:
    """B8: private validation data loses a part of its budget with each look, and then has none left."""
    looks = Looks(left_nano=25, look_nano=10)
    assert looks.after_one() == Looks(15, 10)
    last = looks.after_one().after_one()
    assert not last.affordable
    with pytest.raises(NoLookLeft):
        last.after_one()


def test_looks_at_public_data_are_free() -> None:
    assert PUBLIC.after_one() == PUBLIC
    assert PUBLIC.affordable


def test_private_data_without_a_price_is_refused() -> None:
    for wrong in ((5, 0), (-1, 1), (1, -1)):
        with pytest.raises(InvalidRequest):
            Looks(*wrong)
