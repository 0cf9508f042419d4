"""Classification by gradient descent with noise: logistic regression, softmax, and networks of one or two layers."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Bools, Floats, Ints
from ptklib.domains import OUTSIDE, Domain, typed_values
from ptklib.exceptions import InvalidDomainError
from ptklib.fit_cache import once
from ptklib.inputs import InputTable
from ptklib.names import class_suffixes
from ptklib.sgd.estimator import GradientDescent
from ptklib.sgd.heads import Head, Logistic, Softmax
from ptklib.sgd.network import HIDDEN_MAX


@dataclass(eq=False, repr=False)
class DPSGDClassifier(GradientDescent):
    """Release a linear or small neural classifier, trained by stochastic gradient descent with noise.

    Parameters
    ----------
    features : sequence of str, optional
        Columns; all columns of `bounds` and `domains` by default.
    label : str, optional
        Label column; the `y` of `fit` by default.
    classes : sequence
        Public values of the label, 2 to 500. Rows with another label are dropped.
    bounds : mapping of column to (low, high), or one pair for all `features` without a domain
        Public clipping bounds of numeric features, which are centred and measured in half widths.
    max_norm : float
        Public bound of the Euclidean norm of a row of numeric features, as in `AdaSSPRegressor`.
    domains : mapping of column to values
        Public values of other features. Each value is an input; rows with another value have none of them.
    hidden_units : sequence of int, default ()
        Sizes of up to two hidden layers of hyperbolic tangents; none is logistic regression.
    clip_norm : float, default 1
        Public bound of the Euclidean norm of one row's gradient. Longer ones are shrunk to it; noise grows with it.
    batch_rate : float, default 0.02
        Probability of a unit to take part in a step, at least 1e-6.
    epochs : float, default 20
        How often a row takes part, on average: there are ``epochs / batch_rate`` steps.
    learning_rate : float, optional
        Public. By default it follows from the number of inputs and, where noise is large, from the noise.
    momentum : float, default 0.9
    seed : int, default 0
        Public seed of the first weights of hidden layers. It has nothing to do with noise.
    epsilon, delta : float
        Budget of one fit; ``delta`` must be positive.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter. With `unit`
        all rows of one id take part in a step together, which needs less noise than rows that are sampled one by one.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. ``weights``, keyed by ``layer``, ``unit`` and ``input``: ``weight``, in units of the inputs, of which
        the last, ``1``, is constant. ``rows``, keyed by ``part``: ``count``, the noisy number of rows.
    weights_ : list of ndarray of shape (n_out, n_in + 1)
    coef_, intercept_ : ndarray of shape (n_scores, n_inputs) and (n_scores,)
        Of a linear model, in the units of the features. Two classes have one score, that of the second.
    classes_ : ndarray of shape (n_classes,)
    privacy_spent_ : PrivacyLoss

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Gaussian noise on the number of rows, and on the sum of clipped gradients of a fresh Poisson
        sample in each step [1]_. It follows from the Rényi curve of all draws.
    :Sensitivity: a row adds an integer vector of length ``2**30`` or less (L2), for `clip_norm`.

    A row with a missing or infinite number is dropped whole. Inputs, weights and errors are whole numbers, so gradients
    are added exactly, and what a row adds depends on that row and on released numbers alone: docs/proofs/sgd.md.

    The mean of the weights of the second half of the steps is released. A continued state is where the next
    descent starts; ``count`` is that of the last rows. Partial statistics are quantised rows.

    References
    ----------
    .. [1] Abadi et al., "Deep Learning with Differential Privacy", CCS 2016.
    """

    features: Any = None
    label: Any = None
    _: KW_ONLY
    classes: Any
    bounds: Any = None
    max_norm: Any = None
    domains: Any = None
    hidden_units: Any = ()
    clip_norm: Any = 1.0
    batch_rate: Any = 0.02
    epochs: Any = 20
    learning_rate: Any = None
    momentum: Any = 0.9
    seed: Any = 0
    epsilon: Any
    delta: Any
    unit: Any = None
    max_rows_per_unit: Any = 1

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The declared classes, in the order of `predict_proba`."""
        return typed_values(self._classes())

    @property
    def coef_(self) -> Floats:
        """Coefficients of a linear model, from ``tables_``."""
        return self._linear()[0]

    @property
    def intercept_(self) -> Floats:
        """Intercepts of a linear model, from ``tables_``."""
        return self._linear()[1]

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``p_<class>`` for each class."""
        return np.asarray([f"p_{name}" for name in class_suffixes(self._classes().values)], dtype=object)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, (n_rows, n_classes)."""
        return self.transform(X)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores: (n_rows,) for two classes, (n_rows, n_classes) for more."""
        check_is_fitted(self)
        scores = self._scores(InputTable(X, self._transform_columns()))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of each row."""
        return np.asarray(self.classes_[self.transform(X).argmax(axis=1)])

    def wrong_rows(self, X: Any, y: Any = None) -> Bools:
        """Return which rows are not of the class that is predicted, or of no class. **As private as the rows**."""
        codes, known = self._labels(self._label(InputTable(X, self.required_columns()), y))
        return np.asarray(~known | (self.transform(X).argmax(axis=1) != codes))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of rows whose class is predicted; of rows without a declared class, none is."""
        return float(np.mean(~self.wrong_rows(X, y)))

    @once
    def _classes(self) -> Domain:
        classes = Domain.of(self._label_name(), self.classes)
        if not 2 <= len(classes) <= HIDDEN_MAX:
            raise InvalidDomainError(f"classes must hold from 2 to {HIDDEN_MAX} values")
        class_suffixes(classes.values)
        return classes

    def _head(self) -> Head:
        n_classes = len(self._classes())
        return Logistic() if n_classes == 2 else Softmax(n_classes)

    def _labels(self, label: Any) -> tuple[Ints, Bools]:
        codes = self._classes().encode(label)
        return np.maximum(codes, 0), codes != OUTSIDE

    def _transform(self, table: InputTable) -> Floats:
        return self._predicted(table)
