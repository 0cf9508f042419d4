"""Which accountant admits more equal releases at (1, 1e-6): basic composition does for all but small losses."""

from __future__ import annotations

import pytest

from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import Loss

CAPACITY = Loss.capacity(1, 1e-6)


def admitted(accountant: Accountant, epsilon: float, *, finite: bool = False) -> int:
    """How many releases of a pure epsilon, of which nothing else is known, fit a block; at finite orders alone."""
    caps = caps_of(accountant, CAPACITY).amounts
    charge = Charge.pure(accountant, Loss.charge(epsilon)).amounts
    pairs = list(zip(charge, caps, strict=True))
    return max(cap // amount for amount, cap in (pairs[:-1] if finite else pairs) if cap > 0)


def test_finite_renyi_orders_admit_more_below_about_036_each_and_less_above():
    """Basic composition beats Renyi for larger releases (differences.md F1 has the filter)."""
    epsilons = [step / 1000 for step in range(10, 201)]
    more = [e for e in epsilons if admitted(Accountant.RENYI, e, finite=True) > admitted(Accountant.BASIC, e)]
    less = [e for e in epsilons if admitted(Accountant.RENYI, e, finite=True) < admitted(Accountant.BASIC, e)]
    assert max(more) == pytest.approx(0.036, abs=0.002)
    assert min(less) == pytest.approx(0.04, abs=0.002)
    assert admitted(Accountant.BASIC, 0.01) == 100
    assert admitted(Accountant.RENYI, 0.01, finite=True) == 380


def test_our_renyi_filter_has_the_order_infinity_and_is_never_worse():
    for step in range(1, 201):
        epsilon = step / 200
        assert admitted(Accountant.RENYI, epsilon) >= admitted(Accountant.BASIC, epsilon)
