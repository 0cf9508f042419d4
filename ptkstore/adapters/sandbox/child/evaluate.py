"""What the child does with a test set: its rows and a released state in, two noisy sums out, nothing else."""

from __future__ import annotations

import pyarrow as pa

from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.streams.streams import HASH
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import EvaluateRequest


def evaluate(request: EvaluateRequest, raw: RawZone) -> RiskMass:
    """Open the test set and estimate the loss of the state on it."""
    from ptklib.profiling.estimation import LossEstimator  # loads every family
    from ptklib.profiling.samples import HashedRows

    estimator = LossEstimator(request.estimator, request.epsilon)
    estimator.declared_loss()
    state = ReleasedState.from_files(request.state)
    columns = tuple(dict.fromkeys(estimator_from_spec(request.estimator).input_columns()))
    hashes = (request.hash_low, request.hash_high)
    pieces = [raw.read_part(url, request.window_key, (*columns, HASH), hashes) for url in request.part_urls]
    rows = pa.concat_tables(pieces).combine_chunks()
    test_set = HashedRows(rows.select(list(columns)), rows[HASH].to_numpy(), population=1)
    sums = estimator.run(state, test_set)
    return RiskMass(sums.lost, sums.kept)
