"""One JSON text for a value: digests are computed from it."""

from __future__ import annotations

import json

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def canonical_json(value: object) -> str:
    """Return the one text of a JSON value: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value)
