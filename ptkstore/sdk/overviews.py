"""The overview of a store as a document of the HTTP API and of `ptk status --json`, and back again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from ptkstore.application.operations.read_overview import (
    BudgetFacts,
    ExposureFacts,
    FailedTraining,
    FullestBlock,
    GivenUpPtk,
    Listed,
    Overview,
    PublishedVersion,
    StreamFacts,
    TroubledSubscription,
    WaitingFacts,
    WaitsFor,
)
from ptkstore.application.operations.unfinished_work import WorkFacts, WorkState
from ptkstore.domain.fields import fields_of
from ptkstore.domain.jobs import JobKind
from ptkstore.sdk.documents.times import to_the_second
from ptkstore.sdk.notices import notice_of, wire_notice

Document = dict[str, Any]
_T = TypeVar("_T")


def overview_document(overview: Overview) -> Document:
    """Write the overview; a list that the reader may not see is null."""
    return {
        "at": to_the_second(overview.at),
        "since": to_the_second(overview.since),
        "healthy": overview.healthy,
        "parts": dict(overview.parts),
        "failing": list(overview.failing),
        "streams": [_stream_document(one) for one in overview.streams],
        "ptks": overview.ptks,
        "failed_trainings": _listed(overview.failed_trainings, _timed),
        "given_up": _listed(overview.given_up, fields_of),
        "waiting": _listed(overview.waiting, _waiting_document),
        "work": _listed(overview.work, _work_document),
        "subscriptions": overview.subscriptions,
        "troubled_subscriptions": _listed(overview.troubled_subscriptions, fields_of),
        "published": _listed(overview.published, _timed),
        "notices": _listed(overview.notices, wire_notice),
    }


def overview_of(document: Mapping[str, Any]) -> Overview:
    """Read the overview that `overview_document` wrote."""
    return Overview(
        at=datetime.fromisoformat(document["at"]),
        since=datetime.fromisoformat(document["since"]),
        parts=dict(document["parts"]),
        failing=tuple(document["failing"]),
        streams=tuple(map(_stream_of, document["streams"])),
        ptks=document["ptks"],
        failed_trainings=_listed_of(
            document["failed_trainings"], lambda one: FailedTraining(**_with_time(one))
        ),
        given_up=_items_of(document["given_up"], lambda one: GivenUpPtk(**one)),
        waiting=_items_of(document["waiting"], _waiting_of),
        work=_listed_of(document.get("work"), _work_of),
        subscriptions=document["subscriptions"],
        troubled_subscriptions=_listed_of(
            document["troubled_subscriptions"], lambda one: TroubledSubscription(**one)
        ),
        published=_listed_of(document["published"], lambda one: PublishedVersion(**_with_time(one))),
        notices=_listed_of(document["notices"], notice_of),
    )


def _listed(listed: Listed[_T] | None, write: Callable[[_T], Document]) -> Document | None:
    if listed is None:
        return None
    return {"count": listed.count, "items": [write(one) for one in listed.items]}


def _listed_of(
    document: Mapping[str, Any] | None, read: Callable[[Mapping[str, Any]], _T]
) -> Listed[_T] | None:
    return None if document is None else _items_of(document, read)


def _items_of(document: Mapping[str, Any], read: Callable[[Mapping[str, Any]], _T]) -> Listed[_T]:
    return Listed(document["count"], tuple(map(read, document["items"])))


def _timed(one: FailedTraining | PublishedVersion) -> Document:
    return {**fields_of(one), "at": to_the_second(one.at)}


def _with_time(document: Mapping[str, Any]) -> Document:
    return {**document, "at": datetime.fromisoformat(document["at"])}


def _waiting_document(one: WaitingFacts) -> Document:
    return {
        "ptk_id": one.ptk_id,
        "waits_for": one.waits_for.value,
        "since": None if one.since is None else to_the_second(one.since),
    }


def _waiting_of(document: Mapping[str, Any]) -> WaitingFacts:
    since = document["since"]
    return WaitingFacts(
        document["ptk_id"],
        WaitsFor(document["waits_for"]),
        None if since is None else datetime.fromisoformat(since),
    )


def _work_document(one: WorkFacts) -> Document:
    return {
        "kind": one.kind.value,
        "state": one.state.value,
        "stream": one.stream,
        "window": one.window,
        "ptk_id": one.ptk_id,
        "since": None if one.since is None else to_the_second(one.since),
    }


def _work_of(document: Mapping[str, Any]) -> WorkFacts:
    since = document["since"]
    return WorkFacts(
        JobKind(document["kind"]),
        WorkState(document["state"]),
        document["stream"],
        document["window"],
        document["ptk_id"],
        None if since is None else datetime.fromisoformat(since),
    )


def _stream_document(one: StreamFacts) -> Document:
    return {
        **fields_of(one),
        "budget": None if one.budget is None else _budget_document(one.budget),
        "exposure": None if one.exposure is None else fields_of(one.exposure),
    }


def _stream_of(document: Mapping[str, Any]) -> StreamFacts:
    budget, exposure = document["budget"], document["exposure"]
    return StreamFacts(
        document["name"],
        document["team"],
        document["ptks"],
        document.get("closed_windows"),  # an earlier service does not count them
        None if budget is None else _budget_of(budget),
        None if exposure is None else ExposureFacts(**exposure),
    )


def _budget_document(budget: BudgetFacts) -> Document:
    fullest = None
    if budget.fullest is not None:
        start = budget.fullest.start
        fullest = {**fields_of(budget.fullest), "start": None if start is None else start.isoformat()}
    return {**fields_of(budget), "fullest": fullest}


def _budget_of(document: Mapping[str, Any]) -> BudgetFacts:
    facts = BudgetFacts(**document)
    if document["fullest"] is None:
        return facts
    start = document["fullest"]["start"]
    start = None if start is None else datetime.fromisoformat(start)
    return replace(facts, fullest=FullestBlock(**{**document["fullest"], "start": start}))
