"""The loss of a device that sends noisy reports: local differential privacy, which charges no block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptkstore.domain.accounting.losses import ATTO, Loss

COUNTED = (
    "a device counts its reports to all PTKs of the stream together, and refuses to send more; nobody else knows how "
    "many it has sent"
)
"""Who keeps to the limits of a stream."""

ALL_PTKS = "all PTKs"
"""The row of what a device loses to all PTKs of a stream."""

LIMITED = (
    "Per window, by now and in all, each report counts with the most that the stream lets one lose: earlier ones may "
    "have lost more than one does now. The last row is of all PTKs together, also earlier ones"
)
"""Why these figures do not become less."""

PROOF = "docs/proofs/draw_discard.md"

RULE = "basic composition, each report in the light of earlier ones: epsilons add up and deltas add up"

ADVERSARIES = (
    "towards whoever sees the instance that a device drew and the report that it put back; nothing that the server "
    "does afterwards counts as protection, and nothing is amplified"
)
"""The adversary that the loss of a report is about (differences.md D2, D3)."""


@dataclass(frozen=True, slots=True)
class LocalLoss:
    """The loss of the reports of a device, whatever all other devices do.

    Parameters
    ----------
    report : Loss
        Of one report under the present model, as a whole.
    limit : Loss
        The loss that the stream allows to any report, for good. Earlier reports may have lost more than `report`.
    one_weight : Loss
        Of one weight of one report, by itself. Entries of a report are not independent secrets (differences.md D1).
    reports_per_window, reports_in_all : int
        The most that a device may send.
    clip, noise : str
        How gradients are clipped, and the noise that is added.
    specification : str
        Digest of what devices were told.
    event : mapping
        The mechanism of one report. It is empty if only figures were told; then `max_norm` is 0.
    max_norm : float
        To which norm a gradient is clipped.
    """

    report: Loss
    limit: Loss
    one_weight: Loss
    reports_per_window: int
    reports_in_all: int
    clip: str
    noise: str
    specification: str
    event: Mapping[str, Any] = field(default_factory=dict)
    max_norm: float = 0.0

    @property
    def one_window(self) -> Loss:
        """Of all reports of a device in one window, whatever devices were told when it sent them."""
        return composed(self.limit, self.reports_per_window)

    @property
    def in_all(self) -> Loss:
        """Of all reports that a device ever sends, also under models that come later."""
        return composed(self.limit, self.reports_in_all)


def composed(report: Loss, reports: int) -> Loss:
    """Return what so many reports of one device lose together: basic composition."""
    return Loss(reports * report.epsilon_nano, min(ATTO, reports * report.delta_atto))


@dataclass(frozen=True, slots=True)
class DeviceOdometer:
    """The most that one device loses to a stream: to all of its PTKs together, also earlier ones.

    A device counts its reports to a stream itself, and nobody else knows them: it may have sent all that `windows`,
    those that have begun, allowed. `limit` is what any report may lose. It is fixed as the stream is created, so that
    nothing here becomes less.
    """

    limit: Loss
    reports_per_window: int
    reports_in_all: int
    windows: int

    @property
    def reports_so_far(self) -> int:
        """The most that a device may have sent by now."""
        return min(self.reports_in_all, self.windows * self.reports_per_window)

    @property
    def losses(self) -> dict[str, Loss]:
        """All of its figures, by the names that every interface gives them."""
        return {
            "report_limit": self.limit,
            "one_window": composed(self.limit, self.reports_per_window),
            "so_far": composed(self.limit, self.reports_so_far),
            "in_all": composed(self.limit, self.reports_in_all),
        }

    @property
    def counts(self) -> dict[str, int]:
        """The reports that these figures are of."""
        return {
            "reports_per_window": self.reports_per_window,
            "reports_so_far": self.reports_so_far,
            "reports_in_all": self.reports_in_all,
        }


@dataclass(frozen=True, slots=True)
class LocalOdometer:
    """The most that one device loses to one PTK: by one report now, and by all of its reports if they are for it."""

    ptk_id: str
    loss: LocalLoss
    windows: int

    @property
    def device(self) -> DeviceOdometer:
        """Of all reports of a device."""
        one = self.loss
        return DeviceOdometer(one.limit, one.reports_per_window, one.reports_in_all, self.windows)

    @property
    def losses(self) -> dict[str, Loss]:
        """All of its figures, by the names that every interface gives them."""
        return {"report": self.loss.report, "one_weight": self.loss.one_weight, **self.device.losses}

    @property
    def counts(self) -> dict[str, int]:
        """The reports that these figures are of."""
        return self.device.counts

    @property
    def mechanism(self) -> dict[str, str]:
        """The clipping, the noise, and the digest of what devices were told."""
        one = self.loss
        return {"clip": one.clip, "noise": one.noise, "specification": one.specification}
