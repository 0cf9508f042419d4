"""Use cases of team code, bound to the adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.application import team_code
from ptkstore.ports.team_code import Examined
from ptkstore.wiring.adapters import Adapters


class TeamCoding(Adapters):
    """Bundles, and what is in them."""

    def put_bundle(self, content: bytes, sha256: str | None = None, *, team: str) -> str:
        """See `application.team_code`."""
        quota = team_code.Quota(self.settings.bundles_per_team, self.settings.bundle_mib_per_team * 2**20)
        return team_code.put_bundle(content, sha256, team=team, quota=quota, bundles=self.bundles)

    def examine_team_code(
        self, estimator: Mapping[str, Any], bundle: bytes, runs: int = team_code.AUDIT_RUNS
    ) -> Examined:
        """See `application.team_code`."""
        return team_code.examine_team_code(estimator, bundle, sandbox=self.sandbox, runs=runs)

    def check_sandbox(self) -> None:
        """`NoSandbox` unless team code can be run here."""
        self.sandbox.check()
