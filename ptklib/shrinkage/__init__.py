"""Noise-aware reading of noisy sums: small groups lean on what all groups say (post-processing only)."""

from ptklib.shrinkage.levels import fitted_level, shrunken_ratios
from ptklib.shrinkage.posterior import clipped_shares, prior_variance, shrunken_deviation
from ptklib.shrinkage.ratios import NoisyRatios
from ptklib.shrinkage.strata import Strata

__all__ = [
    "NoisyRatios",
    "Strata",
    "clipped_shares",
    "fitted_level",
    "prior_variance",
    "shrunken_deviation",
    "shrunken_ratios",
]
