"""How the values of each feature are named: declared, hashed into buckets, or selected at a price."""

from collections.abc import Mapping
from typing import Any

from ptklib.counts.selected import SelectedKeys
from ptklib.domains import Domain, product_size
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.hashing import HashedDomain
from ptklib.names import check_columns, refuse_duplicates

Feature = Domain | HashedDomain | SelectedKeys


def feature_names(
    features: Any, domains: Any, hash_buckets: Any, select: Any, label: str | None
) -> tuple[str, ...]:
    """Return the feature columns in the order of their tables, each named in one of three ways.

    Parameters
    ----------
    features, domains, hash_buckets, select
        As `CountFeaturizer` is given them.
    label : str or None
        The label's column, which is no feature.
    """
    named: list[str] = []
    for role, source in (("domains", domains), ("hash_buckets", hash_buckets), ("select", select)):
        if source is None or (role == "hash_buckets" and _is_number(source)):
            continue
        if not isinstance(source, Mapping):
            raise InvalidDomainError(f"{role} must map feature columns to {_MEANING[role]}")
        named += check_columns(source, role)
    refuse_duplicates(named, "domains, hash_buckets and select together")
    if features is None:
        if _is_number(hash_buckets):
            raise InvalidDomainError("hash_buckets for all other features needs the names in features")
        columns = tuple(named)
    else:
        columns = check_columns(features, "features")
    others = set(columns) - set(named)
    if not columns or not set(named) <= set(columns) or bool(others) != _is_number(hash_buckets):
        raise InvalidDomainError(
            "each column of features, at least one, must be declared in domains, hash_buckets or select, "
            "and no other"
        )
    if label is not None:
        refuse_duplicates((*columns, label), "features and label")
    return columns


def read_features(
    columns: tuple[str, ...],
    domains: Any,
    hash_buckets: Any,
    hash_seed: Any,
    select: Any,
    max_values: Any,
    n_classes: int,
) -> tuple[Feature, ...]:
    """Return what each feature column is keyed by, refusing tables that are too large.

    Parameters
    ----------
    columns : tuple of str
        From `feature_names`.
    domains, hash_buckets, hash_seed, select, max_values
        As `CountFeaturizer` is given them.
    """
    return tuple(
        _read_feature(name, domains, hash_buckets, hash_seed, select, max_values, n_classes)
        for name in columns
    )


def key_column(feature: Feature) -> str:
    """Return the name of the key column of a feature's table."""
    return feature.key if isinstance(feature, HashedDomain) else feature.column


def _read_feature(
    name: str, domains: Any, hash_buckets: Any, hash_seed: Any, select: Any, max_values: Any, n_classes: int
) -> Feature:
    feature: Feature
    if domains is not None and name in domains:
        feature = Domain.of(name, domains[name])
    elif select is not None and name in select:
        feature = SelectedKeys.of(name, select[name], max_values)
    else:
        width = hash_buckets[name] if isinstance(hash_buckets, Mapping) else hash_buckets
        feature = HashedDomain.of(name, width, hash_seed)
    product_size((feature,), n_classes)
    return feature


_MEANING = {
    "domains": "their public values",
    "hash_buckets": "a number of buckets, or be one number",
    "select": "the type of their values",
}


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        raise InvalidParameterError("hash_buckets must be an integer or map columns to integers")
    return value is not None and not isinstance(value, Mapping | str) and hasattr(value, "__index__")


def features_of(estimator: Any, n_classes: int) -> tuple[Feature, ...]:
    """Return the features of an estimator of counts, from its parameters."""
    e = estimator
    names = feature_names(e.features, e.domains, e.hash_buckets, e.select, e.label)
    return read_features(names, e.domains, e.hash_buckets, e.hash_seed, e.select, e.max_values, n_classes)
