"""The page of a privacy officer: the check of the ledger, what is exposed, what was lost, and who signs."""

from __future__ import annotations

from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.oversight.access import grant_row
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ledger.reports import loss_json
from ptkstore.domain.streams.guarantees import Protected, protections
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.sdk.documents.resources import odometers_document
from ptkstore.sdk.reports.formats import FORMATS
from ptkstore.sdk.reports.words import in_words, limits, shown_loss

PARTIES_SHOWN = 200


class Officers(Reads):
    """The page of a privacy officer on one stream."""

    def officer(self, who: Principal, name: str) -> dict[str, Any]:
        """Show the check of a stream's journal, its exposure and its odometers; reports for those who may export."""
        named = Named(stream=formed("stream", name))
        self._identity.permit(who, Action.LEDGER_VERIFY, named)
        check = self._service.verify_ledger(name)
        counted = self._service.odometers(name)
        odometers = odometers_document(counted)
        stream = self._service.stream(name)
        policy = stream.policy
        grants, receivers = self._identity.grants(stream=name), self._receivers(name)
        return {
            "name": name,
            "losses": None if policy.on_devices else self._losses(name, policy, counted.stream.guarantee),
            "adds_up": policy.privacy_unit is not PrivacyUnit.RECORD,
            "owner": stream.team,
            "grants": [grant_row(one, removable=False) for one in grants[:PARTIES_SHOWN]],
            "n_grants": len(grants),
            "receivers": receivers[:PARTIES_SHOWN],
            "more_receivers": len(receivers) > PARTIES_SHOWN,
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

    def _losses(self, name: str, policy: Policy, spent: Loss) -> dict[str, Any]:
        """What a record and a person have lost, and lose once all budget is spent, with a sentence in words."""
        windows = self._service.windows_spent_on(name)
        now = [_protected(one) for one in protections(policy, spent, windows)]
        most = [_protected(one) for one in protections(policy, policy.capacity, windows)]
        unit = 0 if policy.privacy_unit is PrivacyUnit.RECORD else -1
        rows = [
            (had["who"], shown_loss(had), shown_loss(will), had["rule"])
            for had, will in zip(now, most, strict=True)
        ]
        return {
            "rows": rows if windows > 1 else rows[:2],
            "words": None if policy.sharing.contexts else in_words(now[unit], most[unit]),
            "limits": limits(
                {"privacy_unit": policy.privacy_unit, "minimum_assurance": policy.minimum_assurance}
            ),
        }

    def _receivers(self, name: str) -> list[dict[str, Any]]:
        """The teams that are sent each version of the stream's PTKs, and how far; never where to.

        One more than are shown, if there are more.
        """
        found: list[dict[str, Any]] = []
        for spec in self._service.ptks():
            if spec.stream != name or len(found) > PARTIES_SHOWN:
                continue
            found += (
                {
                    "ptk_id": spec.ptk_id,
                    "team": one.subscription.team,
                    "by": "Redis stream" if one.subscription.stream_key else "webhook",
                    "version": one.heard_of_version,
                    "status": one.subscription.status,
                }
                for one in self._service.subscriptions(spec.ptk_id, limit=PARTIES_SHOWN + 1)
            )
        return found


def _protected(one: Protected) -> dict[str, str]:
    return {"who": one.who, "rule": one.rule, **loss_json(one.loss)}
