"""Conformance suite and privacy audit: check any PTK estimator, also a team's own."""

from ptklib.checks.audit import Audit, Examination, at_audit_budget, audit, examine, twin
from ptklib.checks.bounds import epsilon_lower_bound
from ptklib.checks.suite import (
    CheckResult,
    check_ptk_estimator,
    parametrize_with_ptk_checks,
    ptk_checks,
    sklearn_checks,
)

__all__ = [
    "Audit",
    "CheckResult",
    "Examination",
    "at_audit_budget",
    "audit",
    "check_ptk_estimator",
    "epsilon_lower_bound",
    "examine",
    "parametrize_with_ptk_checks",
    "ptk_checks",
    "sklearn_checks",
    "twin",
]
