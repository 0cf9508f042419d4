"""Facade over dp-accounting: composition of declared losses, conversion and calibration."""

from ptklib.accounting.composition import basic_composition, epsilon_of
from ptklib.accounting.curves import ORDERS, event_delta, pure_epsilon, renyi_curve
from ptklib.accounting.gaussian import gaussian_epsilon, gaussian_sigma

__all__ = [
    "ORDERS",
    "basic_composition",
    "epsilon_of",
    "event_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "pure_epsilon",
    "renyi_curve",
]
