"""What the pages show: read by the same use cases, and under the same rules, as over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ptkstore.application.delivery.read_notices import readable_team
from ptkstore.application.identity.authorize import Named
from ptkstore.application.streams.exposure import sentences_on
from ptkstore.console.charts import Span, budget_chart, wait_chart
from ptkstore.domain.accounting.assurances import SHARES, Assurance, budget_rests_on
from ptkstore.domain.accounting.local import ALL_PTKS, LIMITED
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.ledger.reports import device_json, local_json
from ptkstore.domain.names import checked_name, split_ptk_id
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.queues import WAITS_TOLD, QueuedPtk, WaitSpan
from ptkstore.domain.scheduling.simulation.requests import MODES, SimulatedScheduler, SimulationRequest
from ptkstore.domain.streams.guarantees import protections
from ptkstore.domain.streams.streams import Policy, Stream
from ptkstore.domain.streams.windows import start_of
from ptkstore.errors import InvalidRequest, NotAllowed, PtkStoreError, Unavailable, UnknownName
from ptkstore.sdk.documents.evaluations import evaluation_row
from ptkstore.sdk.documents.ledgers import block_rows, contexts_text
from ptkstore.sdk.documents.resources import ptk_document, stream_document, version_document
from ptkstore.sdk.documents.simulations import simulation_document
from ptkstore.sdk.documents.validations import validation_row, waiting_text
from ptkstore.sdk.notices import notice_document, training_document
from ptkstore.sdk.subscriptions import subscription_document
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

BLOCKS_SHOWN = 60
VERSIONS_SHOWN = 50
VERDICTS_SHOWN = 50
PTKS_SHOWN = 500
SUBSCRIPTIONS_SHOWN = 200
LETTERS_SHOWN = 500
NOTICES_SHOWN = 20
FIELD_MOST = 20
TRAININGS_SHOWN = 50
BUDGETS_SHOWN = 12
"""Streams of which the overview shows what is left: each is a few statements, all else is read at once."""

_FIELDS = {"rate": "0.5", "windows": "100", "seed": "0", "least_significance": "", "most_significance": ""}
"""The numbers of the form of a simulation, and what they are at first. The last two may be left out."""


class Pages:
    """The contents of every page, for one principal."""

    def __init__(self, service: Service, identity: Identity, health: Callable[[], Mapping[str, str]]) -> None:
        self._service, self._identity, self._health = service, identity, health

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

    def stream(self, who: Principal, name: str) -> dict[str, Any]:
        """Show a stream's policy, its blocks and its PTKs."""
        self._identity.permit(who, Action.STREAM_READ, Named(stream=_formed("stream", name)))
        stream = self._service.stream(name)
        rows = None
        if self._may(who, Action.BUDGET_READ, Named(stream=name)):
            rows = _labelled(self._service.budget(name), stream.policy)
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
            "ptks": self._lines(self._service.ptks(stream=name)[:PTKS_SHOWN]),
        }

    def queue(self, who: Principal, name: str) -> dict[str, Any]:
        """Show who waits on a stream and for what, and when each PTK waited: of the caller's context alone."""
        self._identity.permit(who, Action.BUDGET_READ, Named(stream=_formed("stream", name)))
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
        self._identity.permit(who, Action.STREAM_RECOMMEND, Named(stream=_formed("stream", name)))
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

    def ptks(self, who: Principal) -> dict[str, Any]:
        """Show the PTKs of all visible streams."""
        specs = self._ptks(who)
        return {"ptks": self._lines(specs[:PTKS_SHOWN]), "n_ptks": len(specs)}

    def ptk(self, who: Principal, ptk_id: str) -> dict[str, Any]:
        """Show a PTK, its newest versions and verdicts, and for its team what became of its newest trainings."""
        self._identity.permit(who, Action.PTK_READ, Named(ptk_id=_formed("PTK", ptk_id)))
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

    def deliveries(self, who: Principal) -> dict[str, Any]:
        """Show how far the subscriptions of the team, or all, have heard, and what they missed."""
        subscriptions = self._subscriptions(who)
        shown = subscriptions[:SUBSCRIPTIONS_SHOWN]
        missed = self._service.dead_letters_of([one["id"] for one in shown])
        letters = sorted(
            (letter for some in missed.values() for letter in some), key=lambda one: one.at, reverse=True
        )
        return {
            "subscriptions": shown,
            "n_subscriptions": len(subscriptions),
            "letters": [
                {
                    "subscription": one.subscription_id,
                    "version": one.number,
                    "code": one.code,
                    "at": one.at.isoformat(),
                }
                for one in letters[:LETTERS_SHOWN]
            ],
            "n_letters": len(letters),
        }

    def _exposure(self, name: str) -> dict[str, Any] | None:
        """What is exposed of a stream, in sentences; None while a store is away."""
        try:
            exposure = self._service.exposure(name)
        except Unavailable:
            return None
        verdict, *sentences = sentences_on(exposure)
        return {"stream": name, "holds": exposure.holds, "verdict": verdict, "told": sentences}

    def _streams(self, who: Principal) -> list[Any]:
        seen = self._identity.visible_streams(who)
        return [stream for stream in self._service.streams() if stream.name in seen]

    def _ptks(self, who: Principal) -> list[Any]:
        seen = self._identity.visible_streams(who)
        return [spec for spec in self._service.ptks() if spec.stream in seen]

    def _subscriptions(self, who: Principal) -> list[dict[str, Any]]:
        if not self._may(who, Action.SUBSCRIPTION_LIST, None):
            return []
        team = None if who.administers else who.team
        return [
            {**subscription_document(one), "place": one.subscription.endpoint.partition("?")[0]}
            for one in self._service.subscriptions(None, team=team)
        ]

    def _notices(self, who: Principal) -> list[dict[str, Any]]:
        """The newest words left for the team, or for all."""
        if not self._may(who, Action.NOTICE_LIST, None):
            return []
        notices = self._service.notices(readable_team(who, None), limit=NOTICES_SHOWN, newest=True)
        return [{**notice_document(one), "ptk": None if one.stream else one.ptk_id} for one in notices]

    def _lines(self, specs: Sequence[PtkSpec]) -> list[dict[str, Any]]:
        placed = self._service.newest_versions()
        return [{**ptk_document(spec), "newest": placed.get(spec.ptk_id) or None} for spec in specs]

    def _may(self, who: Principal, action: Action, named: Named | None) -> bool:
        try:
            self._identity.permit(who, action, *([] if named is None else [named]))
        except (NotAllowed, UnknownName):
            return False
        return True


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


def shown_time(text: str | None) -> str:
    """Write a time as people read it, in UTC."""
    if not text:
        return ""
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return text
    midnight = (at.hour, at.minute, at.second) == (0, 0, 0)
    return at.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M")


def shown_span(span: timedelta) -> str:
    """Write a span of time in its largest whole unit."""
    for word, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        number, rest = divmod(int(span.total_seconds()), seconds)
        if number and not rest:
            return f"{number} {word}{'' if number == 1 else 's'}"
    return f"{int(span.total_seconds())} s"


def _card(stream: Stream, blocks: Sequence[BlockLedger] | None, *, readable: bool) -> dict[str, Any]:
    rows = _labelled(blocks or (), stream.policy)
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


def _labelled(blocks: Sequence[BlockLedger], policy: Policy) -> list[dict[str, Any]]:
    """The rows of the ledger with the words of the page."""
    rows = block_rows(blocks, policy)
    for row in rows:
        window = row.get("window")
        start = None if window is None else start_of(policy, window)
        value = "" if policy.attribute is None else str(row[policy.attribute])
        row["kind"] = ", ".join(word for word in (str(row["part"]), value, str(row.get("line", ""))) if word)
        row["place"] = f"shard {row['shard']}" if start is None else shown_time(start.isoformat())
        row["label"] = f"{row['place']}, {row['kind']}"
    return rows


def _by_loss(part: tuple[str, list[dict[str, Any]]]) -> tuple[bool, str]:
    """Parts that have lost or promised anything first."""
    return not any(row["spent_epsilon"] or row["reserved_epsilon"] for row in part[1]), part[0]


def problem_of(error: PtkStoreError) -> tuple[int, str]:
    """Return status and words of a page that cannot be shown; repeat nothing that was sent."""
    match error:
        case UnknownName():
            return 404, "There is no such page, or it is not for you to see."
        case NotAllowed():
            return 403, "The roles of your token do not allow this."
        case _:
            return 503, "A part of the service does not answer. Try again in a while."


def _formed(kind: str, name: str) -> str:
    """The name in a path; what cannot be one names nothing, and is neither looked for nor repeated."""
    try:
        if kind == "PTK":
            split_ptk_id(name)
        else:
            checked_name(kind, name)
    except InvalidRequest:
        raise UnknownName(kind, "?") from None
    return name
