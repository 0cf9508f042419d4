"""Tables of the catalog; the constraints here are the belt under the ledger's rules (differences.md F2-F4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    event,
    text,
)

from ptkstore.adapters.sql.append_only import append_only

SCHEMA_VERSION = 21  # the last revision in migrations/versions
CLAIMS = "claims"  # the row of `meta` that is locked while a job of team code is claimed
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _partial(index: Index, condition: str) -> None:
    """Index the rows of this condition alone. Keyword arguments of `Index` would load both dialects."""

    def add_condition(_: Table, connection: Connection, **__: Any) -> None:
        index.dialect_options[connection.dialect.name]["where"] = text(condition)

    event.listen(index.table, "before_create", add_condition)


class Instant(TypeDecorator[datetime]):
    """A UTC time as whole microseconds: the same on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Write a time as a number."""
        return None if value is None else (value - _EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Read a time from a number."""
        return None if value is None else _EPOCH + timedelta(microseconds=int(value))


metadata = MetaData()

meta = Table(
    "meta", metadata, Column("name", String, primary_key=True), Column("value", String, nullable=False)
)

streams = Table(
    "stream",
    metadata,
    Column("name", String, primary_key=True),
    Column("content", Text, nullable=False),
    Column("closed_before", BigInteger, nullable=False),
    Column("reached", Instant, nullable=False),
    Column("retired_before", BigInteger, nullable=False),
)

batches = Table(
    "batch",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("stream", String, nullable=False),
    Column("batch_id", String, nullable=False),
    Column("part", Integer, nullable=False, server_default="1"),
    Column("parts", Integer, nullable=False, server_default="1"),  # the batch is stored once its last part is
    Column("token", String, nullable=False),
    Column("closed_before", BigInteger, nullable=False),
    UniqueConstraint("stream", "batch_id", "part"),
)

windows = Table(
    "window_",
    metadata,
    Column("stream", String, primary_key=True),
    Column("index", BigInteger, primary_key=True),
    Column("start", Instant, nullable=False),
    Column("end", Instant, nullable=False),
    Column("state", String, nullable=False),
    Column("closed_at", Instant),  # by the clock; unknown of windows that an earlier release closed
    CheckConstraint('"start" < "end"'),
    Index("window_closed_at", "closed_at"),
)

blocks = Table(
    "block",
    metadata,
    Column("stream", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("capacity_epsilon_nano", BigInteger, nullable=False),
    Column("capacity_delta_atto", BigInteger, nullable=False),
    Column("accountant", String, nullable=False),
    Column("lines", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("revision", BigInteger, nullable=False),  # grows with every change of a stream's blocks
    CheckConstraint("capacity_epsilon_nano > 0 AND capacity_delta_atto >= 0"),
    CheckConstraint("state IN ('active', 'retired', 'erased')"),
    Index("block_revision", "stream", "revision"),
)

journal = Table(
    "journal",
    metadata,
    Column("stream", String, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("key", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("ptk_id", String, nullable=False),
    Column("lo", BigInteger, nullable=False),
    Column("hi", BigInteger, nullable=False),
    Column("further", Text),  # [lo, hi, ...] of blocks beyond these, for a release from several windows
    Column("epsilon_nano", BigInteger, nullable=False),
    Column("delta_atto", BigInteger, nullable=False),
    Column("line", String, nullable=False),
    Column("charge", Text, nullable=False),  # [amount per coordinate, ..., delta]
    Column("event", Text, nullable=False),
    Column("digest", String, nullable=False),
    Column("nonce", String, nullable=False),
    UniqueConstraint("key", "kind"),
    CheckConstraint("sequence > 0"),
    CheckConstraint("kind IN ('reserve', 'spend', 'release')"),
    CheckConstraint("lo >= 0 AND lo < hi"),
    CheckConstraint("epsilon_nano > 0 AND delta_atto >= 0"),
    CheckConstraint(  # SQLite takes a text or a fraction for an integer, and finds any text above 0
        "typeof(epsilon_nano) = 'integer' AND typeof(delta_atto) = 'integer' "
        "AND typeof(sequence) = 'integer' AND typeof(lo) = 'integer' AND typeof(hi) = 'integer'"
    ).ddl_if(dialect="sqlite"),
)
Index("journal_blocks", journal.c.stream, journal.c.lo, journal.c.hi)
# a reservation ends once: spent or released, never both
_partial(Index("journal_one_end", journal.c.key, unique=True), "kind <> 'reserve'")

policies = Table(  # lines of the journal's chain, numbered together with its rows
    "policy",
    metadata,
    Column("stream", String, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("content", Text, nullable=False),
    Column("digest", String, nullable=False),
    Column("nonce", String, nullable=False),
    CheckConstraint("sequence > 0"),
)

CHAIN = (journal, policies)
"""Where the lines of a stream's journal are: no two have one sequence."""

ptks = Table(
    "ptk",
    metadata,
    Column("ptk_id", String, primary_key=True),
    Column("team", String, nullable=False),
    Column("stream", String, nullable=False),
    Column("active", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("own_code", Integer, nullable=False, server_default="0"),  # its team's code trains it
    Column("waits_since", BigInteger),  # the window since which it waits for an accepted version
    Column("given_up", String),  # why it waits no longer
    Column(
        "first_window", BigInteger, nullable=False, server_default="0"
    ),  # none before was ever read for it
    Column("labelled_stream", String),  # the other stream that pays, or paid, for its verdicts
    Column("registered_at", Instant),  # the last time; not known of PTKs of older programs
)
Index("ptk_labelled_stream", ptks.c.labelled_stream)

jobs = Table(
    "job",
    metadata,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("stream", String, nullable=False),
    Column("state", String, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("window_index", BigInteger),
    Column("oldest_window", BigInteger),  # of a run over several windows, of which window_index is the newest
    Column("ptk_id", String),
    Column("subscription_id", String),
    Column("reservation", String),
    Column("n_rows", BigInteger, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),  # of cursors; the next five are of one kind of job each
    *(
        Column(name, BigInteger, nullable=False, server_default="0")
        for name in ("version", "facts_of", "partial", "failures", "until")
    ),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("lease_until", Instant),
    Column("outcome", String),
    Column("draft_id", String),  # of a validation: the draft in staging that it is about
    Column("look", BigInteger, nullable=False, server_default="1"),  # which try on this newest window it is
    Column("trace", String),  # the trace of who asked for it; ids only
    Column("share", String, nullable=False, server_default=""),  # whose share of the workers it takes
)
_UNFINISHED = "state IN ('ready', 'opened')"
_REFUSED_AVERAGE = "kind = 'average' AND outcome = 'refused'"
Index("job_due", jobs.c.state, jobs.c.due_at)
Index("job_ptk", jobs.c.ptk_id, jobs.c.kind, jobs.c.window_index)
Index("job_window", jobs.c.stream, jobs.c.kind, jobs.c.window_index)
# Looking for due work asks what else is unfinished, for every job that may be due: jobs that ended cost nothing there.
_partial(Index("job_unfinished_ptk", jobs.c.ptk_id, jobs.c.kind, jobs.c.window_index), _UNFINISHED)
_partial(Index("job_unfinished_window", jobs.c.stream, jobs.c.kind, jobs.c.window_index), _UNFINISHED)
_partial(Index("job_leased", jobs.c.lease_until), "lease_until IS NOT NULL")
# What serves devices asks each second which average of a PTK was refused last.
# Kind and outcome are columns too: else SQLite prefers the other index of PTKs where it was made first.
_partial(
    Index("job_refused_average", jobs.c.ptk_id, jobs.c.kind, jobs.c.outcome, jobs.c.window_index),
    _REFUSED_AVERAGE,
)

turns = Table(  # when workers last took a job of each share, as a number that only grows
    "turn", metadata, Column("share", String, primary_key=True), Column("number", BigInteger, nullable=False)
)

removed_jobs = Table(  # how many jobs that ended are kept no longer
    "removed_job",
    metadata,
    Column("kind", String, primary_key=True),
    Column("outcome", String, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

versions = Table(
    "version",
    metadata,
    Column("ptk_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("job_id", String, nullable=False, unique=True),
    Column("draft_id", String, nullable=False, unique=True),
    Column("window_index", BigInteger, nullable=False),
    Column("elected_at", Instant, nullable=False),
    Column("manifest", Text, nullable=False),
    CheckConstraint("number > 0"),
    ForeignKeyConstraint(["job_id"], ["job.id"]),
)

profiles = Table(
    "profile",
    metadata,
    Column("key", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("stream", String, nullable=False),
    Column("state", String, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("drifted_at", BigInteger),
    Column("tries", Integer, nullable=False),
    Column("job_id", String, nullable=False),
    Column("content", Text, nullable=False),  # released answers, what was charged for them, the last code
    CheckConstraint("number > 0 AND tries >= 0"),
    CheckConstraint("state IN ('open', 'answered', 'given-up')"),
)

evaluations = Table(
    "evaluation",
    metadata,
    Column("ptk_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("job_id", String, nullable=False, unique=True),
    Column("window_index", BigInteger, nullable=False),
    Column("epsilon", String, nullable=False),
    Column("lost", BigInteger, nullable=False),  # noisy, as is the next
    Column("kept", BigInteger, nullable=False),
    Column("at", Instant, nullable=False),
    Column("windows", Text),  # all whose test sets were opened, where these are several
    ForeignKeyConstraint(["ptk_id", "number"], ["version.ptk_id", "version.number"]),
)

validations = Table(
    "validation",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("ptk_id", String, nullable=False),
    Column("look", BigInteger, nullable=False),
    Column("window_index", BigInteger, nullable=False),
    Column("epsilon", String, nullable=False),
    Column("lost", BigInteger, nullable=False),  # noisy, as is the next
    Column("kept", BigInteger, nullable=False),
    Column("verdict", Text, nullable=False),  # what follows from them
    Column("at", Instant, nullable=False),
    Column("number", BigInteger, nullable=False),  # of the version that was elected, or 0
    CheckConstraint("look > 0 AND number >= 0"),
)
Index("validation_ptk", validations.c.ptk_id, validations.c.window_index)

waits = Table(  # one for each PTK of an adaptive stream: when it last began to wait
    "wait",
    metadata,
    Column("ptk_id", String, primary_key=True),
    Column("stream", String, nullable=False),
    Column("since", Instant, nullable=False),
    Column("after", BigInteger, nullable=False),  # the journal's last sequence then
    Column("oldest", BigInteger, nullable=False),  # the oldest window that was kept then
    Index("wait_stream", "stream"),
)

ended_waits = Table(  # the newest of each PTK, also of those that are deregistered
    "ended_wait",
    metadata,
    Column("ptk_id", String, primary_key=True),
    Column("since", Instant, primary_key=True),
    Column("stream", String, nullable=False),
    Column("until", Instant),
    Column("how", String, nullable=False),
    Index("ended_wait_stream", "stream", "since"),
)

allowances = Table(  # what a waiting PTK was allowed of a block since; the journal tells what it used
    "allowance",
    metadata,
    Column("stream", String, primary_key=True),
    Column("ptk_id", String, primary_key=True),
    Column("block", BigInteger, primary_key=True),
    Column("nano", BigInteger, nullable=False),
    Column("delta_atto", BigInteger, nullable=False),
    Column("coordinate", Integer, nullable=False),  # of the accountant, at which the block is counted
    CheckConstraint("nano >= 0 AND delta_atto >= 0"),
)

thresholds = Table(  # noisy thresholds of budgeting streams that were paid for and not used up
    "threshold",
    metadata,
    Column("stream", String, primary_key=True),
    Column("window_index", BigInteger, primary_key=True),
    Column("line", String, primary_key=True),
    Column("reservation", String, nullable=False),
    Column("sealed", Text, nullable=False),  # base64; its keys are in the key store and go with the window
)

comparisons = Table(  # what they answered, as it was released
    "comparison",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("ptk_id", String, nullable=False),
    Column("stream", String, nullable=False),
    Column("window_index", BigInteger, nullable=False),
    Column("since", Instant, nullable=False),  # when the PTK had begun to wait
    Column("above", Integer, nullable=False),
    Index("comparison_stream", "stream", "window_index"),
)

released_losses = Table(  # noisy losses of versions on windows of budgeting streams, as they were released
    "released_loss",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("ptk_id", String, nullable=False),
    Column("stream", String, nullable=False),
    Column("window_index", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("since", Instant, nullable=False),  # when the PTK had begun to wait
    Column("noisy", Double),  # in clipped losses; null if the run failed
    Index("released_loss_stream", "stream", "window_index"),
)

subscriptions = Table(
    "subscription",
    metadata,
    Column("id", String, primary_key=True),
    Column("ptk_id", String, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("team", String, nullable=False),  # empty if it was made in the store's home
    Column("failures", BigInteger, nullable=False, server_default="0"),  # since the last success
    Column("failing_since", Instant),
    Column("last_success", Instant),
    Column("last_code", String),
    Column("disabled_at", Instant),
    Column("disabled_code", String),
    Column("attempts", BigInteger, nullable=False, server_default="0"),  # so many were made so far
    Index("subscription_ptk", "ptk_id"),
)

attempts = Table(  # the newest of each subscription
    "attempt",
    metadata,
    Column("subscription_id", String, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("redelivered", Integer, nullable=False),
    Column("code", String),  # why it failed; null if it was delivered
    Column("status", Integer),
    Column("milliseconds", BigInteger),
    Index("attempt_at", "at"),
)

dead_letters = Table(
    "dead_letter",
    metadata,
    Column("subscription_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("code", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("told", Integer, nullable=False, server_default="0"),  # a later message has said so
    Column("asked_at", Instant),  # to be sent again
)

processes = Table(
    "process",
    metadata,
    Column("role", String, primary_key=True),
    Column("instance", String, primary_key=True),  # drawn by the process
    Column("seen_at", Instant, nullable=False),
)

notices = Table(
    "notice",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),
    Column("team", String, nullable=False),
    Column("code", String, nullable=False),
    Column("stream", String),
    Column("ptk_id", String),
    Column("window_index", BigInteger),
    Column("version", BigInteger),
    Column("run", String),
    Column("look", BigInteger, nullable=False, server_default="1"),
    Column("subscription_id", String),
    Column("text", Text),  # of a subject that an older program wrote and that could not be read
    Index("notice_ptk", "ptk_id", "window_index"),
)

append_only(
    journal,
    "the journal",
    takes_the_place="(stream = NEW.stream AND sequence = NEW.sequence) OR "
    "(key = NEW.key AND (kind = NEW.kind OR (kind <> 'reserve' AND NEW.kind <> 'reserve')))",
)
append_only(policies, "the journal", takes_the_place="stream = NEW.stream AND sequence = NEW.sequence")
