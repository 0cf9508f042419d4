"""The conformance suite: scikit-learn's checks, the contract of a PTK, and the audit of its noise."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from unittest import SkipTest

from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from ptklib.base import DPEstimator
from ptklib.checks.arrays import array_form
from ptklib.checks.audit import at_audit_budget, audit, twin
from ptklib.checks.contract import CONTRACT, Case, require
from ptklib.checks.expected import RANDOM, expected_failures
from ptklib.exceptions import InvalidParameterError

AUDIT_RUNS = 2_500

Check = Callable[[Any], None]
Status = Literal["passed", "failed", "skipped", "xfail"]


@dataclass(frozen=True, eq=False)
class CheckResult:
    """How one check went.

    Parameters
    ----------
    status : "passed", "failed", "skipped" or "xfail"
    reason : str
        Why it failed, was skipped, or was expected to fail.
    """

    name: str
    status: Status
    reason: str = ""
    exception: Exception | None = None


@dataclass(frozen=True, eq=False)
class NamedCheck:
    """A check under its name; call it with the estimator, as scikit-learn's are called."""

    name: str
    run: Check
    expected: str | None = None
    """Why it is expected to fail, if it is."""

    @property
    def strict(self) -> bool:
        """Whether it must fail then; what fails by chance may also pass."""
        return self.expected is not None and not self.expected.startswith(RANDOM)

    def __call__(self, estimator: Any) -> None:
        """Run the check."""
        self.run(estimator)


def check_audit_stays_below_epsilon(case: Case, *, runs: int) -> None:
    """Check that outputs on neighbouring synthetic datasets do not contradict the declared loss."""
    estimator = at_audit_budget(case.estimator)
    outcome = audit(estimator, runs=runs, columns=case.columns)
    require(
        outcome.verdict == "consistent",
        f"{outcome.runs} runs prove epsilon >= {outcome.lower_bound:.3f} at {outcome.confidence:.1%}, declared is "
        f"{outcome.epsilon:g} ({outcome.neighbours}): noise is missing or a sensitivity is too small",
    )


def check_audit_sees_half_the_noise(case: Case, *, runs: int) -> None:
    """Check that the same audit contradicts a twin with half the noise: it could have seen a fault of that size."""
    estimator = at_audit_budget(case.estimator)
    outcome = audit(twin(estimator), runs=runs, declared=estimator.declared_loss(), columns=case.columns)
    require(
        outcome.verdict == "contradicted",
        f"{outcome.runs} runs of a twin with half the noise prove only epsilon >= {outcome.lower_bound:.3f} against "
        f"{outcome.epsilon:g}: a passed audit says little of this estimator; try more runs",
    )


AUDITS: tuple[Callable[..., None], ...] = (check_audit_stays_below_epsilon, check_audit_sees_half_the_noise)


def sklearn_checks(
    estimator: Any, reasons: Mapping[str, str] | None = None
) -> Iterator[tuple[Any, NamedCheck]]:
    """Yield the array form of an estimator and a check of scikit-learn, for each check, called ``sklearn_check_...``.

    Parameters
    ----------
    estimator : DPEstimator
    reasons : mapping of check to reason, optional
        Failures that are right for this estimator, beside those every estimator of this library has.
    """
    numbered = array_form(estimator)
    usual = {f"sklearn_{name}": reason for name, reason in expected_failures(numbered).items()}
    expected = usual | dict(reasons or {})
    for instance, check in estimator_checks_generator(numbered):
        name = f"sklearn_{_name(check)}"
        yield instance, NamedCheck(name, check, expected.get(name))


def ptk_checks(
    estimator: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    expected_failed_checks: Mapping[str, str] | None = None,
    runs: int = AUDIT_RUNS,
) -> Iterator[tuple[Any, NamedCheck]]:
    """Yield an estimator and a check of it, for each check.

    Parameters
    ----------
    estimator : DPEstimator
        An instance; its parameters choose the configuration that is checked. It is not fitted.
    columns : mapping of column to values or (low, high), optional
        Public facts of columns whose parameters are not called as in this library: ``domains``, ``bounds``,
        ``max_norm``, ``classes``, ``label_bounds``. ``"y"`` is the name for the `y` of `fit`.
    expected_failed_checks : mapping of check to reason, optional
        Failures that are right for this estimator, beside those every estimator of this library has; checks of
        scikit-learn are called ``sklearn_check_...``. A check
        that passes all the same is a failure, unless its reason begins with "the output is random".
    runs : int, default 2500
        Trainings per audit; 0 leaves the audits out.

    Raises
    ------
    InvalidParameterError
        For anything but an instance of `DPEstimator`, and for an expected failure of a check there is not.

    Notes
    -----
    scikit-learn's checks are run on `array_form` of the estimator, the audits at `at_audit_budget`; the
    other checks on the estimator as it is.
    """
    if isinstance(estimator, type) or not isinstance(estimator, DPEstimator):
        raise InvalidParameterError("give an instance of a DPEstimator")
    own = dict(expected_failed_checks or {})
    checks = list(sklearn_checks(estimator, own))
    case = Case(clone(estimator), columns)
    ours = [(_name(check), _on(case, check)) for check in CONTRACT]
    audits = [(_name(check), _on(case, partial(check, runs=runs))) for check in AUDITS]
    unknown = sorted(set(own) - {check.name for _, check in checks} - {name for name, _ in (*ours, *audits)})
    if unknown:
        raise InvalidParameterError(f"there is no check called {', '.join(unknown)}")
    yield from checks
    for name, check in ours + audits if runs else ours:
        yield estimator, NamedCheck(name, check, own.get(name))


def check_ptk_estimator(
    estimator: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    expected_failed_checks: Mapping[str, str] | None = None,
    runs: int = AUDIT_RUNS,
    on_fail: Literal["raise"] | None = "raise",
) -> list[CheckResult]:
    """Check that an estimator keeps the contract of a PTK.

    Parameters
    ----------
    estimator, columns, expected_failed_checks, runs
        As for `ptk_checks`.
    on_fail : "raise" or None
        Whether the first failure is raised; with None all checks are run, and the answer tells.

    Raises
    ------
    AssertionError
        With the name of the check that failed.
    """
    results = []
    checks = ptk_checks(estimator, columns=columns, expected_failed_checks=expected_failed_checks, runs=runs)
    for instance, check in checks:
        result = _run(instance, check)
        if result.status == "failed" and on_fail == "raise":
            name = type(estimator).__name__
            raise AssertionError(f"{name} fails {check.name}: {result.reason}") from result.exception
        results.append(result)
    return results


def parametrize_with_ptk_checks(
    estimators: Iterable[Any],
    *,
    columns: Mapping[str, Any] | None = None,
    expected_failed_checks: Callable[[Any], Mapping[str, str]] | None = None,
    runs: int = AUDIT_RUNS,
) -> Any:
    """Return a pytest decorator that makes one test of each check of each estimator.

    Parameters
    ----------
    estimators : iterable of DPEstimator
    columns, runs
        As for `ptk_checks`.
    expected_failed_checks : callable, optional
        Gets an estimator, returns reasons by check. They become strict expected failures.

    Examples
    --------
    >>> from ptklib import HistoricalStatistics
    >>> from ptklib.checks import parametrize_with_ptk_checks
    >>> speed = HistoricalStatistics(domains={"hour": range(24)}, bounds={"speed": (0, 60)}, epsilon=1)
    >>> @parametrize_with_ptk_checks([speed])
    ... def test_our_ptk(estimator, check):
    ...     check(estimator)
    """
    import pytest

    parameters = []
    for estimator in estimators:
        expected = expected_failed_checks(estimator) if expected_failed_checks else None
        for instance, check in ptk_checks(
            estimator, columns=columns, expected_failed_checks=expected, runs=runs
        ):
            marks = [pytest.mark.xfail(reason=check.expected, strict=check.strict)] if check.expected else []
            label = f"{type(estimator).__name__}-{check.name}"
            parameters.append(pytest.param(instance, check, marks=marks, id=label))
    return pytest.mark.parametrize(("estimator", "check"), parameters)


def _run(estimator: Any, check: NamedCheck) -> CheckResult:
    try:
        check(estimator)
    except SkipTest as skipped:
        return CheckResult(check.name, "skipped", str(skipped), skipped)
    except Exception as error:  # noqa: BLE001 - whatever a team's estimator raises is the finding
        if check.expected is not None:
            return CheckResult(check.name, "xfail", check.expected, error)
        return CheckResult(check.name, "failed", str(error) or type(error).__name__, error)
    if check.strict:
        return CheckResult(check.name, "failed", f"expected to fail, but passes: {check.expected}")
    return CheckResult(check.name, "passed")


def _on(case: Case, check: Callable[..., None]) -> Check:
    return lambda _: check(case)


def _name(check: Any) -> str:
    while isinstance(check, partial):
        check = check.func
    return str(check.__name__)
