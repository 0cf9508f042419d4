"""How a PTK is planned with, as a document of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ptkstore.domain.accounting.assurances import assured_of
from ptkstore.domain.ledger.reports import loss_json
from ptkstore.domain.ptks.profiles import Paid, Point, Verdict
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.sdk.documents.resources import loss_of

if TYPE_CHECKING:
    from ptkstore.application.profiling.read_profile import ProfileView

_PLAIN = (
    "facts_of",
    "state",
    "number",
    "asked_at",
    "age",
    "max_age",
    "drifted_at",
    "tries",
    "most_tries",
    "target",
    "evaluation",
    "drift_epsilon",
    "advice",
)


def profile_document(view: ProfileView) -> dict[str, Any]:
    """Write released answers and public numbers, as they are."""
    return {
        "method": view.method,
        "menu": [list(pair) for pair in view.menu],
        **{name: getattr(view, name) for name in _PLAIN},
        **view.assured.document(),
        "points": [{"epsilon": one.epsilon, "verdict": one.verdict.value, "n": one.n} for one in view.points],
        "paid": [
            {
                "what": one.what,
                "window": one.window,
                "first_block": one.blocks.lo,
                "end_block": one.blocks.hi,
                "loss": loss_json(one.loss),
            }
            for one in view.paid
        ],
    }


def profile_of(document: Mapping[str, Any]) -> ProfileView:
    """Read the view that `profile_document` wrote."""
    from ptkstore.application.profiling.read_profile import ProfileView

    return ProfileView(
        method=document["method"],
        menu=tuple((float(epsilon), int(rows)) for epsilon, rows in document["menu"]),
        **{name: document[name] for name in _PLAIN},
        assured=assured_of(document),
        points=tuple(Point(one["epsilon"], Verdict(one["verdict"]), one["n"]) for one in document["points"]),
        paid=tuple(
            Paid(
                one["what"],
                one["window"],
                BlockRange(one["first_block"], one["end_block"]),
                loss_of(one["loss"]),
            )
            for one in document["paid"]
        ),
    )
