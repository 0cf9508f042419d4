"""Comparisons and releases of a version's losses: who can have one, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.charging import Price, price_of
from ptkstore.domain.budgeting.declared import comparison_loss
from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.domain.scheduling.choices import Significance
from ptkstore.domain.streams.blocks import PROFILE, share_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest


def price_of_comparison(policy: Policy) -> Price:
    """Price one noisy threshold, with all its answers up to the first "above", or one sum that is released."""
    from ptklib.significance import LossSignificance

    loss = comparison_loss(policy)
    measured = LossSignificance(loss.spendable_epsilon)
    released = policy.significance is Significance.RELEASED_LOSS
    event = measured.loss.event if released else measured.comparison.event
    return price_of(event.to_json(), policy.accountant, loss)


def check_significance_of(ptk_id: str, estimator: Mapping[str, Any], policy: Policy) -> None:
    """Raise `InvalidRequest` where the significance of windows for a PTK cannot be measured as its stream asks."""
    if not policy.significance.is_measured:
        return
    if not share_of(policy, PROFILE):
        raise InvalidRequest(
            f"PTK {ptk_id}: the stream measures losses on its profile part, which has no share"
        )
    if bundle_of(estimator) is not None:
        raise InvalidRequest(
            f"PTK {ptk_id}: the stream measures the losses of versions, and those of team code may depend on other "
            "rows, so that no noise would hide a row. Take a stream with another scheduler"
        )
    from ptklib.profiling.risks import risk_of  # loads every family
    from ptklib.spec import estimator_from_spec

    try:
        risk_of(estimator_from_spec(estimator))
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id}: the stream measures the losses of versions. {error}") from error
