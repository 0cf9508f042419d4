"""Exact noise, by OpenDP and by our own sampler for vectors: the only room that draws any."""

from ptklib.mechanisms.additive import gaussian, laplace, laplace_scale
from ptklib.mechanisms.grid import Grid
from ptklib.mechanisms.selection import AboveThreshold, exponential_mechanism, report_noisy_max

__all__ = [
    "AboveThreshold",
    "Grid",
    "exponential_mechanism",
    "gaussian",
    "laplace",
    "laplace_scale",
    "report_noisy_max",
]
