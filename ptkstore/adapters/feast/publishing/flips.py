"""Changes of Feast's registry: another version is served, old ones can no longer be pinned."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from ptkstore.adapters.feast.names import PROJECT, view_name
from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.tags import PTK_TAG
from ptkstore.adapters.feast.versions import pinned_view, served_version, served_view
from ptkstore.errors import OutcomeUnknown
from ptkstore.ports.features import PublishedState

if TYPE_CHECKING:
    from feast import Entity, FeatureView
    from feast.on_demand_feature_view import OnDemandFeatureView


def declare(session: Session, entities: list[Entity]) -> None:
    """Register the entities of a view before the view, or readers could meet a view without its keys."""
    for entity in entities:
        session.registry.apply_entity(entity, PROJECT)


def serve(session: Session, view: FeatureView) -> None:
    """Make a view's version the served one; repeatable, also after a crash half way.

    Feast commits the version's snapshot and then the active row. After a crash in between, applying the same
    view again is a conflict for ever; applying the *served* view under the new version's name makes Feast
    restore the snapshot.
    Raises `OutcomeUnknown` if the registry does not show the version afterwards.
    """
    version = view.current_version_number
    assert version is not None
    served = served_view(session, view.name)
    if served is not None and served.current_version_number == version:
        return
    if served is not None and pinned_view(session, view.name, version) is not None:
        served.version = view.version
        session.registry.apply_feature_view(served, PROJECT)
    else:
        session.registry.apply_feature_view(view, PROJECT)
    if served_version(session, view.name) != version:
        raise OutcomeUnknown(f"Feast does not serve {view.name} v{version} after the flip")


def serve_on_demand(session: Session, view: OnDemandFeatureView) -> None:
    """Make an on-demand view the served one; it has no versions; needs the write lock; repeatable."""
    from feast.feature_view import DUMMY_ENTITY  # every on-demand view has it

    declare(session, [DUMMY_ENTITY])
    session.registry.apply_feature_view(view, PROJECT)
    session.database.delete_snapshots(view.name)


def withdraw_on_demand(session: Session, name: str) -> None:
    """Take an on-demand view away; repeatable. The rows that it reads stay."""
    from feast.errors import FeatureViewNotFoundException

    try:
        session.registry.get_on_demand_feature_view(name, PROJECT)
    except FeatureViewNotFoundException:
        return
    forget_view(session, name)
    session.database.delete_snapshots(name)


def widen(session: Session, view: FeatureView) -> None:
    """Give a view that has one version for ever the columns that it lacks; repeatable, also after a crash half way.

    Feast would take it for a second version of its number, so the stored one goes first.
    """
    session.database.delete_snapshots(view.name)
    session.registry.apply_feature_view(view, PROJECT)


def forget_versions(
    session: Session, name: str, *, below: int, superseded_for_seconds: float
) -> tuple[list[int], list[int]]:
    """Delete the snapshots of versions `< below`, so that nobody can resolve them: (remaining, deleted).

    A version whose successor is younger than `superseded_for_seconds` stays: readers may not know that yet.
    """
    listed = session.registry.list_feature_view_versions(name, PROJECT)
    created = {entry["version_number"]: entry["created_timestamp"].timestamp() for entry in listed}
    numbers = sorted(created)
    oldest_successor = time.time() - superseded_for_seconds
    gone = [
        number
        for number, successor in pairwise(numbers)
        if number < below and created[successor] < oldest_successor
    ]
    if gone:
        session.database.delete_snapshots(name, gone)
    return [number for number in numbers if number not in gone], gone


def serve_together(session: Session, state: PublishedState, views: Sequence[FeatureView]) -> None:
    """Make a PTK's feature service name the views of a version; one commit, so that its readers never mix two.

    Feast pins a view in the service to the version that it names itself; one that named none would be served as
    whatever is the newest.
    """
    from feast import FeatureService

    service = FeatureService(
        name=view_name(state.ptk_id, "", 1),
        features=list(views),
        owner="ptkstore",
        description=state.made.described(f"All of {state.ptk_id} at its newest version."),
        tags={PTK_TAG: state.ptk_id, **state.made.tags()},
    )
    session.registry.apply_feature_service(service, PROJECT)


def forget_service(session: Session, name: str) -> None:
    """Delete a feature service; repeatable."""
    from feast.errors import FeatureServiceNotFoundException

    with suppress(FeatureServiceNotFoundException):
        session.registry.delete_feature_service(name, PROJECT)


def forget_view(session: Session, name: str) -> None:
    """Delete a view with all its versions; repeatable."""
    from feast.errors import FeatureViewNotFoundException

    try:
        session.registry.delete_feature_view(name, PROJECT)
    except FeatureViewNotFoundException:
        # A first flip that died half way left a snapshot without an active row.
        session.database.delete_snapshots(name)
