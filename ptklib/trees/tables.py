"""The released table of trees: one row per node, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ptklib.arrays import Floats
from ptklib.exceptions import CorruptStateError
from ptklib.state import TableSchema
from ptklib.trees.binning import Feature
from ptklib.trees.structure import Trees

TREES = "trees"
_TREE, _NODE, FEATURE, _THRESHOLD, _LEFT, _RIGHT = "tree", "node", "feature", "threshold", "left", "right"
STRUCTURE = (_TREE, _NODE, FEATURE, _THRESHOLD, _LEFT, _RIGHT)
NO_CHILD = -1


def schema(columns: Sequence[str]) -> TableSchema:
    """Return the columns of the table; `columns` are what a family says of a node."""
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.int64())
    structure = TableSchema.of(dict(zip(STRUCTURE, kinds, strict=True)), columns)
    return replace(structure, keys=(_TREE, _NODE))


def known_columns(n_trees: int, depth: int) -> dict[str, Any]:
    """Return the columns that follow from parameters: trees are complete, whatever the data are."""
    n_nodes, n_inner = 2 ** (depth + 1) - 1, 2**depth - 1
    node = np.tile(np.arange(n_nodes), n_trees)
    inner = node < n_inner
    return {
        _TREE: pa.array(np.repeat(np.arange(n_trees), n_nodes)),
        _NODE: pa.array(node),
        _LEFT: pa.array(np.where(inner, 2 * node + 1, NO_CHILD)),
        _RIGHT: pa.array(np.where(inner, 2 * node + 2, NO_CHILD)),
    }


def to_table(trees: Trees, features: Sequence[Feature], columns: Mapping[str, Floats]) -> Any:
    """Return the table of `trees`; each of `columns` has shape (n_trees, n_nodes)."""
    n_trees, n_inner = trees.splits.shape
    looked = trees.node_features()
    names = np.full((n_trees, 2 * n_inner + 1), "", dtype=object)
    thresholds = np.zeros(names.shape)
    for place, feature in enumerate(features):
        tree, node = np.nonzero(looked == place)
        names[tree, node] = feature.name
        thresholds[tree, node] = feature.thresholds[trees.splits[tree, node] - 1]
    data = {
        **known_columns(n_trees, trees.depth),
        FEATURE: pa.array(names.reshape(-1).tolist(), type=pa.string()),
        _THRESHOLD: thresholds.reshape(-1),
        **{name: np.asarray(values, dtype=np.float64).reshape(-1) for name, values in columns.items()},
    }
    return pa.table(data, schema=schema(list(columns)).schema)


def trees_of(table: Any, features: Sequence[Feature], n_trees: int) -> Trees:
    """Return the trees a table was made of.

    Raises
    ------
    CorruptStateError
        When a split is not at a public threshold of its feature.
    """
    n_inner = (len(table) // n_trees - 1) // 2
    names = np.asarray(table.column(FEATURE).to_pylist(), dtype=object).reshape(n_trees, -1)
    thresholds = table.column(_THRESHOLD).to_numpy().reshape(n_trees, -1)
    inner, at = names[:, :n_inner], thresholds[:, :n_inner]
    looked, splits = np.full(inner.shape, -1, dtype=np.int64), np.ones(inner.shape, dtype=np.int64)
    for place, feature in enumerate(features):
        here = inner == feature.name
        split = np.clip(np.searchsorted(feature.thresholds, at[here]), 0, feature.n_bins - 1)
        looked[here] = np.where(feature.thresholds[split] == at[here], place, -1)
        splits[here] = split + 1
    depth = (n_inner + 1).bit_length() - 1
    trees = Trees(looked[:, 2 ** np.arange(depth) - 1], splits)
    if (looked < 0).any() or (names[:, n_inner:] != "").any() or thresholds[:, n_inner:].any():
        raise CorruptStateError("the trees split where no public threshold is")
    if (trees.node_features() != looked).any():
        raise CorruptStateError("nodes of one level split by different features")
    return trees


def column(table: Any, name: str, n_trees: int) -> Floats:
    """Return one column, of shape (n_trees, n_nodes)."""
    return np.asarray(table.column(name).to_numpy(), dtype=np.float64).reshape(n_trees, -1)
