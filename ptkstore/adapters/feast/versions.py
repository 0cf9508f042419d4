"""Versions in Feast's registry: which one is served, which ones can be pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptkstore.adapters.feast.names import PROJECT
from ptkstore.adapters.feast.session import Session

if TYPE_CHECKING:
    from feast import FeatureView


def served_view(session: Session, name: str) -> FeatureView | None:
    """Read the view that readers of `name` get now, past every cache."""
    from feast.errors import FeatureViewNotFoundException

    try:
        return session.registry.get_feature_view(name, PROJECT, allow_cache=False)
    except FeatureViewNotFoundException:
        return None


def served_version(session: Session, name: str) -> int | None:
    """Return the version that readers of `name` get now; None before the first."""
    view = served_view(session, name)
    return None if view is None else view.current_version_number or 0


def version_before(session: Session, name: str, version: int) -> int | None:
    """Return the newest version below this one that was served and can still be pinned."""
    listed = session.registry.list_feature_view_versions(name, PROJECT)
    numbers = [int(entry["version_number"]) for entry in listed]
    return max((number for number in numbers if number < version), default=None)


def pinned_view(session: Session, name: str, version: int) -> FeatureView | None:
    """Read the view that readers of `name@vN` get."""
    from feast import FeatureView
    from feast.errors import FeatureViewVersionNotFound

    try:
        view = session.registry.get_feature_view_by_version(name, PROJECT, version)
    except FeatureViewVersionNotFound:
        return None
    assert isinstance(view, FeatureView)
    return view
