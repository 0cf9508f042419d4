"""The client's part about published versions: load one, list and compare them, publish an earlier one again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ptkstore.domain.names import checked_name, split_pin, split_ptk_id
from ptkstore.domain.streams.windows import INDEX_MAX
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk.documents.evaluations import evaluation_row
from ptkstore.sdk.documents.lineage import Ancestor, lineage_of
from ptkstore.sdk.documents.listings import VersionListing
from ptkstore.sdk.documents.resources import version_document
from ptkstore.sdk.documents.validations import validation_row
from ptkstore.sdk.featurizing import Ptk, ptk_of

if TYPE_CHECKING:
    from ptkstore.application.states.diff_versions import VersionDiff
    from ptkstore.application.versions.trace_window import Descendant
    from ptkstore.sdk.service import StoreService


class VersionMethods:
    """Methods of `Store` about published versions; the same here and over HTTP."""

    _service: StoreService

    def ptk(self, ptk_id: str, version: int | None = None) -> Ptk:
        """Load a published PTK, newest by default, every byte verified.

        Parameters
        ----------
        ptk_id : str
            Such as `taxi.speed`; `taxi.speed@v3` names a version too.
        version : int, optional
            Its number.

        Raises
        ------
        UnknownName
            No such PTK or version, or none published yet.
        InvalidRequest
            The id is none, or names another version than `version`.
        """
        ptk_id, pinned = split_pin(ptk_id)
        if pinned is not None and version not in (None, pinned):
            raise InvalidRequest(f"{ptk_id}@v{pinned} and version {version} are two; name one")
        version = pinned if version is None else version
        if version is None:
            version = self._service.newest_version(ptk_id)
        if not isinstance(version, int) or isinstance(version, bool):
            raise InvalidRequest("a version is a whole number")
        if version < 1:
            raise UnknownName("published version of PTK", ptk_id)
        estimates = (one for one in self.evaluations(ptk_id) if one["version"] == version)
        return replace(ptk_of(*self._service.ptk_version(ptk_id, version)), evaluation=next(estimates, None))

    def versions(self, ptk_id: str) -> VersionListing:
        """List a PTK's published versions, oldest first: number, time, guarantee, newest window, manifest's hash.

        Those of a PTK that was deregistered are among them; an id that was never used has none.
        """
        split_ptk_id(ptk_id)
        return VersionListing(version_document(version) for version in self._service.versions(ptk_id))

    def evaluations(self, ptk_id: str) -> list[dict[str, Any]]:
        """List the paid estimates of the losses of a PTK's versions: `loss`, `standard_error` and what they cost."""
        return [evaluation_row(one) for one in self._service.evaluations(ptk_id)]

    def validations(self, ptk_id: str) -> list[dict[str, Any]]:
        """List the verdicts on a PTK's trained states, by window: `decision`, `bound`, the version it became."""
        return [validation_row(one) for one in self._service.validations(ptk_id)]

    def rollback(self, ptk_id: str, to: int) -> int:
        """Publish the state of version `to` again as the PTK's next version; returns its number, costs no budget.

        Raises
        ------
        UnknownName
            No such PTK or published version.
        Conflict
            A training of the PTK is under way.
        """
        split_ptk_id(ptk_id)
        return self._service.rollback_ptk(ptk_id, to)

    def materialize(self, ptk_id: str) -> int:
        """Have workers write the rows of the newest version online again; returns its number, costs no budget.

        For an online store that lost them. Repeating it is harmless.

        Raises
        ------
        UnknownName
            No such PTK, or it has no published version.
        """
        split_ptk_id(ptk_id)
        return self._service.materialize_ptk(ptk_id)

    def diff(self, ptk_id: str, one: int, other: int) -> VersionDiff:
        """Compare two published versions: facts of their manifests, rows and columns of their tables."""
        split_ptk_id(ptk_id)
        return self._service.diff_versions(ptk_id, one, other)

    def lineage(self, ptk_id: str, version: int | None = None) -> tuple[Ancestor, ...]:
        """List the versions whose states went into a version (the newest by default), itself first."""
        newest = self.ptk(ptk_id, version).version
        return lineage_of(ptk_id, newest, lambda name, number: self._service.ptk_version(name, number)[0])

    def lineage_of_window(self, stream: str, window: int) -> tuple[Descendant, ...]:
        """List the published versions that a window's rows went into, of all teams' PTKs, by PTK and number.

        Those that were trained on the window, and those made from such; PTKs that were deregistered are among them.

        Raises
        ------
        UnknownName
            No such stream, or it has closed no such window and no version is made from one.
        """
        checked_name("stream", stream)
        if not isinstance(window, int) or isinstance(window, bool) or not 0 <= window <= INDEX_MAX:
            raise InvalidRequest("a window is a whole number from 0 on, counted from the stream's origin")
        return self._service.trace_window(stream, window)
