"""Count the looks at a PTK since its last accepted version, those that a recovery has forgotten included."""

from __future__ import annotations

from ptklib.validation.looks import LOOKS_MOST
from ptkstore.application.planning.evaluation_plans import most_estimates
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.validations import EarlierLooks, Validation, since_accepted
from ptkstore.domain.versions.manifests import is_accepted
from ptkstore.errors import InvalidRequest, PtkStoreError
from ptkstore.ports.catalog import CatalogView
from ptkstore.ports.keys import JournalView, KeyStore


def earlier_looks(uow: CatalogView, spec: PtkSpec) -> EarlierLooks:
    """Return how many looks at a PTK there were, and how probably one of them may be wrong.

    A catalog that was recovered has forgotten verdicts on windows below the first that was not in doubt. Under
    `allocate` each of these windows after the last accepted version counts as one look. Other schedulers look at a
    window several times and return to older ones. There each window that was kept at the last acceptance or came later
    counts as many looks as its test block could pay for. Forgotten looks are taken to have had the present confidence
    and epsilon. A name may have been registered in the forgotten time. So without an accepted version all windows in
    doubt count, except those that were surely never read for it.
    """
    assert spec.accept is not None  # others are not looked at
    known = since_accepted(uow.validations.of(spec.ptk_id))
    in_doubt = uow.streams.progress(spec.tested_on).retired_before
    if not in_doubt:
        return EarlierLooks.of(known)
    elsewhere = tuple(one for one in known if not _is_on(one, spec))
    known = tuple(one for one in known if _is_on(one, spec))
    accepted = _last_accepted_window(uow, spec)
    policy = uow.streams.get(spec.tested_on).policy
    if policy.scheduler is Scheduler.ALLOCATE:
        known = tuple(one for one in known if one.window_index > accepted)
        first, per_window = accepted + 1, 1
    else:
        first, per_window = accepted + 1 - policy.retention_windows, most_estimates(spec, policy)
    first = max(first, uow.ptks.first_window(spec.ptk_id), 0)
    forgotten = max(0, in_doubt - first) * per_window
    forgotten -= sum(first <= one.window_index < in_doubt for one in known)
    return EarlierLooks.of((*elsewhere, *known)).and_forgotten(forgotten, spec.accept.confidence)


def never_read_below(uow: CatalogView, stream: str, keys: KeyStore, journal: JournalView) -> int:
    """Return a window below which none was or will be read for a name that is new to this catalog; 0 if nobody knows.

    All that was ever opened has to be in this catalog's journal, which knows nothing of the name. An expired window is
    opened no more (docs/proofs/validation.md, "Looks").
    """
    if uow.streams.progress(stream).retired_before:
        return 0
    try:
        keys.check_journal(stream, journal)
    except PtkStoreError:
        return 0
    return uow.windows.first_kept(stream)


def check_confidence_is_left(uow: CatalogView, spec: PtkSpec) -> None:
    """Raise `InvalidRequest` if a PTK asks for more confidence than its looks since the last accepted version leave.

    A look that was taken at less confidence may be wrong more often than the new one allows for all of them together.
    """
    accept = spec.accept
    if accept is None:
        return
    looks = earlier_looks(uow, spec)
    if looks.leaves_room(accept.confidence):
        return
    if looks.number == LOOKS_MOST:
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: there may have been {LOOKS_MOST:,} looks or more on windows in doubt "
            "since a recovery, so no confidence is left. A test block pays for fewer looks of a larger epsilon"
        )
    forgotten = uow.streams.progress(spec.tested_on).retired_before > 0
    them = (
        "those that are known, and counts windows in doubt since a recovery as well" if forgotten else "them"
    )
    raise InvalidRequest(
        f"accept of PTK {spec.ptk_id}: its {looks.number} looks since the last accepted version may be wrong with "
        f"probability {looks.failure:.4g}, so the confidence has to stay below {1 - looks.failure:.4g}. "
        f"Another name starts without {them}"
    )


def _is_on(look: Validation, spec: PtkSpec) -> bool:
    """Whether the look was at rows of the stream that pays for looks now."""
    return bool(look.verdict.get("stream", spec.stream) == spec.tested_on)


def _last_accepted_window(uow: CatalogView, spec: PtkSpec) -> int:
    """The window on which the newest accepted version was tested; -1 without one, or if it is of another stream."""
    latest = uow.versions.latest(spec.ptk_id)
    for number in range(latest.number if latest else 0, 0, -1):
        version = uow.versions.get(spec.ptk_id, number)
        if is_accepted(version.content):
            verdict = version.content["verdict"]
            if verdict.get("stream", spec.stream) != spec.tested_on:
                return -1
            return int(verdict["windows"][-1]) if "stream" in verdict else version.window_index
    return -1
