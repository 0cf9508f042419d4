"""Commands that read PTKs: list, show, versions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ptkstore.cli.output import AsJson, Rows, print_json, reads, seen
from ptkstore.cli.ptks.profiles import print_profile, profile_json
from ptkstore.cli.ptks.shown import print_lists, print_ptk
from ptkstore.domain.accounting.assurances import assured, assured_in
from ptkstore.domain.fields import declared_json
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.near_names import near
from ptkstore.domain.ptks.ptks import LATER_FIELDS, PtkSpec
from ptkstore.domain.versions.provenance import is_local
from ptkstore.errors import Deregistered, UnknownName
from ptkstore.sdk import Store
from ptkstore.sdk.notices import notice_document


@reads
def list_ptks(
    store: Store,
    tag: Annotated[
        list[str] | None, typer.Option(help="Those with this tag; repeat it for those with all of them.")
    ] = None,
    as_json: AsJson = False,
) -> Rows:
    """List registered PTKs, all or those with a tag."""
    newest, specs = store.service.newest_versions(), store.service.ptks()
    used = sorted({one for spec in specs for one in spec.tags})
    for asked in tag or ():
        if asked not in used:
            raise UnknownName("tag", asked, near(asked, used, otherwise="no PTK that you may see has it"))
    rows = [
        {
            "ptk": spec.ptk_id,
            "family": spec.family,
            "stream": spec.stream,
            "epsilon": spec.loss.epsilon,
            "delta": spec.loss.delta,
            "guarantee": "local, one report of a device" if spec.is_averaged else "central",
            "target": spec.target,
            **({"tau": spec.target} if as_json else {}),  # its name of before
            **assured(spec.assurance, spec.ptk_id).document(),
            **declared_json(spec, LATER_FIELDS),
            "versions": newest.get(spec.ptk_id),
        }
        for spec in specs
        if set(tag or ()) <= set(spec.tags)
    ]
    nothing = "no PTK has all of these tags" if tag else "no PTKs yet; see: ptk apply --help"
    return Rows(rows, "PTKs", nothing)


@reads
def show(store: Store, ptk_id: str, as_json: AsJson = False) -> None:
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
    if as_json:
        print_json(detail)
        return
    print_ptk(detail)
    if profile is not None:
        print_profile(profile)
    print_lists(detail)


@reads
def versions(store: Store, ptk_id: str) -> Rows:
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
    nothing = "nothing published yet; the first version comes once a window has closed and workers have trained on it"
    return Rows(rows, f"Versions of {ptk_id}", nothing)


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
