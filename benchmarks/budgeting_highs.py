"""Simulation only: the offline optimum by HiGHS through scipy, from exact significances."""

import numpy as np
from _common.online_budgeting.offline import ExactInstance
from scipy.optimize import Bounds, LinearConstraint, milp


def best_by_highs(instance: ExactInstance) -> float:
    """Return the value of the best assignment."""
    n_blocks, n_queries = instance.significance.shape
    of_blocks = np.kron(np.eye(n_blocks), instance.costs)
    of_queries = np.tile(np.eye(n_queries), n_blocks)
    unit = float(instance.costs.max())
    found = milp(
        -instance.significance.ravel(),
        constraints=LinearConstraint(
            np.vstack([of_blocks / unit, of_queries]),
            ub=np.concatenate([instance.left / unit, instance.limits]),
        ),
        integrality=np.ones(n_blocks * n_queries),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return float(-found.fun)
