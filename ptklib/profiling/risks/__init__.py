"""Losses of single rows, for families that have one; with the exact minimum where it can be computed."""

from ptklib.profiling.risks.base import ExactRisk, RowRisk
from ptklib.profiling.risks.families import risk_of

__all__ = ["ExactRisk", "RowRisk", "risk_of"]
