"""The estimator: a linear, logistic or softmax model that devices train, each with local differential privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Bools, Floats, Ints
from ptklib.base import Release, Units
from ptklib.bounding import unit_codes
from ptklib.draw_discard.columns import Categorical, Numeric
from ptklib.draw_discard.declarations import as_text, column_given, inputs_of, listed
from ptklib.draw_discard.encoding import FINE, encode_columns, encode_labels
from ptklib.draw_discard.instances import Instances, average_instances, check_instances, start_instances
from ptklib.draw_discard.losses import report_loss
from ptklib.draw_discard.predicting import losses_of, predictions_of
from ptklib.draw_discard.simulation import Devices, Simulation
from ptklib.draw_discard.specification import Specification
from ptklib.events import LocalReport
from ptklib.exceptions import CorruptStateError, InvalidParameterError, UnboundedSensitivityError
from ptklib.fit_cache import once
from ptklib.inputs import InputTable
from ptklib.labelled import Labelled
from ptklib.names import check_name, class_suffixes
from ptklib.privacy import Bounds, PrivacyLoss, PrivacyUnit
from ptklib.state import ReleasedState, TableSchema

WEIGHTS, INSTANCES = "weights", "instances"
_WEIGHT = "weight"
_MODELS = ("logistic", "linear")
_AVERAGES = ("weights", "predictions")


@dataclass(eq=False, repr=False)
class DrawDiscardModel(Labelled):
    """Release a linear, logistic or softmax model that devices train: no row leaves its device.

    Parameters
    ----------
    features : mapping of column to bounds, values or buckets
        ``(low, high)``: a number, clipped to these public bounds. A list: public values, of which each has a weight.
        ``{"hash_buckets": n}``: values that nobody declares, hashed as by `bucket_of` with the seed 0. Two integers
        are bounds; as values they are ``{"values": [0, 1]}``.
    label : str, optional
        Label column; the `y` of `fit` by default.
    model : {"logistic", "linear"}
        A logistic model learns a boolean, or a number from 0 to 1; with `classes` it is a softmax model. A linear model
        learns a number within `label_bounds`.
    classes : sequence, optional
        Public values of the label, 2 to 256. Each has weights of its own. Rows with another label are left out.
    label_bounds : tuple (low, high), optional
    crosses : sequence of sequence of str
        Two or three columns each: each combination of their values has a weight, multiplied by the numbers among
        them.
    k : int, default 20
        Instances that the server keeps.
    learning_rate, max_norm : float, default 0.001 and 1
    clip : {"l1", "l2", "coordinate"}
    noise : {"laplace", "gaussian"}
    grid_bits : int, default 24
        As for `Specification`.
    average : {"weights", "predictions"}
        The quantity that predictions average over the instances. With ``"predictions"`` all instances are released.
    devices : str, optional
        Column that says which rows are of one device, in `fit`; by default each row is a device. A shard must then hold
        all rows of its devices.
    epsilon, delta : float
        Loss of **one report** towards any two tables of a device. ``delta`` is 0 for Laplace noise.

    Attributes
    ----------
    tables_ : dict of str to pyarrow.Table
        Released. ``weights``, keyed by ``class``, ``input`` and ``value``: ``weight``. ``class`` is empty where there
        are none. ``input`` is a column, columns of a cross joined by ``*``, or ``1`` for the constant. ``value`` is the
        value as a text (of a cross, a JSON list without numbers), and empty for numbers. With
        ``average="predictions"`` also ``instances``, with ``instance`` as a further key.
    weights_ : ndarray of shape (n_weights,)
        Means of the instances, for inputs from 0 to 1.
    classes_ : ndarray
        Of a logistic or softmax model.
    privacy_spent_ : PrivacyLoss
        The loss of one report of one device, for the whole model.

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP of each report, in the local model: whoever sees what a device has drawn and what it
        puts, the server included. ``local_guarantee()`` says it for the whole report and for one weight.
    :Unit: all rows of a device; r reports of it lose r times as much.
    :Neighbours: any two tables of a device, one without rows included.
    :Mechanism: discrete Laplace or discrete Gaussian noise on the clipped step of each device.
    :Sensitivity: ``specification.distance``.

    **There is no central loss**: that a device took part is not hidden, so one row or device more has no epsilon.
    `declared_loss` has an event, `LocalReport`, that no accountant composes, and no block pays for it.

    `fit` simulates the devices of the rows: each reports once, in the order of their first rows, with exact noise. A
    continued state is where its instances start. Partial statistics are encoded rows. In a service nobody calls `fit`:
    devices report to its server, and `average_of` makes versions of the instances.

    References
    ----------
    .. [1] Pihur et al., "Differentially-Private 'Draw and Discard' Machine Learning", 2018.
    """

    _joined = ("rows",)

    features: Any
    label: Any = None
    _: KW_ONLY
    model: Any = "logistic"
    classes: Any = None
    label_bounds: Any = None
    crosses: Any = ()
    k: Any = 20
    learning_rate: Any = 0.001
    clip: Any = "l1"
    max_norm: Any = 1.0
    noise: Any = "laplace"
    grid_bits: Any = 24
    average: Any = "weights"
    devices: Any = None
    epsilon: Any
    delta: Any = 0.0

    # Public facts

    @property
    def specification(self) -> Specification:
        """The agreement of devices and server; its features are in the order of their names."""
        return self._specification()

    @once
    def _specification(self) -> Specification:
        if self.model not in _MODELS:
            raise InvalidParameterError(f"model must be one of {', '.join(_MODELS)}")
        if self.average not in _AVERAGES:
            raise InvalidParameterError(f"average must be one of {', '.join(_AVERAGES)}")
        if not isinstance(self.features, Mapping) or not self.features:
            raise InvalidParameterError("features must map columns to bounds, values or buckets")
        names = sorted(check_name(name, "each of features") for name in self.features)
        crosses = self.crosses
        if isinstance(crosses, str) or not isinstance(crosses, Sequence):
            raise InvalidParameterError("crosses must be a list of lists of columns")
        return Specification(
            features=tuple(column_given(name, self.features[name]) for name in names),
            label=self._label_of(),
            epsilon=self.epsilon,
            link="softmax" if self.classes is not None else self.model,
            crosses=tuple(tuple(c) if isinstance(c, list | tuple) else c for c in crosses),
            clip=self.clip,
            max_norm=self.max_norm,
            learning_rate=self.learning_rate,
            noise=self.noise,
            delta=self.delta,
            k=self.k,
            grid_bits=self.grid_bits,
        )

    def _label_of(self) -> Numeric | Categorical:
        name = self._label_name()
        if self.model == "linear":
            if self.classes is not None:
                raise InvalidParameterError("a linear model has no classes")
            if self.label_bounds is None:
                raise UnboundedSensitivityError("label_bounds=(low, high) are missing")
            bounds = Bounds.of(self.label_bounds, name)
            return Numeric(name, bounds.low, bounds.high)
        if self.label_bounds is not None:
            raise InvalidParameterError("label_bounds are those of a linear model")
        if self.classes is None:
            return Numeric(name, 0.0, 1.0)
        return Categorical(name, listed(self.classes, "classes"))

    @once
    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one report of a device, before any data are read. No block can pay it."""
        self.table_schemas()
        if self.devices is not None:
            check_name(self.devices, "devices")
        loss = report_loss(self.specification)
        event = LocalReport(whole=loss.whole.event, one_weight=loss.one_weight.event)  # type: ignore[arg-type]
        return PrivacyLoss(loss.whole.epsilon, loss.whole.delta, event)

    def privacy_unit(self) -> PrivacyUnit:
        """Return that all rows of a device are protected together."""
        return PrivacyUnit.USER

    def local_guarantee(self) -> dict[str, Any]:
        """Return what a report promises, as plain JSON: whom it protects, and its losses.

        ``report`` is the loss of a whole report, ``one_weight`` what the noisy value of one weight loses by itself.
        """
        s, loss = self.specification, report_loss(self.specification)
        return {
            "model": "local",
            "unit": "device",
            "relation": "any two tables of a device",
            "report": loss.whole.to_json(),
            "one_weight": loss.one_weight.to_json(),
            "clip": s.clip,
            "max_norm": s.max_norm,
            "noise": s.noise,
            "specification": s.digest,
        }

    @once
    def _feature_names(self) -> tuple[str, ...]:
        return tuple(feature.column for feature in self.specification.features)

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {}

    def input_columns(self) -> tuple[str, ...]:
        """Return the columns that `fit` reads, that of devices included."""
        columns = self.required_columns()
        return columns if self.devices is None or self.devices in columns else (*columns, self.devices)

    @once
    def table_schemas(self) -> dict[str, TableSchema]:
        """Return the table ``weights``, and ``instances`` where predictions are averaged."""
        class_suffixes(self._classes())
        keys = {"class": pa.string(), "input": pa.string(), "value": pa.string()}
        schemas = {WEIGHTS: TableSchema.of(keys, (_WEIGHT,))}
        if self.average == "predictions":
            schemas[INSTANCES] = TableSchema.of({"instance": pa.int64(), **keys}, (_WEIGHT,))
        return schemas

    def _classes(self) -> tuple[Any, ...]:
        label = self.specification.label
        return tuple(label.values) if isinstance(label, Categorical) else ()

    @once
    def _key_columns(self) -> dict[str, dict[str, Any]]:
        names, values = zip(*inputs_of(self.specification), strict=True)
        classes = [as_text(one) for one in self._classes()] or [""]
        n, n_classes = len(names), len(classes)
        columns = {
            "class": np.repeat(np.array(classes, dtype=object), n),
            "input": np.tile(np.array(names, dtype=object), n_classes),
            "value": np.tile(np.array(values, dtype=object), n_classes),
        }
        keys = {WEIGHTS: {name: pa.array(column, pa.string()) for name, column in columns.items()}}
        if self.average == "predictions":
            k = self.specification.k
            numbers = pa.array(np.repeat(np.arange(k), n * n_classes), pa.int64())
            tiled = {name: pa.array(np.tile(column, k), pa.string()) for name, column in columns.items()}
            keys[INSTANCES] = {"instance": numbers, **tiled}
        return keys

    # Training

    def _width(self) -> int:
        return len(self.specification.features) + 2

    def _empty(self) -> dict[str, Ints]:
        return {"rows": np.zeros(0, dtype=np.int64)}

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        """Return features, label (-1 where there is none) and whether a row is the first of its device, row by row."""
        columns, labels, labelled = self._encoded(table, label)
        first = np.ones(len(labels), dtype=np.int64)
        order = np.arange(len(labels))
        if self.devices is not None:
            codes = unit_codes(table.column(self.devices))
            _, starts, codes = np.unique(codes, return_index=True, return_inverse=True)
            order = np.argsort(starts[codes], kind="stable")
            first = (np.diff(codes[order], prepend=-1) != 0).astype(np.int64)
        rows = np.column_stack([columns, np.where(labelled, labels, -1)])[order]
        return {"rows": np.column_stack([rows, first]).reshape(-1)}

    def _encoded(self, table: InputTable, label: Any) -> tuple[Ints, Ints, Bools]:
        columns = encode_columns(self.specification, self._entries(table))
        labels, labelled = encode_labels(self.specification, label)
        return columns, labels, labelled

    def _entries(self, table: InputTable) -> dict[str, Any]:
        return {name: table.column(name) for name in self._feature_names()}

    def _devices_of(self, exact: Units) -> Devices:
        rows = exact["rows"].reshape(-1, self._width())
        owners = np.cumsum(rows[:, -1]) - 1
        return Devices.encoded(self.specification, rows[:, :-2], rows[:, -2], owners)

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        devices = self._devices_of(exact)
        simulation = Simulation(devices, instances=self._start(previous))
        return self._release_of(simulation.run(np.arange(len(devices))).instances)

    def _start(self, previous: ReleasedState | None) -> Instances:
        if previous is None:
            return start_instances(self.specification)
        if self.average == "predictions":
            units = previous.tables[INSTANCES].column(_WEIGHT).to_numpy() * 2.0**self.specification.grid_bits
            return np.asarray(units.astype(np.int32).reshape(self.specification.k, -1))
        return start_instances(self.specification, previous.tables[WEIGHTS].column(_WEIGHT).to_numpy())

    def _release_of(self, instances: Instances) -> Release:
        keys, schemas = self._key_columns(), self.table_schemas()
        numbers = {WEIGHTS: average_instances(self.specification, instances)}
        if self.average == "predictions":
            numbers[INSTANCES] = instances.ravel() / 2.0**self.specification.grid_bits
        return Release(
            {
                name: pa.table({**keys[name], _WEIGHT: column}, schema=schemas[name].schema)
                for name, column in numbers.items()
            }
        )

    def average_of(self, instances: Instances, previous_state: ReleasedState | None = None) -> ReleasedState:
        """Return the state of the instances of a server.

        Parameters
        ----------
        instances : ndarray of shape (k, n_weights), int32
        previous_state : ReleasedState, optional
            The version before, which is counted.

        Raises
        ------
        InvalidParameterError
            When the instances have another shape or type than those of `specification`.
        StateMismatchError, CorruptStateError
            As `check_previous_state`.
        """
        loss = self._check_parameters()
        self.check_previous_state(previous_state)
        check_instances(self.specification, instances)
        fitted = type(self)(**self.get_params(deep=False))
        n_releases = 1 if previous_state is None else 1 + int(previous_state.meta["n_releases"])
        fitted._install(self._release_of(instances), n_releases, loss)
        fitted._name_inputs()
        return fitted.to_state()

    def _check_state(self, state: ReleasedState) -> None:
        super()._check_state(state)
        if self.average == "predictions":
            weights = state.tables[INSTANCES].column(_WEIGHT).to_numpy()
            units = weights * 2.0**self.specification.grid_bits
            if not (np.abs(units) < 2.0**31).all() or not np.array_equal(np.trunc(units), units):
                raise CorruptStateError("the state has instances that are never released")
            mean = average_instances(
                self.specification, units.astype(np.int32).reshape(self.specification.k, -1)
            )
            if not np.array_equal(mean, state.tables[WEIGHTS].column(_WEIGHT).to_numpy()):
                raise CorruptStateError("the weights of the state are not the means of its instances")

    # Use

    @property
    def weights_(self) -> Floats:
        """Released weights, from ``tables_``."""
        return np.asarray(self.tables_[WEIGHTS].column(_WEIGHT).to_numpy())

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, in the order of `predict_proba`; 0 and 1 of a logistic model without declared ones."""
        if self.model == "linear":
            raise AttributeError("a linear model has no classes")
        values = self._classes() or (0, 1)
        return np.asarray(values, dtype=object if isinstance(values[0], str) else None)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``p_<class>`` for each class, ``p_<label>``, or ``<label>_prediction`` of a linear model."""
        if self.model == "linear":
            names = [f"{self._label_name()}_prediction"]
        else:
            names = [f"p_{name}" for name in class_suffixes(self._classes())] or [f"p_{self._label_name()}"]
        return np.asarray(names, dtype=object)

    def _transform(self, table: InputTable) -> Floats:
        return self._guesses(encode_columns(self.specification, self._entries(table)))

    def _guesses(self, columns: Ints) -> Floats:
        found, bounds = self._predicted(columns), self.specification.label
        if self.model == "linear" and isinstance(bounds, Numeric):
            return np.asarray(bounds.low + np.clip(found, 0.0, 1.0) * (bounds.high - bounds.low))
        return found

    def _predicted(self, columns: Ints) -> Floats:
        models = self.weights_[np.newaxis]
        if self.average == "predictions":
            models = self.tables_[INSTANCES].column(_WEIGHT).to_numpy().reshape(self.specification.k, -1)
        return predictions_of(self.specification, models, columns)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, (n_rows, n_classes)."""
        if self.model == "linear":
            raise AttributeError("a linear model predicts numbers, not probabilities")
        found = np.asarray(self.transform(X))
        return found if self.classes is not None else np.column_stack([1 - found, found])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of each row, or the predicted number."""
        if self.model == "linear":
            return np.asarray(self.transform(X)).reshape(-1)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of rows whose class is predicted; of a linear model, the share of variance that it explains.

        Of rows without a usable label no class is predicted rightly, and a linear model's share is of the others.
        """
        if self.model == "logistic":
            return float(np.mean(~self.wrong_rows(X, y)))
        labels, labelled, found = self._answers(X, y)
        shares, true = self._shares(found)[labelled, 0], labels[labelled] / FINE
        return float(1 - np.sum((true - shares) ** 2) / np.sum((true - true.mean()) ** 2))

    def _shares(self, found: Floats) -> Floats:
        bounds = self.specification.label
        return (found - bounds.low) / (bounds.high - bounds.low) if isinstance(bounds, Numeric) else found

    def _true_error(self, exact: Units) -> float:
        """Return the mean loss of the rows with a label: see `losses_of_rows`."""
        rows = exact["rows"].reshape(-1, self._width())
        rows = rows[rows[:, -2] >= 0]
        if not len(rows):
            return np.nan
        guesses = self._shares(self._guesses(rows[:, :-2]))
        return float(losses_of(self.specification, guesses, rows[:, -2]).mean())

    def usable_rows(self, X: Any, y: Any = None) -> Bools:
        """Return which rows are trained on: those of a usable label. **As private as the rows**."""
        return encode_labels(self.specification, self._label(InputTable(X, self.required_columns()), y))[1]

    def losses_of_rows(self, X: Any, y: Any = None) -> Floats:
        """Return half of Brier's score of each row, or the squared error in widths of `label_bounds`; in [0, 1].

        **As private as the rows.** A row's loss is a function of that row and the released weights alone, in its last
        bit too. That of a row that is not usable says nothing.
        """
        labels, labelled, found = self._answers(X, y)
        return losses_of(self.specification, self._shares(found), np.where(labelled, labels, 0))

    def wrong_rows(self, X: Any, y: Any = None) -> Bools:
        """Return which rows are not of the class that is predicted, or of no class. **As private as the rows**."""
        if self.model == "linear":
            raise AttributeError("a linear model predicts numbers, not classes")
        labels, labelled, found = self._answers(X, y)
        right = found.argmax(axis=1) == labels if self.classes else (found[:, 0] > 0.5) == (labels > FINE / 2)
        return np.asarray(~(labelled & right))

    def _answers(self, X: Any, y: Any) -> tuple[Ints, Bools, Floats]:
        check_is_fitted(self)
        table = InputTable(X, self.required_columns())
        return *encode_labels(self.specification, self._label(table, y)), self._transform(table)
