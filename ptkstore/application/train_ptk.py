"""Run one training: spend, open the rows, train apart, elect the output (differences.md F2, F3, F3a)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from ptkstore.application.charging import charge_of, expect_spent, release_unopened, spend
from ptkstore.application.drafts import OwnDraft
from ptkstore.application.estimators import can_be_read, condenses, event_of
from ptkstore.application.evaluation_plans import queue_evaluation
from ptkstore.application.group_commit import GroupCommit
from ptkstore.application.partials import (
    add_partials,
    discard,
    ended_partials_of,
    n_partials,
    needless_partials_of,
    staged,
)
from ptkstore.application.patience import Patience
from ptkstore.application.ticks import Ticks
from ptkstore.application.versions import state_files_of
from ptkstore.domain.blocks import BlockRange, groups_behind, rows_behind
from ptkstore.domain.bundles import bundle_of
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.journal import Entry
from ptkstore.domain.names import team_of
from ptkstore.domain.ptks import PtkSpec, same_model
from ptkstore.domain.runs import hopeless, runs_once
from ptkstore.domain.snapshots import Draft, Version, manifest_of
from ptkstore.domain.streams import Policy, Stream
from ptkstore.domain.windows import Window, start_of
from ptkstore.errors import (
    CorruptObject,
    LateWriter,
    LeaseLost,
    NoProcess,
    Unavailable,
    UnknownName,
    WindowGone,
)
from ptkstore.ports.catalog import Begin, CatalogView, Notice, UnitOfWork
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.objects import Lake, RawZone, Staging
from ptkstore.ports.team_code import Bundles, Sandbox
from ptkstore.ports.training import Trainer, TrainFailed, TrainRequest
from ptkstore.ports.world import Clock, Steps

PREVIOUS_STATE_UNREADABLE: Final = "previous-state-unreadable"


@dataclass(frozen=True, slots=True)
class Opened:
    """A training whose loss is spent: from here on the rows may be read, or what was collected of them merged."""

    job: Job
    spec: PtkSpec
    stream: Stream
    window: Window
    spend: Entry
    previous: Version | None
    partials: tuple[Job, ...] = ()
    unreadable: Version | None = None
    """The last version, if this run cannot go on from its state and so begins without."""


@dataclass(frozen=True, slots=True)
class Split:
    """A training that waits for its partials."""


@dataclass(frozen=True, slots=True)
class Over:
    """A training that ended before it read anything."""

    partials: tuple[Job, ...] = ()


def train_ptk(
    job: Job,
    *,
    begin: Begin,
    charges: GroupCommit,
    clock: Clock,
    keys: KeyStore,
    journal: JournalView,
    raw: RawZone,
    staging: Staging,
    lake: Lake,
    trainer: Trainer,
    bundles: Bundles,
    sandbox: Sandbox,
    rows_per_partial: int,
    keep_alive: Callable[[], None],
    ticks: Ticks,
    patience: Patience,
    steps: Steps,
) -> None:
    """Train one PTK on one window; at most one output of its reservation is ever elected.

    The loss is spent before the key is asked for. Only a run of a library estimator whose lease was lost is run again
    under the same spend; every other end of a run that opened rows keeps the loss and publishes nothing. Whoever spent
    and got no answer looks whether the spend stands, and goes on: it alone knows that no row was opened.

    A run that is planned for more than `rows_per_partial` rows, of an estimator whose statistics condense them, is
    split after its spend: other jobs collect partial statistics of ranges of the keyed hash, and when all have ended
    this one is claimed again, merges them and draws noise once.

    Team code is fetched, its sandbox tried, a key for the draft made and a file written to staging before anything is
    spent; where that fails another worker may have it. While the machine starts no process for it, it waits under its
    spend: it has opened no row. A last version whose state cannot be read is not gone on from.
    """
    previous = _previous_version(job, begin)
    # Before the loss is spent: the lake may not answer, what it holds may be unreadable, and staging may take no file.
    previous_state = None if previous is None else _state_of(previous, lake)
    unreadable = None
    if previous_state is None:
        previous, unreadable = None, previous
    sha256, bundle = _bundle(job, begin, bundles, sandbox)
    raw.check_writable()

    def ask_for_key(opened: Opened) -> bytes:
        keep_alive()
        return keys.opening_key(opened.window.id, journal, (opened.spend.sequence, opened.spend.digest))

    try:
        with OwnDraft(job.window, keys, staging) as draft:
            # trainings that begin at once elsewhere in this process share the commit
            opened = patience.settle(
                lambda: charges.together(
                    job.stream, lambda uow: _spend(uow, job, previous, sha256, rows_per_partial, clock)
                )
            )
            if isinstance(opened, Split):
                draft.destroy()
                steps.reached("split", job.id)
                return
            if isinstance(opened, Over):
                discard(opened.partials, keys, staging)
                return
            opened = replace(opened, unreadable=unreadable)
            steps.reached("spent", job.id)
            try:
                key = (
                    patience.outlast(lambda _: ask_for_key(opened), clock.now())
                    if runs_once(opened.spec)
                    else ask_for_key(opened)
                )
                partials = staged(opened.partials, keys)
            except WindowGone:
                discard(opened.partials, keys, staging)  # nobody can merge them any more
                _end(opened, Outcome.EXPIRED, begin, clock)
                return
            steps.reached("opened", job.id)
            rows = rows_behind(opened.stream.policy, opened.spend.blocks, job.n_rows)
            request = TrainRequest(
                estimator=opened.spec.estimator,
                epsilon=opened.spend.loss.spendable_epsilon,
                delta=opened.spend.loss.spendable_delta,
                part_urls=tuple(raw.part_url(opened.window.id, file) for file in rows.files),
                hash_low=rows.low,
                hash_high=rows.high,
                window_key=key,
                draft_id=draft.id,
                draft_key=draft.key,
                previous_state=previous_state if opened.previous else None,
                bundle=bundle,
            )
            if partials:  # no row is opened, and no key of rows is handed on
                request = replace(request, part_urls=(), window_key=b"", partials=partials)
            if runs_once(opened.spec):  # while the machine starts no process, nobody has opened a row

                def begin_run(_: datetime) -> Draft | TrainFailed:
                    keep_alive()
                    return trainer.train(request, keep_alive)

                result = patience.outlast(begin_run, clock.now(), (NoProcess,))
            else:
                result = trainer.train(request, keep_alive)
            leaves_at = ticks.wait()
            if isinstance(result, TrainFailed):
                code = result.code
                patience.outlast(lambda _: _end(opened, Outcome.FAILED, begin, clock, code), leaves_at)
            else:
                steps.reached("trained", job.id)
                made = result
                draft.kept = True  # by an election that nobody answers, too
                # Its loss is spent, and no run of team code follows.
                draft.kept = patience.outlast(
                    lambda tick: _elect(opened, made, tick, begin, clock), leaves_at
                )
                if draft.kept:
                    steps.reached("elected", job.id)
            discard(opened.partials, keys, staging)
    except LeaseLost:  # somebody else runs it now, or it is over; what was drafted here never leaves
        discard(_needless(job, begin), keys, staging)


def _previous_version(job: Job, begin: Begin) -> Version | None:
    """The PTK's last version; claims of a PTK come one after the other, so it stays the last while this job is held."""
    with begin() as uow:
        return uow.versions.latest(str(job.ptk_id))


def _state_of(version: Version, lake: Lake) -> dict[str, bytes] | None:
    """The files of a placed version's state; None if one is damaged or missing, or if nothing goes on from them."""
    try:
        files = state_files_of(version, lake)
    except UnknownName:
        if not lake.ptk_ids():  # another folder or bucket, or one that is not mounted
            raise Unavailable("the lake holds none of the versions that were placed in it") from None
        return None
    except CorruptObject:
        return None
    return files if can_be_read(version, files) else None


def _needless(job: Job, begin: Begin) -> tuple[Job, ...]:
    """The partials of a training that has ended, whoever ended it; none while somebody runs it."""
    with begin() as uow:
        return needless_partials_of(uow, uow.jobs.get(job.id))


def _bundle(job: Job, begin: Begin, bundles: Bundles, sandbox: Sandbox) -> tuple[str | None, bytes | None]:
    """The code of a PTK that is no family of the library, and its name; the sandbox holds, or `NoSandbox`."""
    with begin() as uow:
        spec = next((one for one in uow.ptks.find(stream=job.stream) if one.ptk_id == job.ptk_id), None)
    sha256 = None if spec is None else bundle_of(spec.estimator)
    if sha256 is None or job.state is JobState.OPENED:  # an opened run of team code is not run again
        return sha256, None
    sandbox.check()
    return sha256, bundles.get(sha256)


def _spend(
    uow: UnitOfWork,
    job: Job,
    previous: Version | None,
    sha256: str | None,
    rows_per_partial: int,
    clock: Clock,
) -> Opened | Split | Over:
    stream = uow.streams.lock(job.stream)
    spec = uow.ptks.lock(str(job.ptk_id))
    held = uow.jobs.held(job)
    window = uow.windows.get(job.window)
    history = uow.ledger.history(str(job.reservation))
    partials = ended_partials_of(uow, held)
    if held.state is not job.state and partials:  # of a split whose commit nobody answered
        return Split()
    # What this very claim spent without an answer opened no row: it has yet to begin.
    outcome = hopeless(replace(held, state=job.state), spec, window.state)
    if outcome is None and any(partial.outcome is not Outcome.DONE for partial in partials):
        outcome = Outcome.FAILED
    if outcome is not None or spec is None:
        release_unopened(uow, job.reservation)
        _finish(uow, held, outcome or Outcome.WITHDRAWN, clock.now(), None)
        return Over(partials)
    if bundle_of(spec.estimator) != sha256:
        raise LateWriter(f"PTK {spec.ptk_id} got other code meanwhile")
    if held.state is JobState.READY:
        event = event_of(spec.estimator, history[0].loss)  # raises before anything is spent
        if not history[0].charge.covers(charge_of(event, stream.policy.accountant, history[0].loss)):
            release_unopened(uow, job.reservation)
            _finish(uow, held, Outcome.WITHDRAWN, clock.now(), "changed-after-its-reservation")
            return Over()
        split = n_partials(held.n_rows, rows_per_partial) if condenses(spec.estimator) else 1
        spent = spend(uow, history[0], event, stream.policy)
        uow.jobs.mark_opened(held)
        if split > 1:
            add_partials(uow, held, split)
            uow.jobs.save(replace(held, state=JobState.OPENED, attempt=1))  # waits without a lease
            return Split()
    else:
        spent = history[-1]
        if event_of(spec.estimator, spent.loss) != dict(spent.event):  # another trainer than the one paid for
            _finish(uow, held, Outcome.FAILED, clock.now(), None)
            return Over(partials)
    continued = _continuable(previous, spec, stream.policy, spent.blocks)
    return Opened(job, spec, stream, window, spent, continued, partials)


def _continuable(
    previous: Version | None, spec: PtkSpec, policy: Policy, blocks: BlockRange
) -> Version | None:
    """The version whose state this run goes on from: of the same model, of rows of the same kind."""
    if previous is None or not same_model(previous.content["config"], spec.estimator):
        return None
    newest = previous.content["blocks"][-1]
    before = BlockRange(newest["number"], newest.get("last", newest["number"]) + 1)
    return previous if groups_behind(policy, before) == groups_behind(policy, blocks) else None


def _end(opened: Opened, outcome: Outcome, begin: Begin, clock: Clock, code: str | None = None) -> None:
    with begin() as uow:
        _finish(uow, uow.jobs.held(opened.job), outcome, clock.now(), code)
        uow.commit()


def _finish(uow: UnitOfWork, job: Job, outcome: Outcome, now: datetime, code: str | None) -> None:
    uow.jobs.save(job.ended(outcome))
    team = team_of(str(job.ptk_id))
    uow.notify_owner(Notice(now, team, f"{job.ptk_id} window {job.window_index}", code or outcome.value))


def _elect(opened: Opened, draft: Draft, leaves_at: datetime, begin: Begin, clock: Clock) -> bool:
    """Make the draft the PTK's next version, in one fenced transaction; False if the PTK was withdrawn meanwhile.

    Repeatable: `LeaseLost` means that this draft is no version and never will be.
    """
    job = opened.job
    with begin() as uow:
        spec = uow.ptks.lock(str(job.ptk_id))  # waits for an election that nobody answered
        try:
            held = uow.jobs.held(job)
        except LeaseLost:
            if _was_elected(uow, job, draft):
                return True
            raise
        expect_spent(uow, opened.spend)
        if spec is None:
            _finish(uow, held, Outcome.WITHDRAWN, clock.now(), None)
            uow.commit()
            return False
        latest = uow.versions.latest(spec.ptk_id)
        number = latest.number + 1 if latest else 1
        manifest = _manifest(opened, draft, number, leaves_at)
        version = Version(
            spec.ptk_id, number, job.id, draft.draft_id, opened.window.id.index, leaves_at, manifest
        )
        uow.versions.add(version)
        if opened.unreadable and same_model(opened.unreadable.content["config"], opened.spec.estimator):
            subject = f"{spec.ptk_id} version {number}"
            uow.notify_owner(Notice(clock.now(), spec.team, subject, PREVIOUS_STATE_UNREADABLE))
        queue_evaluation(uow, spec, version, job.stream, leaves_at)
        uow.jobs.save(held.ended(Outcome.PUBLISHED))
        uow.jobs.wake(job_id(JobKind.PLACE, spec.ptk_id), leaves_at)
        uow.commit()
    return True


def _was_elected(uow: CatalogView, job: Job, draft: Draft) -> bool:
    made = uow.versions.of_jobs([job.id]).get(job.id)
    return made is not None and uow.versions.get(str(job.ptk_id), made[0]).draft_id == draft.draft_id


def _manifest(opened: Opened, draft: Draft, number: int, leaves_at: datetime) -> str:
    spec, policy, window = opened.spec, opened.stream.policy, opened.window.id
    span = {
        "index": window.index,
        "start": start_of(policy, window.index).isoformat(),
        "end": start_of(policy, window.index + 1).isoformat(),
    }
    before: Mapping[str, Any] = opened.previous.content if opened.previous else {}
    blocks, loss = opened.spend.blocks, opened.spend.loss
    return manifest_of(
        ptk_id=spec.ptk_id,
        number=number,
        files=draft.files,
        state=draft.state,
        schema=spec.tables,
        family=spec.family,
        target=spec.target,
        config=spec.estimator,
        blocks=[
            *before.get("blocks", []),
            {
                "stream": opened.stream.name,
                "number": blocks.lo,
                **({"last": blocks.hi - 1} if blocks.hi - blocks.lo > 1 else {}),
                "epsilon_nano": loss.epsilon_nano,
                "delta_atto": loss.delta_atto,
            },
        ],
        oldest_window=before.get("oldest_contributing_window", span),
        newest_window=span,
        guarantee={
            "epsilon": loss.epsilon,
            "delta": loss.delta,
            "event": opened.spend.event,
            **_unit(policy),
            "relation": policy.relation,
            "accountant": policy.accountant,
            "assurance": spec.assurance,
        },
        planned={
            "rows_per_window": policy.rows_per_window,
            "n": opened.job.n_rows,
            "rate": opened.job.n_rows / policy.rows_per_window,
            **({"facts_of": opened.job.position} if opened.job.position else {}),
        },
        decision="elected",
        published_at=leaves_at,
        made_from=(opened.previous,) if opened.previous else (),
        facts=draft.facts,
    )


def _unit(policy: Policy) -> dict[str, object]:
    """What the guarantee is towards; for users also how many of a user's rows a window keeps."""
    if policy.unit_column is None:
        return {"privacy_unit": policy.privacy_unit}
    return {
        "privacy_unit": policy.privacy_unit,
        "unit_column": policy.unit_column,
        "max_rows_per_unit": policy.max_rows_per_unit,
    }
