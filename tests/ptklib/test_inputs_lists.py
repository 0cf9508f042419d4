"""Plain Python sequences: one row never changes how another is read."""

import numpy as np

from ptklib import CountFeaturizer


def test_a_row_added_to_a_list_changes_its_own_cell_only():
    big = 2**53 + 1  # no float holds it
    estimator = CountFeaturizer(["x"], classes=[big, 7], domains={"x": [1]}, epsilon=1.0)
    rows = [[1]] * 6
    before = estimator.partial_statistics(rows[:5], [big] * 5).arrays["x"]
    after = estimator.partial_statistics(rows, [*[big] * 5, 0.5]).arrays["x"]
    np.testing.assert_array_equal(before.ravel(), [5, 0])
    np.testing.assert_array_equal(after.ravel(), [5, 0])
