"""Reads of a store behind the HTTP API."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from ptkstore.application.profiling.read_profile import ProfileView
from ptkstore.application.streams.exposure import Exposure
from ptkstore.application.training.read_trainings import Training
from ptkstore.application.versions.trace_window import Descendant
from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.evaluations import Evaluation
from ptkstore.domain.identity import Grant, Role, Token
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import Window
from ptkstore.domain.validations import Validation
from ptkstore.sdk.documents.evaluations import evaluation_of
from ptkstore.sdk.documents.exposures import exposure_of, window_of
from ptkstore.sdk.documents.lineage import descendant_of
from ptkstore.sdk.documents.profiles import profile_of
from ptkstore.sdk.documents.resources import ptk_of, stream_of
from ptkstore.sdk.documents.validations import validation_of
from ptkstore.sdk.notices import notice_of, training_of
from ptkstore.sdk.remote.transport import Transport, path_of, read

if TYPE_CHECKING:
    from ptkstore.application.operations.read_overview import Overview
    from ptkstore.application.planning.recommend_rows import StreamAdvice


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version in a list; `content` is what lists tell of its manifest."""

    ptk_id: str
    number: int
    sha256: str
    content: Mapping[str, Any]


class RemoteReading:
    """The reads of `StoreService`, over HTTP."""

    _http: Transport

    def overview(self) -> Overview:
        from ptkstore.sdk.overviews import overview_of  # loads what reads it in a home

        return self._http.get(path_of("overview"), overview_of)

    def streams(self) -> tuple[Stream, ...]:
        return tuple(self._http.pages(path_of("streams"), stream_of))

    def stream(self, name: str) -> Stream:
        return self._http.get(path_of("streams", name), stream_of)

    def windows(self, stream: str) -> tuple[Window, ...]:
        path = path_of("streams", stream, "windows")
        return tuple(self._http.pages(path, lambda one: window_of(stream, one)))

    def exposure(self, stream: str) -> Exposure:
        return self._http.get(path_of("streams", stream, "exposure"), exposure_of)

    def recommend_rows(self, stream: str, partitions: int | None = None) -> StreamAdvice:
        from ptkstore.application.planning.recommend_rows import check_partitions  # loads what plans
        from ptkstore.sdk.documents.recommendations import advice_of

        check_partitions(partitions)
        policy = self.stream(stream).policy
        path = path_of("streams", stream, "recommendation")
        params = {} if partitions is None else {"partitions": partitions}
        return self._http.get(path, lambda document: advice_of(document, policy), params)

    def ptks(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        return tuple(self._http.pages(path_of("ptks"), ptk_of, {"stream": stream, "team": team}))

    def ptk(self, ptk_id: str) -> PtkSpec:
        return self._http.get(path_of("ptks", ptk_id), ptk_of)

    def newest_versions(self) -> Mapping[str, int]:
        newest = self._http.pages(path_of("ptks"), lambda one: (str(one["ptk_id"]), one["newest_version"]))
        return {ptk_id: number for ptk_id, number in newest if number is not None}

    def newest_times(self) -> Mapping[str, datetime]:
        found = self._http.pages(
            path_of("ptks"),
            lambda one: (str(one["ptk_id"]), one.get("newest_published_at")),  # an earlier service tells none
        )
        return {ptk_id: datetime.fromisoformat(at) for ptk_id, at in found if at is not None}

    def versions(self, ptk_id: str) -> tuple[PublishedVersion, ...]:
        return tuple(
            self._http.pages(
                path_of("ptks", ptk_id, "versions"),
                lambda one: PublishedVersion(ptk_id, one["version"], one["manifest_sha256"], one),
            )
        )

    def newest_version(self, ptk_id: str) -> int:
        return max((one.number for one in self.versions(ptk_id)), default=0)

    def version(self, ptk_id: str, number: int) -> PublishedVersion:
        sent = self._http.send(
            "GET", path_of("ptks", ptk_id, "versions", number, "manifest"), repeatable=True
        )
        sha256 = hashlib.sha256(sent.content).hexdigest()
        return PublishedVersion(ptk_id, number, sha256, read(sent, dict))

    def trace_window(self, stream: str, window: int) -> tuple[Descendant, ...]:
        path = path_of("streams", stream, "windows", window, "versions")
        return tuple(self._http.pages(path, descendant_of))

    def validations(self, ptk_id: str) -> tuple[Validation, ...]:
        return tuple(self._http.pages(path_of("ptks", ptk_id, "validations"), validation_of))

    def evaluations(self, ptk_id: str) -> tuple[Evaluation, ...]:
        return tuple(self._http.pages(path_of("ptks", ptk_id, "evaluations"), evaluation_of))

    def profile(self, ptk_id: str) -> ProfileView:
        return self._http.get(path_of("ptks", ptk_id, "profile"), profile_of)

    def notices(self, team: str | None = None, *, since: datetime | None = None) -> tuple[Notice, ...]:
        params = {"team": team, "since": None if since is None else since.isoformat()}
        return tuple(self._http.pages(path_of("notices"), notice_of, params))

    def trainings(self, ptk_id: str) -> tuple[Training, ...]:
        return tuple(self._http.pages(path_of("ptks", ptk_id, "trainings"), training_of))


class RemoteIdentity:
    """`IdentityReads` over HTTP; no secret comes along."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def teams(self) -> tuple[str, ...]:
        return tuple(self._http.pages(path_of("teams"), lambda one: str(one["name"])))

    def tokens(self, team: str | None = None) -> tuple[Token, ...]:
        tokens = self._http.pages(path_of("tokens"), _token_of, {"team": team})
        return tuple(sorted(tokens, key=lambda token: (token.created_at, token.id)))

    def grants(self, team: str | None = None, stream: str | None = None) -> tuple[Grant, ...]:
        grants = self._http.pages(path_of("grants"), _grant_of, {"team": team, "stream": stream})
        return tuple(sorted(grants, key=lambda one: (one.team, one.stream, one.role.value)))

    def audit_log(
        self, after: int = 0, limit: int = 100, *, team: str | None = None
    ) -> tuple[AuditEntry, ...]:
        entries = self._http.pages(path_of("audit-log"), _entry_of, {"after": after, "team": team})
        return tuple(islice(entries, limit))


def _token_of(document: Mapping[str, Any]) -> Token:
    revoked = document["revoked_at"]
    return Token(
        id=document["id"],
        team=document["team"],
        label=document["label"],
        scopes=frozenset(map(Role, document["scopes"])),
        digest="",
        created_at=datetime.fromisoformat(document["created_at"]),
        expires_at=datetime.fromisoformat(document["expires_at"]),
        revoked_at=None if revoked is None else datetime.fromisoformat(revoked),
    )


def _grant_of(document: Mapping[str, Any]) -> Grant:
    return Grant(document["team"], document["stream"], Role(document["role"]))


def _entry_of(document: Mapping[str, Any]) -> AuditEntry:
    return AuditEntry(**{**document, "at": datetime.fromisoformat(document["at"])})
