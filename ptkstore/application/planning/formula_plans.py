"""Plan by formula: rows that are expected to reach a target, given what a PTK's last version tells of the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ptklib.canonical_json import canonical_json
from ptklib.exceptions import InvalidParameterError, PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.domain.ptks.ptks import PtkSpec, ReleasedFacts, by_formula, same_model
from ptkstore.domain.streams.blocks import BlockRange, groups_behind, groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import CatalogView

if TYPE_CHECKING:
    from ptklib.profiling import Facts

GRID_POINTS = 16
ANY_ROWS = 10**12

Menu = tuple[tuple[float, int], ...]
"""Pairs of epsilon and rows."""


def has_formula(estimator: Mapping[str, Any]) -> bool:
    """Tell whether the error of an estimator follows from epsilon and rows, once enough is known of the data."""
    try:
        _error_of(estimator_from_spec(estimator), _probe())
    except PtklibError:
        return False
    return True


def with_facts(uow: CatalogView, specs: Iterable[PtkSpec], policy: Policy) -> tuple[PtkSpec, ...]:
    """Return the PTKs, those that are profiled by formula with what their last version tells of the data.

    A version tells nothing of another model, of rows of other blocks, or if it was made before versions told anything.
    Its facts are made of its released state alone, so that plans may depend on them.
    """
    return tuple(_with_facts(uow, spec, policy) if by_formula(spec) else spec for spec in specs)


def _with_facts(uow: CatalogView, spec: PtkSpec, policy: Policy) -> PtkSpec:
    version = uow.versions.latest(spec.ptk_id)
    if version is None or not _has_facts_for(version, spec, policy):
        return spec
    return replace(spec, facts=ReleasedFacts(version.number, version.content["facts"]))


def _has_facts_for(version: Version, spec: PtkSpec, policy: Policy) -> bool:
    content = version.content
    if not isinstance(content.get("facts"), Mapping) or not same_model(content["config"], spec.estimator):
        return False
    newest = content["blocks"][-1]
    blocks = BlockRange(newest["number"], newest.get("last", newest["number"]) + 1)
    return groups_behind(policy, blocks) == groups_where(policy, spec.config.get("where"))


def grid_of(span: tuple[float, float]) -> tuple[float, ...]:
    """Return the epsilons of a range that are planned with."""
    low, high = span
    return tuple(np.unique(np.geomspace(low, high, GRID_POINTS).clip(low, high)).tolist())


def formula_menu(spec: PtkSpec, span: tuple[float, float], rows: int) -> Menu | None:
    """Return epsilons and rows that reach the target, at most `rows`; None if nothing can be said without facts.

    Raises
    ------
    InvalidRequest
        The estimator has no formula, or the target is none that it could keep to.
    """
    text = canonical_json(spec.estimator)
    if spec.facts is not None:
        menu = _menu(text, spec.target, span, rows, canonical_json(spec.facts.facts))
        if menu is not None:
            return menu
    return _menu(text, spec.target, span, rows, None)


@lru_cache(maxsize=1024)
def _menu(
    estimator_json: str, target: float, span: tuple[float, float], rows: int, facts_json: str | None
) -> Menu | None:
    from ptklib.profiling import formula_profile  # loads every family that has a formula

    def menu(facts: Facts | None) -> Menu:
        choices: Menu = formula_profile(
            estimator, target=target, epsilons=grid_of(span), rows=rows, facts=facts
        ).menu()
        return choices

    try:
        estimator = estimator_from_spec(json.loads(estimator_json))
        _error_of(estimator, _probe())
    except PtklibError as error:
        raise InvalidRequest(f"epsilons need a family that can be profiled by a formula: {error}") from error
    try:
        menu(_probe())
    except PtklibError as error:  # the target is out of range
        raise InvalidRequest(f"with epsilons a PTK is planned by a formula: {error}") from error
    try:
        return menu(_facts(facts_json))
    except InvalidParameterError:  # it needs facts, or these are of no use
        return None


def least_target(spec: PtkSpec, span: tuple[float, float], rows: int) -> float | None:
    """Return the tightest target that so many rows reach at the greatest epsilon; None if nothing can be said."""
    try:
        estimator = estimator_from_spec(spec.estimator).set_params(epsilon=span[1])
        facts = None if spec.facts is None else canonical_json(spec.facts.facts)
        return _error_of(estimator, _facts(facts), rows)
    except PtklibError:
        return None


def _facts(facts_json: str | None) -> Facts | None:
    from ptklib.profiling import facts_from

    return None if facts_json is None else facts_from(json.loads(facts_json))


def _probe() -> Facts:
    """Facts with which every family that has a formula has one."""
    from ptklib.profiling import Facts

    return Facts(total_variance=1.0)


def _error_of(estimator: Any, facts: Facts | None, rows: int = 1) -> float:
    from ptklib.profiling import expected_error

    return float(expected_error(estimator, rows, facts))
