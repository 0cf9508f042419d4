"""Use cases of PTK developers, bound to the adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ptkstore import application
from ptkstore.domain.identity import Action
from ptkstore.domain.ptks.bundles import AUDIT_RUNS
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import PtkStoreError
from ptkstore.ports.team_code import Examined
from ptkstore.wiring.trail import Recording


class PtkChanging(Recording):
    """The methods of `StoreService` on changes of PTKs, and on the code of teams."""

    def register_ptk(self, *, team: str, stream: str, name: str, **said: Any) -> str:
        with self._recorded(Action.PTK_REGISTER, "ptk", f"{team}.{name}"):
            return application.ptks.register_ptk.register_ptk(
                WantedPtk(name, said), team=team, stream=stream, by=self.registering
            )

    def update_ptk(self, ptk_id: str, **change: Any) -> PtkSpec:
        with self._recorded(Action.PTK_UPDATE, "ptk", ptk_id):
            return application.ptks.register_ptk.update_ptk(ptk_id, change, by=self.registering)

    def deregister_ptk(self, ptk_id: str) -> None:
        with self._recorded(Action.PTK_DEREGISTER, "ptk", ptk_id):
            application.ptks.register_ptk.deregister_ptk(ptk_id, begin=self.begin, clock=self.clock)
            self._destroy_withdrawn_drafts()

    def resume_ptk(self, ptk_id: str) -> int:
        with self._recorded(Action.PTK_RESUME, "ptk", ptk_id):
            return application.ptks.resume_ptk.resume_ptk(ptk_id, begin=self.begin, clock=self.clock)

    def admit_ptks(
        self,
        *,
        team: str,
        stream: str,
        wanted: Sequence[WantedPtk],
        leaving: Sequence[str] = (),
    ) -> application.ptks.exchange_ptks.Admission:
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
        wanted: Sequence[WantedPtk],
        leaving: Sequence[str] = (),
        before_code: Callable[[], None] = lambda: None,
    ) -> None:
        with self._recorded(Action.PTK_EXCHANGE, "stream", stream) as about:
            about.parts = application.ptks.exchange_ptks.exchanged(team, wanted, leaving)
            application.ptks.exchange_ptks.exchange_ptks(
                team=team,
                stream=stream,
                wanted=wanted,
                leaving=leaving,
                read=self.read_one_moment,
                by=self.registering,
                before_code=before_code,
            )
            if leaving:
                self._destroy_withdrawn_drafts()

    def _destroy_withdrawn_drafts(self) -> None:
        """The PTKs are gone by now: where keys or files do not answer, a worker's next check destroys the drafts."""
        with suppress(PtkStoreError, OSError):
            application.versions.refused_drafts.destroy_refused_drafts(
                read=self.read, keys=self.keys, staging=self.staging
            )

    def put_bundle(self, content: bytes, sha256: str | None = None, *, team: str) -> str:
        with self._recorded(Action.BUNDLE_UPLOAD, "team", team):
            quota = application.ptks.team_code.Quota(
                self.settings.bundles_per_team, self.settings.bundle_mib_per_team * 2**20
            )
            return application.ptks.team_code.put_bundle(
                content, sha256, team=team, quota=quota, bundles=self.bundles
            )

    def examine_team_code(
        self, estimator: Mapping[str, Any], bundle: bytes, runs: int = AUDIT_RUNS
    ) -> Examined:
        return application.ptks.team_code.examine_team_code(
            estimator, bundle, sandbox=self.sandbox, runs=runs
        )

    def rollback_ptk(self, ptk_id: str, to: int) -> int:
        with self._recorded(Action.PTK_ROLL_BACK, "ptk", ptk_id):
            return application.versions.rollback_ptk.rollback_ptk(
                ptk_id, to, begin=self.begin, clock=self.clock
            ).number

    def materialize_ptk(self, ptk_id: str) -> int:
        with self._recorded(Action.PTK_MATERIALIZE, "ptk", ptk_id):
            return application.versions.materialize_ptk.materialize_ptk(
                ptk_id, begin=self.begin, clock=self.clock
            )
