"""The page of one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.queues import simulation_form
from ptkstore.console.pages.shown import formed, shown_span
from ptkstore.console.pages.streams.budgets import Asked, StreamBudgets, windows_shown
from ptkstore.console.pages.streams.people import StreamPeople, policy_rows, schema_rows
from ptkstore.console.pages.streams.windows import (
    StreamWindows,
    before_in,
    exposure_card,
    windows_card,
)
from ptkstore.domain.accounting.assurances import SHARES, Assurance, budget_rests_on
from ptkstore.domain.accounting.local import ALL_PTKS, LIMITED
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ledger.reports import device_json, local_json
from ptkstore.domain.streams.guarantees import protections
from ptkstore.domain.streams.policies import Policy
from ptkstore.sdk.documents.ledgers import contexts_text
from ptkstore.sdk.documents.resources import stream_document

PTKS_SHOWN = 500
_ASKED = (
    Action.STREAM_READ,
    Action.EXPOSURE_READ,
    Action.STATE_READ,
    Action.STATE_TRACE,
    Action.BUDGET_READ,
    Action.LEDGER_EXPORT,
    Action.LEDGER_VERIFY,
    Action.STREAM_RECOMMEND,
    Action.AUDIT_READ,
    Action.GRANT_LIST,
    Action.GRANT_ADD,
    Action.GRANT_REMOVE,
)


class StreamPage(StreamWindows, StreamBudgets, StreamPeople):
    """The page of one stream: its windows, its budget, its policy and history, and its PTKs."""

    def stream(
        self, who: Principal, name: str, query: Mapping[str, Sequence[str]], request_id: str
    ) -> dict[str, Any]:
        """Show a stream's windows, budget, policy, history and PTKs, as far as the reader's roles go.

        Parameters
        ----------
        query : Mapping
            `before` names the window that the page ends before, `by` who splits the bars, `part` a single chart.
        """
        may = self._identity.allowed(who, _ASKED, Named(stream=formed("stream", name)))
        if Action.STREAM_READ not in may:
            self._identity.permit(who, Action.STREAM_READ, Named(stream=name))
        stream, asked = self._service.stream(name), Asked.of(query, request_id)
        policy, reads_budget = stream.policy, Action.BUDGET_READ in may
        exposure = self._exposed(name) if Action.EXPOSURE_READ in may else None
        line = self._service.time_line(
            name, windows_shown(policy), before_in(query), with_versions=Action.STATE_TRACE in may
        )
        rows = self._budget(name, policy, line.first, line.below) if reads_budget else []
        minimum, asserted = self._service.assurance_on(name)
        every = self._service.ptks(stream=name)
        ptks = every[:PTKS_SHOWN]
        newest = None
        if Action.STATE_READ in may:
            placed = self._service.newest_versions()
            newest = {spec.ptk_id: placed.get(spec.ptk_id, 0) for spec in ptks}
        return {
            "name": name,
            "stream": stream_document(stream),
            "window": shown_span(policy.window),
            "timed": windows_card(line, policy, exposure) if Action.EXPOSURE_READ in may else None,
            "older": line.first if line.first > 0 else None,
            "newer": min(line.below + windows_shown(policy), line.closed_before)
            if line.below < line.closed_before
            else None,
            "before": line.below if line.below < line.closed_before else None,
            "exposure": exposure_card(name, exposure),
            "readable": reads_budget,
            "contexts": contexts_text(rows, policy) if rows else "",
            **self._devices(name, policy, reads_budget=reads_budget),
            "asserted": minimum is not Assurance.LIBRARY,
            "rests_on": budget_rests_on(minimum, asserted),
            "shares": SHARES,
            "bars": self._bars(
                who,
                name,
                policy,
                rows,
                (line.first, line.below),
                asked,
                may_export=Action.LEDGER_EXPORT in may,
            )
            if rows
            else None,
            "room": self._room(who, name, policy, len(every)) if reads_budget else None,
            "queues": reads_budget and policy.scheduler.lets_wait,
            "form": simulation_form({}) if not policy.on_devices and Action.STREAM_RECOMMEND in may else None,
            "schema": schema_rows(stream),
            "policy": policy_rows(stream),
            "history": self._history(name) if Action.AUDIT_READ in may else None,
            "for_officers": Action.LEDGER_VERIFY in may,
            "grants": self._grants(stream, may) if Action.GRANT_LIST in may else None,
            "ptks": self._lines(ptks, newest or {}),
        }

    def _devices(self, name: str, policy: Policy, *, reads_budget: bool) -> dict[str, Any]:
        """What devices lose to a stream whose rows stay there."""
        told: dict[str, Any] = {"local": [], "device": None, "promised": ()}
        if policy.on_devices:
            told["promised"] = protections(policy, policy.report_limit, 0)
            if reads_budget:
                odometers = self._service.odometers(name)
                told["local"] = [local_json(one) for one in odometers.local]
                told["device"] = None if odometers.device is None else device_json(odometers.device)
        return {**told, "all_ptks": ALL_PTKS, "limited": LIMITED}
