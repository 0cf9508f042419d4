"""The ledger for reading: rows of blocks, PTKs and teams, and signed reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import NO_LOSS, LossShares
from ptkstore.domain.ledger.reports import Reading, read_signed
from ptkstore.domain.streams.guarantees import all_lines, contexts_sentence

if TYPE_CHECKING:
    from ptkstore.domain.accounting.losses import Loss
    from ptkstore.domain.ledger.block_ledgers import BlockLedger
    from ptkstore.domain.ledger.odometers import LineOdometer, Odometers, Spent
    from ptkstore.domain.streams.policies import Policy
    from ptkstore.sdk.service import StoreService


def budget_rows(service: StoreService, stream: str, *, tight: bool = False) -> list[dict[str, Any]]:
    """Return the ledger of a stream, one row per block, or per line of it where the policy keeps several.

    `tight` adds the figure of the list of releases, at the capacity's delta; it takes the whole journal to be read.
    """
    policy = service.stream(stream).policy
    if not tight:
        return block_rows(service.budget(stream), policy)
    blocks = service.odometers(stream).blocks
    rows = [
        {
            **_row(block, block.spent.guarantee, policy),
            "tight_epsilon": block.spent.tight.epsilon,
            "tight_delta": block.spent.tight.delta,
        }
        for block in blocks
    ]
    return _with_sums(rows, [block.spent.guarantee for block in blocks], policy)


def block_rows(blocks: Sequence[BlockLedger], policy: Policy) -> list[dict[str, Any]]:
    """Return one row per block of a stream, or per line of it where the policy keeps several."""
    rows = [_row(block, block.spent, policy) for block in blocks]
    return _with_sums(rows, [block.spent for block in blocks], policy)


def contexts_of(service: StoreService, stream: str) -> str:
    """Say what a stream's contexts rest on, and its summed loss; empty for a stream without contexts."""
    policy = service.stream(stream).policy
    if not policy.sharing.contexts:
        return ""
    return contexts_text(block_rows(service.budget(stream), policy), policy)


def contexts_text(rows: Sequence[Mapping[str, Any]], policy: Policy) -> str:
    """Say what the policy's contexts rest on, and the summed loss of the worst of `rows`; empty without contexts."""
    if not policy.sharing.contexts:
        return ""
    most = max((row["all_lines_spent_epsilon"] for row in rows), default=0.0)
    return contexts_sentence(
        (name for name, _ in policy.sharing.contexts),
        f"epsilon {all_lines(policy).epsilon:g}",
        f"{most:g}",
        policy.sharing.no_collusion,
    )


def odometer_rows(odometers: Odometers, by: str) -> list[dict[str, Any]]:
    """Return the odometers of a stream: by line, PTK or team, or of the stream as a whole."""
    match by:
        case "line":
            return [{"line": line, **_figures(spent)} for line, spent in odometers.lines.items()]
        case "stream":
            return [{**_figures(odometers.stream), **odometers.assured.document()}]
        case "ptk":
            parties = odometers.ptks
        case _:
            parties = odometers.teams
    return [
        {
            by: one.name,
            **_figures(one.spent),
            "reserved_epsilon": one.reserved.epsilon,
            **one.assured.document(),
        }
        for one in parties
    ]


def local_rows(odometers: Odometers) -> list[dict[str, Any]]:
    """Return what devices lose to each PTK of a stream whose rows stay there; no row is of a block.

    The last row, whose PTK is None, is of all PTKs together, also those that are registered no longer.
    """
    rows = [
        {"ptk": one.ptk_id, "guarantee": "local", **_epsilons(one.losses), **one.counts, **one.mechanism}
        for one in odometers.local
    ]
    if (device := odometers.device) is not None:
        rows.append({"ptk": None, "guarantee": "local", **_epsilons(device.losses), **device.counts})
    return rows


def _epsilons(losses: Mapping[str, Loss]) -> dict[str, float]:
    return {
        **{f"{name}_epsilon": loss.epsilon for name, loss in losses.items()},
        **{f"{name}_delta": loss.delta for name, loss in losses.items() if loss.delta_atto},
    }


def check_report(content: bytes, public_key: str | None = None) -> Reading:
    """Check the signature of an exported report; needs no store.

    Parameters
    ----------
    content : bytes
        The file, every byte of which counts.
    public_key : str
        The key it should be signed with, as PEM or 64 hexadecimal digits; without one, the key that the file names.

    Raises
    ------
    InvalidRequest
        `public_key` is no key.
    """
    from ptkstore.adapters.keys import public_hex, verifies

    return read_signed(content, verifies, None if public_key is None else public_hex(public_key))


def _has_lines(policy: Policy) -> bool:
    return len(policy.lines) > 1


def _row(block: BlockLedger | LineOdometer, spent: Loss, policy: Policy) -> dict[str, Any]:
    from ptkstore.domain.streams.blocks import part_name, place_of

    place, shares = place_of(block.number, policy), block.shares
    return {
        "block": block.number,
        **({} if place.window is None else {"window": place.window}),
        "part": part_name(place.part),
        **({policy.attribute: policy.attribute_values[place.group]} if policy.attribute else {}),
        **({"shard": place.shard} if place.window is None else {}),
        **({"line": block.line} if _has_lines(policy) else {}),
        "state": block.state.value,
        "capacity_epsilon": block.capacity.epsilon,
        "reserved_epsilon": block.reserved.epsilon,
        "spent_epsilon": spent.epsilon,
        "capacity_delta": block.capacity.delta,
        "spent_delta": spent.delta,
        **({} if policy.minimum_assurance is Assurance.LIBRARY or shares is None else _shares(shares)),
    }


def _shares(shares: LossShares) -> dict[str, float]:
    return {
        "library_epsilon": shares.library.epsilon,
        "library_delta": shares.library.delta,
        "asserted_epsilon": shares.asserted.epsilon,
        "asserted_delta": shares.asserted.delta,
    }


def _with_sums(rows: list[dict[str, Any]], spent: Sequence[Loss], policy: Policy) -> list[dict[str, Any]]:
    """Add what all lines of a block have lost together, where there are several."""
    if not _has_lines(policy):
        return rows
    sums: dict[int, Loss] = {}
    for row, loss in zip(rows, spent, strict=True):
        sums[row["block"]] = sums.get(row["block"], NO_LOSS) + loss
    for row in rows:
        in_all = sums[row["block"]]
        row |= {"all_lines_spent_epsilon": in_all.epsilon, "all_lines_spent_delta": in_all.delta}
    return rows


def _figures(spent: Spent) -> dict[str, Any]:
    return {
        "releases": spent.releases,
        "spent_epsilon": spent.guarantee.epsilon,
        "spent_delta": spent.guarantee.delta,
        "basic_epsilon": spent.basic.epsilon,
        "basic_delta": spent.basic.delta,
        "tight_epsilon": spent.tight.epsilon,
        "tight_delta": spent.tight.delta,
    }
