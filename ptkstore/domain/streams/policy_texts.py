"""Policies as JSON: in the catalog's row of a stream, in the journal's chain and in the key store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import sharing_json, sharing_of
from ptkstore.domain.fields import declared_in, declared_json
from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy


def policy_text(policy: Policy) -> str:
    """Return a policy as canonical JSON. A later program may write more fields: compare policies, never their texts."""
    return canonical_json(policy_json(policy))


@lru_cache(maxsize=1_024)
def policy_in(text: str) -> Policy:
    """Return the policy that `policy_text` wrote."""
    return policy_of(json.loads(text))


def policy_json(policy: Policy) -> dict[str, Any]:
    """Plain JSON; later fields are omitted while they have their old meaning."""
    return {
        **declared_json(policy, POLICY_FIELDS, with_later=False),
        "capacity": _loss(policy.capacity),
        "attribute": policy.attribute,
        "attribute_values": list(policy.attribute_values),
        "sharing": sharing_json(policy.sharing),
        "retire_below": _loss(policy.retire_below),
    }


def policy_of(content: Mapping[str, Any]) -> Policy:
    """Return the policy in a JSON object, which may say other things as well."""
    return Policy(
        **declared_in(content, POLICY_FIELDS),
        capacity=Loss(*content["capacity"]),
        attribute=content["attribute"],
        attribute_values=tuple(content["attribute_values"]),
        sharing=sharing_of(content["sharing"]),
        retire_below=Loss(*content["retire_below"]),
    )


def _loss(loss: Loss) -> list[int]:
    return [loss.epsilon_nano, loss.delta_atto]
