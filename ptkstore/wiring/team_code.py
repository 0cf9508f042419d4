"""Use cases of team repositories, bound to the adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ptkstore import application
from ptkstore.domain.ptks.bundles import AUDIT_RUNS
from ptkstore.ports.team_code import Examined
from ptkstore.wiring.adapters import Adapters


class TeamCoding(Adapters):
    """Bundles and what is in them, and the PTKs of a team as a whole."""

    def admit_ptks(
        self,
        *,
        team: str,
        stream: str,
        wanted: Sequence[application.ptks.exchange_ptks.WantedPtk],
        leaving: Sequence[str] = (),
    ) -> application.ptks.exchange_ptks.Admission:
        """See `application.ptks.exchange_ptks`."""
        return application.ptks.exchange_ptks.admit_ptks(
            team=team,
            stream=stream,
            wanted=wanted,
            leaving=leaving,
            begin=self.read_one_moment,
            features=self.features,
        )

    def exchange_ptks(
        self,
        *,
        team: str,
        stream: str,
        wanted: Sequence[application.ptks.exchange_ptks.WantedPtk],
        leaving: Sequence[str] = (),
        before_code: Callable[[], None] = lambda: None,
    ) -> None:
        """See `application.ptks.exchange_ptks`."""
        application.ptks.exchange_ptks.exchange_ptks(
            team=team,
            stream=stream,
            wanted=wanted,
            leaving=leaving,
            read=self.read_one_moment,
            by=self.registering,
            before_code=before_code,
        )

    def put_bundle(self, content: bytes, sha256: str | None = None, *, team: str) -> str:
        """See `application.ptks.team_code`."""
        quota = application.ptks.team_code.Quota(
            self.settings.bundles_per_team, self.settings.bundle_mib_per_team * 2**20
        )
        return application.ptks.team_code.put_bundle(
            content, sha256, team=team, quota=quota, bundles=self.bundles
        )

    def examine_team_code(
        self, estimator: Mapping[str, Any], bundle: bytes, runs: int = AUDIT_RUNS
    ) -> Examined:
        """See `application.ptks.team_code`."""
        return application.ptks.team_code.examine_team_code(
            estimator, bundle, sandbox=self.sandbox, runs=runs
        )

    def check_sandbox(self) -> None:
        """`NoSandbox` unless team code can be run here."""
        self.sandbox.check()
