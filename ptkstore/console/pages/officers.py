"""The page of a privacy officer: the check of the ledger, what is exposed, what was lost, and who signs."""

from __future__ import annotations

from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed
from ptkstore.domain.identity import Action, Principal
from ptkstore.sdk.documents.resources import odometers_document
from ptkstore.sdk.reports.formats import FORMATS

PARTIES_SHOWN = 200


class Officers(Reads):
    """The page of a privacy officer on one stream."""

    def officer(self, who: Principal, name: str) -> dict[str, Any]:
        """Show the check of a stream's journal, its exposure and its odometers; reports for those who may export."""
        named = Named(stream=formed("stream", name))
        self._identity.permit(who, Action.LEDGER_VERIFY, named)
        check = self._service.verify_ledger(name)
        odometers = odometers_document(self._service.odometers(name))
        return {
            "name": name,
            "entries": check.entries,
            "blocks": check.blocks,
            "faults": list(check.faults),
            "exposure": self._exposure(name) if self._may(who, Action.EXPOSURE_READ, named) else None,
            "whole": odometers["stream"],
            "parties": [
                (title, odometers[kind][:PARTIES_SHOWN], len(odometers[kind]))
                for title, kind in (("PTKs", "ptks"), ("Teams", "teams"))
            ],
            "public_key": self._service.report_key(),
            "formats": list(FORMATS) if self._may(who, Action.LEDGER_EXPORT, named) else [],
        }
