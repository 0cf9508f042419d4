"""The form of a signed report: canonical JSON, of which every byte counts.

A report has no binary fractions, and amounts are decimal texts. So its canonical JSON is that of RFC 8785, which any
tool can make again, and the signature is over exactly those bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.local import DeviceOdometer, LocalOdometer
from ptkstore.domain.accounting.losses import Loss, LossShares
from ptkstore.domain.ledger.odometers import Spent
from ptkstore.errors import InvariantBroken

FORMAT = "ptk-ledger-report/1"
ALGORITHM = "Ed25519"

_PAGES = (b"<!doctype html", b"%pdf-")
_HEX = re.compile(r"[0-9a-f]+")

Verifies = Callable[[bytes, bytes, bytes], bool]
"""Whether a signature, of a public key, fits a message."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The check of a report file: `fault` is empty if its signature is valid; then `summary` has the main facts."""

    fault: str
    public_key: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


def loss_json(loss: Loss) -> dict[str, str]:
    """Exact decimal texts."""
    return {
        "epsilon": _decimal(loss.epsilon_nano, -9),
        "delta": _decimal(loss.delta_atto, -18),
    }


def shares_json(shares: LossShares | None) -> dict[str, Any]:
    """Return the shares of a block's loss, as `loss_json` has a loss; null where they were not read."""
    return {
        "library": None if shares is None else loss_json(shares.library),
        "asserted": None if shares is None else loss_json(shares.asserted),
    }


def spent_json(spent: Spent) -> dict[str, Any]:
    """Write how many releases there were and what they cost together, as `loss_json` has a loss."""
    figures = {name: loss_json(getattr(spent, name)) for name in ("guarantee", "basic", "tight")}
    return {"releases": spent.releases, **figures}


def device_json(odometer: DeviceOdometer) -> dict[str, Any]:
    """Write what a device loses to all PTKs of a stream; each loss as `loss_json` has it."""
    return {**{name: loss_json(loss) for name, loss in odometer.losses.items()}, **odometer.counts}


def local_json(odometer: LocalOdometer) -> dict[str, Any]:
    """Write what a device loses to one PTK; each loss as `loss_json` has it."""
    losses = {name: loss_json(loss) for name, loss in odometer.losses.items()}
    return {"ptk": odometer.ptk_id, **losses, **odometer.counts, **odometer.mechanism}


def signed(report: Mapping[str, Any], public_key: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the file of a report."""
    content = canonical_json({**report, "format": FORMAT})
    if _has_fraction(json.loads(content)):
        raise InvariantBroken("a report contains a binary fraction")
    signature = {
        "algorithm": ALGORITHM,
        "public_key": public_key.hex(),
        "value": sign(content.encode()).hex(),
    }
    return _file(json.loads(content), signature)


def read_signed(content: bytes, verifies: Verifies, public_key: str | None = None) -> Reading:
    """Check a report file, against `public_key` (hexadecimal) if one is given, else against the key it names.

    A signature under the key in the file shows that nothing was changed since somebody signed it; who that was shows
    only a key that was got by another way.
    """
    if content[:32].lstrip().lower().startswith(_PAGES):
        return Reading(
            "this is a page for people, and pages are not signed; check the file that was written beside it, with "
            ".json at the end of its name"
        )
    try:
        document = json.loads(content)
        report, signature = document["report"], document["signature"]
        named, value = signature["public_key"], signature["value"]
        whole = _file(report, signature) == content and report["format"] == FORMAT
        if not (
            whole and signature["algorithm"] == ALGORITHM and _HEX.fullmatch(named) and _HEX.fullmatch(value)
        ):
            return Reading("the file is no report, or its bytes were changed")
        message = canonical_json(report).encode()
        keys = bytes.fromhex(named), bytes.fromhex(value)
        summary = _summary(report)
    except (ValueError, TypeError, KeyError, RecursionError):
        return Reading("the file is no report, or its bytes were changed")
    if public_key is not None and public_key != named:
        return Reading("the report is signed with another key than the one given", named)
    if not verifies(keys[0], message, keys[1]):
        return Reading("the signature does not fit the report", named)
    return Reading("", named, report, summary)


def _summary(report: Mapping[str, Any]) -> dict[str, Any]:
    journal, adds_up = report["journal"], report["verification"]["adds_up"]
    last = journal["last"]["digest"] if journal["entries"] else journal["before_first"]
    if "local" in report:
        return _local_summary(report, last)
    spent = report["spent"]["stream"]["guarantee"] if adds_up else {"epsilon": None, "delta": None}
    return {
        "stream": report["stream"]["name"],
        "made_at": report["made_at"],
        "ledger_id": report["ledger_id"],
        "windows": len(report["period"]["windows"]),
        "losses": len(report["losses"]),
        "promised_epsilon": report["guarantee"]["per_block"]["epsilon"],
        "promised_delta": report["guarantee"]["per_block"]["delta"],
        "spent_epsilon": spent["epsilon"],
        "spent_delta": spent["delta"],
        "entries": journal["entries"],
        "last_digest": last,
        "adds_up": adds_up is True,
    }


def _local_summary(report: Mapping[str, Any], last: str) -> dict[str, Any]:
    """Of a stream whose rows stay on devices: what a report of a device loses, and what it loses in all."""
    local = report["local"]
    return {
        "stream": report["stream"]["name"],
        "made_at": report["made_at"],
        "ledger_id": report["ledger_id"],
        "windows": len(report["period"]["windows"]),
        "guarantee": "local",
        "report_epsilon": local["report_limit"]["epsilon"],
        "report_delta": local["report_limit"]["delta"],
        "reports_in_all": local["reports_in_all"],
        "so_far_epsilon": local["so_far"]["epsilon"],
        "so_far_delta": local["so_far"]["delta"],
        "in_all_epsilon": local["in_all"]["epsilon"],
        "in_all_delta": local["in_all"]["delta"],
        "entries": report["journal"]["entries"],
        "last_digest": last,
        "adds_up": report["verification"]["adds_up"] is True,
    }


def _file(report: object, signature: object) -> bytes:
    return (canonical_json({"report": report, "signature": signature}) + "\n").encode()


def _decimal(amount: int, exponent: int) -> str:
    return f"{Decimal(amount).scaleb(exponent).normalize():f}"


def _has_fraction(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_fraction, value.values()))
    if isinstance(value, list):
        return any(map(_has_fraction, value))
    return isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**53)
