"""The words of an overview that `ptk status` and the console share."""

from __future__ import annotations

from ptkstore.application.operations.service_parts import LEDGER, REDIS
from ptkstore.application.operations.unfinished_work import WorkFacts, WorkState
from ptkstore.domain.jobs import JobKind

_FAILS = {
    LEDGER: "does not continue what the key store saw, so no window opens; see: ptk ledger verify",
    REDIS: "does not answer: look whether its server runs, and whether PTK_REDIS_URL names it",
}
_WORK = {
    JobKind.PREPARE: "preparation",
    JobKind.ALLOCATE: "planning of trainings",
    JobKind.TRAIN: "training",
    JobKind.DRIFT: "drift test",
    JobKind.EVALUATE: "evaluation",
    JobKind.VALIDATE: "validation",
    JobKind.COMPARE: "comparison",
    JobKind.AVERAGE: "average of devices",
    JobKind.EXPIRE: "expiry",
    JobKind.PLACE: "placing in the lake",
    JobKind.FLIP: "writing to Feast",
}
_GOES = {
    WorkState.RUNNING: "runs",
    WorkState.INTERRUPTED: "was interrupted: its worker stopped reporting, and the next worker takes it",
    WorkState.WAITING: "waits",
}


def part_in_words(part: str) -> str:
    """Say what is wrong with a part of the service that fails, after its name."""
    return _FAILS.get(part, "fails; its log says why")


def trouble_in_words(status: str, dead_letters: int, code: str | None) -> str:
    """Say what is wrong with a subscription, after its name."""
    words = [] if status == "ok" else [f"is {status}" + (f" ({code})" if code else "")]
    if dead_letters:
        words.append(f"has {dead_letters} dead letter{'' if dead_letters == 1 else 's'}")
    return " and ".join(words)


def work_in_words(one: WorkFacts) -> str:
    """Say which work is unfinished, on which window, and how it goes."""
    place = "" if one.window is None else f" on window {one.window}"
    return f"{_WORK.get(one.kind, one.kind.value)}{place} {_GOES[one.state]}"
