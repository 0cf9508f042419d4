"""The overview: is the service healthy, what needs the reader, and what happened in the last day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ptkstore.application.delivery.read_notices import readable_team
from ptkstore.application.operations.read_overview import (
    NEARLY_SPENT,
    STREAMS_MOST,
    FullestBlock,
    Listed,
    Overview,
    StreamFacts,
    WaitsFor,
)
from ptkstore.console.charts import ShareBar, share_bar
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import shown_time
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.codes import JOB, NOTICE, RUN, sentence_of
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.streams import Stream
from ptkstore.sdk.documents.resources import stream_document
from ptkstore.sdk.notices import notice_document
from ptkstore.sdk.overview_words import part_in_words, trouble_in_words, work_in_words
from ptkstore.wire.base import SUBSCRIPTION_ID

NOTICES_SHOWN = 20
BUDGETS_SHOWN = STREAMS_MOST
"""The overview shows the remaining budget of at most this many streams."""
_SUBSCRIPTION = re.compile(SUBSCRIPTION_ID.strip("^$") + "$")
_PROCESSES = ("relay", "schedule", "worker")
_WAITS_FOR = {
    WaitsFor.SCHEDULER: "its next training",
    WaitsFor.ACCEPTED_VERSION: "its first accepted version",
    WaitsFor.FIRST_VERSION: "its first version",
}


@dataclass(frozen=True, slots=True)
class Need:
    """A matter that needs a person: its subject, the page to look at, and a sentence that says what is wrong."""

    kind: str
    about: str
    href: str
    text: str
    bad: bool = True


class OverviewPage(Reads):
    """The first page."""

    def overview(self, who: Principal) -> dict[str, Any]:
        """Show health, what needs the reader, streams with their fullest block, the last day and notices."""
        states, codes = self._health()
        sight = self._identity.sight(who)
        overview = self._service.overview(sight, states, sorted(codes))
        streams = {stream.name: stream for stream in self._streams(who)}
        budgets = sight.budgets or frozenset()
        return {
            "overview": overview,
            "silent": [name for name in _PROCESSES if overview.parts.get(name) == "silent"],
            "health": sorted(overview.parts.items()),
            "needs": list(_needs(overview)),
            "work_in_words": work_in_words,
            "more_needs": _beyond(
                overview.failed_trainings, overview.given_up, overview.troubled_subscriptions
            ),
            "waiting": [
                {
                    "ptk_id": one.ptk_id,
                    "waits_for": _WAITS_FOR[one.waits_for],
                    "since": None if one.since is None else one.since.isoformat(),
                }
                for one in overview.waiting.items
            ],
            "published": [
                {"ptk_id": one.ptk_id, "version": one.version, "at": one.at.isoformat()}
                for one in _items(overview.published)
            ],
            "closed": _closed(overview),
            "streams": [
                _card(streams[one.name], one, readable=one.name in budgets)
                for one in overview.streams
                if one.name in streams
            ],
            "notices": self._notices(who),
        }

    def _notices(self, who: Principal) -> list[dict[str, Any]]:
        """The newest notices to the team, or to all."""
        if not self._may(who, Action.NOTICE_LIST, None):
            return []
        notices = self._service.notices(readable_team(who, None), limit=NOTICES_SHOWN, newest=True)
        shown = [
            {
                **notice_document(one),
                "ptk": None if one.stream else one.ptk_id,
                "cause": sentence_of(one.code, NOTICE, RUN, JOB),
            }
            for one in notices
        ]
        about = [_SUBSCRIPTION.search(one["subject"]) for one in shown]
        own = {one["id"] for one in self._subscriptions(who)} if any(about) else set()
        return [
            {**one, "subscription": found[0] if found and found[0] in own else None}
            for one, found in zip(shown, about, strict=True)
        ]


def _closed(overview: Overview) -> int | None:
    """How many windows closed in the last day on the streams that tell the reader; None where no stream does."""
    told = [one.closed_windows for one in overview.streams if one.closed_windows is not None]
    return sum(told) if told or not overview.streams else None


def _needs(overview: Overview) -> Iterator[Need]:
    for name in overview.failing:
        yield Need(
            "service",
            name,
            "/#health",
            f"This part of the service {part_in_words(name)}.",
        )
    for stream in overview.streams:
        if stream.exposure is not None and not stream.exposure.holds:
            yield Need("exposure", stream.name, f"/streams/{stream.name}#exposed", stream.exposure.verdict)
    for failed in _items(overview.failed_trainings):
        when = f"on window {failed.window} failed at {shown_time(failed.at.isoformat())} UTC"
        yield Need(
            "training",
            failed.ptk_id,
            f"/ptks/{failed.ptk_id}#trainings",
            f"Training {when}: {failed.code}.",
        )
    for given_up in overview.given_up.items:
        text = f"It is trained no longer: {given_up.code}. A developer can resume it."
        yield Need("given up", given_up.ptk_id, f"/ptks/{given_up.ptk_id}", text)
    for one in _items(overview.troubled_subscriptions):
        yield Need(
            "delivery",
            one.ptk_id,
            f"/subscriptions/{one.id}",
            f"Subscription {one.id} {trouble_in_words(one.status, one.dead_letters, one.code)}.",
            bad=one.status != "ok",
        )
    for stream in overview.streams:
        if stream.budget is not None and stream.budget.nearly_spent:
            text = (
                f"{stream.budget.nearly_spent} of {stream.budget.active_blocks} active blocks have "
                f"{NEARLY_SPENT:.0%} or more of their epsilon spent or reserved."
            )
            yield Need("budget", stream.name, f"/streams/{stream.name}#budget", text, bad=False)


def _items(listed: Listed[Any] | None) -> tuple[Any, ...]:
    return () if listed is None else listed.items


def _beyond(*lists: Listed[Any] | None) -> int:
    """How many things the lists leave out."""
    return sum(one.count - len(one.items) for one in lists if one is not None)


def _card(stream: Stream, facts: StreamFacts, *, readable: bool) -> dict[str, Any]:
    document = stream_document(stream)
    fullest = None if facts.budget is None else facts.budget.fullest
    return {
        "name": stream.name,
        "team": stream.team,
        "ptks": facts.ptks,
        "closed": facts.closed_windows,
        "capacity": document["epsilon"],
        "local": document["report_epsilon"],
        "unit": stream.policy.privacy_unit.value,
        "assurance": stream.policy.minimum_assurance.value,
        "budget": facts.budget,
        "fullest": fullest,
        "place": None if fullest is None else _place(fullest),
        "share": None if fullest is None else _share(fullest),
        "readable": readable,
        "exposed": facts.exposure is not None and not facts.exposure.holds,
    }


def _place(block: FullestBlock) -> str:
    start = f"block {block.number}" if block.start is None else shown_time(block.start.isoformat())
    words = (start, block.part, block.line, "" if block.state == BlockState.ACTIVE else block.state)
    return ", ".join(word for word in words if word not in ("", COMMON))


def _share(block: FullestBlock) -> ShareBar:
    return share_bar(_place(block), block.spent_epsilon, block.reserved_epsilon, block.capacity_epsilon)
