"""How the values of each feature are named: declared, hashed into buckets, or selected at a price."""

from collections.abc import Mapping, Sequence
from typing import Any

from ptklib.counts.selected import SelectedKeys
from ptklib.domains import Domain, product_size
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.hashing import HashedDomain
from ptklib.names import check_columns, refuse_duplicates
from ptklib.tables import listed

Feature = Domain | HashedDomain | SelectedKeys


def feature_names(estimator: Any, label: str | None) -> tuple[str, ...]:
    """Return the feature columns in the order of their tables, each named in one of three ways.

    Parameters
    ----------
    estimator : CountFeaturizer
        Only its parameters are read.
    label : str or None
        The label's column, which is no feature.
    """
    e = estimator
    named: list[str] = []
    for role, source in (("domains", e.domains), ("hash_buckets", e.hash_buckets), ("select", e.select)):
        if source is None or (role == "hash_buckets" and _is_number(source)):
            continue
        if not isinstance(source, Mapping):
            raise InvalidDomainError(f"{role} must map feature columns to {_MEANING[role]}")
        named += check_columns(source, role)
    refuse_duplicates(named, "domains, hash_buckets and select together")
    if e.features is None:
        if _is_number(e.hash_buckets):
            raise InvalidDomainError("hash_buckets for all other features needs the names in features")
        columns = tuple(named)
    else:
        columns = check_columns(e.features, "features")
    _check_declared(columns, named, everything=_is_number(e.hash_buckets))
    if label is not None:
        refuse_duplicates((*columns, label), "features and label")
    return columns


def _check_declared(columns: Sequence[str], named: Sequence[str], *, everything: bool) -> None:
    """Refuse undeclared features, and declared columns that are no features; `everything` hashes the rest."""
    missing = [name for name in columns if name not in named]
    other = [name for name in named if name not in columns]
    faults = []
    if not columns:
        faults.append("name at least one")
    if missing and not everything:
        faults.append(f"add {listed(missing)}")
    if other:
        faults.append(f"{listed(other)} not in features: add there, or remove here")
    if everything and not missing:
        faults.append("hash_buckets is one number, which is for other features, and there are none")
    if faults:
        raise InvalidDomainError(
            "each column of features must be declared in domains, hash_buckets or select: "
            + "; ".join(faults)
        )


def read_features(estimator: Any, columns: tuple[str, ...], n_classes: int) -> tuple[Feature, ...]:
    """Return what each feature column is keyed by, refusing tables that are too large."""
    features = tuple(_read_feature(estimator, name) for name in columns)
    for feature in features:
        product_size((feature,), n_classes)
    return features


def features_of(estimator: Any, n_classes: int) -> tuple[Feature, ...]:
    """Return the features of an estimator of counts, from its parameters."""
    return read_features(estimator, feature_names(estimator, estimator.label), n_classes)


def key_column(feature: Feature) -> str:
    """Return the name of the key column of a feature's table."""
    return feature.key if isinstance(feature, HashedDomain) else feature.column


def _read_feature(e: Any, name: str) -> Feature:
    if e.domains is not None and name in e.domains:
        return Domain.of(name, e.domains[name])
    if e.select is not None and name in e.select:
        return SelectedKeys.of(name, e.select[name], e.max_values)
    width = e.hash_buckets[name] if isinstance(e.hash_buckets, Mapping) else e.hash_buckets
    return HashedDomain.of(name, width, e.hash_seed)


_MEANING = {
    "domains": "their public values",
    "hash_buckets": "a number of buckets, or be one number",
    "select": "the type of their values",
}


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        raise InvalidParameterError("hash_buckets must be an integer or map columns to integers")
    return value is not None and not isinstance(value, Mapping | str) and hasattr(value, "__index__")
