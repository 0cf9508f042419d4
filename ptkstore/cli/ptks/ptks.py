"""Commands that read PTKs: list, show, versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptkstore.cli.output import AsJson, Rows, one_line, print_json, reads, seen
from ptkstore.cli.ptks.profiles import print_profile, profile_json
from ptkstore.cli.ptks.shown import print_lists, print_ptk, print_values, values_document
from ptkstore.cli.tables import HASH_SHOWN, minute
from ptkstore.domain.accounting.assurances import assured, assured_in
from ptkstore.domain.catalog_search import corrected, has_words, near_ptks, words_of
from ptkstore.domain.fields import declared_json
from ptkstore.domain.guarantee_sentences import guarantee_sentence
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.near_names import near
from ptkstore.domain.ptks.ptks import LATER_FIELDS, PtkSpec
from ptkstore.domain.versions.provenance import is_local
from ptkstore.errors import Deregistered, NotAllowed, UnknownName
from ptkstore.sdk import Store
from ptkstore.sdk.documents.times import age_in_words, to_the_second
from ptkstore.sdk.notices import notice_document

if TYPE_CHECKING:
    from ptkstore.application.states.state_tables import StateTable

VALUES_SHOWN = 50


@reads
def list_ptks(
    store: Store,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="Words in names, descriptions, tags, columns, owners and streams; all by default."
        ),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Those with this tag; repeat it for those with all of them.")
    ] = None,
    as_json: AsJson = False,
) -> Rows:
    """List registered PTKs: all, or those with these words or with a tag."""
    newest, times, specs = store.service.newest_versions(), store.service.newest_times(), store.service.ptks()
    used = sorted({one for spec in specs for one in spec.tags})
    for asked in tag or ():
        if asked not in used:
            raise UnknownName("tag", asked, near(asked, used, otherwise="no PTK that you may see has it"))
    wanted = words_of(" ".join(words or ()))
    found = [spec for spec in specs if set(tag or ()) <= set(spec.tags) and has_words(spec, wanted)]
    rows = [
        {
            "ptk": spec.ptk_id,
            "family": spec.family,
            "stream": spec.stream,
            "epsilon": spec.loss.epsilon,
            "delta": spec.loss.delta,
            "guarantee": "local, one report of a device" if spec.is_averaged else "central",
            "target": spec.target,
            "tau": spec.target,  # its name of before
            **assured(spec.assurance, spec.ptk_id).document(),
            **declared_json(spec, LATER_FIELDS),
            "versions": newest.get(spec.ptk_id),
            "newest_published_at": to_the_second(at) if (at := times.get(spec.ptk_id)) else None,
        }
        for spec in found
    ]
    if not as_json:
        now = datetime.now(UTC)
        descriptions = {spec.ptk_id: spec.description for spec in found}
        rows = _for_people(
            [
                {**row, "description": descriptions[row["ptk"]], "age": _age(times.get(row["ptk"]), now)}
                for row in rows
            ]
        )
    return Rows(rows, "PTKs", _nothing_found(wanted, tag, specs))


_SHOWN = "ptk family stream epsilon delta guarantee target assurance asserted_by windows tags versions age description"
_EXPECTED: Mapping[str, tuple[object, ...]] = {
    "delta": (0.0,),
    "guarantee": ("central",),
    "asserted_by": (None,),
    "windows": ([1, 1],),
    "tags": ([],),
    "description": ("",),
}
"""Columns that are shown only where some PTK has another value."""


def _for_people(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The columns that tell PTKs apart, with lists as words."""
    names = [name for name in _SHOWN.split() if any(row[name] not in _EXPECTED.get(name, ()) for row in rows)]
    return [{name: _in_words(name, row[name]) for name in names} for row in rows]


def _in_words(name: str, value: Any) -> Any:
    if name == "windows":
        least, most = value
        return f"{least}" if least == most else f"{least} to {most}"
    return ", ".join(value) if name == "tags" else value


def _age(at: datetime | None, now: datetime) -> str:
    return "" if at is None else age_in_words(at, now)


def _nothing_found(words: Sequence[str], tag: Sequence[str] | None, specs: Sequence[PtkSpec]) -> str:
    """Say why nothing is listed, and what may have been meant."""
    if words:
        text = " ".join(words)
        names = near_ptks(text, specs) or [better for better in [" ".join(corrected(words, specs))] if better]
        meant = f"; did you mean {' or '.join(map(repr, names))}?" if names else ""
        return one_line(f"no PTK has all of these words{meant or '; ptk list shows all'}")
    return "no PTK has all of these tags" if tag else "no PTKs yet; see: ptk apply --help"


@reads
def show(
    store: Store,
    ptk_id: str,
    values: Annotated[
        bool,
        typer.Option("--values", help="Show what the newest version says, with the noise of its columns."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the newest version of a PTK, its profile, trainings, estimated losses and the notices to its owner."""
    team, _ = split_ptk_id(ptk_id)
    spec = _registered(store, ptk_id)
    service = store.service
    profile = None if spec.is_averaged else seen(lambda: service.profile(ptk_id))
    evaluations = seen(lambda: store.evaluations(ptk_id))
    validations = seen(lambda: store.validations(ptk_id))
    # whoever reads evaluations reads states
    number = 0 if evaluations is None else service.newest_version(ptk_id)
    newest = service.version(ptk_id, number).content if number else None
    trainings = seen(lambda: store.trainings(ptk_id))
    notices = seen(lambda: service.notices(team))
    detail: dict[str, Any] = {
        "ptk": ptk_id,
        "family": spec.family,
        "description": spec.description,
        "stream": spec.stream,
        "target": spec.target,
        "tau": spec.target,  # its name of before
        **assured(spec.assurance, spec.ptk_id).document(),
        **declared_json(spec, LATER_FIELDS),
        "waiting": None if spec.waiting is None else asdict(spec.waiting),
        "config": {**spec.estimator["params"], **spec.config},  # as `set-config` takes it
        "profile": None if profile is None else profile_json(profile),
        "guarantee": "local, one report of a device" if spec.is_averaged else "central",
        "newest": newest,
        "evaluations": evaluations,
        "validations": validations,
        "trainings": None if trainings is None else [_but(one, "ptk_id") for one in trainings],
        "notices": None
        if notices is None
        else [
            _but(notice_document(one), "team")
            for one in notices
            if one.ptk_id == ptk_id and one.stream is None
        ],
    }
    state = _values(store, ptk_id, newest) if values else None
    if as_json:
        print_json({**detail, **({"values": values_document(state)} if values else {})})
        return
    print_ptk({**detail, "sentence": guarantee_sentence(spec, _privacy_unit(store, spec, newest))})
    if values:
        print_values(state)
    if profile is not None:
        print_profile(profile)
    print_lists(detail)


@reads
def versions(store: Store, ptk_id: str, as_json: AsJson = False) -> Rows:
    """List the published versions of a PTK."""
    split_ptk_id(ptk_id)
    published: list[dict[str, Any]] = []
    evaluations, validations = published, published
    with suppress(UnknownName):  # over HTTP, where nobody is told of what was never registered
        published, evaluations = store.versions(ptk_id), store.evaluations(ptk_id)
        validations = store.validations(ptk_id)
    if not published:  # of a PTK that was deregistered there are some
        _registered(store, ptk_id)
    evaluated = {one["version"]: one for one in evaluations}
    accepted = {one["version"]: one for one in validations}
    rows = [
        {
            "version": one["version"],
            "newest_window_end": one["newest_contributing_window"]["end"],
            "published_at": one["published_at"],
            "release_decision": one["release_decision"],
            "made_from": ", ".join(f"v{before['version']}" for before in one["made_from"]),
            "epsilon": one["guarantee"]["epsilon"],
            "delta": one["guarantee"]["delta"],
            **({"guarantee": f"local, {one['guarantee']['of']}"} if is_local(one) else {}),
            **assured_in(one, ptk_id).document(),
            "loss": evaluated.get(one["version"], {}).get("loss"),
            "standard_error": evaluated.get(one["version"], {}).get("standard_error"),
            **{
                name: accepted.get(one["version"], {}).get(name) for name in ("metric", "bound", "confidence")
            },
            "manifest_sha256": one["manifest_sha256"],
        }
        for one in published
    ]
    if not as_json:
        rows = _versions_for_people(rows)
    nothing = "nothing published yet; the first version comes once a window has closed and workers have trained on it"
    return Rows(rows, f"Versions of {ptk_id}", nothing)


def _versions_for_people(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same with times to the minute and short hashes; columns that are empty in all rows are left out."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if _tells(name, rows)]
    return [
        {_HEADINGS.get(name, name): _VERSION_WORDS.get(name, _as_is)(row.get(name)) for name in names}
        for row in rows
    ]


def _as_is(value: Any) -> Any:
    return value


_HEADINGS = {
    "newest_window_end": "data_until_utc",
    "published_at": "published_utc",
    "release_decision": "decision",
    "manifest_sha256": "manifest",
}
_VERSION_WORDS: Mapping[str, Callable[[Any], Any]] = {
    "newest_window_end": minute,
    "published_at": minute,
    "manifest_sha256": lambda text: text[:HASH_SHOWN],
}


def _tells(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row.get(name) not in (None, "") for row in rows) and not (
        name == "delta" and all(row[name] == 0 for row in rows)
    )


def _privacy_unit(store: Store, spec: PtkSpec, newest: Mapping[str, Any] | None) -> str | None:
    """The privacy unit of the newest version, before it that of the stream; None where neither is told."""
    if newest is not None and "privacy_unit" in newest["guarantee"]:
        return str(newest["guarantee"]["privacy_unit"])
    with suppress(UnknownName, NotAllowed):
        return store.service.stream(spec.stream).policy.privacy_unit.value
    return None


def _values(store: Store, ptk_id: str, newest: Mapping[str, Any] | None) -> StateTable | None:
    """The first rows of the newest state; None if there is none, or it is too large to be shown."""
    from ptkstore.application.states.state_tables import TableAsk, is_small, state_table

    if newest is None or not is_small(newest):
        return None
    return state_table(*store.service.ptk_version(ptk_id, newest["version"]), TableAsk(limit=VALUES_SHOWN))


def _registered(store: Store, ptk_id: str) -> PtkSpec:
    """The PTK of this id; `UnknownName` says which names are near it, `Deregistered` that there was one."""
    try:
        return store.service.ptk(ptk_id)
    except Deregistered:
        raise
    except UnknownName:
        ptk_ids = [spec.ptk_id for spec in store.service.ptks()]
        raise UnknownName("PTK", ptk_id, near(ptk_id, ptk_ids, otherwise="see: ptk list")) from None


def _but(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}
