"""Near names in the problems of the HTTP API: of what the caller may see anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ptkstore.domain.identity import Principal
from ptkstore.domain.near_names import Names, features_of, views_of
from ptkstore.domain.ptks import PtkSpec
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

_NEWEST = 20


def names_for(principal: Principal, service: Service, identity: Identity) -> Mapping[str, Names]:
    """The names that a caller can list, by kind: those of streams on which it has no role are not among them."""

    def specs() -> list[PtkSpec]:
        seen = identity.visible_streams(principal)
        return [spec for spec in service.ptks() if spec.stream in seen]

    def versions(name: str) -> Iterable[str]:
        ptk_id = name.partition(" ")[0]
        if ptk_id not in (known := [spec.ptk_id for spec in specs()]):
            return known
        return [f"{ptk_id} v{one.number}" for one in service.versions(ptk_id)[-_NEWEST:]]

    names: dict[str, Names] = {
        "stream": lambda _: sorted(identity.visible_streams(principal)),
        "PTK": lambda _: [spec.ptk_id for spec in specs()],
        "version": versions,
        "published version": versions,
        "feature view": lambda _: ["ptk_state", *views_of(specs())],
        "feature": lambda _: features_of(specs()),
    }
    if principal.administers:
        names["team"] = lambda _: identity.teams()
        names["token"] = lambda _: [token.id for token in identity.tokens()]
    return names
