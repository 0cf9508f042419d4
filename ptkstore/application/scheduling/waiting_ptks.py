"""PTKs that wait on an adaptive stream, in the public facts that a scheduler reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.charging import charge_of
from ptkstore.application.planning.estimators import event_of
from ptkstore.application.planning.evaluation_plans import price_of_test
from ptkstore.application.planning.formula_plans import ANY_ROWS, formula_menu, with_facts
from ptkstore.application.scheduling.given_looks import Given, given_since, given_to_each
from ptkstore.domain.accounting.accountants import SATURATED, Charge
from ptkstore.domain.accounting.losses import ATTO, Loss
from ptkstore.domain.jobs import scheduler_of
from ptkstore.domain.names import team_of
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.ptks.ptks import PtkSpec, epsilons_of
from ptkstore.domain.scheduling.model import ChargeOf, MenuEntry, Waiting
from ptkstore.domain.scheduling.waits import CHANGED, DEREGISTERED, VERSION, EndedWait, Wait
from ptkstore.domain.streams.blocks import groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import expired_before
from ptkstore.errors import InvalidRequest, Refused
from ptkstore.ports.catalog import CatalogView, UnitOfWork

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WaitingPtk:
    """A PTK that waits, with what it was given since.

    `facts` are what a scheduler reads of it. `test` is the charge of the test that follows each training, if any.
    """

    spec: PtkSpec
    wait: Wait
    given: Given
    facts: Waiting
    test: Charge | None


def begin_to_wait(uow: UnitOfWork, ptk_id: str, stream: Stream, now: datetime) -> None:
    """Let a PTK of an adaptive stream wait from now on, and wake the scheduler; of another stream, do nothing."""
    if stream.policy.scheduler.lets_wait:
        _keep_last(uow, ptk_id, stream.policy, CHANGED, now)
        uow.waits.begin(_wait(uow, ptk_id, stream, now))
        uow.jobs.wake(scheduler_of(stream.name), now)


def wait_no_longer(uow: UnitOfWork, spec: PtkSpec, now: datetime) -> None:
    """Let a PTK that is deregistered wait no longer; what it was allowed goes to the others."""
    _keep_last(uow, spec.ptk_id, uow.streams.get(spec.stream).policy, DEREGISTERED, now)
    uow.waits.end(spec.ptk_id)
    uow.jobs.wake(scheduler_of(spec.stream), now)


def give_up_waiting(uow: UnitOfWork, ptk_id: str, why: GivenUp, at: datetime) -> None:
    """Keep when the wait of a PTK that is given up ended, if it waits; it may have ended with a version before."""
    if (wait := uow.waits.last(ptk_id)) is not None:
        _keep_given(uow, wait, given_since(uow, wait, uow.streams.get(wait.stream).policy), why.value, at)


def _keep_last(uow: UnitOfWork, ptk_id: str, policy: Policy, end: str, now: datetime) -> None:
    """Keep the last wait of a PTK: it ended with a version before, or ends now."""
    if (wait := uow.waits.last(ptk_id)) is not None:
        _keep_given(uow, wait, given_since(uow, wait, policy), end, now)


def _keep_given(uow: UnitOfWork, wait: Wait, given: Given, end: str, now: datetime) -> None:
    until, how = (now, end) if given.served_at is None else (given.served_at, VERSION)
    _keep(uow, wait, until, how)


def _keep(uow: UnitOfWork, wait: Wait, until: datetime, end: str) -> None:
    if until > wait.since:  # one that began anew at once was no wait
        uow.waits.keep(EndedWait(wait.ptk_id, wait.stream, wait.since, until, end))


def waiting_anew(
    uow: UnitOfWork, stream: Stream, specs: Iterable[PtkSpec], prepared: Sequence[int], now: datetime
) -> tuple[WaitingPtk, ...]:
    """Let PTKs wait anew whose turn has come, and return all that wait; the caller has the stream's lock.

    The turn of a PTK has come `every` windows after the one that its version is from. One without a wait begins one.
    """
    newest = max(prepared, default=-1)
    standing = []
    for spec, wait, given in _standing(uow, stream, specs):
        due = given.served_in is not None and newest >= given.served_in + spec.every
        if wait is None or due:
            if wait is not None:
                _keep_given(uow, wait, given, CHANGED, now)
            wait, given = _wait(uow, spec.ptk_id, stream, now), Given()
            uow.waits.begin(wait)
        standing.append((spec, wait, given))
    return _waiting(uow, stream.policy, standing)


def waiting_ptks(
    uow: CatalogView, stream: Stream, specs: Iterable[PtkSpec] | None = None
) -> tuple[WaitingPtk, ...]:
    """Return the PTKs that wait, by id: of these specs, by default all of the stream."""
    standing = _standing(uow, stream, uow.ptks.find(stream=stream.name) if specs is None else specs)
    begun = [(spec, wait, given) for spec, wait, given in standing if wait is not None]
    return _waiting(uow, stream.policy, begun)


def _standing(
    uow: CatalogView, stream: Stream, specs: Iterable[PtkSpec]
) -> list[tuple[PtkSpec, Wait | None, Given]]:
    """PTKs of a stream that were not given up, each with its last wait and what it was given since."""
    waits = uow.waits.of(stream.name)
    standing = [(spec, waits.get(spec.ptk_id)) for spec in specs if not spec.has_given_up]
    given = given_to_each(uow, [wait for _, wait in standing if wait is not None], stream.policy)
    return [(spec, wait, given.get(spec.ptk_id, Given())) for spec, wait in standing]


def _waiting(
    uow: CatalogView, policy: Policy, standing: Sequence[tuple[PtkSpec, Wait, Given]]
) -> tuple[WaitingPtk, ...]:
    """Those that wait still; one that today's library refuses, or its test, is skipped so that others continue."""
    found = []
    for spec, wait, given in standing:
        if given.waits:
            (informed,) = with_facts(uow, [spec], policy)
            try:
                facts = as_waiting(informed, policy, wait.since, given)
                test = price_of_test(informed, policy)
            except (PtklibError, InvalidRequest):
                continue
            found.append(WaitingPtk(informed, wait, given, facts, None if test is None else test.charge))
    return tuple(found)


def can_be_tried(one: WaitingPtk, newest: int) -> bool:
    """Tell whether a PTK may be trained: once a training failed after it was paid, not before a newer window is there.

    `newest` is the newest window that is prepared.
    """
    return one.given.fruitless_in is None or one.given.fruitless_in < newest


def as_waiting(spec: PtkSpec, policy: Policy, since: datetime, given: Given | None = None) -> Waiting:
    """Return what a scheduler reads of a PTK.

    Raises
    ------
    InvalidRequest, PtklibError
        Its menu or its charges cannot be computed.
    """
    losses = losses_of(spec)
    menu = tuple(MenuEntry(loss, n_rows) for loss, n_rows in _menu(spec, policy))
    for loss in (*losses, *(entry.loss for entry in menu)):
        _charge(spec, loss, policy)
    return Waiting(
        spec.ptk_id,
        (since - _EPOCH) // timedelta(microseconds=1),
        spec.windows,
        losses,
        menu,
        None if given is None else given.last,
        groups=groups_where(policy, spec.config.get("where")),
    )


def losses_of(spec: PtkSpec) -> tuple[Loss, Loss]:
    """Return the least and the largest loss of one training: of a range of epsilons, or the one that is declared."""
    span = epsilons_of(spec.config)
    if span is None and spec.profile is not None:
        span = min(spec.profile.epsilons), max(spec.profile.epsilons)
    if span is None:
        return spec.loss, spec.loss
    low, high = (Loss.charge(epsilon, spec.loss.delta) for epsilon in span)
    return low, high


def charges_of(
    specs: Mapping[str, PtkSpec], policy: Policy, note: Callable[[Mapping[str, Any]], object] | None = None
) -> ChargeOf:
    """Return what the stream's accountant counts for trainings of these PTKs.

    `note` is called with the event of each charge before it is counted; what it raises goes to the caller.

    A family may refuse a loss between the ends of its PTK's range, which `as_waiting` does not see. That loss counts as
    one that no block can pay: the PTK takes another one or waits, and nobody else does.
    """
    never = Charge((SATURATED,) * len(policy.accountant.coordinates), ATTO)

    def charged(ptk_id: str, loss: Loss) -> Charge:
        try:
            event = event_of(specs[ptk_id].estimator, loss)
        except (PtklibError, InvalidRequest):
            return never
        if note is not None:
            note(event)
        try:
            return charge_of(event, policy.accountant, loss)
        except (PtklibError, InvalidRequest):
            return never

    return charged


def _charge(spec: PtkSpec, loss: Loss, policy: Policy) -> Charge:
    return charge_of(event_of(spec.estimator, loss), policy.accountant, loss)


def line_of(spec: PtkSpec, policy: Policy) -> str | None:
    """Return the line that a PTK pays from; None where all of it is reserved for others."""
    try:
        line = policy.line_of(spec.ptk_id)
    except Refused:  # its team is in no context
        return None
    return line if line in policy.lines else None


def is_of_context(ptk_id: str, team: str, policy: Policy) -> bool:
    """Tell whether a PTK is of the context that a team is in."""
    return policy.sharing.same_context(team_of(ptk_id), team)


def _menu(spec: PtkSpec, policy: Policy) -> list[tuple[Loss, int]]:
    """Pairs of loss and rows that are expected to reach the target; none where nothing is known."""
    pairs: Iterable[tuple[float, int]] = ()
    if spec.profile is not None or spec.menu:
        pairs = [(epsilon, n * policy.max_rows_per_unit) for epsilon, n in spec.menu if n]
    elif (span := epsilons_of(spec.config)) is not None:
        pairs = formula_menu(spec, span, ANY_ROWS) or ()
    return [(Loss.charge(epsilon, spec.loss.delta), n) for epsilon, n in pairs]


def _wait(uow: CatalogView, ptk_id: str, stream: Stream, now: datetime) -> Wait:
    oldest = expired_before(stream.policy, uow.streams.progress(stream.name).reached)
    return Wait(ptk_id, stream.name, now, uow.ledger.filters(stream.name).sequence, oldest)
