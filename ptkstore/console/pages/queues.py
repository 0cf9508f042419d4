"""Pages on schedulers: who waits on a stream, and what a simulation says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.charts import Span, wait_chart
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed, shown_time
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.scheduling.queues import WAITS_TOLD, QueuedPtk, WaitSpan
from ptkstore.domain.scheduling.simulation.requests import MODES, SimulatedScheduler, SimulationRequest
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk.documents.simulations import simulation_document

FIELD_MOST = 20

_FIELDS = {"rate": "0.5", "windows": "100", "seed": "0", "least_significance": "", "most_significance": ""}
"""The numbers of the form of a simulation, and what they are at first. The last two may be left out."""


class Queues(Reads):
    """The queue of a stream, and simulations of other schedulers."""

    def queue(self, who: Principal, name: str) -> dict[str, Any]:
        """Show who waits on a stream and for what, and when each PTK waited: of the caller's context alone."""
        self._identity.permit(who, Action.BUDGET_READ, Named(stream=formed("stream", name)))
        shown = {"name": name, "most": WAITS_TOLD, "reason": "", "waits": [], "first": None}
        try:
            queued = {one.ptk_id: one for one in self._service.queue(name, team=who.team)}
            waits = self._service.waits(name, team=who.team)
        except UnknownName:
            raise
        except InvalidRequest as error:
            return {**shown, "reason": str(error)}
        spans = wait_chart(waits, self._service.clock.now())
        rows = [
            _waited(one, span, queued.get(one.ptk_id) if one.end is None else None)
            for one, span in zip(waits, spans, strict=True)
        ]
        return {**shown, "waits": rows, "first": waits[0].since.isoformat() if waits else None}

    def simulation(self, who: Principal, name: str, asked: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Show what a simulation of a stream tells, of the caller's context; without a question, the form alone."""
        self._identity.permit(who, Action.STREAM_RECOMMEND, Named(stream=formed("stream", name)))
        shown = {"name": name, "form": simulation_form(asked), "found": None, "problem": ""}
        if not asked:
            return shown
        try:
            found = self._service.simulate(name, _simulation_request(asked), team=who.team)
        except UnknownName:
            raise
        except InvalidRequest as error:
            return {**shown, "problem": str(error)}
        return {**shown, "found": simulation_document(found)}


def simulation_form(asked: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the fields of the form as they were sent, or as they are at first."""
    fields = {name: asked.get(name, [first])[0][:FIELD_MOST] for name, first in _FIELDS.items()}
    chosen = asked.get("scheduler", [] if asked else [one.value for one in MODES])
    return {**fields, "schedulers": [(one.value, one.value in chosen) for one in SimulatedScheduler]}


def _simulation_request(asked: Mapping[str, Sequence[str]]) -> SimulationRequest:
    """Read the form of a simulation; `InvalidRequest` says what is wrong with it, and repeats nothing."""
    said = {name: asked.get(name, [first])[0].strip() for name, first in _FIELDS.items()}
    if any(len(text) > FIELD_MOST for text in said.values()):
        raise InvalidRequest("the fields of the form are numbers")
    try:
        rate, windows, seed = float(said["rate"]), int(said["windows"]), int(said["seed"])
        least, most = (float(said[name]) if said[name] else None for name in list(_FIELDS)[3:])
        schedulers = tuple(map(SimulatedScheduler, asked.get("scheduler", ())))
    except ValueError:
        raise InvalidRequest(
            "the fields of the form are numbers, and schedulers are those of the form"
        ) from None
    return SimulationRequest(rate, windows, seed, schedulers, least, most)


def _waited(one: WaitSpan, span: Span, queued: QueuedPtk | None) -> dict[str, Any]:
    """A row of the page of a queue; what it says in words is what the plot shows."""
    end = one.end or "still waits"
    until = "" if one.until is None else f" until {shown_time(one.until.isoformat())}"
    verdicts = "".join(f", {decision} {shown_time(at.isoformat())}" for at, decision in one.verdicts)
    share = max((share.share for share in queued.allowances), default=0.0) if queued else None
    return {
        "ptk_id": one.ptk_id,
        "since": one.since.isoformat(),
        "until": None if one.until is None else one.until.isoformat(),
        "end": one.end,
        "registered": one.registered,
        "looks": len(one.verdicts),
        "verdict": one.verdicts[-1][1] if one.verdicts else "",
        "waits_for": queued.waits_for.value if queued else "",
        "share": share,
        "span": span,
        "label": f"{one.ptk_id}: since {shown_time(one.since.isoformat())}{until}, {end}{verdicts}",
    }
