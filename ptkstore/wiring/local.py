"""The use cases as whoever works in the store's home has them: what changes anything is recorded, as over HTTP."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

from ptkstore import application
from ptkstore.domain.audit import DONE, subject_of
from ptkstore.domain.identity import Action
from ptkstore.ports.schema import Upgraded
from ptkstore.wiring.service import Service

_Subject = Callable[[Mapping[str, Any]], str]


def _named(kind: str, argument: str) -> _Subject:
    return lambda given: subject_of(kind, given[argument])


_STREAM, _PTK, _SUBSCRIPTION = (
    _named("stream", "stream"),
    _named("ptk", "ptk_id"),
    _named("subscription", "subscription_id"),
)

RECORDED: Mapping[str, tuple[Action, _Subject]] = {
    "create_stream": (Action.STREAM_CREATE, lambda given: subject_of("stream", given["stream"].name)),
    "evolve_stream": (Action.STREAM_EVOLVE, _STREAM),
    "ingest": (Action.STREAM_INGEST, _STREAM),
    "close_windows": (Action.STREAM_CLOSE, _STREAM),
    "prepare_again": (Action.STREAM_PREPARE, _STREAM),
    "forget": (Action.STREAM_FORGET, _STREAM),
    "recover_ledger": (Action.LEDGER_RECOVER, lambda _: "store"),
    "export_ledger": (Action.LEDGER_EXPORT, _STREAM),
    "put_bundle": (Action.BUNDLE_UPLOAD, lambda given: subject_of("team", given["team"])),
    "register_ptk": (
        Action.PTK_REGISTER,
        lambda given: subject_of("ptk", f"{given['team']}.{given['name']}"),
    ),
    "update_ptk": (Action.PTK_UPDATE, _PTK),
    "deregister_ptk": (Action.PTK_DEREGISTER, _PTK),
    "notify_new_ptk_state": (Action.PTK_NOTIFY, _PTK),
    "rollback_ptk": (Action.PTK_ROLL_BACK, _PTK),
    "materialize_ptk": (Action.PTK_MATERIALIZE, _PTK),
    "subscribe_to_ptk": (Action.SUBSCRIPTION_CREATE, _PTK),
    "unsubscribe": (Action.SUBSCRIPTION_DELETE, _SUBSCRIPTION),
    "rotate_secret": (Action.SUBSCRIPTION_ROTATE, _SUBSCRIPTION),
    "redeliver": (Action.SUBSCRIPTION_REDELIVER, _SUBSCRIPTION),
    "disable_subscription": (Action.SUBSCRIPTION_DISABLE, _SUBSCRIPTION),
    "enable_subscription": (Action.SUBSCRIPTION_ENABLE, _SUBSCRIPTION),
    "garbage": (Action.LAKE_CLEAN, lambda _: "store"),
}
"""What changes anything, or takes a signed report along, and what it is about."""


class LocalService(Service):
    """Every use case, those in `RECORDED` with lines in the trail: whom the file system lets in is `local` there."""

    def upgrade_catalog(self, *, backed_up: bool) -> Upgraded:
        """See `application.upgrade_catalog`; recorded afterwards, as the trail is part of what is upgraded."""
        done = super().upgrade_catalog(backed_up=backed_up)
        if not done.before.up_to_date:
            application.record_action.record(
                Action.CATALOG_UPGRADE,
                "store",
                secrets.token_hex(8),
                None,
                DONE,
                begin=self.begin,
                clock=self.clock,
            )
        return done

    def exchange_ptks(
        self,
        *,
        team: str,
        stream: str,
        wanted: Sequence[application.exchange_ptks.WantedPtk],
        leaving: Sequence[str] = (),
        before_code: Callable[[], None] = lambda: None,
    ) -> None:
        """See `application.exchange_ptks`; each PTK has a line of its own."""
        with self.recorded(Action.PTK_EXCHANGE, subject_of("stream", stream)) as about:
            about.parts = application.exchange_ptks.exchanged(team, wanted, leaving)
            super().exchange_ptks(
                team=team, stream=stream, wanted=wanted, leaving=leaving, before_code=before_code
            )

    def recorded(
        self, action: Action, subject: str
    ) -> AbstractContextManager[application.record_action.Recorded]:
        """See `application.record_action`."""
        return application.record_action.recorded(
            action, subject, secrets.token_hex(8), None, begin=self.begin, clock=self.clock
        )


def _recording(method: Callable[..., Any], action: Action, subject: _Subject) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @wraps(method)
    def act(self: LocalService, *args: Any, **more: Any) -> Any:
        given = signature.bind(self, *args, **more).arguments
        looks_only = action is Action.LAKE_CLEAN and not given.get("delete")
        with nullcontext() if looks_only else self.recorded(action, subject(given)):
            return method(self, *args, **more)

    return act


for _name, (_action, _subject) in RECORDED.items():
    setattr(LocalService, _name, _recording(getattr(Service, _name), _action, _subject))
