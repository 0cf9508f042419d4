"""Clustering: k-means centres from a noisy adaptive grid, or from noisy rounds of Lloyd."""

from ptklib.clustering.estimator import Clustering

__all__ = ["Clustering"]
