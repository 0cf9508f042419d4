"""Both services have what `StoreService` declares, and take what it says they take."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ptkstore.sdk.remote import RemoteService
from ptkstore.sdk.service import IdentityReads, StoreService
from ptkstore.wiring import LocalService
from ptkstore.wiring.identity import Identity

PAIRS = [
    (StoreService, LocalService),
    (StoreService, RemoteService),
    (IdentityReads, Identity),
    (IdentityReads, type(RemoteService("https://example.org", "ptk_x").identity)),
]


def declared(protocol: type) -> dict[str, Any]:
    return {
        name: value for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"
    }


def parameters(method: Any) -> dict[str, tuple[Any, bool]]:
    """The parameters by name: their kind, and whether they may be left out."""
    found = inspect.signature(method).parameters.values()
    return {one.name: (one.kind, one.default is not one.empty) for one in found}


def lacking(protocol: type, service: type) -> list[str]:
    """What a service does not have, or does not take as it is declared."""
    found = []
    for name, method in declared(protocol).items():
        wanted, taken = parameters(method), parameters(getattr(service, name, lambda: None))
        more = {one: taken[one] for one in taken.keys() - wanted.keys()}
        if wanted.items() - taken.items() or not all(optional for _, optional in more.values()):
            found.append(name)
    return found


@pytest.mark.parametrize(("protocol", "service"), PAIRS)
def test_a_service_has_all_that_is_declared(protocol: type, service: type) -> None:
    assert len(declared(protocol)) >= 4
    assert lacking(protocol, service) == []


def test_a_remote_service_has_nothing_that_is_not_declared() -> None:
    public = {name for name in dir(RemoteService) if name[0] != "_"}
    assert public == set(declared(StoreService))


def test_what_is_forgotten_is_found() -> None:
    class Forgetful:
        def teams(self) -> None: ...
        def tokens(self, team: str) -> None: ...
        def grants(self, team: None = None, stream: None = None, *, more: str) -> None: ...

    assert lacking(IdentityReads, Forgetful) == ["tokens", "grants", "audit_log"]
