"""Columns without a visible usable value in released trees: whether counts exceed their noise."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptklib.arrays import Floats
from ptklib.domains import stand_out
from ptklib.trees import tables
from ptklib.trees.binning import Feature
from ptklib.trees.structure import Trees

_LEAST_SHARE = 0.5
"""The rows that go right of a feature whose values match, in parts of those of even splits. If so few would not stand
out, the counts cannot tell whether values match."""


def unseen(
    table: Any, noise_std: Mapping[str, float], trees: Trees, features: Sequence[Feature], label: str | None
) -> tuple[str, ...]:
    """Return the columns of which no usable value can be seen; a function of released values alone.

    Parameters
    ----------
    noise_std : mapping of column to float
        The columns that count rows, or weigh them, and the noise in one leaf of each.
    features : sequence of Feature
        Those that the trees may look at.
    label : str or None
        The column of the label.

    Notes
    -----
    Values that are missing or outside a domain go left at every split. So of a feature that matches nothing,
    no row is seen to go right. Nor is one where all rows have first values of the domain. Features that no
    tree looks at are not reported, nor are numbers, which are often below all thresholds. Nor is a feature of
    which the counts could not tell: at the released number of rows, `_LEAST_SHARE` of them would not stand out.
    """
    n_inner = trees.splits.shape[1]
    counts = [tables.column(table, name, len(trees.splits))[:, n_inner:] for name in noise_std]
    leaves = np.add.reduce(counts)
    noise = float(np.sqrt(sum(std * std for std in noise_std.values())))
    if not stand_out(leaves[leaves != 0], noise):  # leaves that nothing was drawn for say 0
        names = tuple(feature.name for feature in features)
        return names if label is None else (*names, label)
    return tuple(
        feature.name
        for place, feature in enumerate(features)
        if feature.domain is not None
        and (trees.features == place).any()
        and not _goes_right(leaves, trees, place, noise)
    )


def _goes_right(leaves: Floats, trees: Trees, feature: int, noise: float) -> bool:
    """Return whether rows are seen that went right where trees look at a feature, or too few would be seen anyway."""
    levels = np.arange(trees.depth)[::-1, None]
    right = np.arange(leaves.shape[1]) >> levels & 1
    times = (trees.features == feature).astype(np.int64) @ right  # how often on the way to each leaf
    drawn = leaves != 0
    spread = np.broadcast_to(leaves.mean(axis=1, keepdims=True), leaves.shape)
    powerful = stand_out(spread[drawn] * _LEAST_SHARE, noise, times[drawn])
    return not powerful or stand_out(leaves[drawn], noise, times[drawn])
