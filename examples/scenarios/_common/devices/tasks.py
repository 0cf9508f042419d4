"""What devices learn: rows of many devices, and test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from _common import clicks
from ptklib.arrays import Floats, Ints
from ptklib.draw_discard import Categorical, Devices, Hashed, Numeric, Specification
from ptklib.draw_discard.encoding import FINE, ONE, encode_columns, encode_labels, places_of

PIXELS = 784
TO_TEST = 10_000
OF_A_DEVICE = 10
"""Rows of a device, as in the paper."""

Rows = Mapping[str, Any]


@dataclass(frozen=True)
class DeviceTask:
    """A model, and who learns it.

    Parameters
    ----------
    fixed : mapping
        Fields of a `Specification`: features, label, link, crosses.
    rows, test : mapping of columns
    owners : ndarray of shape (n_rows,), int64
        The device of each row.
    """

    name: str
    fixed: Mapping[str, Any]
    rows: Rows
    owners: Ints
    test: Rows

    @property
    def n_devices(self) -> int:
        return int(self.owners.max()) + 1

    @property
    def n_rows(self) -> int:
        return len(self.owners)

    def specification(self, **settings: Any) -> Specification:
        """Return the specification with some settings."""
        return Specification(**self.fixed, **settings)

    @cached_property
    def devices(self) -> Devices:
        """The rows, encoded: the same for all settings."""
        return Devices.of(self.specification(epsilon=1.0), self.rows, self.owners)

    @cached_property
    def judge(self) -> Judge:
        """What judges weights by the test rows."""
        return Judge.of(self.specification(epsilon=1.0), self.test)


@dataclass(frozen=True)
class Judge:
    """Rows with labels, and what weights make of them."""

    specification: Specification
    inputs: Any
    labels: Ints
    known: Floats | None = field(default=None)
    """True probabilities of a label of 1, where they are known."""

    @classmethod
    def of(cls, specification: Specification, rows: Rows) -> Judge:
        labels, labelled = encode_labels(specification, rows[specification.label.column])
        places, values = places_of(specification, encode_columns(specification, rows))
        n_rows, n_columns = places.shape
        indices = np.arange(0, n_rows * n_columns + 1, n_columns)
        shares = values.ravel().astype(np.float64) / ONE
        inputs = sparse.csr_array((shares, places.ravel(), indices), shape=(n_rows, specification.n_inputs))
        known = rows.get(KNOWN)
        return cls(
            specification,
            inputs[np.flatnonzero(labelled)],
            labels[labelled],
            None if known is None else known[labelled],
        )

    def loss_and_accuracy(self, weights: Floats) -> tuple[float, float]:
        """Return mean log loss and accuracy of weights, (n_weights,)."""
        scores = self.inputs @ weights.reshape(self.specification.n_scores, -1).T
        if self.specification.link == "softmax":
            best = scores.max(axis=1)
            log_sums = best + np.log(np.exp(scores - best[:, np.newaxis]).sum(axis=1))
            of_label = scores[np.arange(len(scores)), self.labels]
            right = scores.argmax(axis=1) == self.labels
            return float((log_sums - of_label).mean()), float(right.mean())
        scores, labels = scores[:, 0], self.labels / FINE
        shares = labels if self.known is None else self.known
        losses = np.logaddexp(0, scores) - shares * scores
        return float(losses.mean()), float(((scores > 0) == (labels > 0.5)).mean())


KNOWN = "probability"


def digits(path: Path) -> DeviceTask:
    """Images of digits: 50,000 to learn, ten on each of 5,000 devices, and 10,000 to test; 7,850 weights."""
    table = pd.read_parquet(path, columns=["label", "pixels"])
    pixels = np.frombuffer(b"".join(table["pixels"]), dtype=np.uint8).reshape(-1, PIXELS)
    return _images("digits", pixels, table["label"].to_numpy(dtype=np.int64), TO_TEST)


def generated_digits(n_rows: int, seed: int = 0) -> DeviceTask:
    """Ten classes of noisy images of 49 pixels; says nothing about the world."""
    draws = np.random.default_rng(seed)
    label = draws.integers(0, 10, n_rows)
    centres = 255 * (draws.random((10, 49)) < 0.3)
    pixels = np.clip(centres[label] + draws.normal(0, 60, (n_rows, 49)), 0, 255)
    return _images("generated digits", pixels.astype(np.uint8), label, n_rows // 5)


def _images(name: str, pixels: Any, label: Ints, to_test: int) -> DeviceTask:
    columns = [f"pixel_{place}" for place in range(pixels.shape[1])]
    fixed = {
        "features": [Numeric(column, 0, 255) for column in columns],
        "label": Categorical("digit", range(10)),
        "link": "softmax",
    }

    def rows(some: slice) -> Rows:
        return dict(zip(columns, pixels[some].T, strict=True)) | {"digit": label[some]}

    n_rows = len(label) - to_test
    return DeviceTask(
        name, fixed, rows(slice(n_rows)), np.arange(n_rows) // OF_A_DEVICE, rows(slice(n_rows, None))
    )


TRUE_WEIGHTS: Mapping[tuple[str, ...], Sequence[float]] = {
    ("1",): (0.34,),
    ("B",): (-1.18,),
    ("E1",): (1.05, 1.6),
    ("E2",): (-1.51, 0.72, 1.36),
    ("D",): (-1.41,),
    ("I",): (-1.67,),
    ("B", "E1"): (-1.14, 1.3),
    ("B", "E2"): (1.72, 0.18, -1.52),
    ("B", "D"): (1.72,),
    ("B", "I"): (-1.17,),
    ("E1", "E2"): (-0.12, -0.53, 1.0, -0.42, -1.64, -1.53),
    ("D", "E1"): (0.64, 0.48),
    ("I", "E1"): (-0.17, 0.44),
    ("D", "E2"): (-0.51, -0.68, 1.65),
    ("I", "E2"): (0.51, -1.64, 0.57),
    ("D", "I"): (-0.8,),
}
"""The model of the paper's section V-C. What it prints as a second B E2, after I E1, is taken for the missing D E2."""
TRUTH = np.concatenate([np.array(some) for some in TRUE_WEIGHTS.values()])


def known_weights(n_devices: int, n_test: int = 50_000, seed: int = 0) -> DeviceTask:
    """The paper's logistic model of 33 known weights, with ten rows on each device."""
    features = [
        Categorical("B", [True]),
        Categorical("E1", ["A", "B"]),
        Categorical("E2", ["a", "b", "c"]),
        Numeric("D", 0, 1),
        Numeric("I", 0, 1),
    ]
    crosses = [names for names in TRUE_WEIGHTS if len(names) == 2]
    fixed: dict[str, Any] = {
        "features": features,
        "label": Numeric("O", 0, 1),
        "link": "logistic",
        "crosses": crosses,
    }
    specification, draws = Specification(**fixed, epsilon=1.0), np.random.default_rng(seed)

    def drawn(n: int) -> Rows:
        rows = {
            "B": draws.random(n) < 0.5,
            "E1": draws.choice(["A", "B", "C"], n),
            "E2": draws.choice(["a", "b", "c", "d"], n),
            "D": draws.random(n),
            "I": draws.integers(0, 5, n) / 4,
            "O": np.zeros(n),
        }
        scores = Judge.of(specification, rows).inputs @ TRUTH
        chance = 1 / (1 + np.exp(-scores))
        return rows | {"O": (draws.random(n) < chance).astype(float), KNOWN: chance}

    owners = np.repeat(np.arange(n_devices), OF_A_DEVICE)
    return DeviceTask("known weights", fixed, drawn(len(owners)), owners, drawn(n_test))


def even_values(n_values: int, n_devices: int, n_test: int = 20_000, seed: int = 0) -> DeviceTask:
    """A logistic model of one column with so many values, each as frequent as the others, and ten rows on each device.

    The true weights are normal with a deviation of 1.5.
    """
    fixed: dict[str, Any] = {
        "features": [Categorical("V", range(n_values))],
        "label": Numeric("O", 0, 1),
        "link": "logistic",
    }
    draws = np.random.default_rng(seed)
    chances = 1 / (1 + np.exp(-draws.normal(0, 1.5, n_values)))

    def drawn(n: int) -> Rows:
        values = draws.integers(0, n_values, n)
        chance = chances[values]
        return {"V": values, "O": (draws.random(n) < chance).astype(float), KNOWN: chance}

    owners = np.repeat(np.arange(n_devices), OF_A_DEVICE)
    return DeviceTask(f"{n_values} values", fixed, drawn(len(owners)), owners, drawn(n_test))


def ad_clicks(log: clicks.Clicks, buckets: int = 64) -> DeviceTask:
    """Clicks on ads, each category hashed to `buckets`: a row is a device, and the last fifth of them is to test."""
    fixed = {
        "features": [Hashed(column, buckets) for column in log.categories],
        "label": Numeric(clicks.LABEL, 0, 1),
        "link": "logistic",
    }
    n_rows = len(log.rows) - len(log.rows) // 5

    def rows(some: slice) -> Rows:
        return {
            column: log.rows[column].to_numpy()[some].tolist() for column in (*log.categories, clicks.LABEL)
        }

    return DeviceTask(log.name, fixed, rows(slice(n_rows)), np.arange(n_rows), rows(slice(n_rows, None)))
