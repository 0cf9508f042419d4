"""The input and the output of a scheduler: public facts of waiting PTKs, and proposals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.errors import InvalidRequest

ChargeOf = Callable[[str, Loss], Charge]
"""What the stream's accountant counts for a training of a PTK with a loss; it grows with epsilon."""


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """One pair of a PTK's menu: with this loss it expects to need so many rows."""

    loss: Loss
    n_rows: int


@dataclass(frozen=True, slots=True)
class Look:
    """The last training that a waiting PTK was given, and whether its verdict is still to come.

    `number` counts looks from 1. A look that has ended was answered with RETRY: a PTK with any other verdict waits no
    longer. A training that ended without a verdict (a window expired before the spend) is no look.
    """

    number: int
    n_windows: int
    loss: Loss
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A PTK without an accepted version, in public facts alone.

    `arrived` is any whole number that grows with time. `windows` and `losses` are the least and the most that one
    training may take of each; the first loss is the epsilon_0 of Sage, section 3.3. `menu` comes from a formula, from
    facts or from a profile, and is empty where nothing is known. `groups` say which blocks of a window the PTK is
    trained on.
    """

    ptk_id: str
    arrived: int
    windows: tuple[int, int]
    losses: tuple[Loss, Loss]
    menu: tuple[MenuEntry, ...] = ()
    last: Look | None = None
    groups: range = range(1)

    def __post_init__(self) -> None:
        least, most = self.windows
        low, high = self.losses
        if not 1 <= least <= most:
            raise InvalidRequest("windows of a PTK are at least one, the least first")
        if not 0 < low.epsilon_nano <= high.epsilon_nano or low.delta_atto != high.delta_atto:
            raise InvalidRequest("losses of a PTK rise from a positive epsilon, with one delta")
        if not self.groups:
            raise InvalidRequest("a PTK is trained on at least one group of blocks")

    @property
    def under_way(self) -> bool:
        """Whether a training of the PTK has no verdict yet."""
        return self.last is not None and self.last.under_way


@dataclass(frozen=True, slots=True)
class Proposal:
    """A training that a scheduler asks the ledger for: one loss on all rows that the PTK may read of some windows.

    `windows` rise. `n_rows` is the number of rows that they are expected to have.
    """

    ptk_id: str
    arrived: int
    windows: tuple[int, ...]
    loss: Loss
    charge: Charge
    n_rows: int
