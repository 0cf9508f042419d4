"""A registration whose answer was lost: repeated, it is answered as the first time; another one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptkstore import PTK, connect
from ptkstore import errors as e
from ptkstore.adapters.sql.identity.audit_trail import SqlAnswers
from ptkstore.domain.identity import Role
from ptkstore.sdk import Store
from ptkstore.sdk.remote import transport
from tests.support.api_server import Api
from tests.support.speeds import speeds

PTK_ID = "taxi.speed"
SAMPLED = {"epsilons": (0.05, 0.1), "profile": {"drift": 0.01}}
SERVED = {"defaults": {"speed_mean": 12}}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        api.world.stream(rows_per_window=4_800, profile_share=Decimal("0.5"))
        api.world.stream("other", rows_per_window=4_800)
        yield api


@pytest.fixture
def store(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(transport, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(transport, "LONGEST_WAIT_SECONDS", 0.002)
    with connect(api.url, token=api.token(*Role)) as store:
        yield store


def register(store: Store, ptk: PTK) -> str:
    return store.register_ptk(
        ptk.estimator,
        train_frequency=ptk.every,
        name=ptk.name,
        stream=ptk.stream,
        target=ptk.target,
        config=ptk.config,
        description=ptk.description,
    )


def lose(
    api: Api, monkeypatch: pytest.MonkeyPatch, *, times: int, instead: Callable[[], object] | None = None
) -> list[bool]:
    """Have the server lose track of so many registrations: they are done, or what is done `instead` of the first."""
    real, asked = api.world.service.register_ptk, list[bool]()

    def unheard(**request: Any) -> str:
        asked.append(True)
        if len(asked) == 1:
            (instead or (lambda: real(**request)))()
        if len(asked) <= times:
            raise e.OutcomeUnknown("the commit was not answered")
        return real(**request)

    monkeypatch.setattr(api.world.service, "register_ptk", unheard)
    return asked


@pytest.mark.parametrize(
    "ptk",
    [
        speeds(),
        speeds(epsilon=0.9),  # a second one has no room beside the first
        speeds(epsilon=np.float64(0.1), target=np.float64(1), every="2d", description="Speeds, é."),
        speeds(target=1),
        speeds(target=0.3, **SAMPLED),
        speeds(serve=SERVED),
    ],
    ids=["plain", "large", "numpy", "whole", "sampled", "served"],
)
def test_the_name_that_was_taken_by_oneself_is_no_refusal(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch, ptk: PTK
) -> None:
    asked = lose(api, monkeypatch, times=1)
    assert register(store, ptk) == PTK_ID
    assert len(asked) == 2
    (spec,) = api.world.service.ptks()
    assert spec.ptk_id == PTK_ID
    assert "ptk-rejected" not in dict(api.world.notices()).values()  # no room beside itself


def test_after_an_answer_that_never_came_it_may_be_registered_again(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = lose(api, monkeypatch, times=transport.TRIES)
    with pytest.raises(e.OutcomeUnknown):
        register(store, speeds())
    assert len(asked) == transport.TRIES
    assert register(store, speeds()) == PTK_ID


def test_where_the_server_cannot_keep_its_answer_it_may_be_registered_again(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise e.Unavailable("the catalog does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(SqlAnswers, "keep", full)
        with pytest.raises(e.OutcomeUnknown):
            register(store, speeds())
    assert [spec.ptk_id for spec in api.world.service.ptks()] == [PTK_ID]
    assert register(store, speeds()) == PTK_ID


def test_what_was_not_done_is_not_told_as_done(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(api, monkeypatch, times=transport.TRIES, instead=lambda: None)
    with pytest.raises(e.OutcomeUnknown):
        register(store, speeds())
    assert api.world.service.ptks() == ()


@pytest.mark.parametrize(
    "other",
    [
        speeds(epsilon=0.2),
        speeds(target=0.2),
        speeds(every="2d"),
        speeds(stream="other"),
        speeds(serve=SERVED),
        speeds(description="Somebody else's."),
    ],
    ids=["estimator", "target", "every", "stream", "config", "description"],
)
def test_a_ptk_of_the_same_name_that_differs_in_anything_is_another(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch, other: PTK
) -> None:
    with Store(api.world.service) as here:
        real = api.world.service.register_ptk
        lose(api, monkeypatch, times=1, instead=lambda: real(**asked_of(other)))
        with pytest.raises(e.NameTaken):
            register(store, speeds())
        (spec,) = here.service.ptks()
    assert (spec.stream, spec.target, spec.description) == (other.stream, other.target, other.description)


def asked_of(ptk: PTK) -> dict[str, Any]:
    return {
        "team": "taxi",
        "name": ptk.name,
        "stream": ptk.stream,
        "estimator": ptk.estimator.to_spec(),
        "target": ptk.target,
        "train_frequency": ptk.every,
        "config": ptk.config,
        "description": ptk.description,
    }


def test_a_name_of_another_stream_is_taken_after_a_lost_answer_too(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store, speeds(stream="other"))
    store.deregister_ptk(PTK_ID)
    lose(api, monkeypatch, times=1, instead=lambda: None)
    with pytest.raises(e.NameTaken, match="deregistered"):
        register(store, speeds())
