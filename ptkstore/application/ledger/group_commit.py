"""Group commit: what many threads do under one stream's lock shares a transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from ptkstore.application.ledger.charging import Event, reserve_all
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Denied, Granted
from ptkstore.errors import OutcomeUnknown, Unavailable
from ptkstore.ports.catalog import Begin, UnitOfWork

_T = TypeVar("_T")

Wishes = tuple[Sequence[tuple[BudgetRequest, Event]], Callable[[list[Granted | Denied]], _T]]
"""What a step wants reserved, and what it does with the answers."""

LINGER_SECONDS = 0.001
"""How long a transaction waits for as many callers as shared the last one; far less than a commit takes."""


@dataclass(eq=False)
class _Ticket:
    """The step of one caller, which waits for it."""

    step: Callable[[UnitOfWork], Wishes[Any]]
    called: threading.Event = field(default_factory=threading.Event)
    served: bool = False
    """Whether it was answered or refused; a ticket that is called and not served is to serve the others."""
    answer: Any = None
    error: Exception | None = None

    def refuse(self, error: Exception) -> None:
        """Tell the caller why nothing of its step has happened."""
        self.error, self.served = error, True


@dataclass
class _Line:
    """The callers that wait for one stream, and whether one of them is serving."""

    waiting: list[_Ticket] = field(default_factory=list)
    busy: bool = False
    expected: int = 1  # as many as were served together last time


class GroupCommit:
    """Commits for many threads at once.

    While one transaction is made durable, the next callers line up. The first of them then takes the stream's lock,
    takes the steps of all that wait, in the order in which they came, and commits once. Each caller is answered only
    after that commit. Other processes do the same beside it: the database's lock puts their turns in order.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._arrivals = threading.Condition()
        self._lines: dict[str, _Line] = {}

    def together(self, stream: str, step: Callable[[UnitOfWork], _T]) -> _T:
        """Take `step` under the stream's lock in a transaction shared with whoever waits; what it returned, committed.

        A step that raises disturbs nobody else: nothing of it is written, and the others are taken again. So a step
        may be taken twice, possibly by another thread; whatever it does, it does through its transaction, which it
        does not commit.

        Raises
        ------
        Unavailable
            The catalog did not answer, and nothing was written.
        OutcomeUnknown
            It did not say whether it committed: look before acting again.
        """
        return self.reserve(stream, lambda uow: ((), lambda _: step(uow)))

    def reserve(self, stream: str, step: Callable[[UnitOfWork], Wishes[_T]]) -> _T:
        """Act like `together` for a step that says what it wants reserved and continues with the answers.

        Requests of all who wait are read, decided and written at once, in the order in which they came.
        """
        # Another thread may take the step: what it asks for belongs to the caller all the same.
        ticket = _Ticket(_in_this_context(step))
        with self._arrivals:
            line = self._lines.setdefault(stream, _Line())
            line.waiting.append(ticket)
            serving, line.busy = not line.busy, True
            if len(line.waiting) >= line.expected:
                self._arrivals.notify_all()
        try:
            if not serving:
                ticket.called.wait()
            if not ticket.served:
                self._serve_all(stream, line)
        except BaseException:
            self._leave(line, ticket, serving or ticket.called.is_set())
            raise
        if ticket.error is not None:
            raise ticket.error
        answer: _T = ticket.answer
        return answer

    def _leave(self, line: _Line, ticket: _Ticket, appointed: bool) -> None:
        """Somebody was interrupted while waiting: nobody may wait for them."""
        with self._arrivals:
            if ticket in line.waiting:
                line.waiting.remove(ticket)
                if appointed:
                    line.busy = bool(line.waiting)
                    for successor in line.waiting[:1]:
                        successor.called.set()

    def _serve_all(self, stream: str, line: _Line) -> None:
        """Serve everybody who waits, the caller among them; then call the first of those who came meanwhile."""
        with self._arrivals:
            # Those who were just answered come back at once, if they come back: together they cost one commit.
            self._arrivals.wait_for(lambda: len(line.waiting) >= line.expected, LINGER_SECONDS)
            batch, line.waiting = line.waiting, []
            line.expected = len(batch)
        try:
            self._serve(stream, batch)
        finally:
            with self._arrivals:
                line.busy = bool(line.waiting)
                called = [*batch, *line.waiting[:1]]
            for ticket in batch:
                if not ticket.served:
                    ticket.refuse(OutcomeUnknown("the transaction was interrupted; look before acting again"))
            for ticket in called:
                ticket.called.set()

    def _serve(self, stream: str, batch: Sequence[_Ticket]) -> None:
        try:
            with self._begin() as uow:
                uow.streams.lock(stream)
                answers = _taken(uow, stream, [ticket.step for ticket in batch])
                uow.commit()
        except (Unavailable, OutcomeUnknown) as error:  # no step is taken on top of itself
            for ticket in batch:
                ticket.refuse(error)
            return
        except Exception as error:  # noqa: BLE001  (each caller gets its own below)
            if len(batch) == 1:
                batch[0].refuse(error)
                return
            for ticket in batch:  # one of them is at fault
                self._serve(stream, [ticket])
            return
        for ticket, answer in zip(batch, answers, strict=True):
            ticket.answer, ticket.served = answer, True


def _in_this_context(step: Callable[[UnitOfWork], Wishes[_T]]) -> Callable[[UnitOfWork], Wishes[_T]]:
    context = copy_context()

    def in_context(uow: UnitOfWork) -> Wishes[_T]:
        wishes, go_on = context.run(step, uow)
        return wishes, lambda answers: context.run(go_on, answers)

    return in_context


def _taken(uow: UnitOfWork, stream: str, steps: Sequence[Callable[[UnitOfWork], Wishes[Any]]]) -> list[Any]:
    begun = [step(uow) for step in steps]
    requests = [request for wishes, _ in begun for request in wishes]
    answers = iter(reserve_all(uow, stream, requests) if requests else ())
    return [go_on(list(islice(answers, len(wishes)))) for wishes, go_on in begun]
