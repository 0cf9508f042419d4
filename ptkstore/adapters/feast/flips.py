"""Versions in Feast's registry: which one is served, which ones can be pinned."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ptkstore.adapters.feast.names import PROJECT
from ptkstore.adapters.feast.session import Session
from ptkstore.errors import OutcomeUnknown

if TYPE_CHECKING:
    from feast import Entity, FeatureView


def served_view(session: Session, name: str) -> FeatureView | None:
    """What readers of `name` get now, read past every cache."""
    from feast.errors import FeatureViewNotFoundException

    try:
        return session.registry.get_feature_view(name, PROJECT, allow_cache=False)
    except FeatureViewNotFoundException:
        return None


def served_version(session: Session, name: str) -> int | None:
    """The version that readers of `name` get now; None before the first."""
    view = served_view(session, name)
    return None if view is None else view.current_version_number or 0


def version_before(session: Session, name: str, version: int) -> int | None:
    """The newest version below this one that was served and can still be pinned."""
    listed = session.registry.list_feature_view_versions(name, PROJECT)
    numbers = [int(entry["version_number"]) for entry in listed]
    return max((number for number in numbers if number < version), default=None)


def pinned_view(session: Session, name: str, version: int) -> FeatureView | None:
    """What readers of `name@vN` get."""
    from feast import FeatureView
    from feast.errors import FeatureViewVersionNotFound

    try:
        view = session.registry.get_feature_view_by_version(name, PROJECT, version)
    except FeatureViewVersionNotFound:
        return None
    assert isinstance(view, FeatureView)
    return view


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


def serve_together(
    session: Session, name: str, views: Sequence[FeatureView], description: str, tags: dict[str, str]
) -> None:
    """Make a feature service name these versions; one commit, so that its readers never mix two versions of a PTK.

    Feast pins a view in the service to the version that it names itself; one that named none would be served as
    whatever is the newest.
    """
    from feast import FeatureService

    service = FeatureService(
        name=name, features=list(views), owner="ptkstore", description=description, tags=tags
    )
    session.registry.apply_feature_service(service, PROJECT)


def forget_service(session: Session, name: str) -> None:
    """Delete a feature service; repeatable."""
    from feast.errors import FeatureServiceNotFoundException

    try:
        session.registry.delete_feature_service(name, PROJECT)
    except FeatureServiceNotFoundException:
        return


def forget_view(session: Session, name: str) -> None:
    """Delete a view with all its versions; repeatable."""
    from feast.errors import FeatureViewNotFoundException

    try:
        session.registry.delete_feature_view(name, PROJECT)
    except FeatureViewNotFoundException:
        # A first flip that died half way left a snapshot without an active row.
        session.database.delete_snapshots(name)
