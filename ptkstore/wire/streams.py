"""Streams, their policies, what is stored of them and what it costs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from ptkstore.wire.base import Instant, Loss, Name, Time, Wire
from ptkstore.wire.policies import Value, with_policy

ColumnKind = Literal["int64", "float64", "string", "bool", "timestamp"]
AssuranceName = Literal["asserted", "composed", "library"]
BlockStateName = Literal["active", "retired", "erased"]

EXAMPLE: dict[str, JsonValue] = {
    "name": "trips",
    "team": "taxi",
    "columns": {"at": "timestamp", "hour": "int64", "speed": "float64"},
    "time_column": "at",
    "epsilon": "1",
    "delta": "0.000001",
    "window_seconds": 86400,
    "origin": "2026-01-05T00:00:00Z",
    "closing": "clock",
}


@with_policy(shown=False)
class StreamIn(Wire, json_schema_extra={"examples": [EXAMPLE]}):
    """A stream to create. Schema and policy are fixed from then on; a field that is not given gets its default."""

    name: Name
    team: Name
    columns: Annotated[dict[Name, ColumnKind], Field(min_length=1, max_length=500)]
    time_column: Name


class ColumnIn(Wire, json_schema_extra={"examples": [{"name": "tip", "type": "float64", "default": 0.0}]}):
    """A column to add, and the public value that rows without one have."""

    name: Name
    type: Literal["int64", "float64", "string", "bool"]
    default: Value | float


class StreamPatch(
    Wire,
    json_schema_extra={"examples": [{"add_column": {"name": "tip", "type": "float64", "default": 0.0}}]},
):
    """How a stream is to grow; nothing of it can be taken away or changed."""

    add_column: ColumnIn


class AddedOut(Wire):
    """A column that came later: windows from `since_window` on have it."""

    column: str
    default: str | int | float | bool
    since_window: int


@with_policy(shown=True)
class StreamOut(Wire):
    """A stream: its schema and its whole policy."""

    name: str
    team: str
    columns: dict[str, ColumnKind]
    time_column: str
    schema_version: Annotated[
        int, Field(description="1 as created, and one more with each column that was added")
    ]
    added: list[AddedOut]


class CloseIn(Wire, json_schema_extra={"examples": [{"until": "2026-01-06T00:00:00Z"}]}):
    """Until which event time windows are closed; now by default, to be given where the operator closes."""

    until: Time | None = None
    expire_unfinished: bool = False


class Closed(Wire):
    """The windows that were closed by this call."""

    windows: list[int]


class ForgetIn(Wire, json_schema_extra={"examples": [{"unit": "user-17"}]}):
    """The user whose rows are to be erased; it is kept nowhere."""

    unit: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | int


class Forgotten(Wire):
    """No kept window has rows of the unit; the answer is the same if there were none."""

    forgotten: Literal[True] = True


class IngestOut(Wire):
    """The result of a batch. The counts are for its producer and kept nowhere."""

    batch_id: str
    accepted: int
    refused: Annotated[dict[str, int], Field(description="rows by the reason they were refused for")]
    repeated: Annotated[bool, Field(description="the batch was stored before; nothing was stored now")]


Proven = Annotated[Loss | None, Field(description="the loss of the releases that the library proves, alone")]
Asserted = Annotated[Loss | None, Field(description="the loss of all other releases, alone")]


class BlockOut(Wire):
    """One line of one block: what it may lose, has promised and has lost."""

    block: int
    line: str
    state: BlockStateName
    capacity: Loss
    reserved: Loss
    spent: Loss
    committed: Loss
    library: Proven = None
    asserted: Asserted = None


class Budget(Wire):
    """Blocks of a stream, by number; the odometers tell what was spent on whose word."""

    stream: str
    minimum_assurance: AssuranceName = "library"
    asserted_ptks: Annotated[
        list[str], Field(description="registered PTKs whose loss is their team's word")
    ] = Field(default_factory=list)
    blocks: list[BlockOut]
    next_cursor: str | None


class RoomOut(Wire):
    """How many more PTKs fit that lose what one PTK does."""

    like: Annotated[str, Field(description="the PTK that was registered last")]
    loss: Loss
    more: int
    is_least: Annotated[bool, Field(description="counting ended there, and more may fit")]
    basis: Annotated[
        str,
        Field(
            description="window: PTKs beside the registered ones. fresh-block: losses that an unused block takes. "
            "life: trainings that the blocks of users take"
        ),
    ]
    sentence: str
    assumes: Annotated[str, Field(description="what the number rests on")]


class RoomForMoreOut(Wire):
    """Room for more PTKs; none where no PTK is registered, or rows stay on devices."""

    stream: str
    room: RoomOut | None


class SpentOut(Wire):
    """The joint cost of some releases, in three figures; admission uses only the filter's `guarantee`."""

    releases: Annotated[
        int,
        Field(
            description="in one block: of a line, stream, PTK or team in the block where it is most, not in all of them"
        ),
    ]
    guarantee: Loss
    basic: Loss
    tight: Loss


class LineOdometerOut(Wire):
    """One line of one block."""

    block: int
    line: str
    state: BlockStateName
    capacity: Loss
    reserved: Loss
    spent: SpentOut
    in_doubt: bool
    library: Proven = None
    asserted: Asserted = None


class PartyOdometerOut(Wire):
    """The spend of a PTK or a team on the block where it is most."""

    name: str
    spent: SpentOut
    reserved: Loss
    assurance: Annotated[
        str | None, Field(description="the least of its PTKs; null where one is unknown")
    ] = None
    asserted_by: str | None = None


class DeviceOdometerOut(Wire):
    """The most that one device loses to all PTKs together. It is no loss of a block, and nothing adds the two up."""

    report_limit: Annotated[Loss, Field(description="the most that the stream lets any report lose")]
    one_window: Loss
    so_far: Annotated[Loss, Field(description="of all reports that a device may have sent by now")]
    in_all: Loss
    reports_per_window: int
    reports_so_far: int
    reports_in_all: int
    windows: Annotated[int, Field(description="the windows that have begun")]


class LocalOdometerOut(DeviceOdometerOut):
    """The most that one device loses to one PTK, if all of its reports are for that one."""

    ptk: str
    report: Annotated[Loss, Field(description="of one report now, the whole model counted")]
    one_weight: Annotated[Loss, Field(description="of one weight of a report, by itself")]
    clip: str
    noise: str
    specification: Annotated[str, Field(description="SHA-256 of what devices were told")]


class OdometersOut(Wire):
    """All odometers of a stream."""

    blocks: list[LineOdometerOut]
    lines: dict[str, SpentOut]
    stream: SpentOut
    assurance: Annotated[str | None, Field(description="the least of all PTKs here")] = None
    asserted_by: str | None = None
    ptks: list[PartyOdometerOut]
    teams: list[PartyOdometerOut]
    local: Annotated[list[LocalOdometerOut], Field(description="of each PTK, where rows stay on devices")] = (
        Field(default_factory=list)
    )
    device: Annotated[
        DeviceOdometerOut | None, Field(description="of all PTKs together, where rows stay on devices")
    ] = None


class WindowOut(Wire):
    """A window that has closed."""

    window: int
    start: Instant
    end: Instant
    state: Literal["closed", "prepared", "expiring", "expired"]


class KeptWindow(Wire):
    """A closed window whose rows may exist until event time reaches `until`."""

    window: int
    start: Instant
    end: Instant
    state: str
    until: Instant


class BlockShareOut(Wire):
    """The part of a block that a waiting PTK may use, as a share of what the block may lose in all."""

    window: int
    group: int
    share: float


class QueuedOut(Wire):
    """A PTK that waits on a stream."""

    ptk_id: str
    since: Instant
    looks: Annotated[int, Field(description="how many verdicts it got since it began to wait")]
    verdict: Annotated[str | None, Field(description="the decision of the last of them")]
    waits_for: Annotated[
        str,
        Field(
            description="verdict, allowance, new-window, test-block, scheduler, significance, comparison, budget or "
            "more-than-it-may-have"
        ),
    ]
    allowances: list[BlockShareOut]


class QueueOut(Wire):
    """The PTKs that wait on a stream, the first to arrive first."""

    stream: str
    scheduler: str
    items: list[QueuedOut]


class GivenVerdictOut(Wire):
    """A verdict that a PTK got while it waited."""

    at: Instant
    decision: Annotated[str, Field(description="accept, retry or reject")]


class EndedWaitOut(Wire):
    """A wait that ended; times are to the second."""

    ptk_id: str
    since: Instant
    until: Annotated[Instant | None, Field(description="none where nothing says when it ended")]
    end: Annotated[
        str, Field(description="version, changed, deregistered, timeout, reject or confidence-used-up")
    ]
    verdicts: list[GivenVerdictOut]
    registered: Annotated[bool, Field(description="whether the PTK is by now")]


class EndedWaitsOut(Wire):
    """The waits of a stream that ended, the first to begin first."""

    stream: str
    items: list[EndedWaitOut]


class SchedulerResultOut(Wire):
    """When the PTKs of a simulation are released under one scheduler."""

    scheduler: str
    released: int
    median_windows: Annotated[
        float | None,
        Field(description="the median of the windows from arrival to release; none if it is not released"),
    ]
    p90_windows: Annotated[float | None, Field(description="the 90th percentile of them")]
    budget_left: Annotated[float, Field(description="the remaining share of the budget of all blocks")]


class RefusedOut(Wire):
    """A PTK that a stream with this scheduler would not register."""

    ptk_id: str
    scheduler: Annotated[str, Field(description="adaptive or budgeting")]
    reason: str


class SimulationOut(Wire):
    """When the PTKs of a stream would be released under some schedulers, from public numbers alone."""

    stream: str
    rate: float
    windows: int
    seed: int
    least_significance: Annotated[float | None, Field(description="L of budgeting, if it is simulated")]
    most_significance: Annotated[float | None, Field(description="U of budgeting, if it is simulated")]
    arrived: int
    without_menu: Annotated[
        list[str],
        Field(description="PTKs with a test of whose need nothing is known; their first look counts"),
    ]
    refused: list[RefusedOut]
    schedulers: list[SchedulerResultOut]


class ExposureOut(Wire):
    """All that is kept of a stream and is no DP output, since when and until when.

    If `closing` is `operator`, all times are event times, and nothing expires by the clock. `past_by_clock` are the
    windows that would have expired.
    """

    stream: str
    reached: Instant
    since: Instant
    allowed_since: Instant
    open_since: Instant
    kept: list[KeptWindow]
    overdue: list[int]
    remains: list[int]
    holds: bool
    closing: str
    past_by_clock: list[int]
    most_windows: Annotated[
        int, Field(description="how many windows one training of a registered PTK may read")
    ] = 1
    readable_seconds: Annotated[
        int,
        Field(description="how long rows can be read after the end of their window: retention times window"),
    ] = 0
    on_devices: Annotated[
        bool, Field(description="whether rows stay on devices, so that none is ever kept")
    ] = False


class Point(Wire):
    """Rows that so many PTKs would need at a budget."""

    ptks: int
    epsilon: float
    rows: int | None
    partitions: int | None
    first_feasible_rows: int | None
    bound: Annotated[int | None, Field(description="a number of rows that no plan goes below")] = None


class LineAdvice(Wire):
    """A recommendation for one line of the budget."""

    rows: int | None
    refusal: str | None
    by_ptks: list[Point]
    by_budget: list[Point]


class Advice(Wire):
    """The rows and the window length that a stream's PTKs need, from public numbers alone."""

    stream: str
    rows: int | None
    window_seconds: float | None
    rows_per_window: int
    lines: dict[str, LineAdvice]


class LedgerCheckOut(Wire):
    """The journal of a stream, recomputed; `faults` is empty when all is well."""

    stream: str
    entries: int
    blocks: int
    faults: list[str]


class LedgerKey(Wire):
    """The public key that reports are signed with, in hexadecimal."""

    algorithm: str
    public_key: str
    ledger_id: str
