"""One JSON text for a value, and the digest of it."""

import hashlib
import json

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def canonical_json(value: object) -> str:
    """Return the one text of a JSON value: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value)


def json_digest(value: object) -> str:
    """Return the SHA-256 of the one text of a JSON value in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
