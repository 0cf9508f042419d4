"""Open a window's profile set against a spend, for a profile or a drift test (differences.md F2, F3, F5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from ptkstore.application.charging import release_unopened, spend
from ptkstore.application.patience import Patience
from ptkstore.application.profile_plans import Attempt, Watch
from ptkstore.application.profile_requests import sharing, tell_owners
from ptkstore.domain.blocks import rows_behind
from ptkstore.domain.jobs import Job, JobState, Outcome
from ptkstore.domain.journal import Entry
from ptkstore.domain.profiles import Paid, ProfileAsk, ProfileRecord
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.runs import hopeless, runs_once
from ptkstore.domain.streams import Policy
from ptkstore.errors import WindowGone
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import RawZone
from ptkstore.ports.profiling import ProfileSet
from ptkstore.ports.world import Clock, Steps

Price = Callable[[PtkSpec, ProfileAsk, ProfileRecord, Policy], Attempt | Watch | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A profile set whose loss is spent: from here on its rows may be read."""

    job: Job
    spec: PtkSpec
    ask: ProfileAsk
    record: ProfileRecord
    price: Attempt | Watch
    spend: Entry
    profile_set: ProfileSet


def open_profile_set(
    job: Job,
    price_of: Price,
    *,
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    journal: JournalView,
    raw: RawZone,
    keep_alive: Callable[[], None],
    patience: Patience,
    steps: Steps,
) -> Opened | None:
    """Spend what was reserved and get the key; None if the job is over: expired, withdrawn, or tried too often.

    The job is for the profile it was queued for alone: a PTK that changed meanwhile gets its reservation back. Only a
    library estimator's run whose lease was lost is run again, under the same spend; nothing of it had left. Whoever
    spent and got no answer looks, as in a training.
    """
    found = patience.settle(lambda: _spend(job, price_of, begin, clock))
    if found is None:
        return None
    spec, ask, record, price, spent, policy = found
    steps.reached("spent", job.id)

    def ask_for_key() -> bytes:
        keep_alive()
        return keys.opening_key(job.window, journal, (spent.sequence, spent.digest))

    try:
        key = patience.outlast(lambda _: ask_for_key(), clock.now()) if runs_once(spec) else ask_for_key()
    except WindowGone:
        with begin() as uow:
            uow.streams.lock(job.stream)
            end(uow, uow.jobs.held(job), record.key, Outcome.EXPIRED, clock.now())
            uow.commit()
        return None
    steps.reached("opened", job.id)
    rows = rows_behind(policy, spent.blocks, policy.rows_per_window)
    urls = tuple(raw.part_url(job.window, file) for file in rows.files)
    return Opened(job, spec, ask, record, price, spent, ProfileSet(urls, rows.low, rows.high, key))


def end(
    uow: UnitOfWork, held: Job, key: str, outcome: Outcome, now: datetime, code: str | None = None
) -> None:
    """End a job about a profile and tell the owners why, unless all is well."""
    uow.jobs.save(held.ended(outcome))
    if outcome is not Outcome.DONE:
        about = f"{held.kind.value} of window {held.window_index}"
        tell_owners(uow, sharing(uow, held.stream, key), about, code or outcome.value, now)


def _spend(
    job: Job, price_of: Price, begin: Begin, clock: Clock
) -> tuple[PtkSpec, ProfileAsk, ProfileRecord, Attempt | Watch, Entry, Policy] | None:
    with begin() as uow:
        policy = uow.streams.lock(job.stream).policy
        spec = uow.ptks.lock(str(job.ptk_id))
        held = uow.jobs.held(job)
        record = uow.profiles.of_job(job.id)
        history = uow.ledger.history(str(job.reservation))
        ask = None if spec is None else spec.profile
        price = None
        if spec is not None and ask is not None and record is not None and ask.key == record.key:
            price = price_of(spec, ask, record, policy)
        # What this very claim spent without an answer opened no row: it has yet to begin.
        outcome = hopeless(replace(held, state=job.state), spec, uow.windows.get(job.window).state)
        if price is None or not history[0].charge.covers(price.charge):
            outcome = outcome or Outcome.WITHDRAWN
        if outcome is not None or spec is None or ask is None or record is None or price is None:
            release_unopened(uow, job.reservation)
            end(uow, held, record.key if record else "", outcome or Outcome.WITHDRAWN, clock.now())
            uow.commit()
            return None
        spent = history[-1]
        if held.state is JobState.READY:
            spent = spend(uow, history[0], price.event, policy)
            uow.jobs.mark_opened(held)
            paid = Paid(job.kind.value, job.window.index, spent.blocks, spent.loss)
            record = record.charged(paid)
            uow.profiles.save(record)
        uow.commit()
    return spec, ask, record, price, spent, policy


def failed(record: ProfileRecord, ask: ProfileAsk, code: str) -> ProfileRecord:
    """The record after a run that opened rows and told nothing; its loss stays spent."""
    record = replace(record, code=code)
    return record.given_up() if not record.settled and record.tries >= ask.tries else record
