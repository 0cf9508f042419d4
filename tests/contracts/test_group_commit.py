"""Threads that charge one stream at once share a commit, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.ledger.group_commit import GroupCommit, Wishes
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.domain.streams.blocks import BlockSet
from ptkstore.errors import Conflict, Unavailable
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.tracing import carried, carrying
from tests.support.builders import STREAM, request, with_blocks

PATIENCE_SECONDS = 30.0


class Interrupted(BaseException):
    """What a signal handler raises."""


class Counted:
    """A catalog's transactions, counted; those of `unsure` commit, and the answer gets lost."""

    def __init__(self, catalog: SqlCatalog, unsure: Collection[int] = ()) -> None:
        self.catalog, self.unsure, self.begun = catalog, unsure, 0

    @contextmanager
    def begin(self) -> Iterator[UnitOfWork]:
        self.begun += 1
        with self.catalog.begin() as uow:
            yield uow
            if self.begun in self.unsure:
                raise Unavailable("the catalog is gone")


def wish(one: BudgetRequest) -> Callable[[UnitOfWork], Wishes[Granted | Denied]]:
    return lambda _: ([(one, {})], lambda answers: answers[0])


def while_one_commits(queue: GroupCommit, wishes: dict[str, BudgetRequest]) -> dict[str, object]:
    """What each caller is told, all of them waiting for the same transaction behind a first one."""
    found: dict[str, object] = {}
    begun, go_on = threading.Event(), threading.Event()

    def slow(_: UnitOfWork) -> None:
        begun.set()
        go_on.wait(PATIENCE_SECONDS)

    def ask(name: str, one: BudgetRequest) -> None:
        try:
            found[name] = queue.reserve(STREAM, wish(one))
        except (Conflict, Unavailable) as error:
            found[name] = type(error)

    threads = [threading.Thread(target=queue.together, args=(STREAM, slow))]
    threads[0].start()
    assert begun.wait(PATIENCE_SECONDS)
    threads += [threading.Thread(target=ask, args=item) for item in wishes.items()]
    for thread in threads[1:]:
        thread.start()
    while len(queue._lines[STREAM].waiting) < len(wishes):
        time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return found


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}") as made:
        yield with_blocks(made)


def test_those_who_wait_together_cost_one_transaction(catalog: SqlCatalog) -> None:
    counted = Counted(catalog)
    wishes = {f"k{n}": request(f"k{n}") for n in range(5)}
    found = while_one_commits(GroupCommit(counted.begin), wishes)
    assert found == {key: Granted(key) for key in wishes}
    assert counted.begun == 2  # the slow one, and one for all five
    with catalog.begin() as uow:
        assert all(len(uow.ledger.history(key)) == 1 for key in wishes)


def test_each_is_decided_beside_those_before_it(catalog: SqlCatalog) -> None:
    wishes = {f"k{n}": request(f"k{n}", 0.4) for n in range(5)}
    found = while_one_commits(GroupCommit(catalog.begin), wishes)
    assert sorted(type(answer).__name__ for answer in found.values()) == ["Denied"] * 3 + ["Granted"] * 2


def test_a_step_that_fails_is_for_its_own_caller_alone(catalog: SqlCatalog) -> None:
    queue = GroupCommit(catalog.begin)
    queue.reserve(STREAM, wish(request("known")))
    wrong = replace(request("known"), blocks=BlockSet((2, 3)))
    found = while_one_commits(queue, {"wrong": wrong, **{f"k{n}": request(f"k{n}") for n in range(3)}})
    assert found == {"wrong": Conflict, **{f"k{n}": Granted(f"k{n}") for n in range(3)}}


def test_when_the_catalogs_answer_is_lost_no_step_is_taken_on_top_of_itself(catalog: SqlCatalog) -> None:
    counted = Counted(catalog, unsure=[2])
    queue = GroupCommit(counted.begin)
    wishes = {f"k{n}": request(f"k{n}") for n in range(3)}
    assert while_one_commits(queue, wishes) == dict.fromkeys(wishes, Unavailable)
    assert counted.begun == 2  # whether it was written is for each caller to find out, with the same key
    assert [queue.reserve(STREAM, wish(one)) for one in wishes.values()] == [Granted(key) for key in wishes]
    with catalog.begin() as uow:
        assert all(len(uow.ledger.history(key)) == 1 for key in wishes)


def test_an_interrupted_caller_leaves_the_line_to_the_others(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = GroupCommit(catalog.begin)
    assert queue.reserve(STREAM, wish(request("first"))) == Granted("first")
    waiting = queue._arrivals.wait_for

    def interrupted(*_: object) -> bool:
        monkeypatch.setattr(queue._arrivals, "wait_for", waiting)
        raise Interrupted

    monkeypatch.setattr(queue._arrivals, "wait_for", interrupted)
    with pytest.raises(Interrupted):
        queue.reserve(STREAM, wish(request("second")))
    answers: list[Granted | Denied] = []
    thread = threading.Thread(target=lambda: answers.append(queue.reserve(STREAM, wish(request("third")))))
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert answers == [Granted("third")]
    with catalog.begin() as uow:
        assert uow.ledger.history("second") == ()


def test_a_step_that_another_thread_takes_carries_its_callers_trace(catalog: SqlCatalog) -> None:
    group, gate = GroupCommit(catalog.begin), threading.Event()
    seen: dict[int, str | None] = {}

    def call(number: int) -> None:
        with carrying(f"trace-{number}"):
            group.together(STREAM, lambda _: seen.update({number: carried()}))

    holding = threading.Thread(target=group.together, args=(STREAM, lambda _: gate.wait(60)))
    holding.start()
    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    until = time.monotonic() + 60
    while len(group._lines[STREAM].waiting) < len(callers):
        assert time.monotonic() < until
        time.sleep(0.01)
    gate.set()
    for thread in (holding, *callers):
        thread.join()
    assert seen == {number: f"trace-{number}" for number in range(4)}
