"""Expected error of a covariance matrix, from the sampling of rows and the scales of the noise."""

import math
from collections.abc import Callable

from ptklib.covariance import CovarianceMatrix
from ptklib.events import DiscreteGaussian, Noise
from ptklib.exceptions import InvalidParameterError
from ptklib.gram import Block, block_of
from ptklib.profiling.closed_form.facts import Facts


def covariance_error(estimator: CovarianceMatrix, facts: Facts) -> Callable[[float], float]:
    """Return the expected `error_from_true_value` as a function of the number of rows.

    Raises
    ------
    InvalidParameterError
        Without a total variance: the error is relative to the size of the matrix.

    Notes
    -----
    Take standardised rows x of norm r or less with mean m and a covariance of trace t. The squared Frobenius
    error of the covariance is, in expectation over n rows and the noise, at most

    - ``(r + |m|)**2 t / n`` from sampling (``|x - m|**4`` has mean at most that);
    - ``(p V_diagonal + p (p - 1) V_beside + 2 (p + 1) |m|**2 V_sum + r**4 V_count) / n**2`` from the noise of products,
      sums and count, p the number of columns.

    The error is its root over the Frobenius norm of the matrix, at least ``t / sqrt(p)``. Reading with a settled
    spectrum does not make it larger on average, so this is an upper estimate.
    """
    if not facts.total_variance:
        raise InvalidParameterError("the error of a covariance is relative: give Facts(total_variance=...)")
    trace, reach = facts.total_variance, standard_block(estimator).limit
    mean = math.sqrt(max(reach**2 - trace, 0.0)) if facts.mean_norm is None else facts.mean_norm
    norm = (
        trace / math.sqrt(len(standard_block(estimator).names))
        if facts.frobenius is None
        else facts.frobenius
    )
    sampling, noise = _squares(estimator, trace, mean)

    def error(n: float) -> float:
        return min(math.sqrt(sampling / n + noise / (n * n)) / norm, 1.0)

    return error


def matrix_error(
    estimator: CovarianceMatrix, trace: float, mean: float, rows: float, releases: float = 1.0
) -> float:
    """Return the expected error in the Frobenius norm, of the sum of so many releases of like noise.

    Parameters
    ----------
    trace, mean : float
        Of the covariance, and the norm of the mean, in half widths.
    """
    sampling, noise = _squares(estimator, trace, mean)
    return math.sqrt(sampling / rows + releases * noise / (rows * rows))


def mean_error(estimator: CovarianceMatrix, trace: float, rows: float, releases: float = 1.0) -> float:
    """Return the expected error of the mean of standardised rows, of the sum of so many releases of like noise."""
    block = standard_block(estimator)
    count, sums, _ = scales(estimator)
    noise = len(block.names) * (sums * block.step) ** 2 + (block.limit * count) ** 2
    return math.sqrt(trace / rows + releases * noise / (rows * rows))


def _squares(estimator: CovarianceMatrix, trace: float, mean: float) -> tuple[float, float]:
    """Return the squared errors of sampling, times rows, and of noise, times their square."""
    block = standard_block(estimator)
    size, reach, square = len(block.names), block.limit, block.step**2
    count, sums, products = scales(estimator)
    noise = (
        size * (products * square) ** 2
        + size * (size - 1) * (_beside(estimator) * square) ** 2
        + 2 * (size + 1) * mean**2 * (sums * block.step) ** 2
        + reach**4 * count**2
    )
    return (reach + mean) ** 2 * trace, noise


def _beside(estimator: CovarianceMatrix) -> float:
    products = estimator.declared_loss().event.parts()[2]
    return products.scale_beside_diagonal or 0.0 if isinstance(products, DiscreteGaussian) else 0.0


def scales(estimator: CovarianceMatrix) -> tuple[float, float, float]:
    """Return the scales of the noise in the count, the sums and the products."""
    count, sums, products = (
        noise.scale for noise in estimator.declared_loss().event.parts() if isinstance(noise, Noise)
    )
    return count, sums, products


def standard_block(estimator: CovarianceMatrix) -> Block:
    """Return the columns of the matrix, as they are clipped."""
    return block_of(estimator.required_columns(), estimator.bounds, estimator.max_norm)
