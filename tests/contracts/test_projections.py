"""A process that outlives the catalog it knew follows the one there is."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.group_commit import GroupCommit
from ptkstore.domain.blocks import BlockRange
from ptkstore.domain.journal import BudgetRequest
from ptkstore.domain.ledger import Denied, Granted
from ptkstore.errors import Conflict
from tests.contracts.builders import STREAM, request, reserve, with_blocks


def retire(catalog: SqlCatalog, number: int, *, recovered: bool) -> None:
    with catalog.begin() as uow:
        uow.streams.lock(STREAM)
        uow.ledger.retire(STREAM, [number])
        if recovered:
            uow.renew_ledger_id()
        uow.commit()


@pytest.mark.parametrize("spends", [0, 1], ids=["an empty journal", "the same head"])
def test_blocks_that_recovery_retired_are_retired_for_a_process_that_slept(
    tmp_path: Path, spends: int
) -> None:
    live, copy = tmp_path / "catalog.db", tmp_path / "copy.db"
    with SqlCatalog(f"sqlite:///{live}") as catalog:
        with_blocks(catalog)
        for n in range(spends):
            reserve(catalog, request(f"k{n}"))
    shutil.copy(live, copy)
    sleeper = SqlCatalog(f"sqlite:///{live}")
    retire(sleeper, 3, recovered=False)  # a change that the copy has not, under the same revision
    sleeper._engine.dispose()  # no connection to the file that is replaced
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    shutil.copy(copy, live)
    with SqlCatalog(f"sqlite:///{live}") as other:
        retire(other, 2, recovered=True)
    with sleeper:
        assert reserve(sleeper, request("new", blocks=(2, 3))) == Denied("new", (2,))
        assert reserve(sleeper, request("other", blocks=(3, 4))) == Granted("other")


class Interrupted(BaseException):
    """What a signal handler raises."""


def test_an_interrupted_caller_leaves_the_line_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        with_blocks(catalog)
        queue = GroupCommit(catalog.begin)
        assert queue.reserve(request("first"), {}) == Granted("first")
        waiting = queue._arrivals.wait_for

        def interrupted(*_: object) -> bool:
            monkeypatch.setattr(queue._arrivals, "wait_for", waiting)
            raise Interrupted

        monkeypatch.setattr(queue._arrivals, "wait_for", interrupted)
        with pytest.raises(Interrupted):
            queue.reserve(request("second"), {})
        answers: list[Granted | Denied] = []
        thread = threading.Thread(target=lambda: answers.append(queue.reserve(request("third"), {})))
        thread.start()
        thread.join(30)
        assert answers == [Granted("third")]
        with catalog.begin() as uow:
            assert uow.ledger.history("second") == ()


def test_a_conflict_is_for_its_own_caller_alone(tmp_path: Path) -> None:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as catalog:
        with_blocks(catalog)
        queue, found = GroupCommit(catalog.begin), dict[str, object]()
        queue.reserve(request("known"), {})
        wrong = replace(request("known"), blocks=BlockRange(2, 3))
        together = threading.Barrier(4)

        def ask(name: str, wish: BudgetRequest) -> None:
            together.wait(30)
            try:
                found[name] = queue.reserve(wish, {})
            except Conflict:
                found[name] = Conflict

        wishes = {"wrong": wrong, **{f"k{n}": request(f"k{n}") for n in range(3)}}
        threads = [threading.Thread(target=ask, args=item) for item in wishes.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert found == {"wrong": Conflict, **{f"k{n}": Granted(f"k{n}") for n in range(3)}}
