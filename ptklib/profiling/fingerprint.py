"""The config of a profile, as a hash."""

from collections.abc import Mapping
from typing import Any

from ptklib.canonical_json import json_digest
from ptklib.exceptions import InvalidParameterError
from ptklib.spec import plain


def fingerprint_of(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a config without its epsilon, which a profile covers a grid of.

    Parameters
    ----------
    config : mapping
        The spec of an estimator, or a team's config.
    """
    if not isinstance(config, Mapping):
        raise InvalidParameterError("a config is a mapping: estimator.to_spec(), or that of a TeamPtk")
    document = plain(config, "config")
    if set(document) == {"family", "params"} and isinstance(document["params"], dict):
        document = {**document, "params": {k: v for k, v in document["params"].items() if k != "epsilon"}}
    return json_digest(document)
