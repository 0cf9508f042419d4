"""The interface of a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ptkstore.domain.scheduling.allowances import Allowances
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting


class Strategy(Protocol):
    """A way to choose who is trained next. It reads public facts alone, and writes nothing.

    `shares_out` tells whether a PTK pays from its allowance, or from what nobody has.
    """

    @property
    def shares_out(self) -> bool: ...

    def may_have_more(self, one: Waiting) -> bool:
        """Return whether a PTK may be given a look with enough room; if not, it gets no allowance."""
        ...

    def propose(
        self, waiting: Sequence[Waiting], room: Allowances, charge_of: ChargeOf
    ) -> tuple[Proposal, ...]:
        """Return trainings that fit the room together, in the order in which to reserve them.

        The order of `waiting` changes nothing.
        """
        ...
