"""The use cases of a store behind the HTTP API, called as those of one on this machine."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ptkstore.application.ingest.ingest_records import (
    IngestReply,
    may_be_stored,
    may_be_stored_in_part,
    partly_stored,
    taken_up_to,
)
from ptkstore.application.ledger.export_ledger import Export
from ptkstore.application.ledger.verification import LedgerCheck
from ptkstore.application.states.diff_versions import VersionDiff, difference
from ptkstore.domain.accounting.assurances import Assurance, assured_of
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.ledger.odometers import Odometers
from ptkstore.domain.names import ptk_id_of
from ptkstore.domain.near_names import Names
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.room_for_more import RoomForMore
from ptkstore.domain.scheduling.queues import QueuedPtk, WaitSpan
from ptkstore.domain.scheduling.simulation.outcomes import SimulationResult
from ptkstore.domain.scheduling.simulation.requests import SimulationRequest
from ptkstore.domain.streams.persons import PersonLoss
from ptkstore.domain.streams.policies import present_origin
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import (
    Conflict,
    CorruptObject,
    InvalidRequest,
    OutcomeUnknown,
    PtkStoreError,
    UnknownName,
)
from ptkstore.ports.features import Answers
from ptkstore.ports.runtime import TellSteps, tell_nobody
from ptkstore.sdk.devices import tickets_of
from ptkstore.sdk.documents.persons import person_loss_of
from ptkstore.sdk.documents.queues import ended_waits_of, queue_of
from ptkstore.sdk.documents.resources import (
    asked_document,
    block_of,
    odometers_of,
    ptk_of,
    stream_of,
)
from ptkstore.sdk.documents.rooms import room_of
from ptkstore.sdk.documents.simulations import simulation_of
from ptkstore.sdk.remote.parts import Parts
from ptkstore.sdk.remote.reading import RemoteIdentity, RemoteReading
from ptkstore.sdk.remote.repositories import RemoteRepositories
from ptkstore.sdk.remote.subscribing import RemoteSubscribing
from ptkstore.sdk.remote.transport import Transport, path_of, plain, read

if TYPE_CHECKING:
    from ptkstore.application.devices.issue_tickets import Issued

ARROW_STREAM = "application/vnd.apache.arrow.stream"
ENTITIES_MAX = 10_000
_BATCH_ID_MAX = 200


class RemoteService(RemoteReading, RemoteSubscribing, RemoteRepositories):
    """`StoreService` over HTTP."""

    def __init__(self, url: str, token: str) -> None:
        self._http = Transport(url, token)
        self.identity = RemoteIdentity(self._http)

    # streams

    def create_stream(self, stream: Stream) -> None:
        self._http.create(path_of("streams"), asked_document(stream), stream_of)

    def origin_for(self, stream: str, window: timedelta) -> datetime:
        try:
            return self.stream(stream).policy.origin
        except UnknownName:
            return present_origin(datetime.now(UTC), window)

    def evolve_stream(
        self, stream: str, column: str, kind: ColumnType, default: str | int | float | bool
    ) -> Stream:
        body = {"add_column": {"name": column, "type": kind.value, "default": default}}
        return self._http.ask("PATCH", path_of("streams", stream), stream_of, plain(body), repeatable=True)

    def ingest(self, stream: str, table: pa.Table, batch_id: str | None = None) -> IngestReply:
        """Store rows; a large table goes in parts, each of which is stored as a whole or not at all.

        Raises
        ------
        OutcomeUnknown
            Some of them, or all, may be stored; the error names the batch id to send the same rows with, in the
            same order.
        InvalidRequest
            Rows are not what the stream takes; the error names the first that is not stored, if others are.
        Conflict
            The batch was begun with other rows, or by a client that cut them otherwise.
        """
        batch_id = secrets.token_hex(16) if batch_id is None else batch_id
        _check_id(batch_id)
        parts = Parts(table)
        sent, accepted, refused, repeated = 0, 0, dict[str, int](), True
        for number, part in enumerate(parts, start=1):
            try:
                reply = self._ingest(stream, part, batch_id, (number, len(parts)))
            except OutcomeUnknown:
                unknown = may_be_stored if len(parts) == 1 else may_be_stored_in_part
                raise unknown(batch_id) from None
            except Conflict:
                raise
            except PtkStoreError as error:
                if number == 1:
                    raise
                if isinstance(error, InvalidRequest):
                    raise taken_up_to(batch_id, sent, error) from error
                raise partly_stored(batch_id, error) from error
            sent += part.num_rows
            accepted += reply.accepted
            repeated &= reply.repeated
            for reason, count in reply.refused.items():
                refused[reason] = refused.get(reason, 0) + count
        return IngestReply(batch_id, accepted, refused, repeated)

    def _ingest(self, stream: str, table: pa.Table, batch_id: str, part: tuple[int, int]) -> IngestReply:
        key = batch_id if part == (1, 1) else f"{batch_id} {part[0]}/{part[1]}"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        stored = self._http.send(
            "POST",
            path_of("streams", stream, "ingest"),
            content=sink.getvalue().to_pybytes(),
            headers={"Content-Type": ARROW_STREAM, "Idempotency-Key": key},
            repeatable=True,
        )
        return read(
            stored,
            lambda r: IngestReply(batch_id, int(r["accepted"]), dict(r["refused"]), bool(r["repeated"])),
        )

    def close_windows(
        self,
        stream: str,
        until: datetime | None = None,
        *,
        expire_unfinished: bool = False,
        tell: TellSteps = tell_nobody,
    ) -> tuple[WindowId, ...]:
        until_text = None if until is None else until.isoformat()
        body = {"until": until_text, "expire_unfinished": expire_unfinished}
        path = path_of("streams", stream, "close")
        return self._http.ask(
            "POST",
            path,
            lambda one: tuple(WindowId(stream, i) for i in one["windows"]),
            body,
            repeatable=False,
        )

    def forget(self, stream: str, unit: str | int) -> None:
        self._http.send("POST", path_of("streams", stream, "forget"), json={"unit": unit}, repeatable=True)

    # PTKs

    def register_ptk(self, *, team: str, stream: str, name: str, **said: Any) -> str:
        """Register a PTK and return its id; sent again until it is answered, done once."""
        ptk_id_of(team, name)  # which says what a name must be
        body = {"team": team, "stream": stream, "name": name, **said}
        return self._http.create(path_of("ptks"), plain(body), lambda made: str(made["ptk_id"]))

    def update_ptk(self, ptk_id: str, **change: Any) -> PtkSpec:
        body = {name: value for name, value in change.items() if value is not None}
        return self._http.ask("PATCH", path_of("ptks", ptk_id), ptk_of, plain(body), repeatable=True)

    def deregister_ptk(self, ptk_id: str) -> None:
        self._http.send("DELETE", path_of("ptks", ptk_id), repeatable=False)

    def resume_ptk(self, ptk_id: str) -> int:
        path = path_of("ptks", ptk_id, "resume")
        return self._http.ask("POST", path, lambda made: int(made["window"]), repeatable=True)

    def ptk_version(self, ptk_id: str, number: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        manifest, hashes = self._http.get(
            path_of("ptks", ptk_id, "versions", number, "manifest"),
            lambda one: (one, {str(file["name"]): str(file["sha256"]) for file in one["files"]}),
        )
        files = {}
        for name, sha256 in hashes.items():
            content = self._http.get_bytes(path_of("ptks", ptk_id, "versions", number, "files", name))
            if hashlib.sha256(content).hexdigest() != sha256:
                raise CorruptObject(f"a file of version {number} of {ptk_id} is not the published one")
            files[name] = content
        return manifest, files

    def rollback_ptk(self, ptk_id: str, to: int) -> int:
        if not isinstance(to, int) or isinstance(to, bool):
            raise InvalidRequest("a version is a whole number")
        path = path_of("ptks", ptk_id, "rollback")
        return self._http.ask("POST", path, _version_in, {"to": to}, repeatable=True)

    def materialize_ptk(self, ptk_id: str) -> int:
        return self._http.ask("POST", path_of("ptks", ptk_id, "materialize"), _version_in, repeatable=True)

    def diff_versions(self, ptk_id: str, one: int, other: int) -> VersionDiff:
        return difference(
            ptk_id, (one, other), self.ptk_version(ptk_id, one), self.ptk_version(ptk_id, other)
        )

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        if isinstance(features, str):
            raise InvalidRequest("name at least one feature, as a list of 'view:feature'")
        answers = Answers()
        most = max(1, min(ENTITIES_MAX, 200_000 // max(1, len(features))))
        for start in range(0, max(len(entities), 1), most):
            body = {"features": list(features), "entities": list(entities[start : start + most])}
            part = self._http.ask("POST", path_of("lookups"), _answers_of, plain(body), repeatable=True)
            answers = Answers([*answers, *part], {**answers.assured, **part.assured})
        return answers

    # reports

    def budget(self, stream: str) -> tuple[BlockLedger, ...]:
        return tuple(self._http.pages(path_of("streams", stream, "budget"), block_of, items="blocks"))

    def assurance_on(self, stream: str) -> tuple[Assurance, tuple[str, ...]]:
        return self._http.get(path_of("streams", stream, "budget"), _asserted_of, {"limit": 1})

    def room_for_more(self, stream: str) -> RoomForMore | None:
        try:
            return self._http.get(path_of("streams", stream, "room"), room_of)
        except InvalidRequest:  # an older server has no such path
            return None

    def queue(self, stream: str) -> tuple[QueuedPtk, ...]:
        return self._http.get(path_of("streams", stream, "queue"), queue_of)

    def ended_waits(self, stream: str) -> tuple[WaitSpan, ...]:
        return self._http.get(path_of("streams", stream, "queue", "ended"), ended_waits_of)

    def simulate(
        self, stream: str, request: SimulationRequest, *, tell: TellSteps = tell_nobody
    ) -> SimulationResult:
        asked = {
            "rate": request.rate,
            "windows": request.windows,
            "seed": request.seed,
            "scheduler": [one.value for one in request.schedulers],
            "least_significance": request.least_significance,
            "most_significance": request.most_significance,
        }
        params = {name: value for name, value in asked.items() if value is not None}
        return self._http.get(path_of("streams", stream, "simulation"), simulation_of, params)

    def issue_tickets(self, stream: str, ptk_id: str, count: int) -> Issued:
        """Ask for tickets. If an answer is lost they are asked for again; those that nobody has do nothing."""
        body = {"ptk": ptk_id, "count": count}
        path = path_of("device-streams", stream, "tickets")
        return self._http.ask("POST", path, tickets_of, body, repeatable=True)

    def odometers(self, stream: str) -> Odometers:
        return self._http.get(path_of("streams", stream, "odometers"), odometers_of)

    def person_loss(self, streams: Sequence[str]) -> PersonLoss:
        return self._http.get(path_of("ledger", "person"), person_loss_of, {"stream": list(streams)})

    def verify_ledger(self, stream: str) -> LedgerCheck:
        return self._http.get(
            path_of("streams", stream, "ledger", "verification"),
            lambda one: LedgerCheck(stream, one["entries"], one["blocks"], tuple(one["faults"])),
        )

    def export_ledger(
        self, stream: str, since: datetime | None = None, until: datetime | None = None
    ) -> Export:
        period = {"since": since, "until": until}
        params = {name: time.isoformat() for name, time in period.items() if time is not None}
        path = path_of("streams", stream, "ledger", "report")
        sent = self._http.send("GET", path, params=params, repeatable=True)
        return read(sent, lambda one: Export(sent.content, tuple(one["report"]["verification"]["faults"])))

    def report_key(self) -> str:
        return self._http.get(path_of("ledger", "key"), lambda one: bytes.fromhex(one["public_key"]).hex())

    def work_until_idle(self, at_once: int = 1) -> int:
        """Raise `InvalidRequest`: the workers of a remote store do its work."""
        raise InvalidRequest("a remote store is worked on by its own workers")

    def unlisted_names(self) -> Mapping[str, Names]:
        """Return None: the server says which names are near one that it does not know."""
        return {}

    def close(self) -> None:
        self._http.close()


def _check_id(batch_id: str) -> None:
    """Refuse an id that the server would refuse before anything is sent."""
    if not 1 <= len(batch_id) <= _BATCH_ID_MAX or not all("!" <= c <= "~" for c in batch_id):
        raise InvalidRequest(
            f"over HTTP a batch id has 1 to {_BATCH_ID_MAX} printable ASCII characters, no space"
        )


def _version_in(document: Mapping[str, Any]) -> int:
    return int(document["version"])


def _answers_of(document: Mapping[str, Any]) -> Answers:
    """Return the answers to a lookup. Older servers do not say whose word they are."""
    assured = {view: assured_of(one) for view, one in document.get("assured", {}).items()}
    return Answers(document["results"], assured)


def _asserted_of(document: Mapping[str, Any]) -> tuple[Assurance, tuple[str, ...]]:
    """Return the assurance of a budget. An older server does not tell it, so teams may vouch for it."""
    minimum = Assurance(document.get("minimum_assurance", Assurance.ASSERTED))
    return minimum, tuple(document.get("asserted_ptks", ()))
