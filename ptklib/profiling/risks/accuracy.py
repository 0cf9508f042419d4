"""Accuracy: the share of wrong answers takes the place of the loss."""

from typing import Any

from ptklib.arrays import Bools, Floats
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.risks.base import ClassRisk, RowRisk


class WrongAnswers(RowRisk):
    """The share of a row's answers that are wrong: 0 or 1 where there is one answer.

    Parameters
    ----------
    risk : RowRisk
        Of a family that predicts classes.

    Raises
    ------
    InvalidParameterError
        When the family predicts none.
    """

    def __init__(self, risk: RowRisk) -> None:
        if not isinstance(risk, ClassRisk) or not risk.n_classes:
            raise InvalidParameterError("an accuracy is of states that predict the class of a row")
        self._risk = risk

    def examples(self, table: Any) -> Bools:
        """Return the rows of a known class."""
        return self._risk.examples(table)

    def losses(self, state: Any, table: Any) -> Floats:
        return self._risk.wrong(state, table)
