"""The common part of both estimators: rows to integers, the descent, weights as tables, predictions."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Bools, Floats, Ints
from ptklib.base import Release, Units
from ptklib.bounding import unit_codes
from ptklib.domains import stand_out
from ptklib.exceptions import CorruptStateError, InvalidParameterError
from ptklib.fit_cache import once
from ptklib.inputs import InputTable
from ptklib.labelled import Labelled
from ptklib.names import refuse_duplicates
from ptklib.privacy import PrivacyLoss
from ptklib.scalars import finite_number, whole_number
from ptklib.sgd.encoding import Encoding, encoding_of
from ptklib.sgd.heads import Head
from ptklib.sgd.network import HIDDEN_MAX, WEIGHT, Network, Shape, quantised
from ptklib.sgd.plan import FitPlan, plan_steps, sampling_of
from ptklib.sgd.start import Descent, descent_of, first_weights
from ptklib.sgd.training import Examples, train
from ptklib.state import ReleasedState, TableSchema

WEIGHTS, ROWS = "weights", "rows"
_WEIGHT, _COUNT = "weight", "count"
_CONSTANT = "1"
_LAYERS_MAX = 2
_SEED_MAX = 2**63 - 1


class GradientDescent(Labelled):
    """Parent of the classifier and the regressor; they say what a label is and what scores mean."""

    _joined: ClassVar[tuple[str, ...]] = ("rows",)

    features: Any
    bounds: Any
    max_norm: Any
    domains: Any
    hidden_units: Any
    clip_norm: Any
    batch_rate: Any
    epochs: Any
    learning_rate: Any
    momentum: Any
    seed: Any

    @abstractmethod
    def _head(self) -> Head:
        """Return what scores mean."""

    @abstractmethod
    def _labels(self, label: Any) -> tuple[Ints, Bools]:
        """Return the label of each row as an integer, and which rows have one."""

    # Public facts

    @once
    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `fit`, before any data are read."""
        self.table_schemas()
        self._descent()
        return self._plan().loss

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the tables ``weights`` and ``rows``."""
        label = self._label_column()
        if label is not None:
            refuse_duplicates((*self._feature_names(), label), "features and label")
        keys = {"layer": pa.int64(), "unit": pa.int64(), "input": pa.string()}
        return {
            WEIGHTS: TableSchema.of(keys, (_WEIGHT,)),
            ROWS: TableSchema.of({"part": pa.string()}, (_COUNT,)),
        }

    @once
    def _encoding(self) -> Encoding:
        return encoding_of(self.features, self.bounds, self.max_norm, self.domains)

    def _feature_names(self) -> tuple[str, ...]:
        return self._encoding().names

    @once
    def _shape(self) -> Shape:
        hidden = self.hidden_units
        if isinstance(hidden, str | bytes) or not hasattr(hidden, "__len__") or len(hidden) > _LAYERS_MAX:
            raise InvalidParameterError(
                "hidden_units must be a sequence of at most two sizes, for example (32,)"
            )
        sizes = tuple(whole_number(size, "each of hidden_units", 1, HIDDEN_MAX) for size in hidden)
        return Shape(self._encoding().n_inputs, self._encoding().one, sizes, self._head().n_scores)

    @once
    def _plan(self) -> FitPlan:
        sampling = sampling_of(self.batch_rate, self.epochs, self._rows_per_unit(), self.unit is not None)
        return plan_steps(type(self).__name__, sampling, self._shape().n_weights, self.epsilon, self.delta)

    @once
    def _descent(self) -> Descent:
        whole_number(self.seed, "seed", 0, _SEED_MAX)
        rate = None
        if self.learning_rate is not None:
            rate = finite_number(self.learning_rate, "learning_rate", InvalidParameterError)
        clip_norm = finite_number(self.clip_norm, "clip_norm", InvalidParameterError)
        momentum = finite_number(self.momentum, "momentum", InvalidParameterError)
        return descent_of(self._encoding(), self._shape(), clip_norm, rate, momentum)

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        shape, layers, units, inputs = self._shape(), [], [], []
        given: list[str] = list(self._encoding().input_names)
        for place, (n_out, n_in) in enumerate(shape.layers):
            layers += [place] * (n_out * n_in)
            units += [unit for unit in range(n_out) for _ in range(n_in)]
            inputs += [*given, _CONSTANT] * n_out
            given = [f"unit_{unit}" for unit in range(n_out)]
        keys = {"layer": pa.array(layers, pa.int64()), "unit": pa.array(units, pa.int64())}
        return {
            WEIGHTS: {**keys, "input": pa.array(inputs, pa.string())},
            ROWS: {"part": pa.array(["all"], pa.string())},
        }

    # Training

    def _empty(self) -> dict[str, Ints]:
        return {"rows": np.zeros(0, dtype=np.int64)}

    def _width(self) -> int:
        return self._encoding().width + 1 + (self.unit is not None)

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        """Return features and label of each usable row, and with `unit` whether it is the first of its unit."""
        rows, kept = self._encoding().read(table)
        labels, known = self._labels(label)
        places = np.flatnonzero(kept & known)
        columns = [rows[places], labels[places, None]]
        if self.unit is not None:
            codes = unit_codes(table.column(self.unit))[places]
            order = np.argsort(codes, kind="stable")
            columns = [column[order] for column in columns]
            columns.append((np.diff(codes[order], prepend=-1) != 0).astype(np.int64)[:, None])
        return {"rows": np.hstack(columns).reshape(-1)}

    def _examples(self, exact: Units) -> Examples:
        rows, width = exact["rows"].reshape(-1, self._width()), self._encoding().width
        starts = None if self.unit is None else np.flatnonzero(rows[:, -1])
        return Examples(np.ascontiguousarray(rows[:, :width]), rows[:, width].copy(), starts)

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        shape, plan = self._shape(), self._plan()
        if previous is None:
            start = first_weights(shape, int(self.seed))
        else:
            start = shape.split(previous.tables[WEIGHTS].column(_WEIGHT).to_numpy())
        trained = train(
            self._examples(exact), self._encoding(), shape, self._head(), plan, self._descent(), start
        )
        flat = np.concatenate([layer.ravel() for layer in trained.weights])
        numbers = {WEIGHTS: {_WEIGHT: flat}, ROWS: {_COUNT: np.array([trained.n_rows])}}
        keys, schemas = self._key_columns(), self.table_schemas()
        tables = {
            name: pa.table({**keys[name], **columns}, schema=schemas[name].schema)
            for name, columns in numbers.items()
        }
        return Release(tables, {ROWS: {_COUNT: plan.count_scale}})

    def _check_state(self, state: ReleasedState) -> None:
        super()._check_state(state)
        weights = self._shape().split(state.tables[WEIGHTS].column(_WEIGHT).to_numpy())
        if not all(np.array_equal(np.trunc(w * WEIGHT) / WEIGHT, w) for w in weights) or not all(
            np.allclose(w, q, rtol=0, atol=2 / WEIGHT)
            for w, q in zip(weights, quantised(weights), strict=True)
        ):
            raise CorruptStateError("the state has weights that are never released")

    def _unseen(self) -> tuple[str, ...]:
        count = self.tables_[ROWS].column(_COUNT).to_numpy()
        return () if stand_out(count, self.noise_std_[ROWS][_COUNT]) else self.required_columns()

    # Use

    @property
    def weights_(self) -> list[Floats]:
        """Released weights of each layer, (n_out, n_in + 1), from ``tables_``; the last column is the constant's."""
        return self._shape().split(self.tables_[WEIGHTS].column(_WEIGHT).to_numpy())

    def _linear(self) -> tuple[Floats, Floats]:
        """Return coefficients, (n_scores, n_inputs), and intercepts of scores, in the units of the features."""
        if self._shape().hidden:
            raise AttributeError("a model with hidden layers has no coefficients: see weights_")
        (weights,) = self.weights_
        centres, widths = self._encoding().scales()
        coefficients = weights[:, :-1] / widths
        return coefficients, weights[:, -1] - coefficients @ centres

    def _network(self) -> Network:
        return Network(self._shape(), self.weights_, self._head())

    def _predicted(self, table: InputTable) -> Floats:
        """Return predictions of the head for each row; a missing or infinite number counts as the middle."""
        rows, _ = self._encoding().read(table)
        return self._network().predictions(self._encoding().inputs(rows))

    def _scores(self, table: InputTable) -> Floats:
        rows, _ = self._encoding().read(table)
        return self._network().scores(self._encoding().inputs(rows))

    def _true_error(self, exact: Units) -> float:
        """Return the mean loss of the rows: see `Head`."""
        examples, head = self._examples(exact), self._head()
        if not len(examples):
            return np.nan
        guesses = self._network().predictions(self._encoding().inputs(examples.rows))
        return float(head.losses(guesses, examples.labels).mean())

    def usable_rows(self, X: Any, y: Any = None) -> Bools:
        """Return which rows are trained on: those of finite numbers and a usable label. **As private as the rows**."""
        table = InputTable(X, self.required_columns())
        return np.asarray(self._encoding().read(table)[1] & self._labels(self._label(table, y))[1])

    def losses_of_rows(self, X: Any, y: Any = None) -> Floats:
        """Return half of Brier's score of each row, or the squared error in widths of `label_bounds`; in [0, 1].

        **As private as the rows.** A row's loss is a function of that row and the released weights alone, in its last
        bit too. That of a row that is not usable says nothing.
        """
        check_is_fitted(self)
        table = InputTable(X, self.required_columns())
        labels, _ = self._labels(self._label(table, y))
        return self._head().losses(self._predicted(table), labels)
