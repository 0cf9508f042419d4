"""The parent's look at a draft before anyone else hears of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, Final

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.application.versions.servable import (
    NotServable,
    UndeclaredValue,
    check_servable,
    check_team_code,
)
from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.domain.ptks.ptks import granted
from ptkstore.domain.versions.versions import Draft, table_file_name
from ptkstore.errors import CorruptObject, InvalidRequest
from ptkstore.ports.objects import Staging
from ptkstore.ports.row_processes import TrainRequest

_SUFFIX = ".parquet"


_WITH_FORMULA: Final = ("CountFeaturizer", "CovarianceMatrix", "HistoricalStatistics")


def verified(draft: Draft, request: TrainRequest, staging: Staging) -> Draft | None:
    """Return the draft if staging contains, byte for byte, a state of the requested estimator within the granted loss.

    Such a state can be placed in the lake and served.

    The facts about the data for later plans are read off that very state here: nothing else that the child says
    leaves.

    Raises
    ------
    UndeclaredValue
        It is a state of team code, with a value that was not declared.
    """
    state = _sound(draft, request, staging)
    return None if state is None else replace(draft, facts=_facts(state) if request.bundle is None else None)


def _facts(state: ReleasedState) -> dict[str, Any] | None:
    """Return what the state tells of the data; None if its family has no formula, or the state is too odd for it."""
    if state.meta["family"] not in _WITH_FORMULA:
        return None
    from ptklib.profiling import cautious_facts, facts_json  # loads every family that has a formula

    try:
        facts = cautious_facts(state)
        return None if facts is None else facts_json(facts)
    except (PtklibError, ArithmeticError):
        return None  # plans go on without; the state itself is paid for, and sound


def _sound(draft: Draft, request: TrainRequest, staging: Staging) -> ReleasedState | None:
    if draft.draft_id != request.draft_id:
        return None
    try:
        files = staging.read(draft.draft_id, [file.name for file in draft.files], request.draft_key)
        tables = {}
        for file in draft.files:
            content = files[file.name]
            table = file.name.removesuffix(f"-{file.sha256}{_SUFFIX}")
            if table in tables or file.name != table_file_name(table, file.sha256):
                return None
            if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
                return None
            tables[table] = content
        state = ReleasedState.from_parts(tables, draft.state)
        estimator = estimator_from_spec(granted(request.estimator, request.epsilon, request.delta))
        estimator.check_previous_state(state)
        check_servable(state.tables, {name: form.to_json() for name, form in state.schemas.items()})
        if bundle_of(request.estimator) is not None:
            check_team_code(state.tables, state.meta["noise_variance"], estimator)
    except UndeclaredValue:
        raise
    except (PtklibError, InvalidRequest, CorruptObject, NotServable):
        return None
    within = state.loss.epsilon <= request.epsilon and state.loss.delta <= request.delta
    return state if within else None
