"""Policies as JSON: in the catalog's row of a stream, in the journal's chain and in the key store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import sharing_json, sharing_of
from ptkstore.domain.canonical_json import canonical_json
from ptkstore.domain.streams.streams import POLICY_FIELDS, Policy


def policy_text(policy: Policy) -> str:
    """A policy as canonical JSON. A later program may write more fields: compare policies, never their texts."""
    return canonical_json(policy_json(policy))


@lru_cache(maxsize=1_024)
def policy_in(text: str) -> Policy:
    """The policy that `policy_text` wrote."""
    return policy_of(json.loads(text))


def policy_json(policy: Policy) -> dict[str, Any]:
    """Plain JSON; what came later is left out where it is as before."""
    return {
        **declared_json(policy, with_later=False),
        "capacity": _loss(policy.capacity),
        "attribute": policy.attribute,
        "attribute_values": list(policy.attribute_values),
        "sharing": sharing_json(policy.sharing),
        "retire_below": _loss(policy.retire_below),
    }


def policy_of(content: Mapping[str, Any]) -> Policy:
    """The policy in a JSON object, which may say other things as well."""
    return Policy(
        **declared_in(content),
        capacity=Loss(*content["capacity"]),
        attribute=content["attribute"],
        attribute_values=tuple(content["attribute_values"]),
        sharing=sharing_of(content["sharing"]),
        retire_below=Loss(*content["retire_below"]),
    )


def declared_json(policy: Policy, *, with_later: bool = True) -> dict[str, Any]:
    """The fields that are declared by their kind, in their order, as every JSON form has them."""
    values = {field: getattr(policy, field.name) for field in POLICY_FIELDS}
    return {
        field.key: field.to_json(value)
        for field, value in values.items()
        if with_later or not field.later or value != field.default
    }


def declared_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `declared_json` wrote."""
    return {
        field.name: field.of_json(content[field.key])
        for field in POLICY_FIELDS
        if field.key in content or not field.later
    }


def _loss(loss: Loss) -> list[int]:
    return [loss.epsilon_nano, loss.delta_atto]
