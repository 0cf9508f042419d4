"""The parts of the service as a home knows them, and what of them fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptkstore.application.ledger.verification import faults_of_memory
from ptkstore.application.operations.liveness import Liveness, ProcessRole
from ptkstore.errors import Unavailable
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import JournalView, KeyStore

LEDGER = "ledger"
"""The part of the service that fails while the key store opens nothing for the journal of a stream."""
REDIS = "redis"
"""The part that wakes workers and contains streams of events, and rows of Feast."""
STARTING = "starting"
"""The state of a process that somebody keeps running in this home, and that has not said yet that it lives."""
STREAMS_ASKED = 12
"""Streams whose journal is compared with the key store, by name."""


def parts_in_home(
    liveness: Mapping[ProcessRole, Liveness], *, kept_running: bool, redis_answers: bool | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the state of each part of a home whose catalog could be read, and those that fail.

    Parameters
    ----------
    kept_running : bool
        Whether `ptk up` or `ptk demo` keeps the processes running.
    redis_answers : bool or None
        Whether the Redis that the settings name answers; None where they name none.
    """
    quiet = STARTING if kept_running else "silent"
    states = {role.value: "ok" if one.alive else quiet for role, one in liveness.items()}
    failing = [role.value for role, one in liveness.items() if one.last is not None and not one.alive]
    if redis_answers is not None:
        states[REDIS] = "ok" if redis_answers else "failing"
        failing += [] if redis_answers else [REDIS]
    return {"catalog": "ok", **states}, tuple(failing)


def with_ledger(
    parts: Mapping[str, str], failing: Sequence[str], *, begin: Read, keys: KeyStore, journal: JournalView
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the parts with one more, `ledger`: it fails where the key store opens nothing for the journal of a stream.

    A catalog that was restored is behind the key store, and one beside a lost or another key store finds no keys.
    """
    with begin() as uow:
        names = [one.name for one in uow.streams.all()][:STREAMS_ASKED]
    try:
        fails = any(faults_of_memory(name, keys, journal) for name in names)
    except (Unavailable, OSError):  # other parts say so
        return dict(parts), tuple(failing)
    return {**parts, LEDGER: "failing" if fails else "ok"}, (*failing, LEDGER) if fails else tuple(failing)
