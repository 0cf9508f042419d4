"""Tree featurization: boosted trees with privately chosen structure, and forests of counted leaves."""

from ptklib.trees.estimator import TreeFeaturizer

__all__ = ["TreeFeaturizer"]
