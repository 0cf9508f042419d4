"""Have the rows of a closed window assigned to its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptkstore.application.paid_runs.release_ticks import ReleaseTicks
from ptkstore.application.windows.unprepared import notify_not_prepared
from ptkstore.domain.jobs import MAX_ATTEMPTS, Job, JobKind, Outcome, job_of_window, retry_wait
from ptkstore.domain.streams.blocks import part_bounds
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import LeaseLost, NoProcess, PtkStoreError, WindowGone
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import Preparer, PrepareRequest
from ptkstore.ports.runtime import Clock, Steps


def prepare_window(
    job: Job,
    *,
    begin: Begin,
    keys: KeyStore,
    raw: RawZone,
    preparer: Preparer,
    keep_alive: Callable[[], None],
    ticks: ReleaseTicks,
    steps: Steps,
) -> None:
    """Let a short-lived process write the parts, and plan the allocation: no row is read here (differences.md F10).

    A repeated or concurrent run puts the same rows into the same parts, so only the last step needs the fence.

    A failure counts if the process fails though the raw zone takes what is written: too many rows, a file that is
    damaged or gone, a key that is lost. After so many of them the job ends as failed, and owners get a notice. A
    machine that starts no process only puts the job off.

    Parameters
    ----------
    job : Job
        As it was claimed.
    keep_alive : callable
        Raises once somebody else has the job.
    """
    window = job.window
    with begin() as uow:
        stream = uow.streams.get(job.stream)
        tokens = uow.streams.tokens_for(window)
        gone = uow.windows.get(window).state is not WindowState.CLOSED  # it has left its retention meanwhile
    try:
        window_key = b"" if gone else keys.sealing_key(window)
    except WindowGone:  # a restored catalog does not know that it has
        gone = True
    if gone:
        with begin() as uow:
            uow.jobs.save(uow.jobs.held(job).ended(Outcome.EXPIRED))
            uow.commit()
        return
    request = _request(window, stream, tokens, window_key, keys)
    raw.check_writable()  # a raw zone that is away says nothing of the window, however often it is asked
    try:
        # Beside other preparations, which write the same, but never beside an erasure, which would miss these parts.
        with keys.hold_rows(window, alone=False):
            preparer.prepare(request, keep_alive)
    except (LeaseLost, NoProcess):  # which tells nothing of the window
        raise
    except PtkStoreError:
        ticks.wait()  # when it failed is as private as when it ended well
        raw.check_writable()
        if _gives_up(job, begin, ticks.clock):
            return
        raise
    ticks.wait()
    steps.reached("parts-written", job.id)
    with begin() as uow:
        uow.streams.lock(job.stream)
        held = uow.jobs.held(job)
        if uow.windows.get(window).state is WindowState.CLOSED:
            uow.windows.set_state(window, WindowState.PREPARED)
            uow.jobs.add(job_of_window(JobKind.ALLOCATE, window, ticks.clock.now()))
        uow.jobs.save(held.ended(Outcome.DONE))
        uow.commit()
    steps.reached("prepared", job.id)


def _request(
    window: WindowId, stream: Stream, tokens: tuple[str, ...], window_key: bytes, keys: KeyStore
) -> PrepareRequest:
    policy = stream.policy
    return PrepareRequest(
        window=window,
        tokens=tokens,
        schema=stream.schema,
        part_bounds=part_bounds(policy),
        window_key=window_key,
        split_key=keys.split_key(window.stream),
        unit_column=policy.unit_column,
        max_rows_per_unit=policy.max_rows_per_unit,
        attribute=policy.attribute,
        attribute_values=policy.attribute_values,
        noted=tuple(sorted({*tokens} & {*keys.noted_batches(window)})),
    )


def _gives_up(job: Job, begin: Begin, clock: Clock) -> bool:
    """Count a failure; whether it was the last, after which the window is not prepared any more."""
    with begin() as uow:
        stream = uow.streams.lock(job.stream)
        held = uow.jobs.held(job)
        failures = held.failures + 1
        last = failures >= MAX_ATTEMPTS and uow.windows.get(job.window).state is WindowState.CLOSED
        if last:
            uow.jobs.save(replace(held, failures=failures).ended(Outcome.FAILED))
            notify_not_prepared(uow, job.window, stream.team, clock.now())
        else:  # not to be claimed before the wait that its caller will write down
            uow.jobs.save(replace(held, failures=failures, due_at=clock.now() + retry_wait(held.attempt)))
        uow.commit()
    return last
