"""Deadlines of acceptance: how long a PTK is trained for an accepted version, and why it is given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from ptkstore.domain.durations import duration_text
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest


class GivenUp(StrEnum):
    """Why a PTK is trained no longer."""

    TIMEOUT = "timeout"
    """No state was accepted for so long."""
    REJECT = "reject"
    """No model of its class meets the target."""
    CONFIDENCE = "confidence-used-up"
    """Its looks left nothing of the confidence that it asks for, so no state could be accepted."""


@dataclass(frozen=True, slots=True)
class AcceptDeadline:
    """From which window on a PTK waits for an accepted version, and why it no longer does.

    Attributes
    ----------
    since : int
        The first window that counts. It is the first to close after the registration, a change of what is trained or a
        resumption, or the one after the window of the last accepted version.
    given_up : GivenUp or None
        None while it waits.
    """

    since: int
    given_up: GivenUp | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` gave, after a way through JSON."""
        given_up = content["given_up"]
        return cls(content["since"], None if given_up is None else GivenUp(given_up))

    def goes_on_after(self, window: int) -> AcceptDeadline:
        """Return the deadline once a state of this window was accepted."""
        return AcceptDeadline(max(self.since, window + 1))

    def has_passed(self, timeout: timedelta | None, window: int, policy: Policy) -> bool:
        """Return whether a PTK waited for its whole timeout before this window began, in the stream's event time.

        It follows from window numbers, the policy and verdicts alone, so a replay decides the same. A PTK whose
        training or validation is under way is not given up yet: its verdict may be ACCEPT.
        """
        if self.given_up is not None or timeout is None:
            return False
        return (window - self.since) * policy.window >= timeout


def check_timeout(timeout: timedelta | None, every: int, policy: Policy) -> None:
    """Raise `InvalidRequest` for a timeout that no PTK trained every so many windows of the stream can have."""
    if timeout is None:
        return
    kept = policy.window * policy.retention_windows
    if timeout > kept and not policy.on_devices:
        raise InvalidRequest(
            f"the timeout of accept is {duration_text(timeout)}; the stream keeps rows for {duration_text(kept)} after "
            "their window, and it may not be longer"
        )
    if timeout < policy.window * every:
        raise InvalidRequest(
            f"the timeout of accept is {duration_text(timeout)}, shorter than the time between two trainings, "
            f"{duration_text(policy.window * every)}"
        )
