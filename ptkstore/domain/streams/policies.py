"""Policies: the promises of an administrator for a stream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import LEAST_LOSS, NO_LOSS, Loss, checked_epsilon
from ptkstore.domain.accounting.sharing import ONE_BUDGET, Sharing, check_sharing
from ptkstore.domain.fields import (
    Column,
    Flag,
    Moment,
    OneOf,
    PositiveNumber,
    Share,
    Span,
    WholeNumber,
    declared_fields,
)
from ptkstore.domain.scheduling.choices import (
    Mode,
    Scheduler,
    ServedFirst,
    Significance,
    check_choices,
    check_comparison,
)
from ptkstore.domain.streams import report_limits
from ptkstore.errors import InvalidRequest

LONGEST = timedelta(days=3650)
ATTRIBUTE_VALUES_MAX = 256
BLOCKS_MAX = 4096  # of one window, or of the life of a stream whose unit is the user


class Closing(StrEnum):
    """The closer of windows: the wall clock, or an operator by event time (backfills, demos)."""

    CLOCK = "clock"
    OPERATOR = "operator"


class RowPlace(StrEnum):
    """The place of a stream's rows: encrypted in the store, or on devices, which send only noisy reports."""

    IN_STORE = "in-store"
    ON_DEVICES = "on-devices"


class PrivacyUnit(StrEnum):
    """The rows that one neighbouring dataset adds or removes: one, those of a user in a window, or a user's in all.

    Of a stream whose rows are on devices: all rows of a device, which may be any others.
    """

    RECORD = "record"
    USER_IN_WINDOW = "user-in-window"
    USER = "user"
    DEVICE = "device"


class Relation(StrEnum):
    """The rule for which datasets are neighbours. Under this one, blocks compose in parallel (differences.md S10)."""

    ADD_REMOVE = "add_remove"


@dataclass(frozen=True, slots=True)
class Policy:
    """An administrator's promises for a stream; fixed at creation, public.

    A field that is annotated with its kind is declared nowhere else, but that `Store.create_stream` names it as an
    argument. The five others have forms of their own, which are written by hand.

    `capacity` is (epsilon_g, delta_g) of every block. A window stays readable until `retention_windows` more window
    lengths have passed. `rows_per_window` is N_public and `n_max` a planning bound: no row is dropped because of it.

    For the units of users, `unit_column` is the column of user ids. Each window keeps `max_rows_per_unit` rows of a
    user, chosen at random. For the unit user, each part has `user_shards` blocks for the stream's life. With
    `attribute`, each part of a window has one block for each of `attribute_values`, the column's public domain.

    `profile_share` of a window's privacy units are kept apart for profiles by samples. A profile is renewed once it is
    older than `profile_max_age` windows. `test_share` of the units are never trained on either.

    A row with a text of more than `max_cell_bytes` bytes (UTF-8) is refused.

    With `asserted_text`, a PTK of team code may release texts and join keys that it did not declare.

    Of a stream whose `rows` are on devices, nothing is kept but its windows: it has no blocks, so `capacity` is no
    loss. `report_epsilon` and `report_delta` are what one report of a device may lose, `reports_per_window` and
    `reports_in_all` how many reports a device may send.
    """

    capacity: Loss
    window: Annotated[
        timedelta,
        Span("Length of a tumbling window, such as 1d.", default=timedelta(days=1), whole=True),
    ]
    origin: Annotated[datetime, Moment("UTC start of the first window; the present window by default.")]
    lateness: Annotated[timedelta, Span("How late rows may come.")] = timedelta(0)
    future_skew: Annotated[
        timedelta, Span("How far ahead of the clock the time of a row may lie.", reported=None)
    ] = timedelta(minutes=5)
    retention_windows: Annotated[
        int, WholeNumber("Further windows for which rows are kept.", most=10_000, argument="retention")
    ] = 1
    n_max: Annotated[
        int, WholeNumber("Planning bound on rows in a window.", most=10**12, reported="n_max_declared")
    ] = 1_000_000
    rows_per_window: Annotated[
        int,
        WholeNumber("Public estimate of rows in a window.", most=10**12, reported="rows_per_window_declared"),
    ] = 10_000
    profile_max_age: Annotated[
        int, WholeNumber("Windows after which a profile is renewed.", most=10_000, reported=None)
    ] = 30
    train_partitions: Annotated[int, WholeNumber("Parts that PTKs are trained on.", most=64)] = 1
    max_rows_per_unit: Annotated[
        int, WholeNumber("Rows of a user that a window keeps, chosen at random.", most=10_000)
    ] = 1
    user_shards: Annotated[int, WholeNumber("Blocks of each part, for the unit user.", most=256)] = 1
    max_cell_bytes: Annotated[
        int,
        WholeNumber(
            "The longest text of a cell, in bytes; longer ones are refused.",
            most=2**20,
            reported=None,
            later=True,
        ),
    ] = 65_536
    accountant: Annotated[
        Accountant, OneOf("How losses add up: renyi, zcdp or basic.", members=Accountant)
    ] = Accountant.RENYI
    privacy_unit: Annotated[
        PrivacyUnit, OneOf("What is protected: record, user-in-window or user.", members=PrivacyUnit)
    ] = PrivacyUnit.RECORD
    relation: Annotated[Relation, OneOf(members=Relation, argument=None)] = Relation.ADD_REMOVE
    minimum_assurance: Annotated[
        Assurance, OneOf("The least assurance of accepted PTKs.", members=Assurance)
    ] = Assurance.LIBRARY
    asserted_text: Annotated[
        bool, Flag("Let team code release texts and keys it did not declare.", later=True)
    ] = False
    drop_retired: Annotated[
        bool, Flag("Let the rows of a window go once all its blocks are retired.", later=True)
    ] = False
    closing: Annotated[Closing, OneOf("Who closes windows: clock or operator.", members=Closing)] = (
        Closing.CLOCK
    )
    scheduler: Annotated[
        Scheduler,
        OneOf("Who is trained when: allocate, adaptive or budgeting.", members=Scheduler, later=True),
    ] = Scheduler.ALLOCATE
    scheduler_mode: Annotated[
        Mode,
        OneOf(
            "How PTKs begin under adaptive: conserve, aggressive or guided.",
            members=Mode,
            reported=None,
            later=True,
        ),
    ] = Mode.GUIDED
    significance: Annotated[
        Significance,
        OneOf(
            "What budgeting goes by: recency, loss or released-loss.",
            members=Significance,
            reported=None,
            later=True,
        ),
    ] = Significance.RECENCY
    served_first: Annotated[
        ServedFirst,
        OneOf(
            "First under budgeting: arrival, dpf or dpack.", members=ServedFirst, reported=None, later=True
        ),
    ] = ServedFirst.ARRIVAL
    least_significance: Annotated[
        float | None,
        PositiveNumber(
            "L of budgeting: the significance per epsilon that a fresh window asks for.",
            optional=True,
            reported=None,
            later=True,
        ),
    ] = None
    most_significance: Annotated[
        float | None,
        PositiveNumber(
            "U of budgeting: the significance per epsilon that a window asks for at its end.",
            optional=True,
            reported=None,
            later=True,
        ),
    ] = None
    comparison_epsilon: Annotated[
        float | None,
        PositiveNumber(
            "What a noisy threshold costs, by loss, or a noisy sum, by released-loss.",
            optional=True,
            reported=None,
            later=True,
        ),
    ] = None
    unit_column: Annotated[str | None, Column("Column of user ids, for the units of users.")] = None
    attribute: str | None = None
    attribute_values: tuple[str | int | bool, ...] = ()
    rows: Annotated[
        RowPlace, OneOf("Where rows are: in-store or on-devices.", members=RowPlace, later=True)
    ] = RowPlace.IN_STORE
    report_epsilon: Annotated[
        float | None,
        PositiveNumber(
            "The most that one report of a device may lose.", optional=True, reported=None, later=True
        ),
    ] = None
    report_delta: Annotated[
        float | None,
        PositiveNumber(
            "The most delta of one report of a device; none by default, so that noise is Laplace.",
            optional=True,
            reported=None,
            later=True,
        ),
    ] = None
    reports_per_window: Annotated[
        int | None,
        WholeNumber(
            "The most reports of a device in a window.",
            most=10_000,
            optional=True,
            reported=None,
            later=True,
        ),
    ] = None
    reports_in_all: Annotated[
        int | None,
        WholeNumber(
            "The most reports of a device in all.", most=1_000_000, optional=True, reported=None, later=True
        ),
    ] = None
    profile_share: Annotated[Decimal, Share("Part of a window kept for profiles by samples.")] = Decimal(
        "0.1"
    )
    test_share: Annotated[Decimal, Share(argument=None)] = Decimal("0.1")
    sharing: Sharing = ONE_BUDGET
    retire_below: Loss = LEAST_LOSS

    def __post_init__(self) -> None:
        if self.on_devices and self.privacy_unit is PrivacyUnit.RECORD:
            object.__setattr__(
                self, "privacy_unit", PrivacyUnit.DEVICE
            )  # no other unit can be protected there
        if not self.on_devices:
            if self.capacity == NO_LOSS:
                raise InvalidRequest("a stream needs epsilon: what every block of it may lose in all")
            checked_epsilon(self.capacity.epsilon_nano / 10**9, "epsilon_g")
        if not timedelta(seconds=1) <= self.window <= LONGEST or self.window.microseconds:
            raise InvalidRequest(
                "the window length must be a whole number of seconds, from one to ten years of them"
            )
        if self.origin.tzinfo is not UTC:
            raise InvalidRequest("the stream origin must be in UTC")
        if self.lateness < timedelta(0) or self.future_skew < timedelta(0):
            raise InvalidRequest("lateness and future skew are never negative")
        for field in POLICY_FIELDS:
            field.check(getattr(self, field.name))
        self._check_on_devices()
        if self.on_devices:
            return
        if self.rows_per_window > self.n_max:
            raise InvalidRequest("rows_per_window must be between 1 and n_max")
        if max(self.lateness, self.future_skew) > LONGEST:
            raise InvalidRequest("lateness and future skew are ten years at most")
        if self.lateness >= self.window * self.retention_windows:
            raise InvalidRequest(
                "lateness must be shorter than the retention, or windows would expire as they close"
            )
        check_sharing(self.sharing, self.capacity)
        widest = max(part.epsilon_nano for part in self.lines.values())
        if not 0 < self.retire_below.epsilon_nano <= widest or self.retire_below.delta_atto:
            raise InvalidRequest("retire_below is an epsilon of at most the capacity's largest share")
        if self.profile_share < 0 or self.test_share < 0 or self.profile_share + self.test_share >= 1:
            raise InvalidRequest("profile and test shares must leave rows to train on")
        self._check_unit()
        self._check_attribute()
        self._check_scheduler()
        if (2 + self.train_partitions) * max(self.user_shards, len(self.attribute_values)) > BLOCKS_MAX:
            raise InvalidRequest(
                f"parts times shards, or values of the attribute, make {BLOCKS_MAX} blocks at most: take fewer"
            )

    @property
    def on_devices(self) -> bool:
        """Whether no row of the stream is ever in the store."""
        return self.rows is RowPlace.ON_DEVICES

    @property
    def report_limit(self) -> Loss:
        """The most loss of one report of a device, rounded down; no loss where rows are in the store."""
        return Loss.report_limit(self.report_epsilon or 0.0, self.report_delta or 0.0)

    @property
    def lines(self) -> dict[str, Loss]:
        """The loss that each line of a block may have."""
        return self.sharing.lines(self.capacity)

    def line_of(self, ptk_id: str) -> str:
        """Return the line that a PTK pays from; `Refused` for a team that is in no context."""
        return self.sharing.line_of(ptk_id)

    def _check_on_devices(self) -> None:
        is_device = self.privacy_unit is PrivacyUnit.DEVICE
        limits = {name: getattr(self, name) for name in report_limits.LIMITS}
        if not self.on_devices:
            report_limits.check_none(limits, unit_is_device=is_device)
            return
        report_limits.check_limits(limits, unit_is_device=is_device)
        report_limits.check_left_out(
            [
                *((one.argument or one.name, getattr(self, one.name), one.default) for one in _OF_THE_STORE),
                ("epsilon and delta", self.capacity, NO_LOSS),
                ("block_by", self.attribute, None),
                ("contexts and reserve", self.sharing, ONE_BUDGET),
                ("retire_below", self.retire_below, LEAST_LOSS),
            ]
        )

    def _check_unit(self) -> None:
        if self.privacy_unit is PrivacyUnit.RECORD:
            if self.unit_column is not None or self.max_rows_per_unit != 1:
                raise InvalidRequest(
                    "a unit column and max_rows_per_unit are for the privacy units 'user-in-window' and 'user'; "
                    "under 'record' each row is its own unit"
                )
        elif self.unit_column is None:
            raise InvalidRequest(
                f"the privacy unit {self.privacy_unit.value!r} needs the column of the user's id: --unit-column"
            )
        if self.drop_retired and self.privacy_unit is PrivacyUnit.USER:
            raise InvalidRequest(
                "drop_retired does not go with the privacy unit 'user': its blocks belong to no window"
            )
        if self.user_shards != 1 and self.privacy_unit is not PrivacyUnit.USER:
            raise InvalidRequest("user shards are blocks of the privacy unit 'user'; others have windows")

    def _check_scheduler(self) -> None:
        bounds = self.least_significance, self.most_significance
        check_choices(self.scheduler, self.scheduler_mode, self.served_first, self.significance, bounds)
        check_comparison(
            self.significance,
            self.comparison_epsilon,
            self.capacity,
            self.attribute,
            has_contexts=bool(self.sharing.contexts),
        )
        if not self.scheduler.lets_wait:
            return
        if self.privacy_unit is PrivacyUnit.USER:
            raise InvalidRequest(
                f"the scheduler {self.scheduler.value!r} does not go with the privacy unit 'user': a training over "
                "several windows would read more rows of a user than its noise hides. Take 'user-in-window', or "
                "'allocate'"
            )
        if self.train_partitions != 1:
            raise InvalidRequest(
                f"the scheduler {self.scheduler.value!r} reads all rows of a window for each PTK: take one train "
                "partition, or 'allocate'"
            )

    def _check_attribute(self) -> None:
        if self.attribute is None:
            if self.attribute_values:
                raise InvalidRequest("attribute values need the attribute whose public domain they are")
            return
        if self.privacy_unit is PrivacyUnit.USER:
            raise InvalidRequest(
                "blocks by attribute do not go with the privacy unit 'user': over its life a user may have several "
                "values, and so blocks. Take 'user-in-window', or shards alone"
            )
        if not 1 <= len(self.attribute_values) <= ATTRIBUTE_VALUES_MAX:
            raise InvalidRequest(
                f"blocks by {self.attribute!r} need its public domain, 1 to {ATTRIBUTE_VALUES_MAX} values"
            )
        if len(set(self.attribute_values)) != len(self.attribute_values):
            raise InvalidRequest(f"the values of {self.attribute!r} must differ")


POLICY_FIELDS = declared_fields(Policy)
_ON_DEVICES = frozenset({"window", "origin", "closing", "rows", "privacy_unit", *report_limits.LIMITS})
_OF_THE_STORE = tuple(one for one in POLICY_FIELDS if one.name not in _ON_DEVICES)


def present_origin(now: datetime, window: timedelta) -> datetime:
    """Return where the first window starts by default: at the start of the window that has `now` in it.

    Windows are counted from the start of the UTC day, which is where windows of a day or more start.
    """
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (now - midnight) // window * window
