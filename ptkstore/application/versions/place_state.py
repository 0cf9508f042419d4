"""Copy the next elected state to the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptkstore.application.versions.drafts import destroy_drafts
from ptkstore.application.versions.elected_files import files_of
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.domain.versions.versions import Version, repeated_version
from ptkstore.errors import InvariantBroken, UnknownName
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Lake, Staging
from ptkstore.ports.runtime import Clock, Steps


def place_state(
    job: Job, *, begin: Begin, clock: Clock, keys: KeyStore, staging: Staging, lake: Lake, steps: Steps
) -> None:
    """Place exactly the elected bytes of the PTK's next version; repeatable at any point.

    The draft is destroyed only once the version is in the lake, and before the cursor moves. So after a crash in
    between, the version is in its place and needs no draft.
    """
    ptk_id = str(job.ptk_id)
    with begin() as uow:
        version = uow.versions.get(ptk_id, job.position + 1)
    if lake.holds(version):
        lake.settle(version)  # who placed it may never have been told that it lasts
    else:
        _refuse_a_second_output(version, lake)
        lake.put_version(version, _files(version, begin, keys, staging, lake))
        steps.reached("placed", job.id)
    destroy_drafts((version.draft_id,), keys, staging)
    steps.reached("draft-destroyed", job.id)
    with begin() as uow:
        held = uow.jobs.held(job)
        latest = uow.versions.latest(ptk_id)
        behind = latest is not None and latest.number > version.number
        state = JobState.READY if behind else JobState.IDLE
        due_at = latest.elected_at if behind and latest is not None else held.due_at
        uow.jobs.save(replace(held, position=version.number, state=state, attempt=0, due_at=due_at))
        uow.jobs.wake(job_id(JobKind.FLIP, ptk_id), clock.now())
        uow.commit()
    steps.reached("place-committed", job.id)


def _files(
    version: Version, begin: Begin, keys: KeyStore, staging: Staging, lake: Lake
) -> Mapping[str, bytes]:
    """The elected bytes: of the draft, or of the version that this one repeats."""
    repeated = repeated_version(version.content)
    if repeated is not None:
        with begin() as uow:
            target = uow.versions.get(version.ptk_id, repeated)
        return files_of(target, lake)
    names = [file["name"] for file in version.content["files"]]
    return staging.read(version.draft_id, names, keys.draft_key(version.draft_id))


def _refuse_a_second_output(version: Version, lake: Lake) -> None:
    """A catalog restored from the middle of a training elects anew; before any byte of that leaves, it ends here."""
    try:
        lake.read_version(version.ptk_id, version.number)
    except UnknownName:
        return
    if not lake.holds(version):  # else another worker placed it just now
        raise InvariantBroken(
            f"the lake has another version {version.number} of {version.ptk_id}: "
            "this catalog was restored or copied"
        )
