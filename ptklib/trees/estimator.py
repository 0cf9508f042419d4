"""The tree estimator: boosted trees and forests, whose leaves and predictions are features."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Floats, Ints
from ptklib.base import Release, Units
from ptklib.domains import typed_values
from ptklib.exceptions import CorruptStateError
from ptklib.fit_cache import once
from ptklib.inputs import InputTable
from ptklib.labelled import Labelled
from ptklib.names import refuse_duplicates
from ptklib.privacy import PrivacyLoss
from ptklib.scalars import whole_number
from ptklib.state import ReleasedState, TableSchema
from ptklib.trees import parameters, tables
from ptklib.trees.binning import Feature, encode
from ptklib.trees.methods import model_of
from ptklib.trees.models import Chosen, Model, Previous
from ptklib.trees.targets import Target
from ptklib.trees.visible import unseen


def _has_classes(estimator: Any) -> bool:
    return estimator.label_bounds is None


@dataclass(eq=False, repr=False)
class TreeFeaturizer(Labelled):
    """Release trees of binned features against a label.

    Parameters
    ----------
    features : sequence of str, optional
        Columns the trees look at; all columns of `bounds` and `domains` by default.
    label : str, optional
        Label column; the `y` of `fit` by default.
    classes : sequence, optional
        Public values of the label, 2 to 500. Rows with another label are dropped.
    label_bounds : (low, high), optional
        Public bounds of a numeric label, which is clamped to them. Give `classes` or `label_bounds`.
    bounds : mapping of column to (low, high), or one pair for all `features` without a domain
        Public bounds of numeric features, which are clamped to them.
    domains : mapping of column to values
        Public values of other features. Trees split them by place, so an order with a meaning helps.
    thresholds : mapping of column to increasing numbers, optional
        Public places where a numeric feature may be split; `n_bins` bins of equal width by default.
    n_bins : int, default 64
    n_estimators : int, optional
        Number of trees: by default 24 for adaptive trees and boosting, 60 for random and 12 for greedy trees.
    max_depth : int, default 6
        Each tree has ``2**max_depth`` leaves.
    method : {"adaptive", "auto", "boosting", "random", "greedy"}
        ``"adaptive"`` counts the leaves of 6 or 12 random trees of 3 levels where a released number of rows is small
        for the budget, and boosts otherwise. It boosts for numbers, and takes random trees above 16 classes.
        ``"auto"`` does the same and never counts: it was the default.
    learning_rate : float, default 0.5
        Of boosting: the part of a Newton step that is taken.
    n_candidates : int, default 100
        Trees, or for ``"greedy"`` splits, a private selection chooses from.
    seed : int, default 0
        Public seed of candidates and of random trees. It has nothing to do with noise.
    output : {"prediction", "tree", "leaf", "leaf_index"}
        The output of `transform`: class probabilities or the mean; the same per tree; an indicator of each leaf, at
        most 8192 columns; or the index of the leaf per tree. A boosted tree gives what it adds to the scores.
    epsilon, delta : float
        Budget of one fit. With ``delta > 0``, boosting and greedy trees use discrete Gaussian noise and the
        exponential mechanism, and random trees discrete Gaussian noise where it is smaller.
    unit, max_rows_per_unit
        The column of the privacy unit's id, and its rows: see `DPEstimator`. Noise grows with the latter.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. One table ``trees`` with a row per node: ``tree``, ``node``, ``feature``, ``threshold``,
        ``left``, ``right``. A row of data goes left when its value is missing, outside the domain, or below the
        threshold (for a domain: its place is). Boosting adds ``weight`` and ``value``, with several classes one per
        class; forests ``count_<class>`` and ``p_<class>``, or ``count``, ``sum`` and ``mean``.
    noise_std_ : dict
        Standard deviation of the noise of the counts, sums or weights of a leaf.
    privacy_spent_ : PrivacyLoss
    chosen_ : Chosen
        Method, number and depth of the released trees; `method` is ``"counted"`` where few trees were counted.

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``; epsilon-DP when ``delta`` is 0.
    :Unit: up to `max_rows_per_unit` rows; with `unit`, chosen at random among those of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: sums of leaves with discrete Laplace or Gaussian noise; trees (boosting) or splits of a level
        (greedy) chosen by permute-and-flip, or the exponential mechanism.
    :Sensitivity: one row is in one leaf of each tree. In forests it adds there 1 to a count and at most ``2**16``
        units to a sum of labels. In boosting it adds steps of L1 norm at most 1 (2 with several classes) and Newton
        weights of at most 1/4 (1). It moves the score of a candidate by the L1 norm of its steps. All are integers.

    Splits are at public thresholds. Every tree is complete, so its shape says nothing; what a small leaf says leans on
    the node above it, by an amount estimated from the release itself.

    The budget is divided evenly over trees, and over the levels of a greedy tree: all trees are trained on
    all rows, so their losses add up. Boosting also finds where all scores start, for 1 % of it, or up to 9 %
    below epsilon 1. Sums hidden by noise start in the middle of `label_bounds` or at equal shares.
    `declared_loss` lists every draw.

    Adaptive trees share one pool of noise: over all parts of the pool one row adds 1 at most, in L1 norm (pure) or in
    L2 norm (``delta > 0``). Boosting divides that over all rounds, counting over the counted trees. So draws and loss
    are the same in both cases. With counted trees, the other trees say 0.

    A continued state has the trees of the first one. Forests add their counts up. Boosting starts from the
    previous scores; each round chooses one of the trees privately and moves its values by a step on the new rows.
    Partial statistics of random trees are counts; those of the other methods are binned rows.

    References
    ----------
    .. [1] PTK paper, Table 1, row 2.
    .. [2] Nori, Caruana, Bu, Shen, Kulkarni, "Accuracy, Interpretability, and Differential Privacy via Explainable
       Boosting", ICML 2021.
    .. [3] Maddock, Cormode, Wang, Maple, Jha, "Federated Boosted Decision Trees with Differential Privacy", CCS
       2022: random structure and Newton steps.
    """

    _joined: ClassVar[tuple[str, ...]] = ("rows",)
    _unseen_note: ClassVar[str] = " Trees tell no missing value from the first values of a domain."

    features: Any = None
    label: Any = None
    _: KW_ONLY
    classes: Any = None
    label_bounds: Any = None
    bounds: Any = None
    domains: Any = None
    thresholds: Any = None
    n_bins: Any = 64
    n_estimators: Any = None
    max_depth: Any = 6
    method: Any = "adaptive"
    learning_rate: Any = 0.5
    n_candidates: Any = 100
    seed: Any = 0
    output: Any = "prediction"
    epsilon: Any
    delta: Any = 0
    unit: Any = None
    max_rows_per_unit: Any = 1

    # Public facts

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `fit`, before any data are read."""
        self.table_schemas()
        return self._model().loss(self.epsilon, self.delta, self._rows_per_unit())

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the one table ``trees``."""
        label = self._label_column()
        if label is not None:
            refuse_duplicates((*self._feature_names(), label), "features and label")
        model = self._model()
        parameters.output(self.output, model.shape.n_trees, model.shape.depth)
        refuse_duplicates([*tables.STRUCTURE, *model.columns], "the columns of the released table")
        return {tables.TREES: tables.schema(model.columns)}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``p_<class>`` or ``mean``; per tree ``tree_<i>_...``; ``tree_<i>_leaf_<j>``; ``tree_<i>_leaf``."""
        model = self._model()
        trees = range(model.shape.n_trees)
        match parameters.output(self.output, model.shape.n_trees, model.shape.depth):
            case "prediction":
                names = self._prediction_names()
            case "tree":
                names = [f"tree_{i}_{name}" for i in trees for name in model.outputs]
            case "leaf":
                names = [f"tree_{i}_leaf_{j}" for i in trees for j in range(2**model.shape.depth)]
            case _:
                names = [f"tree_{i}_leaf" for i in trees]
        return np.asarray(names, dtype=object)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The declared classes, in the order of `predict_proba`."""
        domain = self._target().classes
        if domain is None:
            raise AttributeError("a numeric label has no classes")
        return typed_values(domain)

    @property
    def chosen_(self) -> Chosen:
        """Method, number and depth of the trees that were released: a function of the released table."""
        check_is_fitted(self)
        return self._model().chosen(self.tables_[tables.TREES])

    def _prediction_names(self) -> list[str]:
        names = self._target().names
        return [f"p_{name}" for name in names] if names else ["mean"]

    @once
    def _features(self) -> tuple[Feature, ...]:
        return parameters.features(self.features, self.bounds, self.domains, self.thresholds, self.n_bins)

    def _feature_names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self._features())

    @once
    def _target(self) -> Target:
        return Target.of(self._label_name(), self.classes, self.label_bounds)

    @once
    def _model(self) -> Model:
        target, features = self._target(), self._features()
        method = parameters.method(self.method, target.n_classes)
        candidates = whole_number(self.n_candidates, "n_candidates", 1, parameters.CANDIDATES_MAX)
        shape = parameters.Shape(
            method,
            features,
            target,
            parameters.n_trees(self.n_estimators, method),
            whole_number(self.max_depth, "max_depth", 1, parameters.DEPTH_MAX),
            candidates,
            whole_number(self.seed, "seed", 0, parameters.SEED_MAX),
            parameters.rate(self.learning_rate),
        )
        return model_of(method, shape)

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        model = self._model()
        return {tables.TREES: tables.known_columns(model.shape.n_trees, model.shape.depth)}

    def released_domains(self) -> dict[str, dict[str, Any]]:
        """Return the values of trees and nodes, and the features that nodes may look at, "" for a leaf."""
        domains = super().released_domains()[tables.TREES]
        keys = {name: domains[name] for name in self.table_schemas()[tables.TREES].keys}
        return {tables.TREES: {**keys, tables.FEATURE: ["", *self._feature_names()]}}

    # Training

    def _empty(self) -> dict[str, Ints]:
        model = self._model()
        return model.collect(np.zeros((len(model.features), 0), dtype=np.uint16), np.zeros(0, dtype=np.int64))

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        model = self._model()
        usable, labels = self._target().encode(label)
        codes = encode(model.features, table)
        return model.collect(codes[:, usable], labels[usable])

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        before = None
        if previous is not None:
            before = Previous(previous.tables[tables.TREES], previous.meta["noise_variance"])
        return self._model().release(exact, before, self.epsilon, self.delta, self._rows_per_unit())

    def _unseen(self) -> tuple[str, ...]:
        table, model, std = self.tables_[tables.TREES], self._model(), self.noise_std_[tables.TREES]
        sizes = {name: std[name] for name in model.sizes}
        return unseen(table, sizes, model.trees(table), self._features(), self._named_label())

    def _completed(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a stored spec as this version would write it; the default method was "auto", of the same tables."""
        completed = super()._completed(spec)
        if self.method == "adaptive" and completed["params"].get("method") == "auto":
            return {**completed, "params": {**completed["params"], "method": "adaptive"}}
        return completed

    def _check_state(self, state: ReleasedState) -> None:
        super()._check_state(state)
        model = self._model()
        if set(state.meta["noise_variance"]) != set(model.noises):
            raise CorruptStateError("noise_variance does not name what the release draws")
        model.trees(state.tables[tables.TREES])

    # Use

    @available_if(_has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; a numeric label has none."""
        return self._predictions(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class, or the mean, of each row."""
        predictions = self._predictions(X)
        return self.classes_[predictions.argmax(axis=1)] if self._target().n_classes else predictions[:, 0]

    def _predictions(self, X: Any) -> Floats:
        check_is_fitted(self)
        model, table = self._model(), InputTable(X, self._transform_columns())
        return model.predict(self.tables_[tables.TREES], encode(model.features, table))

    def _transform(self, table: InputTable) -> Floats:
        model, released = self._model(), self.tables_[tables.TREES]
        codes = encode(model.features, table)
        match self.output:
            case "prediction":
                return model.predict(released, codes)
            case "tree":
                return model.by_tree(released, codes)
            case "leaf":
                return model.indicators(released, codes)
            case _:
                return model.leaf_indices(released, codes)

    def _true_error(self, exact: Units) -> float:
        """Mean over rows of the Brier score's half, or the root mean squared error over the label's width."""
        return self._model().true_error(self.tables_[tables.TREES], exact)
