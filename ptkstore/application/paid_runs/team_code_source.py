"""The code of a team for a paid run: fetched, and its sandbox tried, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.domain.jobs import Job, JobState
from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.errors import LateWriter
from ptkstore.ports.catalog import Begin
from ptkstore.ports.team_code import Bundles, Sandbox


@dataclass(frozen=True, slots=True)
class FetchedTeamCode:
    """The bundle of an estimator that is no family of the library; both None for one that is.

    `bundle` alone is None for a run whose rows were opened by an earlier claim: code of a team is not run again.
    """

    sha256: str | None = None
    bundle: bytes | None = None

    @property
    def is_spent(self) -> bool:
        """Whether an earlier claim ran it: whatever became of that, the run ends."""
        return self.sha256 is not None and self.bundle is None

    def check(self, ptk_id: str, estimator: Mapping[str, Any]) -> None:
        """Raise `LateWriter` if a PTK has other code by now than what was fetched."""
        if bundle_of(estimator) != self.sha256:
            raise LateWriter(f"PTK {ptk_id} got other code meanwhile")


@dataclass(frozen=True, slots=True)
class TeamCodeSource:
    """The place of bundles, and the sandbox that runs their code."""

    bundles: Bundles
    sandbox: Sandbox

    def of_estimator(self, job: Job, estimator: Mapping[str, Any]) -> FetchedTeamCode:
        """Return the code of an estimator, for a run that may open rows.

        Raises
        ------
        NoSandbox
            It cannot be run apart on this machine.
        UnknownName
            Its bundle is not there.
        """
        sha256 = bundle_of(estimator)
        if sha256 is None or job.state is JobState.OPENED:
            return FetchedTeamCode(sha256)
        self.sandbox.check()
        return FetchedTeamCode(sha256, self.bundles.get(sha256))

    def of_job(self, job: Job, begin: Begin) -> FetchedTeamCode:
        """Return the code of a job's PTK, as it is registered now; raises as `of_estimator` does."""
        with begin() as uow:
            spec = next((one for one in uow.ptks.find(stream=job.stream) if one.ptk_id == job.ptk_id), None)
        return FetchedTeamCode() if spec is None else self.of_estimator(job, spec.estimator)
