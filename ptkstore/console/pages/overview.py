"""The overview: is the service healthy, and what needs the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptkstore.application.delivery.read_notices import readable_team
from ptkstore.console.charts import budget_chart
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import labelled
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.streams.streams import Stream
from ptkstore.sdk.documents.resources import stream_document
from ptkstore.sdk.notices import notice_document

NOTICES_SHOWN = 20
BUDGETS_SHOWN = 12
"""Streams of which the overview shows what is left: each is a few statements, all else is read at once."""


class Overview(Reads):
    """The first page."""

    def overview(self, who: Principal) -> dict[str, Any]:
        """Show streams with their fullest block, deliveries that went wrong, notices and health."""
        subscriptions = self._subscriptions(who)
        streams = self._streams(who)
        readable = self._identity.streams_for(who, Action.BUDGET_READ)
        first = [stream for stream in streams if stream.name in readable][:BUDGETS_SHOWN]
        blocks = self._service.budgets([stream.name for stream in first])
        exposed = self._identity.streams_for(who, Action.EXPOSURE_READ)
        checked = [self._exposure(stream.name) for stream in first if stream.name in exposed]
        failed = [one["stream"] for one in checked if one is not None and not one["holds"]]
        return {
            "streams": [
                {
                    **_card(stream, blocks.get(stream.name), readable=stream.name in readable),
                    "exposed": stream.name in failed,
                }
                for stream in streams
            ],
            "ptks": len(self._ptks(who)),
            "subscriptions": len(subscriptions),
            "troubled": [one for one in subscriptions if one["status"] != "ok"],
            "notices": self._notices(who),
            "health": sorted(self._health().items()),
        }

    def _notices(self, who: Principal) -> list[dict[str, Any]]:
        """The newest words left for the team, or for all."""
        if not self._may(who, Action.NOTICE_LIST, None):
            return []
        notices = self._service.notices(readable_team(who, None), limit=NOTICES_SHOWN, newest=True)
        return [{**notice_document(one), "ptk": None if one.stream else one.ptk_id} for one in notices]


def _card(stream: Stream, blocks: Sequence[BlockLedger] | None, *, readable: bool) -> dict[str, Any]:
    rows = labelled(blocks or (), stream.policy)
    fullest = max(rows, key=used_share, default=None)
    document = stream_document(stream)
    return {
        "name": stream.name,
        "team": stream.team,
        "capacity": document["epsilon"],
        "local": document["report_epsilon"],
        "delta": document["delta"],
        "unit": stream.policy.privacy_unit.value,
        "assurance": stream.policy.minimum_assurance.value,
        "fullest": fullest,
        "share": None if fullest is None else budget_chart([fullest]).bars[0],
        "readable": readable,
        "shown": blocks is not None,
    }


def used_share(row: dict[str, Any]) -> tuple[float, int]:
    """Return the share of its capacity that a block has spent or promised; of equal ones the newest counts."""
    used = (row["spent_epsilon"] + row["reserved_epsilon"]) / max(row["capacity_epsilon"], 1e-12)
    window = row.get("window")
    return used, -1 if window is None else window
