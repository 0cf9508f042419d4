"""Streams, PTKs and reports as the documents of the HTTP API, and back again.

Amounts of privacy loss travel as exact decimal texts, times as ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ptkstore.domain.accounting.assurances import assured, assured_in, assured_of
from ptkstore.domain.accounting.local import DeviceOdometer, LocalLoss, LocalOdometer
from ptkstore.domain.accounting.losses import ATTO, NANO, Loss, LossShares, capacity_of
from ptkstore.domain.accounting.sharing import sharing_json, sharing_of
from ptkstore.domain.fields import declared_in, declared_json
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.ledger.odometers import LineOdometer, Odometers, PartyOdometer, Spent
from ptkstore.domain.ledger.reports import device_json, local_json, loss_json, shares_json, spent_json
from ptkstore.domain.ptks.ptks import PtkSpec, ptk_fields_in, ptk_json
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy, RowPlace
from ptkstore.domain.streams.schemas import Added, ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.versions.provenance import CENTRAL, LOCAL
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptkstore.sdk.service import Published

Document = dict[str, Any]


def stream_document(stream: Stream) -> Document:
    """Write a stream with its schema and its whole policy."""
    policy = stream.policy
    sharing = sharing_json(policy.sharing)
    return {
        "name": stream.name,
        "team": stream.team,
        "columns": {name: kind.value for name, kind in stream.schema.columns},
        "time_column": stream.schema.time_column,
        "schema_version": stream.schema.version,
        "added": [
            {"column": one.column, "default": one.default, "since_window": one.since}
            for one in stream.schema.added
        ],
        **loss_json(policy.capacity),
        **declared_json(policy, POLICY_FIELDS),
        "block_by": {policy.attribute: list(policy.attribute_values)} if policy.attribute else {},
        "contexts": sharing["contexts"],
        "no_collusion": sharing["no_collusion"],
        "reserve": sharing["reserved"],
        "retire_below": loss_json(policy.retire_below)["epsilon"],
    }


def asked_document(stream: Stream) -> Document:
    """Write a stream as it is asked for: in the first version of its schema."""
    document = stream_document(replace(stream, schema=stream.schema.as_created()))
    return {name: value for name, value in document.items() if name not in ("schema_version", "added")}


def stream_of(document: Mapping[str, Any]) -> Stream:
    """Read the stream that `stream_document` wrote, or `InvalidRequest`."""
    block_by = document["block_by"]
    if len(block_by) > 1:
        raise InvalidRequest("block_by takes one column and its values")
    attribute, values = next(iter(block_by.items())) if block_by else (None, ())
    policy = Policy(
        **declared_in(document, POLICY_FIELDS),
        capacity=capacity_of(_epsilon(document), _decimal(document["delta"])),
        attribute=attribute,
        attribute_values=tuple(values),
        sharing=sharing_of(
            {
                "contexts": document["contexts"],
                "no_collusion": document["no_collusion"],
                "reserved": {ptk_id: str(_decimal(share)) for ptk_id, share in document["reserve"].items()},
            }
        ),
        retire_below=Loss.capacity(_decimal(document["retire_below"])),
    )
    columns = tuple((name, ColumnType(kind)) for name, kind in document["columns"].items())
    added = tuple(
        Added(one["column"], one["default"], one["since_window"]) for one in document.get("added", ())
    )
    schema = Schema(columns, document["time_column"], added)
    return Stream(document["name"], document["team"], schema, policy)


def ptk_document(spec: PtkSpec) -> Document:
    """Write a registered PTK."""
    content = {
        **ptk_json(spec),
        "family": spec.family,
        "loss": loss_json(spec.loss),
        **assured(spec.assurance, spec.ptk_id).document(),
        "menu": [list(point) for point in spec.menu],
        "guarantee_model": LOCAL if spec.is_averaged else CENTRAL,
    }
    return {name: value for name, value in content.items() if name != "facts"}


def ptk_of(document: Mapping[str, Any]) -> PtkSpec:
    """Read the PTK that `ptk_document` wrote; an older server leaves out what came later."""
    menu = tuple((epsilon, n_units) for epsilon, n_units in document["menu"])
    return PtkSpec(**{**ptk_fields_in(document), "loss": loss_of(document["loss"]), "menu": menu})


def version_document(version: Published) -> Document:
    """Write one version in a list; its manifest has the rest."""
    content = version.content
    return {
        "ptk_id": version.ptk_id,
        "version": version.number,
        "published_at": content["published_at"],
        "newest_contributing_window": content["newest_contributing_window"],
        "release_decision": content.get("release_decision"),
        "made_from": content.get("made_from") or [],
        "guarantee": content["guarantee"],
        **assured_in(content, version.ptk_id).document(),
        "instances": content.get("instances"),
        "manifest_sha256": version.sha256,
    }


def block_document(block: BlockLedger) -> Document:
    """Write one line of one block."""
    return {
        **_line_document(block),
        "spent": loss_json(block.spent),
        "committed": loss_json(block.committed),
        **shares_json(block.shares),
    }


def block_of(document: Mapping[str, Any]) -> BlockLedger:
    """Read the line that `block_document` wrote."""
    return BlockLedger(
        number=document["block"],
        line=document["line"],
        state=BlockState(document["state"]),
        **{name: loss_of(document[name]) for name in ("capacity", "reserved", "spent", "committed")},
        shares=_shares_of(document),
    )


def odometers_document(odometers: Odometers) -> Document:
    """Write all odometers of a stream."""
    return {
        "blocks": [
            {
                **_line_document(row),
                "spent": spent_json(row.spent),
                "in_doubt": row.in_doubt,
                **shares_json(row.shares),
            }
            for row in odometers.blocks
        ],
        "lines": {line: spent_json(spent) for line, spent in odometers.lines.items()},
        "stream": spent_json(odometers.stream),
        **odometers.assured.document(),
        "ptks": [_party_document(party) for party in odometers.ptks],
        "teams": [_party_document(party) for party in odometers.teams],
        "local": [{**local_json(one), "windows": one.windows} for one in odometers.local],
        "device": None if (one := odometers.device) is None else {**device_json(one), "windows": one.windows},
    }


def odometers_of(document: Mapping[str, Any]) -> Odometers:
    """Read the odometers that `odometers_document` wrote."""
    return Odometers(
        blocks=tuple(
            LineOdometer(
                row["block"],
                row["line"],
                BlockState(row["state"]),
                loss_of(row["capacity"]),
                loss_of(row["reserved"]),
                _spent_of(row["spent"]),
                row["in_doubt"],
                _shares_of(row),
            )
            for row in document["blocks"]
        ),
        lines={line: _spent_of(spent) for line, spent in document["lines"].items()},
        stream=_spent_of(document["stream"]),
        ptks=tuple(map(_party_of, document["ptks"])),
        teams=tuple(map(_party_of, document["teams"])),
        local=tuple(map(_local_of, document.get("local", ()))),
        device=None if (device := document.get("device")) is None else _device_of(device),
    )


def _device_of(document: Mapping[str, Any]) -> DeviceOdometer:
    counts = (document[name] for name in ("reports_per_window", "reports_in_all", "windows"))
    return DeviceOdometer(loss_of(document["report_limit"]), *counts)


def _local_of(document: Mapping[str, Any]) -> LocalOdometer:
    loss = LocalLoss(
        loss_of(document["report"]),
        loss_of(document["report_limit"]),
        loss_of(document["one_weight"]),
        document["reports_per_window"],
        document["reports_in_all"],
        clip=document["clip"],
        noise=document["noise"],
        specification=document["specification"],
    )
    return LocalOdometer(document["ptk"], loss, document["windows"])


def loss_of(document: Mapping[str, Any]) -> Loss:
    """Read the loss that `loss_json` wrote: whatever was lost, in or out of the range that may be asked for."""
    return Loss(int(Decimal(document["epsilon"]) * NANO), int(Decimal(document["delta"]) * ATTO))


def _party_document(party: PartyOdometer) -> Document:
    return {
        "name": party.name,
        "spent": spent_json(party.spent),
        "reserved": loss_json(party.reserved),
        **party.assured.document(),
    }


def _party_of(document: Mapping[str, Any]) -> PartyOdometer:
    return PartyOdometer(
        document["name"],
        _spent_of(document["spent"]),
        loss_of(document["reserved"]),
        assured_of(document),
    )


def _shares_of(document: Mapping[str, Any]) -> LossShares | None:
    """The shares that `shares_json` wrote; a server of before wrote none."""
    if document.get("library") is None or document.get("asserted") is None:
        return None
    return LossShares(loss_of(document["library"]), loss_of(document["asserted"]))


def _line_document(block: BlockLedger | LineOdometer) -> Document:
    return {
        "block": block.number,
        "line": block.line,
        "state": block.state.value,
        "capacity": loss_json(block.capacity),
        "reserved": loss_json(block.reserved),
    }


def _spent_of(document: Mapping[str, Any]) -> Spent:
    losses = (loss_of(document[name]) for name in ("guarantee", "basic", "tight"))
    return Spent(document["releases"], *losses)


def _epsilon(document: Mapping[str, Any]) -> Decimal | None:
    """Return the capacity of a block; 0 for a stream whose rows stay on devices, which has no blocks."""
    epsilon = None if document["epsilon"] is None else _decimal(document["epsilon"])
    return None if not epsilon and document.get("rows") == RowPlace.ON_DEVICES else epsilon


def _decimal(amount: Any) -> Decimal:
    """An exact amount from a number or a decimal text; the bounds are for the policy to check."""
    return Decimal(str(amount))
