"""Whether the devices of a stream send as many reports as a model needs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptkstore.domain.streams.streams import Policy
from ptkstore.errors import NotAllowed, UnknownName

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
