"""The loss that a device may have on a stream whose rows stay there, and settings without effect on such a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ptkstore.domain.accounting.losses import checked_delta, checked_epsilon
from ptkstore.errors import InvalidRequest

REPORT_EPSILON_MAX = Decimal(700)
"""Beyond it exp(epsilon) is no number, so that such a loss would promise nothing."""

NEEDED = ("report_epsilon", "reports_per_window", "reports_in_all")
LIMITS = (*NEEDED, "report_delta")


def check_none(limits: Mapping[str, Any], *, unit_is_device: bool) -> None:
    """Raise `InvalidRequest` where a stream whose rows are in the store has limits of reports."""
    if unit_is_device or {*limits.values()} != {None}:
        raise InvalidRequest(
            f"the privacy unit 'device', {', '.join(LIMITS)} are for streams whose rows stay on devices: say --rows "
            "on-devices"
        )


def check_limits(limits: Mapping[str, Any], *, unit_is_device: bool) -> None:
    """Raise `InvalidRequest` unless the limits bound what a device loses."""
    if not unit_is_device:
        raise InvalidRequest(
            "the privacy unit of a stream whose rows stay on devices is 'device': all rows of a device"
        )
    if missing := [name for name in NEEDED if limits[name] is None]:
        raise InvalidRequest(
            f"a stream whose rows stay on devices needs {', '.join(missing)}: what a report of a device may lose, and "
            "how many it may send"
        )
    checked_epsilon(limits["report_epsilon"], "report_epsilon", REPORT_EPSILON_MAX)
    checked_delta(limits["report_delta"] or 0.0, "report_delta")
    if limits["reports_per_window"] > limits["reports_in_all"]:
        raise InvalidRequest("reports_per_window is at most reports_in_all")


def check_left_out(said: Iterable[tuple[str, Any, Any]]) -> None:
    """Raise `InvalidRequest` for what is about rows or blocks in the store: names with values and their defaults."""
    for name, value, default in said:
        if value != default:
            raise InvalidRequest(
                f"leave {name} out: it is about rows or blocks in the store, and a stream whose rows stay on devices "
                "has neither. What a device loses is limited by report_epsilon, reports_per_window and reports_in_all"
            )
