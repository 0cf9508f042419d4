"""The overview of a store."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from ptkstore.wire.base import Instant, Wire
from ptkstore.wire.notices import NoticeOut

Item = TypeVar("Item")


class Listed(Wire, Generic[Item]):
    """The first items of a list, and how many there are."""

    count: Annotated[int, Field(description="of all items, also of those that are not shown")]
    items: Annotated[list[Item], Field(description="at most 50")]


class FullestBlock(Wire):
    """The active block that has the least share of its capacity left."""

    number: int
    window: Annotated[int | None, Field(description="null for a shard of users")]
    start: Annotated[Instant | None, Field(description="of its window")]
    part: str
    state: Annotated[
        str, Field(description="active; or retired, of the newest window: nothing more is charged to it")
    ]
    line: str
    capacity_epsilon: float
    reserved_epsilon: float
    spent_epsilon: float
    share_used: Annotated[float, Field(description="of the capacity, spent or reserved, from 0 to 1")]


class BudgetFacts(Wire):
    """Blocks of a stream that may still be charged."""

    active_blocks: int
    nearly_spent: Annotated[
        int, Field(description="active blocks of whose capacity 90 % or more is spent or reserved")
    ]
    fullest: FullestBlock | None


class ExposureFacts(Wire):
    """Whether the exposure check of a stream passes."""

    holds: bool
    verdict: str


class StreamFacts(Wire):
    """A stream that the caller may see."""

    name: str
    team: str
    ptks: Annotated[int, Field(description="PTKs registered on it")]
    closed_windows: Annotated[
        int | None,
        Field(
            description="that closed since `since`; null where the roles allow neither budget nor exposure"
        ),
    ]
    budget: Annotated[
        BudgetFacts | None,
        Field(description="null where the roles do not allow it, and beyond the first 12 streams"),
    ]
    exposure: Annotated[
        ExposureFacts | None, Field(description="null as `budget`, and while a store is away")
    ]


class FailedTraining(Wire):
    """The newest training of a PTK that failed, while no newer version came."""

    ptk_id: str
    window: int
    code: Annotated[str, Field(description="why: a fixed code")]
    at: Instant


class GivenUpPtk(Wire):
    """A PTK that is trained no longer."""

    ptk_id: str
    code: Annotated[str, Field(description="why: a fixed code")]


class WaitingPtk(Wire):
    """A PTK that waits."""

    ptk_id: str
    waits_for: Literal["scheduler", "accepted-version", "first-version"]
    since: Annotated[Instant | None, Field(description="null where it is not on record")]


class UnfinishedWork(Wire):
    """A job that has not ended, of a window or of a PTK. It has no start time."""

    kind: Annotated[str, Field(description="such as `prepare`, `train` or `expire`")]
    state: Annotated[
        Literal["running", "interrupted", "waiting"],
        Field(description="`interrupted`: its worker stopped reporting, and the next one takes it"),
    ]
    stream: str
    window: Annotated[int | None, Field(description="the newest one; null of what places a version")]
    ptk_id: Annotated[str | None, Field(description="null of what concerns a window alone")]
    since: Annotated[
        Instant | None, Field(description="when the window closed; null where it is not on record")
    ]


class TroubledSubscription(Wire):
    """A subscription that is failing or disabled, or has dead letters."""

    id: str
    ptk_id: str
    status: Literal["ok", "failing", "disabled"]
    dead_letters: int
    code: Annotated[str | None, Field(description="of its last failure: a fixed code")]


class PublishedVersion(Wire):
    """A version that was elected in the last day."""

    ptk_id: str
    version: int
    at: Instant


class OverviewOut(Wire):
    """Is the store healthy, what needs somebody, what happened since `since`: the last day.

    A list is null where the roles do not allow it. Failed trainings are those of the last seven days.
    """

    at: Instant
    since: Instant
    healthy: Annotated[bool, Field(description="no part is failing")]
    parts: Annotated[dict[str, str], Field(description="the state of each part, as `/readyz` tells it")]
    failing: Annotated[list[str], Field(description="parts for which the service is not ready")]
    streams: list[StreamFacts]
    ptks: Annotated[int, Field(description="registered PTKs on these streams")]
    failed_trainings: Listed[FailedTraining] | None
    given_up: Listed[GivenUpPtk]
    waiting: Listed[WaitingPtk]
    work: Annotated[
        Listed[UnfinishedWork] | None,
        Field(
            description="of the caller's PTKs, and on windows of streams whose budget or exposure it reads"
        ),
    ]
    subscriptions: Annotated[int | None, Field(description="of the caller's team, or of all")]
    troubled_subscriptions: Listed[TroubledSubscription] | None
    published: Annotated[
        Listed[PublishedVersion] | None,
        Field(description="null where the roles allow the states of none of the streams"),
    ]
    notices: Annotated[Listed[NoticeOut] | None, Field(description="of the last day, the newest first")]
