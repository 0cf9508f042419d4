"""Many devices and their server in one process: the same noise, the same order of draws and puts, and no network."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Floats, Ints
from ptklib.draw_discard.columns import columns_by_name
from ptklib.draw_discard.encoding import (
    ONE,
    ROWS_MAX,
    EncodedRows,
    encode_columns,
    encode_labels,
    places_of,
)
from ptklib.draw_discard.instances import Instances, check_instances, start_instances
from ptklib.draw_discard.noise import with_noise
from ptklib.draw_discard.specification import Specification
from ptklib.draw_discard.updates import (
    Weights,
    check_weights,
    clipped_step,
    divided,
    errors,
    mean_gradients,
    predicted,
    saturated,
)
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.coins import tossed, uniforms_below
from ptklib.scalars import whole_number

Scheme = Literal["discard", "same", "accept", "average", "average-same", "batch"]

_SCHEMES = ("discard", "same", "accept", "average", "average-same", "batch")
_VALUES = 2**20
"""Values of noise that are drawn at once."""

_UPDATES = 2**12
"""Updates of a block, at most."""

_DENSE = 32
"""A table of all inputs is kept when a row uses one of so many, or more."""

_DENSE_MAX = 2**30
_INPUTS = 2**22
"""Inputs, as float64, that are in memory at once."""

_ENCODED = 2**13
_LOW = 16
_LOW_MASK = 2**_LOW - 1


@dataclass(frozen=True, eq=False)
class Devices:
    """The rows of many devices, encoded.

    Parameters
    ----------
    specification : Specification
    starts : ndarray of shape (n_devices + 1,), int64
        The index of each device's first row among all that have a label, and the end of the last device's rows.
    labels : ndarray of shape (n_rows,), int64
    places, values : ndarray of shape (n_rows, n_columns)
        As in `EncodedRows`; without rows where `dense` has them.
    dense : ndarray of shape (n_rows, n_inputs), uint16
        All inputs of each row; without rows where `places` and `values` have them.
    """

    specification: Specification
    starts: Ints
    labels: Ints
    places: npt.NDArray[np.int32]
    values: npt.NDArray[np.uint16]
    dense: npt.NDArray[np.uint16]

    @classmethod
    def of(cls, specification: Specification, rows: Any, owners: Any = None) -> Self:
        """Encode the rows of a table.

        Parameters
        ----------
        specification : Specification
        rows : mapping of columns, or table
            As for `encode_rows`, of any length.
        owners : array-like of shape (n_rows,), optional
            The device of each row, from 0; each row is a device by default. Devices without a row, or without a label,
            report too. The first `ROWS_MAX` rows with a label of each are used.
        """
        label = specification.label.column
        entries = columns_by_name(rows, [*(f.column for f in specification.features), label])
        labels, labelled = encode_labels(specification, entries[label])
        return cls.encoded(
            specification,
            encode_columns(specification, entries),
            np.where(labelled, labels, -1),
            np.arange(len(labels)) if owners is None else np.asarray(owners),
        )

    @classmethod
    def encoded(cls, specification: Specification, columns: Ints, labels: Ints, owners: Ints) -> Self:
        """Take rows as `encode_columns` and `encode_labels` return them; the label is -1 where there is none."""
        if owners.dtype.kind not in "iu" or owners.shape != labels.shape or (owners < 0).any():
            raise InvalidParameterError("owners must be the number of a device for each row, from 0")
        n_devices = int(owners.max(initial=-1)) + 1
        order = np.argsort(owners, kind="stable")
        order = order[labels[order] >= 0]
        counts = np.bincount(owners[order], minlength=n_devices)
        within = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = order[within < ROWS_MAX]
        starts = np.concatenate(([0], np.cumsum(np.minimum(counts, ROWS_MAX))))
        n_columns, n_inputs = len(specification.sizes), specification.n_inputs
        is_dense = n_inputs <= _DENSE * n_columns and n_inputs * len(order) <= _DENSE_MAX
        few = len(order), 0
        dense = np.zeros((len(order) if is_dense else 0, n_inputs), dtype=np.uint16)
        places = np.zeros((few[is_dense], n_columns), dtype=np.int32)
        values = np.zeros((few[is_dense], n_columns), dtype=np.uint16)
        for first in range(0, len(order), _ENCODED):
            part = slice(first, first + _ENCODED)
            some_places, some_values = places_of(specification, columns[order[part]])
            if is_dense:
                here = np.arange(first, first + len(some_places))[:, np.newaxis]
                dense[here, some_places] = some_values
                dense[part, 0] = ONE  # the place of what a row does not use, too
            else:
                places[part], values[part] = some_places, some_values
        return cls(specification, starts, labels[order], places, values, dense)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def steps(self, devices: Ints, instances: Weights) -> Ints:
        """Return the clipped step of each of some devices on what it has drawn, (n, n_weights), as `clipped_step`."""
        counts = self.starts[devices + 1] - self.starts[devices]
        if not len(self.dense):
            rows = np.repeat(self.starts[devices] - np.cumsum(counts) + counts, counts) + np.arange(
                counts.sum()
            )
            encoded = EncodedRows(self.places[rows], self.values[rows], self.labels[rows])
            owners = np.repeat(np.arange(len(devices)), counts)
            return clipped_step(
                self.specification, mean_gradients(self.specification, instances, encoded, owners)
            )
        steps = np.empty((len(devices), self.specification.n_weights), dtype=np.int64)
        for some in _alike(counts, self.specification.n_inputs):
            gradients = self._dense_gradients(self.starts[devices[some]], counts[some], instances[some])
            steps[some] = clipped_step(self.specification, gradients)
        return steps

    def _dense_gradients(self, firsts: Ints, counts: Ints, instances: Weights) -> Ints:
        """Return the result of `mean_gradients`: the same whole numbers, by products of float64 matrices."""
        specification = self.specification
        n, n_rows = len(counts), max(int(counts.max()), 1)
        used = np.arange(n_rows) < counts[:, np.newaxis]
        rows = np.where(used, firsts[:, np.newaxis] + np.arange(n_rows), 0)
        inputs = self.dense[rows].astype(np.float64)
        inputs *= used[:, :, np.newaxis]
        weights = instances.reshape(n, specification.n_scores, specification.n_inputs)
        high, low = (weights >> _LOW).astype(np.float64), (weights & _LOW_MASK).astype(np.float64)
        sums = (_products(inputs, high) << _LOW) + _products(inputs, low)  # parts are below 2**42
        flat = sums.reshape(n * n_rows, specification.n_scores)
        apart = errors(specification, predicted(specification, flat), self.labels[rows.ravel()])
        turned = apart.astype(np.float64).reshape(n, n_rows, -1).transpose(0, 2, 1)
        return divided(np.matmul(turned, inputs).reshape(n, specification.n_weights), counts)


class Simulation:
    """Devices that draw, take a step and put, and the instances of their server.

    Parameters
    ----------
    devices : Devices
    instances : ndarray of shape (k, n_weights), int32, optional
        The instances at the start; `start_instances` by default. It is not changed.
    noise : bool, default True
        False leaves the noise of reports out, for comparisons: then nothing is private.
    scheme : str, default "discard"
        The way in which the server uses a report. ``"discard"``: it replaces a random instance. The paper compares
        this with others [1]_. ``"same"`` replaces the one that was drawn. ``"average"`` and ``"average-same"`` average
        a report with what it would replace. ``"accept"`` keeps a single instance and takes one report in k.
        ``"batch"`` keeps a single instance, and replaces it by the average of `batch` reports that began with it.
    batch : int, default 1
        Reports of a batch.
    vanished : float, default 0
        Share of devices that draw and never put.
    stale : float, default 0
        Share of devices that put later: after 1 to `delay` more draws of others, evenly.
    delay : int, default 100
    poisoned : float, default 0
        Share of reports that `poison` makes.
    poison : callable, optional
        It gets what a device has drawn, (n_weights,) int32, and returns what it puts.
    admits : callable, optional
        It gets the instances and a report, and returns whether the server takes it. Updates then come one by one.

    Attributes
    ----------
    instances : ndarray of shape (k, n_weights), int32
        One instance for the schemes that keep a single one.
    taken, refused, lost : int
        Reports that were put and taken, that `admits` refused, and that were never put. With ``"accept"`` the last also
        counts those that were not accepted.

    Notes
    -----
    :Guarantee: that of `report_loss` for each report of each device, when `noise` is on. Noise comes from the exact
        samplers, and so do draws and puts.

    A report begins with the instance as it was when it was drawn, whatever was put since. Updates that do not depend on
    each other are computed together, which changes no number.

    References
    ----------
    .. [1] The paper, section V-B.
    """

    def __init__(
        self,
        devices: Devices,
        *,
        instances: Instances | None = None,
        noise: bool = True,
        scheme: Scheme = "discard",
        batch: int = 1,
        vanished: float = 0.0,
        stale: float = 0.0,
        delay: int = 100,
        poisoned: float = 0.0,
        poison: Callable[[Weights], Weights] | None = None,
        admits: Callable[[Instances, Weights], bool] | None = None,
    ) -> None:
        if scheme not in _SCHEMES:
            raise InvalidParameterError(f"scheme must be one of {', '.join(_SCHEMES)}")
        if not all(0 <= rate <= 1 for rate in (vanished, stale, poisoned)):
            raise InvalidParameterError("vanished, stale and poisoned must be in [0, 1]")
        if poisoned and poison is None:
            raise InvalidParameterError("poisoned reports need a poison")
        specification = devices.specification
        self._devices, self._specification, self._noise = devices, specification, noise
        self._scheme, self._batch = scheme, whole_number(batch, "batch", 1, 2**30)
        self._stale, self._delay = stale, whole_number(delay, "delay", 1, 2**30)
        self._poisoned, self._poison, self._admits = poisoned, poison, admits
        self._vanished = vanished
        start = start_instances(specification) if instances is None else instances
        single = scheme in ("accept", "batch")
        self.instances = check_instances(specification, start)[: 1 if single else None].copy()
        self.taken = self.refused = self.lost = 0
        self._now = 0
        self._late: list[_Late] = []

    def run(self, devices: Ints) -> Self:
        """Let devices report, in this order; late reports stay on their way until the next run.

        Parameters
        ----------
        devices : ndarray of int64
            Numbers of devices; one may report several times.
        """
        order = np.asarray(devices, dtype=np.int64)
        if order.ndim != 1 or not ((order >= 0) & (order < len(self._devices))).all():
            raise InvalidParameterError("devices must be numbers of devices, in one dimension")
        size = min(max(_VALUES // self._specification.n_weights, 1), _UPDATES)
        if self._scheme == "batch":
            for first in range(0, len(order), self._batch):
                self._run_batch(order[first : first + self._batch], size)
            return self
        one_by_one = self._admits is not None
        for first in range(0, len(order), size):
            block = self._planned(order[first : first + size])
            if one_by_one:
                self._run_checked(block)
            else:
                self._run_block(block)
        return self

    def _planned(self, devices: Ints) -> "_Block":
        n, k = len(devices), len(self.instances)
        drawn = uniforms_below(k, n)
        lost = self._coins(self._vanished, n)
        if self._scheme == "accept":
            lost |= uniforms_below(self._specification.k, n) > 0
        return _Block(
            devices,
            drawn,
            drawn if self._scheme in ("same", "average-same") else uniforms_below(k, n),
            lost,
            np.where(self._coins(self._stale, n), 1 + uniforms_below(self._delay, n), 0),
            self._coins(self._poisoned, n),
            self._drawn_noise(n),
        )

    def _run_block(self, block: "_Block") -> None:
        """Run updates, those together that begin with versions which are known."""
        n, k = len(block.devices), len(self.instances)
        arriving = [one for one in self._late if one.when < self._now + n]
        self._late = [one for one in self._late if one.when >= self._now + n]
        first = k + len(arriving)
        due: dict[int, list[tuple[int, int]]] = {}
        for number, one in enumerate(arriving, k):
            due.setdefault(one.when - self._now, []).append((number, one.place))
        put, delays = block.put.tolist(), block.delays.tolist()
        for update in np.flatnonzero(~block.lost).tolist():
            due.setdefault(update + delays[update], []).append((first + update, put[update]))

        # Versions are instances, late reports, reports, and means of two versions, in this order.
        averages = self._scheme.startswith("average")
        holds, parents, depths = list(range(k)), [0] * n, [0] * (first + n)
        means: list[tuple[int, int]] = []
        for update, place in enumerate(block.drawn.tolist()):
            parents[update] = holds[place]
            depths[first + update] = depths[holds[place]] + 1
            for version, where in due.get(update, ()):
                if averages:
                    means.append((version, holds[where]))
                    depths.append(max(depths[version], depths[holds[where]]) + 1)
                    version = len(depths) - 1
                holds[where] = version

        versions = np.empty((len(depths), self._specification.n_weights), dtype=np.int32)
        versions[:k] = self.instances
        for number, one in enumerate(arriving, k):
            versions[number] = one.report
        starts = np.array(parents, dtype=np.int64)
        for at in _by_depth(depths[first:]):
            updates = at[at < n]
            updates = updates[~block.lost[updates]]
            versions[first + updates] = self._reports(block.some(updates), versions[starts[updates]])
            for number in at[at >= n].tolist():
                versions[first + number] = _mean(*(versions[one] for one in means[number - n]))
        for update in np.flatnonzero(~block.lost & (np.arange(n) + block.delays >= n)).tolist():
            report = versions[first + update].copy()
            self._late.append(_Late(self._now + update + delays[update], put[update], report))
        self.instances = versions[holds]
        self.lost += int(block.lost.sum())
        self.taken += sum(len(some) for when, some in due.items() if when < n)
        self._now += n

    def _run_checked(self, block: "_Block") -> None:
        """Run updates one by one, and ask of each report whether it is taken."""
        for update in range(len(block.devices)):
            one = block.some(np.array([update]))
            if block.lost[update]:
                self.lost += 1
            else:
                (report,) = self._reports(one, self.instances[one.drawn])
                when = self._now + int(block.delays[update])
                self._late.append(_Late(when, int(block.put[update]), report))
            arriving = [one for one in self._late if one.when <= self._now]
            self._late = [one for one in self._late if one.when > self._now]
            for late in arriving:
                if self._admits is not None and not self._admits(self.instances, late.report):
                    self.refused += 1
                    continue
                self.taken += 1
                averages = self._scheme.startswith("average")
                replaced = self.instances[late.place]
                self.instances[late.place] = _mean(late.report, replaced) if averages else late.report
            self._now += 1

    def _run_batch(self, devices: Ints, size: int) -> None:
        """Replace the instance by the mean of reports that all begin with it."""
        total, taken = np.zeros(self._specification.n_weights, dtype=np.int64), 0
        for first in range(0, len(devices), size):
            block = self._planned(devices[first : first + size])
            reports = self._reports(block, self.instances[block.drawn])[~block.lost]
            if self._admits is not None:
                reports = reports[[self._admits(self.instances, report) for report in reports]]
            self.lost += int(block.lost.sum())
            self.refused += len(block.devices) - int(block.lost.sum()) - len(reports)
            total += reports.sum(axis=0, dtype=np.int64)
            taken += len(reports)
        self.taken += taken
        self._now += len(devices)
        if taken:
            self.instances[0] = saturated(np.rint(total / taken))

    def _coins(self, rate: float, n: int) -> Bools:
        return tossed(n, rate) if rate else np.zeros(n, dtype=np.bool_)

    def _drawn_noise(self, n: int) -> Ints:
        s = self._specification
        zeros = np.zeros((n, s.n_weights), dtype=np.int64)
        if not self._noise:
            return zeros
        return with_noise(zeros, s.noise, distance=s.distance, scale=s.noise_scale, epsilon=s.epsilon)

    def _reports(self, block: "_Block", starts: Weights) -> Weights:
        """Return what some devices put, (n, n_weights), when they have drawn `starts`."""
        units = self._devices.steps(block.devices, starts)
        np.subtract(starts, units, out=units)
        units += block.noise
        reports = saturated(units)
        if self._poison is not None:
            for place in np.flatnonzero(block.poisoned).tolist():
                reports[place] = check_weights(self._specification, self._poison(starts[place].copy()))
        return reports


@dataclass(frozen=True, eq=False)
class _Block:
    """Updates that follow each other, with all that chance decides of them."""

    devices: Ints
    drawn: Ints
    put: Ints
    lost: Bools
    delays: Ints
    poisoned: Bools
    noise: Ints

    def some(self, updates: Ints) -> "_Block":
        """Return some of them."""
        return _Block(*(getattr(self, field.name)[updates] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class _Late:
    """A report on its way: after which draw it is put, and over which instance."""

    when: int
    place: int
    report: Weights


def _by_depth(depths: list[int]) -> Iterator[Ints]:
    """Yield the places of the numbers 1, 2, ... in a list."""
    order = np.argsort(depths, kind="stable")
    return iter(np.split(order, np.flatnonzero(np.diff(np.array(depths)[order])) + 1))


def _alike(counts: Ints, n_inputs: int) -> Iterator[Ints]:
    """Yield places of devices whose numbers of rows are alike, few enough for a table of all their inputs."""
    classes = np.frexp(np.maximum(counts, 1).astype(np.float64))[1]
    for one in np.unique(classes):
        places = np.flatnonzero(classes == one)
        at_once = max(_INPUTS // (n_inputs << int(one)), 1)
        yield from (places[first : first + at_once] for first in range(0, len(places), at_once))


def _mean(one: Weights, other: Weights) -> Weights:
    return ((one.astype(np.int64) + other) >> 1).astype(np.int32)


def _products(inputs: Floats, weights: Floats) -> Ints:
    """Return products of matrices of whole numbers, (n, n_rows, n_scores): all sums are below ``2**53``."""
    return np.asarray(np.matmul(inputs, weights.transpose(0, 2, 1)), dtype=np.int64)
