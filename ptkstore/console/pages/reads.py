"""Reads that pages share: the service, and the part of it that one principal may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.application.streams.exposure import sentences_on
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.near_names import near_names
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.errors import NotAllowed, Unavailable, UnknownName
from ptkstore.sdk.documents.resources import ptk_document
from ptkstore.sdk.subscriptions import subscription_document
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

Health = Callable[[], tuple[Mapping[str, str], Collection[str]]]
"""The state of every part of the service, and the names of those for which it is not ready."""


class Reads:
    """Reads for one principal that several pages share."""

    def __init__(
        self, service: Service, identity: Identity, health: Health, seeks: Callable[[], bool]
    ) -> None:
        self._service, self._identity, self._health, self._seeks = service, identity, health, seeks

    def _exposure(self, name: str) -> dict[str, Any] | None:
        """Return sentences about what is exposed of a stream. None while a store is unavailable."""
        try:
            exposure = self._service.exposure(name)
        except Unavailable:
            return None
        verdict, *sentences = sentences_on(exposure)
        return {"stream": name, "holds": exposure.holds, "verdict": verdict, "told": sentences}

    def _streams(self, who: Principal) -> list[Any]:
        seen = self._identity.visible_streams(who)
        return [stream for stream in self._service.streams() if stream.name in seen]

    def _ptks(self, who: Principal) -> list[Any]:
        seen = self._identity.visible_streams(who)
        return [spec for spec in self._service.ptks() if spec.stream in seen]

    def _subscriptions(
        self, who: Principal, ptk_id: str | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        if not self._may(who, Action.SUBSCRIPTION_LIST, None):
            return []
        team = None if who.administers else who.team
        return [
            {**subscription_document(one), "place": one.subscription.endpoint.partition("?")[0]}
            for one in self._service.subscriptions(ptk_id, team=team, limit=limit)
        ]

    def near(self, who: Principal, kind: str, name: str) -> list[dict[str, str]]:
        """Return links to what an unknown name may have been meant to be, of what the reader may see.

        There are none while near names are sought too often: seeking them costs more than the page.
        """
        if not self._seeks():
            return []
        if kind == "stream":
            names, place = [stream.name for stream in self._streams(who)], "streams"
        else:
            names, place = [spec.ptk_id for spec in self._ptks(who)], "ptks"
        return [{"name": one, "href": f"/{place}/{one}"} for one in near_names(name, names)]

    def _lines(self, specs: Sequence[PtkSpec], placed: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return PTKs as pages list them; `newest` is None where the reader is not told of versions."""
        return [{**ptk_document(spec), "newest": placed.get(spec.ptk_id)} for spec in specs]

    def _newest(self, who: Principal, specs: Sequence[PtkSpec]) -> dict[str, int]:
        """Return the newest version of each PTK whose states the reader may read, 0 for none."""
        readable = self._identity.streams_for(who, Action.STATE_READ)
        placed = self._service.newest_versions()
        return {spec.ptk_id: placed.get(spec.ptk_id, 0) for spec in specs if spec.stream in readable}

    def _may(self, who: Principal, action: Action, named: Named | None) -> bool:
        try:
            self._identity.permit(who, action, *([] if named is None else [named]))
        except (NotAllowed, UnknownName):
            return False
        return True
