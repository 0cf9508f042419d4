"""Losses of single rows, for families that have one; with the exact minimum where it can be computed."""

from ptklib.profiling.risks.accuracy import WrongAnswers
from ptklib.profiling.risks.base import ClassRisk, ExactRisk, RowRisk, bounds_every_state
from ptklib.profiling.risks.families import risk_of

__all__ = ["ClassRisk", "ExactRisk", "RowRisk", "WrongAnswers", "bounds_every_state", "risk_of"]
