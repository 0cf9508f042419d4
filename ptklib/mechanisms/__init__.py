"""Exact noise, by OpenDP and by our own sampler for long vectors: the only room that draws any."""

from ptklib.mechanisms.additive import gaussian, laplace, laplace_scale
from ptklib.mechanisms.grid import Grid

__all__ = ["Grid", "gaussian", "laplace", "laplace_scale"]
