"""The store as its users see it, in this process and on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from ptkstore.domain.losses import Loss
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks import CONFIG_KEYS, PtkSpec
from ptkstore.domain.streams import ColumnType, Schema, Stream
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk.auditing import RUNS, examine_ptk
from ptkstore.sdk.declarations import Repository, estimator_spec
from ptkstore.sdk.evaluations import evaluation_row
from ptkstore.sdk.featurizing import Ptk, ptk_of
from ptkstore.sdk.ledgers import budget_rows
from ptkstore.sdk.policies import choice, policy_of, share_of, utc
from ptkstore.sdk.repositories import Change, applied, planned

if TYPE_CHECKING:
    from ptklib.checks import Examination
    from ptkstore.application.diff_versions import VersionDiff
    from ptkstore.application.export_ledger import Export
    from ptkstore.application.ingest_records import IngestReply
    from ptkstore.domain.odometers import Odometers
    from ptkstore.wiring import Service


AT_ONCE_MAX = 64


@dataclass(frozen=True)
class Subscribed:
    """A new subscription; `secret` is shown this once and verifies the signatures of its messages."""

    id: str
    ptk_id: str
    endpoint: str
    secret: str


def connect(target: str | Path | None = None, *, token: str | None = None) -> Store:
    """Open the store in `target`, a home directory, by default `PTK_HOME`, else `.ptk`; or the one behind a URL.

    Parameters
    ----------
    target : path or str
        A directory, or `https://host[:port]`; plain `http` for this very machine alone.
    token : str
        For a URL: the API token, by default `PTK_TOKEN`.

    Raises
    ------
    InvalidRequest
        The URL is none that a token may be sent to, or there is no token.
    """
    from ptkstore.sdk.remote import RemoteService, is_url

    if is_url(target):
        return Store(cast("Service", RemoteService(str(target), token or os.environ.get("PTK_TOKEN", ""))))
    if token is not None:
        raise InvalidRequest("a token is for a remote store; a home directory is opened without one")
    from ptkstore.settings import load_settings
    from ptkstore.wiring import Service

    return Store(Service(load_settings(target)))


class Store:
    """Streams, PTKs, subscriptions and lookups; every method is one transaction or one read.

    Use as a context manager, or call `close`.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def service(self) -> Service:
        """The use cases behind this client."""
        return self._service

    # streams

    def create_stream(
        self,
        name: str,
        *,
        team: str,
        schema: Mapping[str, str],
        time_column: str,
        epsilon: float,
        delta: float = 0.0,
        window: str = "1d",
        origin: datetime | str | None = None,
        lateness: str | None = None,
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
        block_by: Mapping[str, Sequence[str | int | bool]] | None = None,
        contexts: Mapping[str, Sequence[str]] | None = None,
        no_collusion: str = "",
        reserve: Mapping[str, float] | None = None,
        retire_below: float | None = None,
        minimum_assurance: str = "library",
        closing: str = "clock",
    ) -> None:
        """Create a stream; repeating it with equal content changes nothing.

        Parameters
        ----------
        schema : mapping of column name to 'int64', 'float64', 'string', 'bool' or 'timestamp'
        epsilon, delta : float
            What every block may lose in all, (epsilon_g, delta_g).
        window, lateness : str
            Durations such as '1d', '6h' or '15m'.
        origin : datetime or ISO text in UTC
            Where the first window starts; by default the start of the present UTC day. Earlier rows are refused.
        retention : int
            How many further windows a closed window's rows are kept.
        rows_per_window, n_max : int
            Public estimate of a window's rows, and planning bound. No row is dropped because of them.
        train_partitions : int
            Parts that PTKs are trained on; each has the whole (epsilon, delta), and a PTK trains on one of them.
        profile_share : float
            Part of a window's privacy units that is kept for profiles by samples, and never trained on.
        profile_max_age : int
            Windows after which such a profile is renewed.
        accountant : 'renyi', 'zcdp' or 'basic'
            How losses on a block add up. With delta 0 epsilons do, whatever it is.
        privacy_unit : 'record', 'user-in-window' or 'user'
            What (epsilon, delta) protects: one row, a user's rows of one window, or all of a user's for life.
        unit_column : str
            The column of the user's id, for the units of users.
        max_rows_per_unit : int
            How many rows of a user a window keeps, chosen at random; the noise of all PTKs grows with it.
        user_shards : int
            Blocks of each part, for the unit 'user': trainings that take few rows take turns at them.
        block_by : mapping of one column to its public values
            Blocks of their own for each value, for example of a city; rows with another value are refused.
        contexts : mapping of a name to teams
            Each has (epsilon, delta) for itself. `no_collusion` says why nobody learns from two of them.
        reserve : mapping of PTK ids to shares of (epsilon, delta)
            Kept for that PTK alone, which can use no other.
        retire_below : float
            A block that has no room for a pure loss of this epsilon retires; by default 1e-6.
        closing : 'clock' or 'operator'
            Who closes windows; an operator gives the event time, as backfills do.
        """
        policy = policy_of(
            capacity=Loss.capacity(epsilon, delta),
            window=window,
            origin=self._midnight() if origin is None else utc(origin),
            lateness=lateness,
            retention_windows=retention,
            n_max=n_max,
            rows_per_window=rows_per_window,
            accountant=accountant,
            privacy_unit=privacy_unit,
            minimum_assurance=minimum_assurance,
            closing=closing,
            train_partitions=train_partitions,
            profile_share=share_of(profile_share, "profile_share"),
            profile_max_age=profile_max_age,
            unit_column=unit_column,
            max_rows_per_unit=max_rows_per_unit,
            block_by=block_by,
            user_shards=user_shards,
            contexts=contexts,
            no_collusion=no_collusion,
            reserve=reserve,
            retire_below=retire_below,
        )
        columns = tuple((column, choice(ColumnType, kind, "column type")) for column, kind in schema.items())
        self._service.create_stream(Stream(name, team, Schema(columns, time_column), policy))

    def ingest(self, stream: str, table: Any, batch_id: str | None = None) -> IngestReply:
        """Store the rows of a pyarrow Table or pandas DataFrame; a repeated `batch_id` stores nothing twice."""
        import pyarrow as pa

        if not isinstance(table, pa.Table):
            table = pa.Table.from_pandas(table, preserve_index=False)
        return self._service.ingest(stream, table.replace_schema_metadata(None), batch_id)

    def close_windows(self, stream: str, until: datetime | str | None = None) -> int:
        """Close the windows that have ended when event time stands at `until`, now by default; returns how many."""
        return len(self._service.close_windows(stream, None if until is None else utc(until)))

    def forget(self, stream: str, unit: str | int) -> None:
        """Erase all rows of a user from the windows that are still kept; spent budget stays spent, states stay.

        Raises
        ------
        Refused
            The stream's privacy unit is the record.
        """
        self._service.forget(stream, unit)

    # PTKs

    def register_ptk(
        self,
        train_dp: Any,
        eval: Callable[..., float] | None = None,
        train_frequency: str = "1d",
        *,
        name: str,
        stream: str,
        target: float,
        config: Mapping[str, Any] | None = None,
        team: str | None = None,
        description: str = "",
    ) -> str:
        """Register a PTK and return its id; a ptklib estimator stands for both `train_dp` and `eval`.

        Raises
        ------
        PtkRejected
            The stream's policy has no room for it; the message says what is left.
        """
        if eval is not None:
            raise InvalidRequest(
                "a ptklib estimator brings its own eval; functions of your own need a sandbox"
            )
        return self._service.register_ptk(
            team=team or self._owner(stream),
            name=name,
            stream=stream,
            estimator=estimator_spec(train_dp),
            target=target,
            train_frequency=train_frequency,
            config=config,
            description=description,
        )

    def deregister_ptk(self, ptk_id: str) -> None:
        """Stop training a PTK and take its views away; its versions stay in the lake."""
        self._service.deregister_ptk(ptk_id)

    def update_ptk_config(self, ptk_id: str, config: Mapping[str, Any]) -> None:
        """Change what `config` names, from the next window on; the rest stays.

        Parameters
        ----------
        config : mapping
            Parameters of the estimator; `epsilons`, `where` and `profile` as in a repository's declaration, with None
            to take one away. A changed model, or other rows, start without the previous state.

        Raises
        ------
        InvalidRequest
            The family has no such parameter, or a value is not right.
        PtkRejected
            The change does not fit beside the other PTKs; the message says what would. The PTK stays as it was.
        """
        known = self._spec(ptk_id)
        params = {name: value for name, value in config.items() if name not in CONFIG_KEYS}
        beside = {name: value for name, value in config.items() if name in CONFIG_KEYS}
        self._service.update_ptk(
            ptk_id,
            estimator={"family": known.family, "params": {**known.estimator["params"], **params}},
            config={**known.config, **beside},
        )

    def update_ptk_performance_target(self, ptk_id: str, tau: float) -> None:
        """Change tau from the next window on; where that needs more than there is, `PtkRejected`, and tau stays."""
        self._service.update_ptk(ptk_id, target=tau)

    def plan(self, repository: Repository) -> tuple[Change, ...]:
        """What `apply` would do, and what each PTK would cost per window."""
        return planned(self._service, repository)

    def apply(self, repository: Repository) -> tuple[Change, ...]:
        """Register or update what a team's repository declares; repeatable."""
        return applied(self._service, repository)

    def ptk(self, ptk_id: str, version: int | None = None) -> Ptk:
        """A published PTK, newest by default, every byte verified.

        Raises
        ------
        UnknownName
            No such PTK or version, or none published yet.
        """
        split_ptk_id(ptk_id)
        if version is None:
            version = max((v.number for v in self._service.versions(ptk_id)), default=0)
        if not isinstance(version, int) or isinstance(version, bool):
            raise InvalidRequest("a version is a whole number")
        if version < 1:
            raise UnknownName("published version of PTK", ptk_id)
        found = (one for one in self.evaluations(ptk_id) if one["version"] == version)
        return replace(ptk_of(*self._service.ptk_version(ptk_id, version)), evaluation=next(found, None))

    def evaluations(self, ptk_id: str) -> list[dict[str, Any]]:
        """The paid estimates of the losses of a PTK's versions: `loss`, `standard_error` and what they cost."""
        return [evaluation_row(one) for one in self._service.evaluations(ptk_id)]

    def rollback(self, ptk_id: str, to: int) -> int:
        """Publish the state of version `to` again as the PTK's next version; returns its number, costs no budget.

        Raises
        ------
        UnknownName
            No such PTK or published version.
        Conflict
            A training of the PTK is under way.
        """
        split_ptk_id(ptk_id)
        return self._service.rollback_ptk(ptk_id, to).number

    def diff(self, ptk_id: str, one: int, other: int) -> VersionDiff:
        """What differs between two published versions: facts of their manifests, rows and columns of their tables."""
        split_ptk_id(ptk_id)
        return self._service.diff_versions(ptk_id, one, other)

    def test_privacy(self, ptk_id: str, runs: int = RUNS) -> list[Examination]:
        """Audit a PTK's trainer on synthetic neighbouring datasets; reads no row and spends nothing.

        Raises
        ------
        UnknownName
            No such PTK.
        """
        split_ptk_id(ptk_id)
        return examine_ptk(self._spec(ptk_id), runs)

    # subscriptions and lookups

    def subscribe_to_ptk(self, ptk_id: str, rpc_endpoint: str) -> Subscribed:
        """Have every new version told to `rpc_endpoint` by a signed webhook; the secret is returned this once."""
        subscription, secret = self._service.subscribe_to_ptk(ptk_id, rpc_endpoint)
        return Subscribed(subscription.id, ptk_id, rpc_endpoint, secret)

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription."""
        self._service.unsubscribe(subscription_id)

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """Tell subscribers of the newest version once more; returns how many will be told."""
        return self._service.notify_new_ptk_state(ptk_id)

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Online lookup through Feast, `view:feature` for the newest version and `view@vN:feature` for a pinned one."""
        return self._service.look_up(features, entities)

    # work and reports

    def work_until_idle(self, at_once: int = 1) -> int:
        """Do all due work in this process, up to `at_once` trainings beside each other; returns how many jobs it did.

        A running service (`ptk up`) does it by itself.
        """
        if isinstance(at_once, bool) or not isinstance(at_once, int) or not 1 <= at_once <= AT_ONCE_MAX:
            raise InvalidRequest(f"at_once is a whole number from 1 to {AT_ONCE_MAX}")
        return self._service.work_until_idle(at_once)

    def budget(self, stream: str, *, tight: bool = False) -> list[dict[str, Any]]:
        """Per block, and line of it where there are several: state, capacity, reserved and spent epsilon and delta.

        `tight` adds the tighter figure of the releases made so far, by which nothing is ever admitted.
        """
        return budget_rows(self._service, stream, tight=tight)

    def odometers(self, stream: str) -> Odometers:
        """What has been spent so far per block, line, stream, PTK and team."""
        return self._service.odometers(stream)

    def export_ledger(
        self, stream: str, since: datetime | str | None = None, until: datetime | str | None = None
    ) -> Export:
        """A signed report on the windows that meet [`since`, `until`), for the privacy officer; see `check_report`."""
        return self._service.export_ledger(
            stream, None if since is None else utc(since), None if until is None else utc(until)
        )

    def report_key(self) -> str:
        """The public key of this store's reports, in hexadecimal."""
        return self._service.signer.public_key().hex()

    def close(self) -> None:
        """Give connections back."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _midnight(self) -> datetime:
        return self._service.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    def _owner(self, stream: str) -> str:
        for known in self._service.streams():
            if known.name == stream:
                return known.team
        raise UnknownName("stream", stream)

    def _spec(self, ptk_id: str) -> PtkSpec:
        for spec in self._service.ptks():
            if spec.ptk_id == ptk_id:
                return spec
        raise UnknownName("PTK", ptk_id)
