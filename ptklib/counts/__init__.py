"""Count featurization: noisy contingency tables of categorical features against a label."""

from ptklib.counts.estimator import CountFeaturizer

__all__ = ["CountFeaturizer"]
