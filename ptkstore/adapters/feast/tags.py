"""The tags of our views: whose they are, and how their values were made."""

from __future__ import annotations

from collections.abc import Mapping

from ptkstore.domain.accounting.assurances import Assured, assured_of
from ptkstore.domain.versions.provenance import UNKNOWN_TAG

PTK_TAG = "ptk.id"
PTK_VERSION_TAG = "ptk.version"
PTK_SHA256_TAG = "ptk.sha256"
FILLS_TAG = "ptk.fills"
FOUND_BY = "ptk.tag."
"""Before each tag of a PTK, so that `list_feature_views(tags={"ptk.tag.ads": "true"})` finds its views."""


def assured_by_tags(tags: Mapping[str, str] | None) -> Assured:
    """Read a view's assurance from its tags; views of early releases have none, so theirs is unknown."""
    document = {
        name.removeprefix("dp."): value for name, value in (tags or {}).items() if value != UNKNOWN_TAG
    }
    return assured_of(document)
