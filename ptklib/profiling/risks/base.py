"""The interface of a loss of single rows."""

from typing import Any, Protocol, runtime_checkable

from ptklib.arrays import Bools, Floats


class RowRisk(Protocol):
    """A loss of each row under a released state.

    The loss of a row is a function of that row and the state alone, in its last bit too. So sums over rows
    move by no more than one loss when a row comes or goes. Products of a matrix and a vector are no such
    functions where the library adds in an order that depends on the number of rows.
    """

    def examples(self, table: Any) -> Bools:
        """Return which rows count; whether one does depends on that row alone."""

    def losses(self, state: Any, table: Any) -> Floats:
        """Return the loss of each row, in [0, 1]; of rows that do not count, anything."""


@runtime_checkable
class ClassRisk(RowRisk, Protocol):
    """A loss of states that predict the class of a row, so that an answer is right or wrong."""

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a numeric label, of which no answer is simply right."""

    def wrong(self, state: Any, table: Any) -> Floats:
        """Return the share of a row's answers that are wrong, in [0, 1]; of rows that do not count, anything.

        Notes
        -----
        As the loss, it is a function of the row and the state alone. The likeliest class is the first of those of the
        largest probability.
        """


@runtime_checkable
class ExactRisk(RowRisk, Protocol):
    """A loss whose least sum over a function class can be computed exactly.

    Only then is there a lower bound of what any state can reach. The training loss of a heuristic may jump by
    a whole loss per row when one row comes or goes. No noise of moderate size could hide it, and it bounds
    nothing.
    """

    @property
    def loss_max(self) -> float:
        """Largest loss of a row in the class, at least 1."""

    def least_total(self, table: Any, weights: Floats) -> float:
        """Return the least weighted sum of losses over the class; exact up to 1.5e-6 of `loss_max`.

        Notes
        -----
        With weights that add up to 1 for each privacy unit, a unit moves it by 0 to `loss_max`. The losses of
        a fixed function move by as much, and so does their least value.
        """


def bounds_every_state(risk: RowRisk | None) -> bool:
    """Tell whether the least loss over a class bounds that of every state that can be released.

    Losses of states are in [0, 1]. A class with larger ones is not clipped as states are, so that a clipped
    state may lose less than each model of the class.
    """
    return isinstance(risk, ExactRisk) and float(risk.loss_max) <= 1
