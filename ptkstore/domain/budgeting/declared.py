"""The declarations for online budgeting in the policy of a stream and the config of a PTK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.domain.budgeting.significance import Recency
from ptkstore.domain.scheduling.choices import Scheduler, Significance
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest


def rule_of(policy: Policy) -> ThresholdRule:
    """Return the rule of a stream; where its significance is public, a comparison costs nothing.

    Raises
    ------
    InvalidRequest
        The stream's scheduler is another one.
    """
    if policy.least_significance is None or policy.most_significance is None:
        raise InvalidRequest("only the scheduler 'budgeting' has bounds on significance")
    return ThresholdRule(
        policy.least_significance, policy.most_significance, comparison_loss(policy).epsilon_nano
    )


def comparison_loss(policy: Policy) -> Loss:
    """Return epsilon_0: what a noisy threshold or a noisy sum costs, nothing where significance is public."""
    epsilon = policy.comparison_epsilon
    return NO_LOSS if epsilon is None else Loss.charge(epsilon)


def recency_of(config: Mapping[str, Any], policy: Policy) -> Recency:
    """Return the recency that a PTK declares; without one it falls to 0 as the rows of a window go.

    Raises
    ------
    InvalidRequest
        `recency` is no number of windows.
    """
    given = config.get("recency")
    return Recency(policy.retention_windows + 1 if given is None else given)


def check_recency(config: Mapping[str, Any], policy: Policy) -> None:
    """Raise `InvalidRequest` for a recency that is no number of windows, or that the stream does not read."""
    if "recency" not in config:
        return
    if policy.scheduler is not Scheduler.BUDGETING or policy.significance is not Significance.RECENCY:
        raise InvalidRequest(
            "recency of a PTK is read by the scheduler 'budgeting' alone, and this stream has another; leave it out"
        )
    recency_of(config, policy)
