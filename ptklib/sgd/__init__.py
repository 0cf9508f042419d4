"""Linear, logistic and small neural models by stochastic gradient descent with noise on clipped gradients."""

from ptklib.sgd.classifier import DPSGDClassifier
from ptklib.sgd.regressor import DPSGDRegressor

__all__ = ["DPSGDClassifier", "DPSGDRegressor"]
