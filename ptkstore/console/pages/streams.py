"""The page of one stream."""

from __future__ import annotations

from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.charts import budget_chart
from ptkstore.console.pages.queues import simulation_form
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed, labelled, shown_span
from ptkstore.domain.accounting.assurances import SHARES, Assurance, budget_rests_on
from ptkstore.domain.accounting.local import ALL_PTKS, LIMITED
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ledger.reports import device_json, local_json
from ptkstore.domain.streams.guarantees import protections
from ptkstore.sdk.documents.ledgers import contexts_text
from ptkstore.sdk.documents.resources import stream_document

BLOCKS_SHOWN = 60
PTKS_SHOWN = 500


class StreamPage(Reads):
    """The page of one stream: its policy, its blocks, their remaining budget, and its PTKs."""

    def stream(self, who: Principal, name: str) -> dict[str, Any]:
        """Show a stream's policy, its blocks and its PTKs."""
        self._identity.permit(who, Action.STREAM_READ, Named(stream=formed("stream", name)))
        stream = self._service.stream(name)
        rows = None
        if self._may(who, Action.BUDGET_READ, Named(stream=name)):
            rows = labelled(self._service.budget(name), stream.policy)
        parts: dict[str, list[dict[str, Any]]] = {}
        for row in rows or ():
            parts.setdefault(row["kind"], []).append(row)
        newest = {kind: members[-BLOCKS_SHOWN:] for kind, members in sorted(parts.items(), key=_by_loss)}
        local, device = [], None
        if rows is not None and stream.policy.on_devices:
            odometers = self._service.odometers(name)
            local = [local_json(one) for one in odometers.local]
            device = None if odometers.device is None else device_json(odometers.device)
        minimum, asserted = self._service.assurance_on(name)
        ptks = self._service.ptks(stream=name)[:PTKS_SHOWN]
        contexts = ""
        if rows is not None and stream.policy.sharing.contexts:
            contexts = contexts_text(rows, stream.policy)
        return {
            "stream": stream_document(stream),
            "contexts": contexts,
            "local": local,
            "device": device,
            "all_ptks": ALL_PTKS,
            "limited": LIMITED,
            "promised": protections(stream.policy, stream.policy.report_limit, 0)
            if stream.policy.on_devices
            else (),
            "asserted": minimum is not Assurance.LIBRARY,
            "rests_on": budget_rests_on(minimum, asserted),
            "shares": SHARES,
            "exposure": self._exposure(name)
            if self._may(who, Action.EXPOSURE_READ, Named(stream=name))
            else None,
            "window": shown_span(stream.policy.window),
            "readable": rows is not None,
            "queues": rows is not None and stream.policy.scheduler.lets_wait,
            "name": name,
            "form": simulation_form({})
            if not stream.policy.on_devices and self._may(who, Action.STREAM_RECOMMEND, Named(stream=name))
            else None,
            "n_blocks": len(rows or ()),
            "charts": {kind: budget_chart(members) for kind, members in newest.items()},
            "blocks": [row for members in newest.values() for row in members],
            "ptks": self._lines(ptks, self._newest(who, ptks)),
        }


def _by_loss(part: tuple[str, list[dict[str, Any]]]) -> tuple[bool, str]:
    """Parts that have lost or promised anything first."""
    return not any(row["spent_epsilon"] or row["reserved_epsilon"] for row in part[1]), part[0]
