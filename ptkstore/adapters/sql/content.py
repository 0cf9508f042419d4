"""Streams and PTKs as JSON text in the catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ptks.ptks import LOOKED_UP, PtkSpec, ptk_fields_in, ptk_json
from ptkstore.domain.streams.policy_texts import policy_in, policy_json, policy_of
from ptkstore.domain.streams.schemas import Added, ColumnType, Schema
from ptkstore.domain.streams.streams import Stream


def stream_text(stream: Stream) -> str:
    """Write a stream as canonical JSON."""
    return canonical_json(
        {
            "name": stream.name,
            "team": stream.team,
            "columns": [[name, kind] for name, kind in stream.schema.columns],
            "time_column": stream.schema.time_column,
            **_added_text(stream.schema.added),
            **policy_json(stream.policy),
        }
    )


@lru_cache(maxsize=1_024)
def stream_of(text: str) -> Stream:
    """Read the stream in a JSON text; it cannot change, so that the same text need not be read twice."""
    c = json.loads(text)
    columns = tuple((name, ColumnType(kind)) for name, kind in c["columns"])
    added = tuple(Added(*one) for one in c.get("added", ()))
    return Stream(c["name"], c["team"], Schema(columns, c["time_column"], added), policy_of(c))


@lru_cache(maxsize=1_024)
def stream_under(text: str, policy: str | None) -> Stream:
    """Read the stream in a JSON text under the policy of another; under its own where there is no other."""
    stream = stream_of(text)
    return stream if policy is None else replace(stream, policy=policy_in(policy))


def _added_text(added: Sequence[Added]) -> dict[str, object]:
    """Nothing for a stream as it was created, whose text stays what it was before streams could grow."""
    return {"added": [[one.column, one.default, one.since] for one in added]} if added else {}


def ptk_text(spec: PtkSpec) -> str:
    """Write a PTK as canonical JSON."""
    content = {**ptk_json(spec, with_later=False), "loss": _loss(spec.loss)}
    return canonical_json({name: value for name, value in content.items() if name not in LOOKED_UP})


def ptk_of(text: str) -> PtkSpec:
    """Read the PTK in a JSON text."""
    content = json.loads(text)
    return PtkSpec(**{**ptk_fields_in(content), "loss": Loss(*content["loss"])})


def _loss(loss: Loss) -> list[int]:
    return [loss.epsilon_nano, loss.delta_atto]
