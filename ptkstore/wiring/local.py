"""The use cases as whoever works in the store's home has them: what changes anything is recorded, as over HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ptkstore import application
from ptkstore.domain.audit import DONE, subject_of
from ptkstore.domain.identity import Action
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.streams import ColumnType, Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.subscriptions import USUAL_OVERLAP, Subscription
from ptkstore.ports.schema import Upgraded
from ptkstore.wiring.service import Service

if TYPE_CHECKING:
    import pyarrow as pa


class LocalService(Service):
    """Every use case; those below, which change anything or take a signed report along, with lines in the trail.

    Whom the file system lets in is `local` there.
    """

    def create_stream(self, stream: Stream) -> None:
        """See `Service`."""
        with self._recorded(Action.STREAM_CREATE, "stream", stream.name):
            super().create_stream(stream)

    def evolve_stream(
        self, stream: str, column: str, kind: ColumnType, default: str | int | float | bool
    ) -> Stream:
        """See `Service`."""
        with self._recorded(Action.STREAM_EVOLVE, "stream", stream):
            return super().evolve_stream(stream, column, kind, default)

    def ingest(
        self, stream: str, table: pa.Table, batch_id: str | None = None, part: tuple[int, int] | None = None
    ) -> application.ingest.ingest_records.IngestReply:
        """See `Service`."""
        with self._recorded(Action.STREAM_INGEST, "stream", stream):
            return super().ingest(stream, table, batch_id, part)

    def close_windows(
        self, stream: str, until: datetime | None = None, *, expire_unfinished: bool = False
    ) -> tuple[WindowId, ...]:
        """See `Service`."""
        with self._recorded(Action.STREAM_CLOSE, "stream", stream):
            return super().close_windows(stream, until, expire_unfinished=expire_unfinished)

    def prepare_again(self, stream: str, window: int, *, without_lost: bool = False) -> None:
        """See `Service`."""
        with self._recorded(Action.STREAM_PREPARE, "stream", stream):
            super().prepare_again(stream, window, without_lost=without_lost)

    def forget(self, stream: str, unit: str | int) -> None:
        """See `Service`."""
        with self._recorded(Action.STREAM_FORGET, "stream", stream):
            super().forget(stream, unit)

    def recover_ledger(self) -> tuple[application.ledger.recover_ledger.Recovered, ...]:
        """See `Service`."""
        with self._recorded(Action.LEDGER_RECOVER, "store"):
            return super().recover_ledger()

    def export_ledger(
        self, stream: str, since: datetime | None = None, until: datetime | None = None
    ) -> application.ledger.export_ledger.Export:
        """See `Service`."""
        with self._recorded(Action.LEDGER_EXPORT, "stream", stream):
            return super().export_ledger(stream, since, until)

    def put_bundle(self, content: bytes, sha256: str | None = None, *, team: str) -> str:
        """See `Service`."""
        with self._recorded(Action.BUNDLE_UPLOAD, "team", team):
            return super().put_bundle(content, sha256, team=team)

    def register_ptk(
        self,
        *,
        team: str,
        name: str,
        stream: str,
        estimator: Mapping[str, Any],
        target: float,
        train_frequency: str,
        config: Mapping[str, Any] | None = None,
        description: str = "",
    ) -> str:
        """See `Service`."""
        with self._recorded(Action.PTK_REGISTER, "ptk", f"{team}.{name}"):
            return super().register_ptk(
                team=team,
                name=name,
                stream=stream,
                estimator=estimator,
                target=target,
                train_frequency=train_frequency,
                config=config,
                description=description,
            )

    def update_ptk(
        self,
        ptk_id: str,
        *,
        estimator: Mapping[str, Any] | None = None,
        target: float | None = None,
        config: Mapping[str, Any] | None = None,
        description: str | None = None,
    ) -> PtkSpec:
        """See `Service`."""
        with self._recorded(Action.PTK_UPDATE, "ptk", ptk_id):
            return super().update_ptk(
                ptk_id, estimator=estimator, target=target, config=config, description=description
            )

    def deregister_ptk(self, ptk_id: str) -> None:
        """See `Service`."""
        with self._recorded(Action.PTK_DEREGISTER, "ptk", ptk_id):
            super().deregister_ptk(ptk_id)

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """See `Service`."""
        with self._recorded(Action.PTK_NOTIFY, "ptk", ptk_id):
            return super().notify_new_ptk_state(ptk_id)

    def rollback_ptk(self, ptk_id: str, to: int) -> int:
        """See `Service`."""
        with self._recorded(Action.PTK_ROLL_BACK, "ptk", ptk_id):
            return super().rollback_ptk(ptk_id, to)

    def materialize_ptk(self, ptk_id: str) -> int:
        """See `Service`."""
        with self._recorded(Action.PTK_MATERIALIZE, "ptk", ptk_id):
            return super().materialize_ptk(ptk_id)

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str, *, team: str = "") -> tuple[Subscription, str]:
        """See `Service`."""
        with self._recorded(Action.SUBSCRIPTION_CREATE, "ptk", ptk_id):
            return super().subscribe_to_ptk(ptk_id, endpoint, team=team)

    def unsubscribe(self, subscription_id: str) -> None:
        """See `Service`."""
        with self._recorded(Action.SUBSCRIPTION_DELETE, "subscription", subscription_id):
            super().unsubscribe(subscription_id)

    def rotate_secret(self, subscription_id: str, overlap: timedelta = USUAL_OVERLAP) -> str:
        """See `Service`."""
        with self._recorded(Action.SUBSCRIPTION_ROTATE, "subscription", subscription_id):
            return super().rotate_secret(subscription_id, overlap)

    def redeliver(
        self, subscription_id: str, number: int | None = None, since: datetime | None = None
    ) -> int:
        """See `Service`."""
        with self._recorded(Action.SUBSCRIPTION_REDELIVER, "subscription", subscription_id):
            return super().redeliver(subscription_id, number, since)

    def disable_subscription(self, subscription_id: str) -> None:
        """See `Service`."""
        with self._recorded(Action.SUBSCRIPTION_DISABLE, "subscription", subscription_id):
            super().disable_subscription(subscription_id)

    def enable_subscription(self, subscription_id: str, *, redelivering: bool = True) -> Subscription:
        """See `Service`."""
        with self._recorded(Action.SUBSCRIPTION_ENABLE, "subscription", subscription_id):
            return super().enable_subscription(subscription_id, redelivering=redelivering)

    def garbage(
        self, older_than: timedelta, *, delete: bool = False
    ) -> tuple[application.operations.collect_garbage.Garbage, ...]:
        """See `Service`."""
        if not delete:  # a mere look
            return super().garbage(older_than)
        with self._recorded(Action.LAKE_CLEAN, "store"):
            return super().garbage(older_than, delete=True)

    def upgrade_catalog(self, *, backed_up: bool) -> Upgraded:
        """See `Service`; recorded afterwards, as the trail is part of what is upgraded."""
        done = super().upgrade_catalog(backed_up=backed_up)
        if not done.before.up_to_date:
            self.identity.record(Action.CATALOG_UPGRADE, "store", secrets.token_hex(8), None, DONE)
        return done

    def exchange_ptks(
        self,
        *,
        team: str,
        stream: str,
        wanted: Sequence[application.ptks.exchange_ptks.WantedPtk],
        leaving: Sequence[str] = (),
        before_code: Callable[[], None] = lambda: None,
    ) -> None:
        """See `application.ptks.exchange_ptks`; each PTK has a line of its own."""
        with self._recorded(Action.PTK_EXCHANGE, "stream", stream) as about:
            about.parts = application.ptks.exchange_ptks.exchanged(team, wanted, leaving)
            super().exchange_ptks(
                team=team, stream=stream, wanted=wanted, leaving=leaving, before_code=before_code
            )

    def _recorded(
        self, action: Action, kind: str, name: str | None = None
    ) -> AbstractContextManager[application.identity.record_action.Recorded]:
        subject, request_id = subject_of(kind, name), secrets.token_hex(8)
        return self.identity.recorded(action, subject, request_id, None)
