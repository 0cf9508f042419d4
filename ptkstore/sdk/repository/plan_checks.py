"""Families of the library with a team's parameters, held against the contract and audited on synthetic rows."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

from ptklib.canonical_json import canonical_json
from ptklib.exceptions import InvalidParameterError
from ptkstore.domain.ptks.bundles import AUDIT_RUNS
from ptkstore.domain.ptks.ptks import is_averaged

if TYPE_CHECKING:
    from ptklib.checks.contract import Case
    from ptkstore.ports.team_code import Examined

RUNS, FEW_RUNS = 300, 100
"""Trainings of an audit, and of one that takes long: both see noise that is missing, neither half of it."""

SECONDS_EACH = 3.0
"""How long the checks of one PTK may take before those that follow are left out."""

SECONDS = 30.0
"""How long all audits of a plan may take together, each as much as the others."""

_SHOWN = 5

_OF_CENTRAL_LOSSES = frozenset(
    {"check_event_is_what_was_drawn", "check_loss_is_declared_before_data", "check_shards_merge"}
)
"""What is not so of a model that devices train: its loss is that of one report, and `fit` stands for many of them.

Nor is there an audit: it compares datasets with one row more or less, which a local loss does not promise to hide.
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the checks: `passed`, `partly`, `failed` or `not-run`, and how many there were or why.

    `partly`: none failed, and some did not run, as they take too long.
    """

    status: str
    reason: str


class FamilyChecks:
    """The checks of one plan; equal estimators are checked once.

    They run as long as there is time, and say which did not run.

    Parameters
    ----------
    audit : bool
        Whether outputs on neighbouring datasets are compared with the declared loss, too.
    n_ptks : int
        How many PTKs are to be checked.
    clock : callable
        Seconds that only grow.
    """

    def __init__(self, *, audit: bool, n_ptks: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._audit, self._clock = audit, clock
        self._left, self._n_left = SECONDS, n_ptks
        self._known: dict[str, Checked] = {}

    def of(self, spec: Mapping[str, Any]) -> Checked:
        """Check the family that a spec names with the parameters that it has."""
        key = canonical_json(spec)
        if key not in self._known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of synthetic rows at the ends of their columns
                self._known[key] = self._checked(json.loads(key))
        self._n_left -= 1
        return self._known[key]

    def _checked(self, spec: Mapping[str, Any]) -> Checked:
        from ptklib.checks.contract import CONTRACT, Case
        from ptklib.spec import estimator_from_spec

        case, began = Case(estimator_from_spec(spec)), self._clock()
        try:
            assert len(case.rows)
        except InvalidParameterError:
            return Checked(
                "not-run", "its parameters do not say which values a column has: no rows can be made up"
            )
        failures, made, runs = [], 0, 0
        local = is_averaged(spec)
        checks = [one for one in CONTRACT if not (local and one.__name__ in _OF_CENTRAL_LOSSES)]
        for check in checks:
            if self._clock() - began > SECONDS_EACH:
                break
            made += 1
            if (why := _failure(case, check)) is not None:
                failures.append(f"{check.__name__}: {why}")
        text = (
            f"{made} checks" if made == len(checks) else f"{made} of {len(checks)} checks, as they take long"
        )
        if not failures and self._audit and not local:
            contradiction, runs = self._audited(case)
            text += f", an audit of {runs} trainings" if runs else ", no audit, as it would take too long"
            failures += [] if contradiction is None else [contradiction]
        if failures:
            more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
            return Checked("failed", "; ".join(failures[:_SHOWN]) + more)
        audited = self._audit and not local
        whole = made == len(checks) and (runs == RUNS or not audited)
        status = "passed" if whole else "partly"
        return Checked(status, text if audited else f"{text}, without {'an' if local else 'the'} audit")

    def _audited(self, case: Case) -> tuple[str | None, int]:
        """A contradiction of the declared loss, if there is one, and the trainings of the last audit."""
        from ptklib.checks.suite import check_audit_stays_below_epsilon

        began = self._clock()
        case.fitted()
        expected = FEW_RUNS * (self._clock() - began)  # at least: a run trains, and computes what is likely
        made, allowed = 0, min(SECONDS_EACH, self._left / max(self._n_left, 1))
        for runs in (FEW_RUNS, RUNS):
            if expected > allowed:
                break
            began = self._clock()
            why = _failure(case, partial(check_audit_stays_below_epsilon, runs=runs))
            took = self._clock() - began
            self._left -= took
            made, expected = runs, took * RUNS / FEW_RUNS
            if why is not None:
                return f"check_audit_stays_below_epsilon: {why}", made
        return None, made


def _failure(case: Case, check: Callable[[Case], None]) -> str | None:
    try:
        check(case)
    except SkipTest:
        return None
    except Exception as error:  # noqa: BLE001 - whatever an estimator raises is the finding
        return str(error) or type(error).__name__
    return None


def checks_text(examined: Examined, *, audit: bool) -> str:
    """Return how many checks team code passed, and how far an audit of so few runs could see."""
    status = {one.check: one.status for one in examined.findings}
    passed = sum(one.status == "passed" for one in examined.findings)
    passing = f"{passed} checks"
    if not audit:
        return f"{passing}, without the audit"
    sees = status.get("check_audit_sees_half_the_noise") == "passed"
    return f"{passing}, an audit of {AUDIT_RUNS} trainings{', which half the noise would have failed' if sees else ''}"
