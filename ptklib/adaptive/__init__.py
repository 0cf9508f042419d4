"""Privacy-adaptive training without the service: train on few rows, validate, and retry with more."""

from ptklib.adaptive.grants import Grant, GrantExceededError
from ptklib.adaptive.loop import AdaptiveTraining, Attempt, Progress

__all__ = ["AdaptiveTraining", "Attempt", "Grant", "GrantExceededError", "Progress"]
