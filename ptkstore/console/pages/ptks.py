"""The page of one PTK."""

from __future__ import annotations

from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed
from ptkstore.domain.identity import Action, Principal
from ptkstore.sdk.documents.evaluations import evaluation_row
from ptkstore.sdk.documents.resources import ptk_document, version_document
from ptkstore.sdk.documents.validations import validation_row, waiting_text
from ptkstore.sdk.notices import training_document

VERSIONS_SHOWN = 50
VERDICTS_SHOWN = 50
TRAININGS_SHOWN = 50


class PtkPage(Reads):
    """What one PTK says, and how it came to be."""

    def ptk(self, who: Principal, ptk_id: str) -> dict[str, Any]:
        """Show a PTK, its newest versions and verdicts, and for its team what became of its newest trainings."""
        self._identity.permit(who, Action.PTK_READ, Named(ptk_id=formed("PTK", ptk_id)))
        spec = self._service.ptk(ptk_id)
        versions, made, estimates, verdicts = None, None, {}, []
        if self._may(who, Action.STATE_READ, Named(ptk_id=ptk_id)):
            latest = self._service.versions(ptk_id)[-VERSIONS_SHOWN:]
            made = latest[-1].content if latest else None
            versions = [version_document(one) for one in reversed(latest)]
            estimates = {
                row["version"]: row for row in map(evaluation_row, self._service.evaluations(ptk_id))
            }
            judged = self._service.validations(ptk_id)[-VERDICTS_SHOWN:]
            verdicts = [validation_row(one) for one in reversed(judged)]
        trainings = None
        if self._may(who, Action.TRAINING_LIST, Named(ptk_id=ptk_id)):
            newest = self._service.trainings(ptk_id, limit=TRAININGS_SHOWN, newest=True)
            trainings = [training_document(one) for one in newest]
        return {
            "ptk": ptk_document(spec),
            "versions": versions,
            "estimates": estimates,
            "verdicts": verdicts,
            "waits": waiting_text(spec.waiting, made),
            "trainings": trainings,
        }
