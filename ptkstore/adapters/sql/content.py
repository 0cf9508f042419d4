"""Streams and PTKs as JSON text in the catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from ptkstore.domain.accountants import Accountant
from ptkstore.domain.losses import Loss
from ptkstore.domain.profiles import ProfileAsk
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.sharing import sharing_json, sharing_of
from ptkstore.domain.snapshots import canonical_json
from ptkstore.domain.streams import (
    Added,
    Assurance,
    Closing,
    ColumnType,
    Policy,
    PrivacyUnit,
    Relation,
    Schema,
    Stream,
)


def stream_text(stream: Stream) -> str:
    """A stream as canonical JSON."""
    policy = stream.policy
    return canonical_json(
        {
            "name": stream.name,
            "team": stream.team,
            "columns": [[name, kind] for name, kind in stream.schema.columns],
            "time_column": stream.schema.time_column,
            **_added_text(stream.schema.added),
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
        }
    )


@lru_cache(maxsize=1_024)
def stream_of(text: str) -> Stream:
    """The stream in a JSON text; it cannot change, so that the same text need not be read twice."""
    c = json.loads(text)
    policy = Policy(
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
    )
    columns = tuple((name, ColumnType(kind)) for name, kind in c["columns"])
    added = tuple(Added(*one) for one in c.get("added", ()))
    return Stream(c["name"], c["team"], Schema(columns, c["time_column"], added), policy)


def _added_text(added: Sequence[Added]) -> dict[str, object]:
    """Nothing for a stream as it was created, whose text stays what it was before streams could grow."""
    return {"added": [[one.column, one.default, one.since] for one in added]} if added else {}


def ptk_text(spec: PtkSpec) -> str:
    """A PTK as canonical JSON."""
    return canonical_json(
        {
            "ptk_id": spec.ptk_id,
            "team": spec.team,
            "name": spec.name,
            "stream": spec.stream,
            "estimator": spec.estimator,
            "loss": _loss(spec.loss),
            "event": spec.event,
            "tables": spec.tables,
            "target": spec.target,
            "every": spec.every,
            "assurance": spec.assurance,
            "config": spec.config,
            "description": spec.description,
            "profile": None if spec.profile is None else asdict(spec.profile),
        }
    )


def ptk_of(text: str) -> PtkSpec:
    """The PTK in a JSON text."""
    c = json.loads(text)
    profile = None if c["profile"] is None else ProfileAsk.of(c["profile"])
    return PtkSpec(
        **{**c, "loss": Loss(*c["loss"]), "assurance": Assurance(c["assurance"]), "profile": profile}
    )


def _loss(loss: Loss) -> list[int]:
    return [loss.epsilon_nano, loss.delta_atto]
