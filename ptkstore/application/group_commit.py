"""Group commit: requests of many threads that wait for one stream share its next transaction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from ptkstore.application.charging import Event, reserve_all
from ptkstore.domain.journal import BudgetRequest
from ptkstore.domain.ledger import Denied, Granted
from ptkstore.errors import InvariantBroken, Unavailable
from ptkstore.ports.catalog import Begin

Answer = Granted | Denied

LINGER_SECONDS = 0.001
"""How long a transaction waits for as many callers as shared the last one; far less than a commit takes."""


@dataclass(eq=False)
class _Ticket:
    """What one caller waits for."""

    requests: Sequence[tuple[BudgetRequest, Event]]
    called: threading.Event = field(default_factory=threading.Event)
    answers: list[Answer] | None = None
    error: Exception | None = None

    @property
    def served(self) -> bool:
        """Whether it was answered or refused; a ticket that is called and not served is to serve the others."""
        return self.answers is not None or self.error is not None


@dataclass
class _Line:
    """The callers that wait for one stream, and whether one of them is serving."""

    waiting: list[_Ticket] = field(default_factory=list)
    busy: bool = False
    expected: int = 1  # as many as were served together last time


class GroupCommit:
    """Reserves for many threads at once.

    While one transaction is made durable, the next callers line up; the first of them then takes the stream's lock,
    decides for all that wait, in the order in which they came, and commits once. Each caller is answered only after
    that commit. Other processes do the same beside it: the database's lock puts their turns in order.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._arrivals = threading.Condition()
        self._lines: dict[str, _Line] = {}

    def reserve(self, request: BudgetRequest, event: Event) -> Answer:
        """Like `charging.reserve`, in a transaction shared with whoever waits."""
        return self.reserve_all(request.stream, [(request, event)])[0]

    def reserve_all(self, stream: str, requests: Sequence[tuple[BudgetRequest, Event]]) -> list[Answer]:
        """Like `charging.reserve_all`; what is refused or fails here disturbs nobody else.

        Raises
        ------
        Conflict
            A key was used for another request; nothing of this call is written.
        Unavailable
            The catalog did not answer. Whether it committed is not known: ask again with the same keys.
        """
        ticket = _Ticket(requests)
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
        if ticket.answers is None:
            raise InvariantBroken("a request was neither answered nor refused")
        return ticket.answers

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
                    ticket.error = Unavailable(
                        "the transaction was interrupted; ask again with the same keys"
                    )
            for ticket in called:
                ticket.called.set()

    def _serve(self, stream: str, batch: Sequence[_Ticket]) -> None:
        try:
            answers = iter(self._commit(stream, [request for ticket in batch for request in ticket.requests]))
            for ticket in batch:
                ticket.answers = [next(answers) for _ in ticket.requests]
        except Exception as error:  # noqa: BLE001  (each caller gets its own below)
            if len(batch) == 1:
                batch[0].error = error
                return
            for (
                ticket
            ) in batch:  # one of them is at fault, or the catalog is: keys make a repetition harmless
                self._serve(stream, [ticket])

    def _commit(self, stream: str, requests: Sequence[tuple[BudgetRequest, Event]]) -> list[Answer]:
        with self._begin() as uow:
            uow.streams.lock(stream)
            answers = reserve_all(uow, stream, requests)
            uow.commit()
        return answers
