"""What a block has left, and the coordinate at which it is measured."""

from __future__ import annotations

from fractions import Fraction

from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.block_rooms import coordinate_of, whole_block


def test_the_coordinate_is_that_at_which_the_least_losses_take_least():
    capacity = Loss.capacity(1, 1e-6)
    charge = Charge.pure(Accountant.RENYI, Loss.charge(0.01))
    place = coordinate_of(Accountant.RENYI, capacity, [charge] * 3)
    caps = caps_of(Accountant.RENYI, capacity).amounts
    shares = [Fraction(a, cap) for a, cap in zip(charge.amounts, caps, strict=True) if cap > 0]
    assert Fraction(charge.amounts[place], caps[place]) == min(shares)
    assert Accountant.RENYI.coordinates[place] == "32"
    assert coordinate_of(Accountant.RENYI, capacity, []) == len(caps) - 1
    assert coordinate_of(Accountant.RENYI, capacity, [Charge.pure(Accountant.RENYI, Loss.charge(0.5))]) == 15
    assert coordinate_of(Accountant.BASIC, capacity, [charge]) == 0


def test_a_whole_block_has_its_caps_at_the_coordinate_of_the_least_losses():
    capacity = Loss.capacity(1, 1e-6)
    charge = Charge.pure(Accountant.RENYI, Loss.charge(0.01))
    caps = caps_of(Accountant.RENYI, capacity)
    whole = whole_block(Accountant.RENYI, capacity, [charge])
    assert whole.coordinate == coordinate_of(Accountant.RENYI, capacity, [charge])
    assert (whole.left_nano, whole.left_atto) == (caps.amounts[whole.coordinate], caps.delta_atto)
