"""The error of a release before it is made, over epsilon: from formulas, without data and without loss."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ptklib.displays import markup
from ptklib.displays.charts import CurveDisplay
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.closed_form import Facts, expected_error
from ptklib.profiling.subjects import check_epsilons
from ptklib.spec import estimator_from_spec

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class ErrorForecast:
    """Expected errors of one estimator for some numbers of rows and some epsilons.

    Parameters
    ----------
    family : str
    epsilons : tuple of float
    rows : tuple of int
    errors : tuple of tuple of float
        For each number of rows, the expected `error_from_true_value` at each epsilon, in [0, 1].
    """

    family: str
    epsilons: tuple[float, ...]
    rows: tuple[int, ...]
    errors: tuple[tuple[float, ...], ...]

    def plot(self, ax: Any = None) -> CurveDisplay:
        """Draw the error against epsilon, a line for each number of rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.

        Raises
        ------
        ModuleNotFoundError
            When matplotlib is not installed; the message says how to install it.
        """
        curves = {f"{n:,} rows": list(found) for n, found in zip(self.rows, self.errors, strict=True)}
        return CurveDisplay(self.epsilons, curves, "expected error", f"{self.family}: forecast").plot(ax)

    def _repr_html_(self) -> str:
        head = ["rows", *(f"epsilon {epsilon:g}" for epsilon in self.epsilons)]
        return markup.section(
            f"{self.family}: forecast", markup.table("Expected error, from 0 to 1", head, self._table())
        )

    def _table(self) -> Iterator[tuple[object, ...]]:
        for n, found in zip(self.rows, self.errors, strict=True):
            yield (n, *(float(f"{one:.2g}") for one in found))


def error_forecast(
    estimator: Any,
    *,
    rows: Sequence[int],
    epsilons: Sequence[float] = EPSILONS,
    facts: Facts | None = None,
) -> ErrorForecast:
    """Return the expected errors of an estimator for some numbers of rows and some epsilons.

    It reads no data and costs no privacy loss.

    Parameters
    ----------
    estimator : DPEstimator
        Its own epsilon is not read.
    rows : sequence of int
        Public numbers of rows, or guesses.
    epsilons : sequence of float
    facts : Facts, optional
        Public facts of the data; without any, the worst is assumed.

    Raises
    ------
    InvalidParameterError
        The family has no formula for its error: see `Profiler`. Or a number cannot be used.
    """
    asked = tuple(rows)
    if not asked:
        raise InvalidParameterError("rows must name at least one number of rows")
    grid, spec = tuple(check_epsilons(epsilons)), estimator.to_spec()
    at = [estimator_from_spec(spec).set_params(epsilon=epsilon) for epsilon in grid]
    errors = tuple(tuple(expected_error(one, n, facts) for one in at) for n in asked)
    return ErrorForecast(type(estimator).__name__, grid, asked, errors)
