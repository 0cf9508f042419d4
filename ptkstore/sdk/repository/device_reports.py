"""The plan of a PTK that devices train: their loss, and whether they send as many reports as it needs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.ptks import is_averaged
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest, NotAllowed, UnknownName

if TYPE_CHECKING:
    from ptkstore.sdk.service import StoreService


@dataclass(frozen=True)
class ReportsPlanned:
    """Reports that a PTK needs, and reports that come.

    Parameters
    ----------
    needed : int
        Until the model is more than noise: an estimate, `ptklib.draw_discard.reports_needed`.
    brought : int or None
        The most that the devices which the stream's newest versions count send in all, if each of those reports was of
        another device; None where none were counted yet.
    """

    needed: int
    brought: int | None

    @property
    def short(self) -> bool:
        """Whether the devices that were counted cannot send as many as are needed."""
        return self.brought is not None and self.brought < self.needed


def reports_planned(
    service: StoreService, estimator: Mapping[str, Any], stream: str, policy: Policy
) -> ReportsPlanned:
    """Return how many reports a PTK needs, and how many come."""
    from ptklib.draw_discard import reports_needed
    from ptkstore.application.ledger.local_losses import specification_of

    return ReportsPlanned(reports_needed(specification_of(estimator)), _brought(service, stream, policy))


def _brought(service: StoreService, stream: str, policy: Policy) -> int | None:
    """Add up what newest versions count: no more devices sent that, and each sends so many reports in all."""
    taken: int | None = None
    for spec in service.ptks(stream=stream):
        with suppress(NotAllowed, UnknownName):
            if number := service.newest_version(spec.ptk_id):
                told = (
                    service.version(spec.ptk_id, number).content.get("instances", {}).get("reports_at_most")
                )
                if told is not None:
                    taken = (taken or 0) + int(told["taken"])
    return None if taken is None or not policy.reports_in_all else taken * policy.reports_in_all


@dataclass(frozen=True)
class VerdictAsked:
    """The loss of one verdict on a model that devices train, from a test block of a labelled stream."""

    stream: str
    epsilon: float


def verdict_asked(accept: Mapping[str, Any] | None) -> VerdictAsked | None:
    """Return what a verdict costs another stream than that of the PTK; None where none does, or nobody can read it."""
    asked = None
    with suppress(InvalidRequest):  # with which the store refuses it
        asked = Accept.of({"accept": accept})
    return None if asked is None or asked.stream is None else VerdictAsked(asked.stream, asked.sums.epsilon)


def per_device(spec: Mapping[str, Any], policy: Policy | None) -> dict[str, float] | None:
    """Return the epsilons that a device loses; None where a PTK is trained on rows, or nobody knows its stream."""
    from ptkstore.application.ledger.local_losses import local_loss_of

    if not is_averaged(spec) or policy is None or not policy.on_devices:
        return None
    loss = local_loss_of(spec, policy)
    names = ("report", "one_weight", "one_window", "in_all")
    return {name: getattr(loss, name).epsilon for name in names}
