"""The specification of a model that devices train: public data, checked, with one text and one hash."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from math import floor, prod, sqrt
from typing import Any, Literal, Self

from ptklib.canonical_json import canonical_json
from ptklib.draw_discard.columns import Categorical, Coded, Column, Numeric, column_of
from ptklib.draw_discard.noise import Clip, Noise, noise_scale, noise_variance, promised_distance
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.names import refuse_duplicates
from ptklib.privacy import check_delta, check_epsilon
from ptklib.scalars import finite_number, whole_number

FORMAT = "draw-discard/1"

TEXT_BYTES_MAX = 2**20
"""Bytes of a text; a longer one is refused before it is parsed."""

COLUMNS_MAX = 1024
CROSSES_MAX = 256
CROSSED_MAX = 3
WEIGHTS_MAX = 2**16
CLASSES_MAX = 2**8
K_MAX = 1000
INSTANCES_MAX = 2**22
"""Weights of all instances together: a server reads them every second."""

GRID_BITS = (8, 30)

WEIGHT_MAX = 2**31 - 1
"""Largest absolute weight, in units of the grid."""

REACH_MIN, REACH_MAX = 2**10, 2**30
"""Units of the grid in the longest step: rounding moves a weight by one unit at most."""

NORM_UNITS = 2**20
"""Units in a gradient of 1."""

_CHOICES = {
    "link": ("linear", "logistic", "softmax"),
    "clip": ("l1", "l2", "coordinate"),
    "noise": ("laplace", "gaussian"),
}
_FITTING = 8.0
"""Deviations of an instance that weights must have room for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Specification:
    """The agreement of devices and server: model, clipping, noise and grid.

    Parameters
    ----------
    features : sequence of Numeric, Categorical or Hashed
        Weights are in this order. First an intercept. Then one for each numeric column, and one for each
        value or bucket of the others. Then one for each combination of values in each cross, the last column
        running fastest. A number in a cross multiplies what its other columns use; a cross of numbers alone
        has one weight.
    label : Numeric or Categorical
        The predicted column, between its bounds. For ``link="logistic"`` the bounds are 0 and 1. For
        ``link="softmax"`` it is a column of 2 to `CLASSES_MAX` values, the classes. Each class has all of the
        weights above, in its order.
    link : {"linear", "logistic", "softmax"}
    crosses : sequence of sequence of str
        Two or three columns of `features` each.
    clip : {"l1", "l2", "coordinate"}
        The quantity that is limited: the length of the whole gradient in L1 or L2, or each entry of it, as in
        the paper.
    max_norm : float
        The limit, for features and labels from 0 to 1.
    learning_rate : float
    noise : {"laplace", "gaussian"}
    epsilon : float
        Loss of one report: for the whole model with ``clip`` "l1" and "l2". With "coordinate" it is that of one
        weight; with Laplace noise the whole model loses up to `n_weights` times as much: see `report_loss`.
    delta : float
        0 for Laplace noise, positive for Gaussian noise.
    k : int
        Instances that the server keeps. A single one has no spread that could be a law: it wanders with each report.
    grid_bits : int
        Weights and noise are whole numbers of ``2**-grid_bits``.

    Raises
    ------
    InvalidParameterError
        When a field cannot be used, the model has more than `WEIGHTS_MAX` weights, or its instances have more
        than `INSTANCES_MAX` together. Also when the grid is too coarse for a step (`REACH_MIN`), weights of
        32 bits have no room for the noise, or the text is longer than `TEXT_BYTES_MAX`. PrivacyParameterError
        for epsilon and delta.

    Notes
    -----
    All is public. Specifications are equal if they have the same `text`, and so the same `digest`. Weights have room
    for the spread of instances, and for their mean to wander for a while: docs/proofs/draw_discard.md, "Instances".

    References
    ----------
    .. [1] Differentially-Private "Draw and Discard" Machine Learning, sections III-B and III-C.
    """

    features: Sequence[Column]
    label: Numeric | Categorical
    epsilon: float
    link: Literal["linear", "logistic", "softmax"] = "logistic"
    crosses: Sequence[Sequence[str]] = ()
    clip: Clip = "l1"
    max_norm: float = 1.0
    learning_rate: float = 0.001
    noise: Noise = "laplace"
    delta: float = 0.0
    k: int = 20
    grid_bits: int = 24

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise InvalidParameterError(f"{name} must be one of {', '.join(choices)}")
        checked = {
            "features": _columns(self.features),
            "crosses": _crosses(self.crosses, self.features),
            "epsilon": check_epsilon(self.epsilon),
            "delta": check_delta(self.delta) + 0.0,  # -0.0 has another text
            "max_norm": _positive(self.max_norm, "max_norm"),
            "learning_rate": _positive(self.learning_rate, "learning_rate"),
            "k": whole_number(self.k, "k", 1, K_MAX),
            "grid_bits": whole_number(self.grid_bits, "grid_bits", *GRID_BITS),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not isinstance(self.label, Categorical if self.link == "softmax" else Numeric):
            kind = "Categorical" if self.link == "softmax" else "Numeric"
            raise InvalidParameterError(f"the label of a {self.link} model must be a {kind} column")
        if isinstance(self.label, Categorical) and not 2 <= len(self.label) <= CLASSES_MAX:
            raise InvalidParameterError(f"a softmax model has 2 to {CLASSES_MAX} classes")
        if (
            isinstance(self.label, Numeric)
            and self.link == "logistic"
            and (self.label.low, self.label.high) != (0.0, 1.0)
        ):
            raise InvalidParameterError("a logistic model needs a label with the bounds 0 and 1")
        refuse_duplicates([*(f.column for f in self.features), self.label.column], "features and label")
        if self.n_weights > WEIGHTS_MAX:
            raise InvalidParameterError(f"the features make more than {WEIGHTS_MAX} weights")
        if self.k * self.n_weights > INSTANCES_MAX:
            raise InvalidParameterError(
                f"k instances of {self.n_weights} weights are more than {INSTANCES_MAX} numbers: take a smaller k"
            )
        if (self.noise == "gaussian") != (self.delta > 0):
            raise PrivacyParameterError("Gaussian noise needs delta > 0, and Laplace noise has delta 0")
        self._check_grid()
        if len(self.text.encode()) > TEXT_BYTES_MAX:
            raise InvalidParameterError(f"a specification has at most {TEXT_BYTES_MAX} bytes of text")

    def _check_grid(self) -> None:
        if not REACH_MIN <= self.reach <= REACH_MAX:
            raise InvalidParameterError(
                f"learning_rate * max_norm makes steps of {self.reach} units of the grid, which must be {REACH_MIN} to "
                f"{REACH_MAX}: change grid_bits, learning_rate or max_norm"
            )
        if _FITTING * sqrt(self.instance_variance) > WEIGHT_MAX:
            raise InvalidParameterError(
                "weights of 32 bits have no room for the noise: take fewer grid_bits, a smaller learning_rate, "
                "a smaller k or a larger epsilon"
            )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of weights of the intercept, of each feature, and of each cross; in each class."""
        of = {feature.column: len(feature) if isinstance(feature, Coded) else 1 for feature in self.features}
        return (1, *of.values(), *(prod(of[column] for column in cross) for cross in self.crosses))

    @cached_property
    def n_inputs(self) -> int:
        """Number of weights of each class."""
        return sum(self.sizes)

    @cached_property
    def n_scores(self) -> int:
        """Number of classes of a softmax model, otherwise 1."""
        return len(self.label) if isinstance(self.label, Categorical) else 1

    @cached_property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.n_inputs * self.n_scores

    @cached_property
    def limit(self) -> int:
        """Largest norm, or entry, of a clipped gradient, in units of ``1 / NORM_UNITS``."""
        return floor(self.max_norm * NORM_UNITS)

    @cached_property
    def reach(self) -> int:
        """Largest norm, or entry, of a step, in units of the grid: ``learning_rate * max_norm``, rounded down."""
        rate = floor(self.learning_rate * 2.0**self.grid_bits + 0.5)
        return rate * self.limit // NORM_UNITS

    @cached_property
    def distance(self) -> int:
        """Distance of two steps that `epsilon` is promised for, in units of the grid."""
        return promised_distance(self.clip, self.noise, self.reach, self.n_weights)

    @cached_property
    def noise_scale(self) -> float:
        """Scale of the noise of each weight, in units of the grid."""
        return noise_scale(self.noise, self.distance, self.epsilon, self.delta)

    @cached_property
    def noise_variance(self) -> float:
        """Variance of the noise of each weight, sigma**2, in squared units of the grid."""
        return noise_variance(self.noise, self.noise_scale)

    @cached_property
    def instance_variance(self) -> float:
        """Expected sample variance of the instances, ``k * sigma**2 / 2``, in squared units of the grid.

        References
        ----------
        .. [1] The paper, Theorem 1; docs/proofs/draw_discard.md, "Instances".
        """
        return self.k * self.noise_variance / 2

    def to_json(self) -> dict[str, Any]:
        """Return the specification as plain JSON values."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given | {
            "format": FORMAT,
            "features": [feature.to_json() for feature in self.features],
            "label": self.label.to_json(),
            "crosses": [list(cross) for cross in self.crosses],
        }

    @cached_property
    def text(self) -> str:
        """The canonical JSON text."""
        return canonical_json(self.to_json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Specification) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text in UTF-8, in hexadecimal digits."""
        return sha256(self.text.encode()).hexdigest()

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidParameterError
            When a field is missing, unknown or unusable.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(document, Mapping) or set(document) != names | {"format"}:
            raise InvalidParameterError(f"a specification has the fields format, {', '.join(sorted(names))}")
        if document["format"] != FORMAT:
            raise InvalidParameterError(f"the format of a specification must be {FORMAT!r}")
        given = {name: document[name] for name in names}
        for name in ("features", "crosses"):
            if not isinstance(given[name], list) or len(given[name]) > COLUMNS_MAX:
                raise InvalidParameterError(f"{name} must be a list of at most {COLUMNS_MAX}")
        given["features"] = tuple(column_of(feature) for feature in given["features"])
        given["label"] = column_of(given["label"])
        return cls(**given)

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """Read a text that somebody sent. It must be canonical: all who read it then have the same hash of it.

        Raises
        ------
        InvalidParameterError
            As `from_json`; and when the text is longer than `TEXT_BYTES_MAX`, is no JSON, names a field twice, or is
            not the `text` of its specification, byte for byte.
        """
        if not isinstance(text, str | bytes):
            raise InvalidParameterError("a specification is read from a text")
        octets = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        if len(octets) > TEXT_BYTES_MAX:
            raise InvalidParameterError(f"a specification has at most {TEXT_BYTES_MAX} bytes")
        try:
            document = json.loads(octets, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
        except InvalidParameterError:
            raise
        except (ValueError, RecursionError):
            raise InvalidParameterError("a specification must be JSON") from None
        found = cls.from_json(document)
        if octets != found.text.encode():
            raise InvalidParameterError(
                "the text of a specification must be canonical, with sorted fields, no spaces and numbers as Python "
                "writes them: send `text` of what `from_json` reads"
            )
        return found


def _columns(features: object) -> tuple[Column, ...]:
    if not isinstance(features, list | tuple) or not 1 <= len(features) <= COLUMNS_MAX:
        raise InvalidParameterError(f"features must be 1 to {COLUMNS_MAX} columns")
    if not all(isinstance(feature, Column) for feature in features):
        raise InvalidParameterError("each of features must be a Numeric, Categorical or Hashed column")
    return tuple(features)


def _crosses(crosses: object, features: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
    if not isinstance(crosses, list | tuple) or len(crosses) > CROSSES_MAX:
        raise InvalidParameterError(f"crosses must be a list of at most {CROSSES_MAX}")
    known = {feature.column for feature in features}
    found = []
    for cross in crosses:
        if not isinstance(cross, list | tuple) or not 2 <= len(cross) <= CROSSED_MAX:
            raise InvalidParameterError(f"a cross has 2 to {CROSSED_MAX} columns")
        if not all(isinstance(name, str) and name in known for name in cross) or len(set(cross)) < len(cross):
            raise InvalidParameterError("a cross names columns of features, each once")
        found.append(tuple(cross))
    if len({frozenset(cross) for cross in found}) < len(found):
        raise InvalidParameterError("crosses repeat a set of columns")
    return tuple(found)


def _positive(value: object, name: str) -> float:
    number = finite_number(value, name, InvalidParameterError)
    if not 2.0**-20 <= number <= 2.0**20:
        raise InvalidParameterError(f"{name} must be in [2**-20, 2**20]")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise InvalidParameterError("a specification names a field twice")
    return document


def _refuse_constant(name: str) -> Any:
    raise InvalidParameterError(f"a specification holds no {name}")
