"""The child's work to profile team code: trainings and losses in the sandbox, comparisons on this side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.profiling.risks.team import TeamRisk, clipped_losses
from ptklib.profiling.subjects import TeamPtk
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.team_code import losses_by_team_code, train_team_code
from ptkstore.adapters.sandbox.confinement.confined import Confinement
from ptkstore.adapters.sandbox.messages.codes import NO_SANDBOX
from ptkstore.domain.ptks.ptks import granted
from ptkstore.ports.row_processes import RunFailed

Losses = npt.NDArray[np.float64]


def clipped_team_losses(
    estimator: Mapping[str, Any],
    bundle: bytes,
    rows: pa.Table,
    state: ReleasedState,
    confinement: Confinement,
) -> Losses | RunFailed:
    """Return the loss of each row as team code says it, clipped to its declared range and in parts of it.

    Parameters
    ----------
    estimator, bundle, rows, state
        The code's description, with `row_losses`, the code, the rows, and a state that it trained.
    confinement
        The sandbox.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        In [0, 1]; the largest where the code said no finite number, and for every row if the code failed or said
        another number of losses than there are rows. **Private.** `RunFailed` only where there is no sandbox.

    Notes
    -----
    A failure may depend on a row, so nothing but noisy sums may tell of it.
    """
    said = losses_by_team_code(estimator, bundle, rows, state, confinement)
    if isinstance(said, RunFailed):
        return said if said.code == NO_SANDBOX else np.ones(rows.num_rows)
    return clipped_losses(said, estimator_from_spec(estimator).largest_loss())


class ConfinedPtk(TeamPtk):
    """Team code as the profiler sees it: each training, and each set of losses, is a run in a sandbox of its own.

    Parameters
    ----------
    estimator, bundle : mapping and bytes
        The code's description, with `row_losses`, and the code.
    confinement
        The sandbox.

    Attributes
    ----------
    without_sandbox : bool
        Whether a run ended because there is no sandbox: that is no fault of the code, and no profile is made of it.

    Notes
    -----
    A training that fails is a model of the largest loss, and so is one whose losses cannot be had. Nothing tells which.
    """

    def __init__(self, estimator: Mapping[str, Any], bundle: bytes, confinement: Confinement) -> None:
        described = estimator_from_spec(estimator)
        super().__init__(
            self._trained,
            config=described.to_spec(),
            delta=described.delta,
            risk=_ConfinedRisk(described, self),
        )
        self._bundle, self._confinement = bundle, confinement
        self.without_sandbox = False

    def rehearse(self, empty: Any) -> None:
        """Do nothing: the code was examined when it was registered."""

    def losses(self, state: ReleasedState, rows: pa.Table) -> Losses:
        """Return the loss of each row, in [0, 1]: the largest for all if the code failed, or there is no sandbox."""
        made = clipped_team_losses(self.config, self._bundle, rows, state, self._confinement)
        self._note(made)
        return np.ones(rows.num_rows) if isinstance(made, RunFailed) else made

    def _trained(self, tables: Any, epsilon: float, _: object, config: Mapping[str, Any]) -> ReleasedState:
        (rows,) = tables
        spec = granted(config, epsilon, self.delta)
        made = train_team_code(spec, self._bundle, rows, None, self._confinement)
        self._note(made)
        if isinstance(made, RunFailed):
            raise RuntimeError
        return made

    def _note(self, made: object) -> None:
        if isinstance(made, RunFailed) and made.code == NO_SANDBOX:
            self.without_sandbox = True


class _ConfinedRisk(TeamRisk):
    def __init__(self, described: Any, ptk: ConfinedPtk) -> None:
        super().__init__(described)
        self._ptk = ptk

    def losses(self, state: Any, table: Any) -> Losses:
        return self._ptk.losses(state, table) if table.num_rows else np.zeros(0)
