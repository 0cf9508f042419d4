"""Near names in the problems of the HTTP API: of what the caller may see anyway."""

from __future__ import annotations

from collections.abc import Mapping

from ptkstore.domain.identity import Principal
from ptkstore.domain.near_names import Names, names_of
from ptkstore.domain.ptks import PtkSpec
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity


def names_for(principal: Principal, service: Service, identity: Identity) -> Mapping[str, Names]:
    """The names that a caller can list, by kind: those of streams on which it has no role are not among them."""

    def specs() -> list[PtkSpec]:
        seen = identity.visible_streams(principal)
        return [spec for spec in service.ptks() if spec.stream in seen]

    names = names_of(lambda: sorted(identity.visible_streams(principal)), specs, service.versions)
    if principal.administers:
        names["team"] = lambda _: identity.teams()
        names["token"] = lambda _: [token.id for token in identity.tokens()]
    return names
