"""Facade over dp-accounting: composition of declared losses, conversion and calibration."""

from ptklib.accounting.analytic import discrete_scale, gaussian_multiplier, joint_multiplier, profile_epsilon
from ptklib.accounting.calibration import least_multiplier
from ptklib.accounting.composition import basic_composition, epsilon_of
from ptklib.accounting.concentrated import zcdp_rho
from ptklib.accounting.conversion import renyi_epsilon
from ptklib.accounting.curves import ORDERS, event_delta, pure_epsilon, renyi_curve
from ptklib.accounting.gaussian import gaussian_epsilon, gaussian_sigma
from ptklib.accounting.pld import pld_advantage, pld_epsilon

__all__ = [
    "ORDERS",
    "basic_composition",
    "discrete_scale",
    "epsilon_of",
    "event_delta",
    "gaussian_epsilon",
    "gaussian_multiplier",
    "gaussian_sigma",
    "joint_multiplier",
    "least_multiplier",
    "pld_advantage",
    "pld_epsilon",
    "profile_epsilon",
    "pure_epsilon",
    "renyi_curve",
    "renyi_epsilon",
    "zcdp_rho",
]
