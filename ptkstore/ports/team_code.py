"""Team code: bundles, and the sandbox that alone runs what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Bundles(Protocol):
    """Bundles by the SHA-256 of their content; written once, verified on every read."""

    def put(self, content: bytes) -> str:
        """Store a bundle that was checked, durably, and return its name. Repeating changes nothing but its age."""

    def get(self, sha256: str) -> bytes:
        """Read a bundle; `UnknownName` if there is none, `CorruptObject` if it is not what was stored."""

    def age(self, sha256: str) -> float:
        """Tell how many seconds ago it was put last; `UnknownName` if there is none."""

    def claim(self, team: str, sha256: str, n_bytes: int) -> None:
        """Count a bundle as one that a team keeps; repeatable, which makes the claim young again."""

    def disclaim(self, team: str, sha256: str, n_bytes: int) -> None:
        """Count it no longer; repeatable."""

    def claimed(self, team: str) -> Mapping[str, int]:
        """Return the size of each bundle that counts as a team's."""

    def drop_claims(self, team: str, older_than: float) -> None:
        """Count those no longer that were claimed so many seconds ago or before, and that are not there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of team code on synthetic rows: `passed`, `failed` or `skipped`, and why."""

    check: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """The outcome of an examination.

    `described` is what the code says of itself: columns, tables, epsilon, delta, unit, max_rows_per_unit; None if it
    did not get that far. `printed` is the end of what it printed or raised. Everything is from runs without any real
    row, and the code under examination had its hand in all of it. It may be shown to its owner, and believed as far as
    the owner is.
    """

    described: Mapping[str, Any] | None
    findings: tuple[Finding, ...]
    printed: str = ""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The checks that failed."""
        return tuple(finding for finding in self.findings if finding.status == "failed")


class Sandbox(Protocol):
    """Runs team code apart: without network, credentials or files, within limits."""

    def check(self) -> None:
        """Try to break out; `NoSandbox` unless every attempt fails as it should."""

    def examine(self, estimator: Mapping[str, Any], bundle: bytes, runs: int, team: str = "") -> Examined:
        """Load the code, have it describe itself, hold it against the contract and audit it on synthetic rows.

        `runs` trainings per audit, 0 for none. `NoSandbox` where there is no working sandbox; `TooManyRequests` while
        other code of `team` is examined; `Unavailable` where too many teams wait.
        """
