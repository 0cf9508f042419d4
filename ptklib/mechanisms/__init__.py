"""Exact noise, by OpenDP and by our own sampler for vectors: the only room that draws any."""

from ptklib.mechanisms.above_threshold import AboveThreshold
from ptklib.mechanisms.additive import gaussian, laplace, laplace_scale
from ptklib.mechanisms.grid import Grid
from ptklib.mechanisms.selection import exponential_mechanism, report_noisy_max
from ptklib.mechanisms.threshold import DrawnThreshold

__all__ = [
    "AboveThreshold",
    "DrawnThreshold",
    "Grid",
    "exponential_mechanism",
    "gaussian",
    "laplace",
    "laplace_scale",
    "report_noisy_max",
]
