"""Expected error of count featurization, from the sampling of rows and the scales of the noise."""

import math
from collections.abc import Callable

import numpy as np

from ptklib.counts import CountFeaturizer
from ptklib.counts.features import features_of
from ptklib.counts.plan import plan_counts
from ptklib.counts.selected import SelectedKeys
from ptklib.domains import Domain
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.closed_form.facts import Facts
from ptklib.profiling.closed_form.statistics import NORMAL
from ptklib.release import Component


def counts_error(estimator: CountFeaturizer, facts: Facts) -> Callable[[float], float]:
    """Return the expected `error_from_true_value` as a function of the number of rows.

    Raises
    ------
    InvalidParameterError
        For selected features: which values are released depends on the data.

    Notes
    -----
    The probabilities of C classes, for a value of m = n w rows, err by total variation ``sqrt((C - 1) / m) / 2`` from
    sampling, largest for equal probabilities. Noise z of the counts adds ``sum_c |z_c - p_c sum(z)| / (2 m)``, a convex
    function of p: at the vertices, where it is largest, ``(C - 1 + sqrt(C - 1)) / 2`` noises over m. The mean over rows
    and features; each value counts at most 1.
    """
    e = estimator
    classes = Domain.of("y" if e.label is None else e.label, e.classes)
    features = features_of(e, len(classes))
    if any(isinstance(feature, SelectedKeys) for feature in features):
        raise InvalidParameterError("selected features have no formula: profile them by samples")
    parts = [Component(f.column, len(classes) * len(f), 1) for f in features]
    plan = plan_counts(parts, [], e.epsilon, e.delta, e.max_rows_per_unit)
    more = len(classes) - 1
    tables = [(facts.weights(f.column, len(f)), math.sqrt(plan.noise_variance(f.column))) for f in features]

    def error(n: float) -> float:
        errors = []
        for shares, noise in tables:
            weight = shares[shares > 0]
            rows = n * weight
            miss = NORMAL / 2 * (np.sqrt(more / rows) + noise * (more + math.sqrt(more)) / rows)
            errors.append(float(np.minimum(miss, 1.0) @ weight))
        return float(np.mean(errors))

    return error
