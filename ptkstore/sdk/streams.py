"""The client's part about streams: list, create, grow, fill, close, forget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ptkstore.domain.durations import duration
from ptkstore.domain.names import checked_name
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.times import utc
from ptkstore.errors import SchemaMismatch
from ptkstore.ports.runtime import TellSteps, tell_nobody
from ptkstore.sdk.devices import DeviceMethods
from ptkstore.sdk.documents.exposures import exposure_document, window_document
from ptkstore.sdk.documents.resources import stream_document
from ptkstore.sdk.policies import choice, policy_of

if TYPE_CHECKING:
    from ptkstore.application.ingest.ingest_records import IngestReply
    from ptkstore.sdk.service import StoreService


class StreamMethods(DeviceMethods):
    """The methods of `Store` that are about streams; the same here and over HTTP."""

    _service: StoreService

    def create_stream(
        self,
        name: str,
        *,
        team: str,
        schema: Mapping[str, str],
        time_column: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        window: str = "1d",
        origin: datetime | str | None = None,
        lateness: str | None = None,
        future_skew: str = "5m",
        retention: int = 1,
        rows_per_window: int = 10_000,
        n_max: int = 1_000_000,
        train_partitions: int = 1,
        profile_share: float = 0.1,
        profile_max_age: int = 30,
        accountant: str = "renyi",
        privacy_unit: str = "record",
        unit_column: str | None = None,
        max_rows_per_unit: int = 1,
        user_shards: int = 1,
        max_cell_bytes: int = 65_536,
        block_by: Mapping[str, Sequence[str | int | bool]] | None = None,
        contexts: Mapping[str, Sequence[str]] | None = None,
        no_collusion: str = "",
        reserve: Mapping[str, float] | None = None,
        retire_below: float | None = None,
        minimum_assurance: str = "library",
        asserted_text: bool = False,
        drop_retired: bool = False,
        closing: str = "clock",
        scheduler: str = "allocate",
        scheduler_mode: str = "guided",
        significance: str = "recency",
        served_first: str = "arrival",
        least_significance: float | None = None,
        most_significance: float | None = None,
        comparison_epsilon: float | None = None,
        rows: str = "in-store",
        report_epsilon: float | None = None,
        report_delta: float | None = None,
        reports_per_window: int | None = None,
        reports_in_all: int | None = None,
    ) -> None:
        """Create a stream; repeating it with equal content changes nothing.

        Parameters
        ----------
        schema : mapping of column name to 'int64', 'float64', 'string', 'bool' or 'timestamp'
        epsilon, delta : float
            What every block may lose in all, (epsilon_g, delta_g). Not for a stream on devices.
        window, lateness : str
            Durations such as '1d', '6h' or '15m'.
        future_skew : str
            How far ahead of the service's clock a row's time may be. Later ones are refused as `time-in-future`.
        origin : datetime or ISO text in UTC
            Where the first window starts. By default it is the start of the present window, counted from midnight UTC.
            Earlier rows are refused, so a backfill names it.
        retention : int
            How many further windows a closed window's rows are kept. Then they expire.
        rows_per_window, n_max : int
            Public estimate of a window's rows, and planning bound. No row is dropped because of them.
        train_partitions : int
            Parts that PTKs are trained on. Each has the whole (epsilon, delta), and a PTK trains on one of them.
        profile_share : float
            Part of a window's privacy units that is kept for profiles by samples. It is never trained on.
        profile_max_age : int
            Windows after which such a profile is renewed.
        accountant : 'renyi', 'zcdp' or 'basic'
            How losses on a block add up. With delta 0 epsilons do, whatever it is.
        privacy_unit : 'record', 'user-in-window' or 'user'
            What (epsilon, delta) protects. It is one row, a user's rows of one window, or all of a user's for life.
        unit_column : str
            The column of the user's id. It is for the units of users.
        max_rows_per_unit : int
            How many rows of a user a window keeps, chosen at random. The noise of all PTKs grows with it.
        user_shards : int
            Blocks of each part, for the unit 'user'. Trainings that take few rows take turns at them.
        max_cell_bytes : int
            The longest text of a cell, in bytes of UTF-8. Rows with a longer one are refused as `too-long`.
        block_by : mapping of one column to its public values
            Blocks of their own for each value, such as a city. Rows with another value are refused.
        contexts : mapping of a name to teams
            Each has (epsilon, delta) for itself. `no_collusion` says why nobody learns from two of them, and why no
            request of one reacts to an output of another. If either fails, the losses of all contexts add up.
        reserve : mapping of PTK ids to shares of (epsilon, delta)
            Kept for that PTK alone. It can use no other.
        retire_below : float
            A block that has no room for a pure loss of this epsilon retires. By default it is 1e-6.
        minimum_assurance : 'library', 'composed' or 'asserted'
            The least assurance of PTKs that are accepted. With 'asserted', teams may train by code of their own.
        asserted_text : bool
            Whether such code may release texts and join keys. Their values need no declaration then.
        drop_retired : bool
            Whether the rows of a window go once all its blocks are retired. Its retention need not have ended.
        closing : 'clock' or 'operator'
            Who closes windows. An operator gives the event time, as backfills do.
        scheduler : 'allocate', 'adaptive' or 'budgeting'
            'allocate' trains each PTK on each window by itself. 'adaptive' lets PTKs wait for windows and budget until
            they have a version. Under 'budgeting' they wait too, and a window serves those that it teaches enough.
        scheduler_mode : 'conserve', 'aggressive' or 'guided'
            How much a waiting PTK takes at first, under 'adaptive'.
        significance : 'recency', 'loss' or 'released-loss'
            The measure of how much a window teaches a PTK, under 'budgeting'. It is what the PTK declares, or the
            clipped losses of its newest version on the window's profile part. Under 'loss' they are compared with a
            noisy threshold, and the PTK gets the loss that it asks for or nothing. Under 'released-loss' their noisy
            sum is released. It says how much loss the window grants.
        served_first : 'arrival', 'dpf' or 'dpack'
            Order of PTKs that ask for windows at the same time under 'budgeting': the one that came first, the one that
            asks for the smallest share of a block, or the one that asks for least of what blocks have left.
        least_significance, most_significance : float
            L and U of 'budgeting', which needs them: public bounds on significance per epsilon. A fresh window serves a
            PTK with at least L times its epsilon, and one whose budget is nearly used up with at least U times that.
        comparison_epsilon : float
            epsilon_0. With the significance 'loss' it is what one noisy threshold costs a profile block. With
            'released-loss' it is what one released noisy sum costs.
        rows : 'in-store' or 'on-devices'
            Where rows are. Those of a stream on devices stay there: devices train its PTKs and send noisy reports
            alone. It has a schema and windows, but no blocks and no budget. Parameters of these are not given.
        report_epsilon, report_delta : float
            What one report of a device may lose, the whole model counted. No delta by default. For a stream on devices.
        reports_per_window, reports_in_all : int
            How many reports a device may send. For a stream on devices.

        Raises
        ------
        InvalidRequest
            A word is unknown, a number out of range, or what is said does not go together.
        NameTaken
            There is a stream of this name with another schema or policy.
        """
        arguments = dict(locals())
        if origin is None:
            arguments["origin"] = self._service.origin_for(name, duration(window))
        columns = tuple((column, choice(ColumnType, kind, "column type")) for column, kind in schema.items())
        self._service.create_stream(Stream(name, team, Schema(columns, time_column), policy_of(arguments)))

    def streams(self) -> list[dict[str, Any]]:
        """List the streams by name, each with its schema and whole policy; over HTTP those that the token may see."""
        return [stream_document(stream) for stream in self._service.streams()]

    def windows(self, stream: str) -> list[dict[str, Any]]:
        """List the windows of a stream that ever closed: `window`, `start`, `end` and `state`.

        Raises
        ------
        UnknownName
            No such stream.
        """
        checked_name("stream", stream)
        return [window_document(window) for window in self._service.windows(stream)]

    def queue(self, stream: str, *, ended: bool = False) -> list[dict[str, Any]]:
        """List the PTKs that wait on a stream, the first to arrive first.

        Parameters
        ----------
        ended : bool
            List the waits that ended instead, the first to begin first: the 60 that began last. Of each PTK, the
            newest 20 are kept.

        Returns
        -------
        list of dict
            `ptk_id`, `since`, `looks` and the last `verdict` since then, what it `waits_for`, and its `allowances`: of
            each window a share of the budget. Of a wait that ended, `ptk_id`, `since`, `until`, how it came to its
            `end`, the `verdicts` meanwhile, and whether the PTK is `registered` still.

        Raises
        ------
        UnknownName
            No such stream.
        InvalidRequest
            The stream has the scheduler 'allocate', and no queue.
        """
        from ptkstore.sdk.documents.queues import ended_wait_document, queued_document

        checked_name("stream", stream)
        if ended:
            return [ended_wait_document(one) for one in self._service.ended_waits(stream)]
        return [queued_document(one) for one in self._service.queue(stream)]

    def simulate(
        self,
        stream: str,
        *,
        rate: float,
        windows: int = 100,
        schedulers: Sequence[str] = ("conserve", "aggressive", "guided"),
        seed: int = 0,
        least_significance: float | None = None,
        most_significance: float | None = None,
        tell: TellSteps = tell_nobody,
    ) -> dict[str, Any]:
        """Say when the PTKs of a stream would be released under some schedulers, and what its blocks would have left.

        The stream's own PTKs arrive again, drawn at random with a public seed. Only public numbers go in. The stream
        may have any scheduler; docs/guide/simulating.md says what is not simulated.

        Parameters
        ----------
        rate : float
            How many PTKs arrive per window, in the mean.
        windows : int
            How many windows are simulated, at most 2,000. Rate times windows is at most 2,000 PTKs.
        schedulers : sequence of 'conserve', 'aggressive', 'guided', 'arrival', 'dpf', 'dpack' or 'budgeting'
        least_significance, most_significance : float, optional
            L and U of 'budgeting' with a declared significance. By default those of the stream.
        tell : callable, optional
            Hears how many windows are simulated, of those of all schedulers. Over HTTP it hears nothing.

        Returns
        -------
        dict
            What was asked, how many PTKs `arrived`, those `without_menu` and `refused`, and `schedulers`. Of each
            scheduler, the number `released`, `median_windows` and `p90_windows` from arrival to release, and the
            `budget_left`, a share. A time is None where a PTK falls on it that was not released. `refused` are PTKs
            that a stream with the `scheduler` 'adaptive' or 'budgeting' would not register, and why.

        Raises
        ------
        UnknownName
            No such stream.
        InvalidRequest
            A parameter is out of its range, the stream's policy does not go with `adaptive`, `budgeting` has no
            bounds on significance, or it is too much work.
        """
        from ptkstore.domain.scheduling.simulation.requests import SimulatedScheduler, SimulationRequest
        from ptkstore.sdk.documents.simulations import simulation_document

        checked_name("stream", stream)
        chosen = tuple(choice(SimulatedScheduler, one, "scheduler") for one in schedulers)
        request = SimulationRequest(rate, windows, seed, chosen, least_significance, most_significance)
        return simulation_document(self._service.simulate(stream, request, tell=tell))

    def exposure(self, stream: str) -> dict[str, Any]:
        """Say what of a stream is kept that is no DP output, since when and until when, and whether that `holds`."""
        checked_name("stream", stream)
        return exposure_document(self._service.exposure(stream))

    def evolve_stream(
        self, stream: str, *, add_column: str, type: str, default: str | int | float | bool
    ) -> int:
        """Add a column to a stream and return the version of its schema; repeating it changes nothing.

        Rows that came before into windows that are still open have `default`, and so have later rows without a value:
        producers need not know of the column yet. PTKs may name it from now on. Numbers are 64 bits wide from the
        start, so that no column ever needs to be widened; nothing can be renamed or removed.

        Parameters
        ----------
        type : 'int64', 'float64', 'string' or 'bool'
        default : public value of that type
        """
        kind = choice(ColumnType, type, "column type")
        return self._service.evolve_stream(stream, add_column, kind, default).schema.version

    def ingest(self, stream: str, table: Any, batch_id: str | None = None) -> IngestReply:
        """Store the rows of a table; a repeated `batch_id` stores nothing twice.

        Parameters
        ----------
        table : table with column names
            Of pandas, polars or pyarrow, or of anything else that exports Arrow or the dataframe protocol. A mapping of
            columns or a structured array is taken, too.
        batch_id : str, optional
            Names the rows, so that sending them again stores them once.

        Raises
        ------
        SchemaMismatch
            The table has no column names, cannot be read, or does not have the columns of the stream.
        """
        from ptklib.exceptions import SchemaError
        from ptklib.tables import as_arrow

        try:
            rows = as_arrow(table)
        except SchemaError as error:
            raise SchemaMismatch(str(error)) from None
        return self._service.ingest(stream, rows, batch_id)

    def close_windows(
        self, stream: str, until: datetime | str | None = None, *, tell: TellSteps = tell_nobody
    ) -> int:
        """Close the windows that have ended at the event time `until`; returns how many.

        It is now by default, and to be given where the operator closes. `tell` hears how many are closed, of how many;
        over HTTP it hears nothing.
        """
        return len(self._service.close_windows(stream, None if until is None else utc(until), tell=tell))

    def forget(self, stream: str, unit: str | int) -> None:
        """Erase all rows of a user from the windows that are still kept; spent budget stays spent, states stay.

        Raises
        ------
        Refused
            The stream's privacy unit is the record.
        """
        self._service.forget(stream, unit)
