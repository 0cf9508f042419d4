"""Policies as JSON: in the catalog's row of a stream, in the journal's chain and in the key store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ptkstore.domain.accountants import Accountant
from ptkstore.domain.losses import Loss
from ptkstore.domain.sharing import sharing_json, sharing_of
from ptkstore.domain.snapshots import canonical_json
from ptkstore.domain.streams import (
    USUAL_CELL_BYTES,
    Assurance,
    Closing,
    Policy,
    PrivacyUnit,
    Relation,
)


def policy_text(policy: Policy) -> str:
    """A policy as canonical JSON. A later program may write more fields: compare policies, never their texts."""
    return canonical_json(policy_json(policy))


@lru_cache(maxsize=1_024)
def policy_in(text: str) -> Policy:
    """The policy that `policy_text` wrote."""
    return policy_of(json.loads(text))


def policy_json(policy: Policy) -> dict[str, Any]:
    """Plain JSON."""
    return {
        "capacity": _loss(policy.capacity),
        "window_seconds": policy.window // timedelta(seconds=1),
        "origin": policy.origin.isoformat(),
        "lateness_seconds": policy.lateness / timedelta(seconds=1),
        "retention_windows": policy.retention_windows,
        "n_max": policy.n_max,
        "rows_per_window": policy.rows_per_window,
        "accountant": policy.accountant,
        "privacy_unit": policy.privacy_unit,
        "relation": policy.relation,
        "minimum_assurance": policy.minimum_assurance,
        "closing": policy.closing,
        "future_skew_seconds": policy.future_skew / timedelta(seconds=1),
        "profile_share": str(policy.profile_share),
        "test_share": str(policy.test_share),
        "profile_max_age": policy.profile_max_age,
        "train_partitions": policy.train_partitions,
        "unit_column": policy.unit_column,
        "max_rows_per_unit": policy.max_rows_per_unit,
        "attribute": policy.attribute,
        "attribute_values": list(policy.attribute_values),
        "user_shards": policy.user_shards,
        "sharing": sharing_json(policy.sharing),
        "retire_below": _loss(policy.retire_below),
        **_younger_fields(policy),
    }


def policy_of(c: Mapping[str, Any]) -> Policy:
    """The policy in a JSON object, which may say other things as well."""
    return Policy(
        capacity=Loss(*c["capacity"]),
        window=timedelta(seconds=c["window_seconds"]),
        origin=datetime.fromisoformat(c["origin"]).astimezone(UTC),
        lateness=timedelta(seconds=c["lateness_seconds"]),
        retention_windows=c["retention_windows"],
        n_max=c["n_max"],
        rows_per_window=c["rows_per_window"],
        accountant=Accountant(c["accountant"]),
        privacy_unit=PrivacyUnit(c["privacy_unit"]),
        relation=Relation(c["relation"]),
        minimum_assurance=Assurance(c["minimum_assurance"]),
        closing=Closing(c["closing"]),
        future_skew=timedelta(seconds=c["future_skew_seconds"]),
        profile_share=Decimal(c["profile_share"]),
        test_share=Decimal(c["test_share"]),
        profile_max_age=c["profile_max_age"],
        train_partitions=c["train_partitions"],
        unit_column=c["unit_column"],
        max_rows_per_unit=c["max_rows_per_unit"],
        attribute=c["attribute"],
        attribute_values=tuple(c["attribute_values"]),
        user_shards=c["user_shards"],
        sharing=sharing_of(c["sharing"]),
        retire_below=Loss(*c["retire_below"]),
        max_cell_bytes=c.get("max_cell_bytes", USUAL_CELL_BYTES),
        asserted_text=c.get("asserted_text", False),
    )


def _younger_fields(policy: Policy) -> dict[str, int | bool]:
    """Fields that came later, where they differ from their default: the text of any other policy stays what it was."""
    cells = {} if policy.max_cell_bytes == USUAL_CELL_BYTES else {"max_cell_bytes": policy.max_cell_bytes}
    return {**cells, "asserted_text": True} if policy.asserted_text else {**cells}


def _loss(loss: Loss) -> list[int]:
    return [loss.epsilon_nano, loss.delta_atto]
