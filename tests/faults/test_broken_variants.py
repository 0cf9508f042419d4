"""The checker sees each broken chain for what it is, and the right chain under the same faults as right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from ptkstore.domain.jobs import JobKind, cursor
from tests.faults import scenario, variants
from tests.faults.rig import Rig, rig
from tests.faults.steps import Point
from tests.support.local import local

pytestmark = pytest.mark.long

THIRD = "rides.third"
Variant = Callable[[str], AbstractContextManager[None]]

ELECTED, PLACED = Point("train", "elected"), Point("place", "placed")
TRAINED, FLIPPED = Point("train", "trained"), Point("flip", "flip-committed")


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "home") as made:
        scenario.create_stream(made.store)
        scenario.register(made.store)
        made.subscribe(scenario.LONG, "first")
        yield made


def overbook(chain: Rig) -> None:
    """A third PTK, past registration's own check: the ledger alone decides."""
    with local(chain.store).begin() as uow:
        spec = replace(uow.ptks.get(scenario.LONG), ptk_id=THIRD, name="third")
        uow.ptks.add(spec)
        for kind in (JobKind.PLACE, JobKind.FLIP):
            uow.jobs.add(cursor(kind, scenario.STREAM, THIRD, chain.clock.now()))
        uow.commit()


def found(chain: Rig, variant: Variant, at: Point, mode: str) -> set[str]:
    """The codes of what the checker finds after one window with one fault."""
    with variant(chain.settings.catalog_url):
        chain.close(0)
        assert chain.work_struck(at, mode)
    return {fault.code for fault in chain.faults()}


@pytest.mark.parametrize("at", [ELECTED, PLACED], ids=str)
def test_charging_after_publishing_is_caught(chain: Rig, at: Point):
    assert found(chain, variants.charge_after_publish, at, "kill") == {"uncharged"}


def test_checking_before_the_lock_is_caught(chain: Rig):
    overbook(chain)
    assert found(chain, variants.check_then_act, TRAINED, "kill") == {"overspent"}


def test_a_worker_without_a_fence_is_caught(chain: Rig):
    codes = found(chain, variants.no_fence, TRAINED, "stall")
    assert {"second-version", "overspent"} <= codes


def test_telling_without_an_outbox_is_caught(chain: Rig):
    assert found(chain, variants.no_outbox, FLIPPED, "kill") == {"lost-notification"}


def test_telling_without_an_outbox_is_caught_when_the_endpoint_answers_badly(chain: Rig):
    chain.receiver.answer_next(1, 503)
    assert found(chain, variants.no_outbox, TRAINED, "kill") == {"lost-notification"}


@pytest.mark.parametrize(
    ("at", "mode"),
    [(ELECTED, "kill"), (PLACED, "kill"), (TRAINED, "kill"), (TRAINED, "stall"), (FLIPPED, "kill")],
    ids=str,
)
def test_the_right_chain_is_right_under_these_faults(chain: Rig, at: Point, mode: str):
    overbook(chain)
    chain.receiver.answer_next(1, 503)
    assert found(chain, variants.right, at, mode) == set()


def test_without_a_fence_the_database_still_refuses_a_second_output(chain: Rig):
    assert found(chain, variants.fence_down, TRAINED, "stall") == set()
