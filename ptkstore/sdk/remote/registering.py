"""Whether a PTK is registered as it was asked for: what a client looks at when the answer was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.names import ptk_id_of
from ptkstore.domain.ptks import PtkSpec, settled_config, windows_between
from ptkstore.domain.snapshots import canonical_json
from ptkstore.domain.streams import Policy
from ptkstore.sdk.documents import ptk_of, stream_of
from ptkstore.sdk.remote.transport import Transport, path_of


def registered_as(http: Transport, asked: Mapping[str, Any]) -> str | None:
    """The id of the PTK that a request for its registration asks for, None if what has its name differs in anything."""
    ptk_id = ptk_id_of(asked["team"], asked["name"])
    there = http.get(path_of("ptks", ptk_id), ptk_of)
    owner = http.get(path_of("streams", asked["stream"]), stream_of)
    same = there.target == asked["target"] and _content(there) == _asked_content(asked, owner.policy)
    return ptk_id if same else None


def _content(spec: PtkSpec) -> str:
    """What a team says of its PTK beside the target; all else follows from it."""
    return canonical_json([spec.stream, spec.estimator, spec.every, spec.config, spec.description])


def _asked_content(asked: Mapping[str, Any], policy: Policy) -> str:
    return canonical_json(
        [
            asked["stream"],
            asked["estimator"],
            windows_between(policy, asked["train_frequency"]),
            settled_config(asked["config"], policy),
            asked["description"],
        ]
    )
