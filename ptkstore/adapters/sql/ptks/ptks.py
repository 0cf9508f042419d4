"""PTKs and versions in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, case, func, insert, select, tuple_, union, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.content import ptk_of, ptk_text
from ptkstore.adapters.sql.notices import SqlNotices
from ptkstore.adapters.sql.ptks.lineage import AT_ONCE, lineage_since
from ptkstore.adapters.sql.ptks.profiles import SqlProfiles
from ptkstore.adapters.sql.statements import CatalogPart, given, row_of
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.domain.ptks.bundles import TEAM_CODE
from ptkstore.domain.ptks.profiles import usable
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Lineage, Version
from ptkstore.errors import Deregistered, LateWriter, NameTaken, UnknownName

_SPEC = (t.ptks.c.content, t.ptks.c.waits_since, t.ptks.c.given_up)
_STREAM_OF = select(t.ptks.c.stream).where(t.ptks.c.ptk_id == bindparam("ptk_id"))


class SqlPtks(CatalogPart):
    """Registered PTKs, each with what its profile says today."""

    def __init__(self, connection: Connection, profiles: SqlProfiles) -> None:
        super().__init__(connection)
        self._profiles = profiles

    def add(self, spec: PtkSpec, first_window: int = 0, at: datetime | None = None) -> None:
        """Register; an id stays with its stream, so that its versions stay one history."""
        before = self._connection.execute(_used(spec.ptk_id).with_for_update()).one_or_none()
        _check_is_free(spec.ptk_id, spec.stream, before)
        if before is not None:
            self._write(spec, active=1, registered_at=at)
            return
        try:
            row = row_of(
                t.ptks,
                spec,
                active=1,
                first_window=first_window,
                registered_at=at,
                **_written(spec),
                **_waits(spec.waiting),
            )
            self._connection.execute(insert(t.ptks).values(row))
        except IntegrityError:
            raise NameTaken(f"PTK {spec.ptk_id!r} was registered by somebody else just now") from None

    def check_free(self, ptk_id: str, stream: str) -> None:
        """Raise `NameTaken` if the id is registered, or belongs to another stream; for reading."""
        _check_is_free(ptk_id, stream, self._connection.execute(_used(ptk_id)).one_or_none())

    def replace(self, spec: PtkSpec) -> None:
        """Overwrite a registered PTK."""
        self._write(spec)

    def _write(self, spec: PtkSpec, **more: Any) -> None:
        change, written = update(t.ptks).where(t.ptks.c.ptk_id == spec.ptk_id), _written(spec)
        if written["labelled_stream"] is None:
            del written["labelled_stream"]  # its looks count there, should it ask for verdicts again
        else:
            is_new = t.ptks.c.labelled_stream.is_(None)
            more["first_window"] = case((is_new, 0), else_=t.ptks.c.first_window)  # it was of its own stream
        self._connection.execute(change.values(**written, **more))

    def wait(self, ptk_id: str, waiting: AcceptDeadline | None) -> None:
        """Write since when a PTK waits for an accepted version, or that it waits no longer."""
        change = update(t.ptks).where(t.ptks.c.ptk_id == ptk_id)
        self._connection.execute(change.values(**_waits(waiting)))

    def remove(self, ptk_id: str) -> None:
        """Deregister; published versions stay."""
        self._connection.execute(update(t.ptks).where(t.ptks.c.ptk_id == ptk_id).values(active=0))

    def get(self, ptk_id: str) -> PtkSpec:
        """Read a PTK; `Deregistered` if it no longer is registered, `UnknownName` if it never was."""
        query = select(*_SPEC, t.ptks.c.active, t.ptks.c.team).where(t.ptks.c.ptk_id == ptk_id)
        row = self._one(query, "PTK", ptk_id)
        if not row.active:
            raise self._deregistered(ptk_id, row.team)
        return self.informed(_spec(row))

    def _deregistered(self, ptk_id: str, team: str) -> Deregistered:
        notices = SqlNotices(self._connection).about(team, ptk_id)
        times = [f" on {one.at:%Y-%m-%d %H:%M} UTC" for one in notices if one.code == Deregistered.code]
        hint = (
            f"it was deregistered{times[-1] if times else ''}; declare it and run ptk apply to bring it back"
        )
        return Deregistered("PTK", ptk_id, hint)

    def stream_of(self, ptk_id: str) -> str:
        """Return the stream of a PTK, also of one that was deregistered."""
        stream: str | None = self._connection.execute(_STREAM_OF, {"ptk_id": ptk_id}).scalar_one_or_none()
        if stream is None:
            raise UnknownName("PTK", ptk_id)
        return stream

    def first_window(self, ptk_id: str) -> int:
        """Return the window below which none was ever read for a PTK; 0 where that is not known."""
        query = select(t.ptks.c.first_window).where(t.ptks.c.ptk_id == ptk_id)
        return int(self._connection.execute(query).scalar_one_or_none() or 0)

    def ids_on(self, stream: str) -> tuple[str, ...]:
        """List all PTKs that a stream ever had, by what was registered and by the runs that made versions."""
        registered = select(t.ptks.c.ptk_id).where(t.ptks.c.stream == stream)
        made = select(t.versions.c.ptk_id).join(t.jobs).where(t.jobs.c.stream == stream)
        ids = self._connection.execute(union(registered, made)).scalars()
        return tuple(sorted(ids))  # databases order texts in many ways

    def by_age(self, stream: str) -> tuple[str, ...]:
        """Name the registered PTKs of a stream, the one that was registered last at the end."""
        ptk = t.ptks.c
        query = select(ptk.ptk_id, ptk.registered_at, ptk.first_window)
        rows = self._connection.execute(query.where(*given(t.ptks, active=1, stream=stream)))
        return tuple(row.ptk_id for row in sorted(rows, key=_age))

    def lock(self, ptk_id: str) -> PtkSpec | None:
        """Serialise elections of one PTK."""
        query = select(*_SPEC, t.ptks.c.active).where(t.ptks.c.ptk_id == ptk_id).with_for_update()
        row = self._connection.execute(query).one_or_none()
        return self.informed(_spec(row)) if row is not None and row.active else None

    def find(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        """Find registered PTKs, by id."""
        query = select(*_SPEC).where(*given(t.ptks, active=1, stream=stream, team=team))
        rows = self._connection.execute(query.order_by(t.ptks.c.ptk_id))
        return self._informed(list(map(_spec, rows)))

    def tested_on(self, stream: str) -> tuple[PtkSpec, ...]:
        """Find registered PTKs of other streams whose verdicts this one pays for, by id."""
        query = select(*_SPEC).where(*given(t.ptks, active=1, labelled_stream=stream))
        found = map(_spec, self._connection.execute(query.order_by(t.ptks.c.ptk_id)))
        return tuple(spec for spec in found if spec.tested_on == stream)  # others were tested there before

    def labelled_stream(self, ptk_id: str) -> str | None:
        """Return the other stream that pays, or paid before, for verdicts on a PTK; None if none ever did."""
        query = select(t.ptks.c.labelled_stream).where(t.ptks.c.ptk_id == ptk_id)
        stream: str | None = self._connection.execute(query).scalar_one_or_none()
        return stream

    def informed(self, spec: PtkSpec) -> PtkSpec:
        """Return the PTK with what the profile it asks for says today, whoever that was made for."""
        return self._informed([spec])[0]

    def _informed(self, specs: Sequence[PtkSpec]) -> tuple[PtkSpec, ...]:
        keys = {spec.ptk_id: spec.profile.key for spec in specs if spec.profile is not None}
        if not keys:
            return tuple(specs)
        records = self._profiles.of(keys.values())
        usable_of = {ptk_id: usable(records[key]) for ptk_id, key in keys.items()}
        menus = {ptk_id: record.menu for ptk_id, record in usable_of.items() if record is not None}
        return tuple(replace(spec, menu=menus.get(spec.ptk_id, ())) for spec in specs)


def _age(row: Any) -> tuple[bool, float, int, str]:
    """Order PTKs: those of older programs, of which no time is known, come first."""
    known = row.registered_at is not None
    return known, row.registered_at.timestamp() if known else 0.0, row.first_window, row.ptk_id


def _spec(row: Any) -> PtkSpec:
    """Read a registered PTK from a row that has `_SPEC`."""
    spec = ptk_of(row.content)
    if row.waits_since is None:
        return spec
    given_up = None if row.given_up is None else GivenUp(row.given_up)
    return replace(spec, waiting=AcceptDeadline(row.waits_since, given_up))


def _waits(waiting: AcceptDeadline | None) -> dict[str, Any]:
    if waiting is None:
        return {"waits_since": None, "given_up": None}
    return {"waits_since": waiting.since, "given_up": waiting.given_up}


def _written(spec: PtkSpec) -> dict[str, Any]:
    labelled = None if spec.tested_on == spec.stream else spec.tested_on
    return {"content": ptk_text(spec), "own_code": int(spec.family == TEAM_CODE), "labelled_stream": labelled}


def _used(ptk_id: str) -> Select[tuple[int, str]]:
    return select(t.ptks.c.active, t.ptks.c.stream).where(t.ptks.c.ptk_id == ptk_id)


def _check_is_free(ptk_id: str, stream: str, before: Row[tuple[int, str]] | None) -> None:
    if before is None:
        return
    if before.active:
        raise NameTaken(f"PTK {ptk_id!r} is registered already")
    if before.stream != stream:
        raise NameTaken(
            f"PTK {ptk_id!r} was deregistered on stream {before.stream!r}, and its versions keep the name: "
            "register it there again, or choose another name"
        )


class SqlVersions(CatalogPart):
    """Elected states."""

    def add(self, version: Version) -> None:
        """Record a version; `LateWriter` for a second one of a job, and for a number used before."""
        try:
            self._connection.execute(insert(t.versions).values(row_of(t.versions, version)))
        except IntegrityError:
            raise LateWriter(
                f"version {version.number} of {version.ptk_id} or another output of its run exists"
            ) from None

    def get(self, ptk_id: str, number: int) -> Version:
        """Read a version; `UnknownName` if there is none."""
        query = select(t.versions).where(t.versions.c.ptk_id == ptk_id, t.versions.c.number == number)
        return _version(self._one(query, "version", f"{ptk_id} v{number}"))

    def latest(self, ptk_id: str) -> Version | None:
        """Return the version of the highest number."""
        query = (
            select(t.versions)
            .where(t.versions.c.ptk_id == ptk_id)
            .order_by(t.versions.c.number.desc())
            .limit(1)
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _version(row)

    def last_rollback(self, ptk_id: str) -> int | None:
        """Return the number of the newest version that a rollback made."""
        made = given(t.jobs, ptk_id=ptk_id, kind=JobKind.ROLLBACK)
        query = select(func.max(t.versions.c.number)).join(t.jobs).where(*made)
        number: int | None = self._connection.execute(query).scalar_one()
        return number

    def of(
        self, ptk_id: str, *, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> tuple[Version, ...]:
        """Return the versions above `after` and up to `until`, by number."""
        query = select(t.versions).where(t.versions.c.ptk_id == ptk_id, t.versions.c.number > after)
        if until is not None:
            query = query.where(t.versions.c.number <= until)
        rows = self._connection.execute(query.order_by(t.versions.c.number).limit(limit))
        return tuple(map(_version, rows))

    def of_jobs(self, job_ids: Iterable[str]) -> Mapping[str, tuple[int, datetime]]:
        """Return number and time of election, without the manifests."""
        query = select(t.versions.c.job_id, t.versions.c.number, t.versions.c.elected_at)
        rows = self._rows_with(query, t.versions.c.job_id, job_ids)
        return {row.job_id: (row.number, row.elected_at) for row in rows}

    def elected_since(self, at: datetime) -> tuple[tuple[str, int, datetime], ...]:
        """Return PTK, number and time of election of all versions since then, without the manifests."""
        version = t.versions.c
        query = select(version.ptk_id, version.number, version.elected_at).where(version.elected_at >= at)
        rows = self._connection.execute(query.order_by(version.elected_at, version.ptk_id, version.number))
        return tuple((row.ptk_id, row.number, row.elected_at) for row in rows)

    def newest_times(self) -> Mapping[str, datetime]:
        """Return the time of election of the newest version in the lake, for each PTK that has one."""
        place, made = t.jobs, t.versions.c
        query = select(made.ptk_id, made.elected_at).join(
            place, (place.c.ptk_id == made.ptk_id) & (place.c.position == made.number)
        )
        rows = self._connection.execute(query.where(place.c.kind == JobKind.PLACE))
        return {row.ptk_id: row.elected_at for row in rows}

    def lineage(self, ptk_id: str, since: WindowId) -> tuple[Lineage, ...]:
        """Read where versions come from; one whose manifest cannot be read is among them."""
        return lineage_since(self._connection, ptk_id, since)

    def on_windows(self, stream: str, lo: int, hi: int) -> tuple[tuple[int, int, int], ...]:
        """Count versions in the lake, by the oldest and the newest window that their runs read."""
        place, made = t.jobs.alias(), t.versions.c
        oldest = func.coalesce(t.jobs.c.oldest_window, made.window_index)
        query = (
            select(oldest, made.window_index, func.count())
            .join(t.jobs, t.jobs.c.id == made.job_id)
            .join(place, (place.c.ptk_id == made.ptk_id) & (place.c.kind == JobKind.PLACE))
            .where(t.jobs.c.stream == stream, made.number <= place.c.position)
            .where(made.window_index >= lo, oldest < hi)
            .group_by(oldest, made.window_index)
        )
        return tuple((int(low), int(high), int(n)) for low, high, n in self._connection.execute(query))

    def all(self) -> Iterator[Version]:
        """Return the versions of all PTKs, one by one."""
        place = tuple_(t.versions.c.ptk_id, t.versions.c.number)
        query = select(t.versions).order_by(*place).limit(AT_ONCE)
        while rows := self._connection.execute(query).all():
            yield from map(_version, rows)
            query = query.where(place > (rows[-1].ptk_id, rows[-1].number))

    def draft_ids(self, windows: Sequence[WindowId] | None = None) -> frozenset[str]:
        """Name the drafts that were elected."""
        query = select(t.versions.c.draft_id)
        if windows is not None:
            these = tuple_(t.jobs.c.stream, t.versions.c.window_index)
            query = query.join(t.jobs).where(these.in_([(one.stream, one.index) for one in windows]))
        return frozenset(self._connection.execute(query).scalars())


def _version(row: Row[Any]) -> Version:
    return Version(**row._mapping)
