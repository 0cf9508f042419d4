"""In what two declarations of one stream differ, in the words that streams are created with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.durations import duration_text
from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy
from ptkstore.domain.streams.schemas import Schema
from ptkstore.domain.streams.streams import Stream

_WORDS = {**{one.name: one.argument or one.name for one in POLICY_FIELDS}, "attribute": "block_by"}
_FIRST = ("privacy_unit", "unit_column")  # the numbers of users follow from them


def differences(old: Stream, new: Stream) -> tuple[str, ...]:
    """Return a phrase for each field in which `new` is not what there is; a declaration is public within its team."""
    return (*_of_schemas(old.schema, new.schema), *policy_differences(old.policy, new.policy))


def policy_differences(old: Policy, new: Policy) -> tuple[str, ...]:
    """Return one phrase for each field in which `new` is not the policy that there is."""
    there, wanted = _facts(old), _facts(new)
    return tuple(
        f"{name} is {_text(there[name])}, not {_text(wanted[name])}"
        for name in there
        if there[name] != wanted[name]
    )


def _of_schemas(old: Schema, new: Schema) -> Iterator[str]:
    there, wanted = dict(old.columns), dict(new.columns)
    for name, kind in there.items():
        if name in old.defaults:
            if name in wanted and not new.added:
                yield f"column {name!r} was added later and is left out here"
        elif name not in wanted:
            yield f"column {name!r} is missing"
        elif wanted[name] is not kind:
            yield f"column {name!r} is {kind}, not {wanted[name]}"
    for name in wanted:
        if name not in there:
            yield f"there is no column {name!r}, which `ptk stream add-column` adds"
    order = [name for name, _ in old.as_created().columns]
    if set(order) == set(wanted) and order != list(wanted):
        yield f"the columns are in the order {', '.join(order)}"
    if old.time_column != new.time_column:
        yield f"time_column is {old.time_column}, not {new.time_column}"


def _facts(policy: Policy) -> dict[str, Any]:
    """The fields of a policy by the names of what it is created with, whatever fields it has."""
    facts = {_WORDS.get(one.name, one.name): getattr(policy, one.name) for one in fields(policy)}
    capacity, sharing = facts.pop("capacity"), facts.pop("sharing")
    values = facts.pop("attribute_values")
    if policy.attribute is not None:
        facts["block_by"] = f"{policy.attribute}={','.join(map(str, values))}"
    return {
        "epsilon": capacity.epsilon,
        "delta": capacity.delta,
        **{name: facts[name] for name in _FIRST},
        **facts,
        "contexts": {name: list(teams) for name, teams in sharing.contexts},
        "no_collusion": sharing.no_collusion,
        "reserve": {ptk_id: float(share) for ptk_id, share in sharing.reserved},
    }


def _text(value: Any) -> str:
    match value:
        case None | "":
            return "none"
        case dict():
            return ", ".join(f"{name}={_text(one)}" for name, one in value.items()) or "none"
        case list():
            return ",".join(map(str, value))
        case float():
            return repr(value).removesuffix(".0")
        case datetime():
            return value.isoformat()
        case timedelta():
            return duration_text(value)
        case Loss():
            return _text(value.epsilon)
        case _:
            return str(value)
