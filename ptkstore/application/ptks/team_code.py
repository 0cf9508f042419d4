"""Team code at the door: bundles are taken, and what they hold is examined before it is registered."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks.bundles import (
    AUDIT_RUNS,
    assurance_of,
    bundle_of,
    checked_sha256,
    sha256_of,
    unpack,
)
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import (
    InvalidRequest,
    OutcomeUnknown,
    PtkRejected,
    PtkStoreError,
    Refused,
    UnknownName,
)
from ptkstore.ports.catalog import Begin
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.keys import JournalView, KeyStore
from ptkstore.ports.runtime import Clock
from ptkstore.ports.team_code import Bundles, Examined, Finding, Sandbox

_ON_ITS_WAY_SECONDS = 900.0
"""Longer than any upload takes: what a team claims and has not brought by then does not count."""

_SHOWN = 5
_PRINTED = 1_000


@dataclass(frozen=True, slots=True)
class Quota:
    """How many bundles a team keeps at most, and how many bytes they have."""

    n_bundles: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Registering:
    """The ports that register and change PTKs, and examine team code."""

    begin: Begin
    clock: Clock
    features: FeatureStore
    bundles: Bundles
    sandbox: Sandbox
    keys: KeyStore
    journal: JournalView


def put_bundle(
    content: bytes, sha256: str | None = None, *, team: str, quota: Quota, bundles: Bundles
) -> str:
    """Take a bundle after a look at every byte of it; return its name. Repeating changes nothing.

    Parameters
    ----------
    sha256 : str, optional
        The name that its sender expects.

    Raises
    ------
    InvalidRequest
        It is no bundle as this project packs it, or not the one that `sha256` names.
    Refused
        The team keeps as many as it may.
    """
    name = sha256_of(content)
    if sha256 is not None and checked_sha256(sha256) != name:
        raise InvalidRequest("the bundle is not the one that its name says")
    unpack(content)
    kept = name in bundles.claimed(team) and _is_there(name, bundles)
    # Before it is counted: of those who come at once none is overlooked.
    bundles.claim(team, name, len(content))
    if not kept and not _has_room(team, quota, bundles):
        bundles.disclaim(team, name, len(content))
        raise Refused(
            f"team {team!r} may keep {quota.n_bundles} bundles of {quota.n_bytes} bytes in all, and this one is "
            "beyond that. An administrator deletes what no PTK and no version needs by ptk lake garbage, or raises "
            "PTK_BUNDLES_PER_TEAM and PTK_BUNDLE_MIB_PER_TEAM"
        )
    bundles.put(content)
    bundles.claim(team, name, len(content))  # again: whoever sent the same at once may have been refused
    return name


def _has_room(team: str, quota: Quota, bundles: Bundles) -> bool:
    for _ in range(2):
        sizes = bundles.claimed(team).values()
        if len(sizes) <= quota.n_bundles and sum(sizes) <= quota.n_bytes:
            return True
        bundles.drop_claims(team, _ON_ITS_WAY_SECONDS)  # of uploads that died
    return False


def _is_there(sha256: str, bundles: Bundles) -> bool:
    try:
        bundles.age(sha256)
    except UnknownName:
        return False
    return True


def bundle_for(estimator: Mapping[str, Any], bundles: Bundles) -> bytes | None:
    """Return the bundle of an estimator's code; None for a family of the library."""
    sha256 = bundle_of(estimator)
    return None if sha256 is None else bundles.get(sha256)


def examine_team_code(
    estimator: Mapping[str, Any],
    bundle: bytes,
    *,
    sandbox: Sandbox,
    runs: int = AUDIT_RUNS,
    team: str = "",
) -> Examined:
    """Have team code describe itself and be checked on synthetic rows, apart; no row is read, nothing is spent.

    The code's own description is compared with what `estimator` declares: that is one more finding.

    Parameters
    ----------
    runs : int
        Trainings of each audit; 0 leaves the audits out.
    team : str
        Teams take turns, one examination of each; the empty name is whoever works on this machine.
    """
    try:
        declared = estimator_from_spec(estimator)
        declared.declared_loss()
    except PtklibError as error:
        raise InvalidRequest(str(error)) from error
    examined = sandbox.examine(estimator, bundle, runs, team)
    return examined if examined.described is None else _compared(declared, examined)


def admit_team_code(ptk_id: str, estimator: Mapping[str, Any], stream: str, by: Registering) -> bytes | None:
    """Let team code pass that the stream's policy accepts, that is what it says, and that no check contradicts.

    Returns its bundle; None, and nothing happens, for a family of the library.

    Raises
    ------
    PtkRejected
        The stream accepts no asserted PTKs, keys or texts are not declared, or a check failed on synthetic rows; the
        message says which.
    NoSandbox
        It cannot be run apart on this machine.
    TooManyRequests
        Other code of the team is being examined.
    """
    if bundle_of(estimator) is None:
        return None
    with by.begin() as uow:
        policy, others = uow.streams.get(stream).policy, uow.ptks.find(stream=stream)
    check_assurance(ptk_id, estimator, policy)
    if not any(one.ptk_id == ptk_id and one.estimator == estimator for one in others):
        check_declared(ptk_id, estimator, policy)
    bundle = uploaded_bundle(ptk_id, estimator, by.bundles)
    assert bundle is not None
    unpack(bundle)
    team, _ = split_ptk_id(ptk_id)
    examined = examine_team_code(estimator, bundle, sandbox=by.sandbox, team=team)
    if examined.failures:
        raise PtkRejected(f"{ptk_id}: its code failed {findings_text(examined)}")
    return bundle


def uploaded_bundle(ptk_id: str, estimator: Mapping[str, Any], bundles: Bundles) -> bytes | None:
    """Return the bundle of a PTK that is to be registered; `InvalidRequest` if nobody uploaded it."""
    try:
        return bundle_for(estimator, bundles)
    except UnknownName:
        raise InvalidRequest(f"PTK {ptk_id}: its bundle is not here; upload it first") from None


def keep_bundle(ptk_id: str, bundle: bytes | None, bundles: Bundles) -> None:
    """See that the bundle of a PTK that was registered just now is there: garbage may have been collected meanwhile.

    Raises
    ------
    OutcomeUnknown
        It could not be put, twice. The PTK is registered.
    """
    if bundle is None:
        return
    with suppress(PtkStoreError, OSError):
        bundles.put(bundle)
        return
    try:
        bundles.put(bundle)
    except (PtkStoreError, OSError):
        raise OutcomeUnknown(
            f"PTK {ptk_id} is registered as asked, but whether its code is still here is open: apply it once more"
        ) from None


def check_assurance(ptk_id: str, estimator: Mapping[str, Any], policy: Policy) -> None:
    """Raise `PtkRejected` unless the stream's policy accepts what can be said of the estimator's loss."""
    assurance = assurance_of(estimator)
    if not assurance.at_least(policy.minimum_assurance):
        raise PtkRejected(
            f"{ptk_id}: assurance {assurance.value!r} is below the stream's least, "
            f"{policy.minimum_assurance.value!r}: team code needs a stream that was created with "
            "--minimum-assurance asserted; this one takes families of the library only"
        )


def check_declared(ptk_id: str, estimator: Mapping[str, Any], policy: Policy) -> None:
    """Raise `PtkRejected` if team code could release texts or keys undeclared, and the policy does not let it.

    Numbers can carry texts as well: this keeps honest code from releasing them, and makes others work for it.
    """
    if bundle_of(estimator) is None or policy.asserted_text:
        return
    try:
        code = estimator_from_spec(estimator)
        code.declared_loss()
        undeclared = code.undeclared_columns()
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id}: {error}") from error
    if undeclared:
        named = ", ".join(f"{table}.{column}" for table, column in undeclared[:_SHOWN])
        (_, first), more = undeclared[0], len(undeclared) - _SHOWN
        raise PtkRejected(
            f"{ptk_id}: team code releases numbers and declared values only on this stream, and {named}"
            f"{f' and {more} more' if more > 0 else ''} are keys or texts without declared values. Declare them with "
            f'the table, as in "domains": {{{first!r}: [...]}}; a class returns them from released_domains(). '
            "The alternative is a stream whose policy has asserted_text"
        )
    if code.noise_names is None:
        raise PtkRejected(
            f"{ptk_id}: the declaration has no noise_names, so it is of an older ptkstore: install the present one"
        )


def findings_text(examined: Examined) -> str:
    """Return the failures of an examination in words for the code's owner."""
    failures = [f"{one.check}: {one.reason}" for one in examined.failures[:_SHOWN]]
    more = len(examined.failures) - len(failures)
    printed = f"; it printed: {examined.printed[-_PRINTED:]}" if examined.printed else ""
    return "; ".join(failures) + (f"; and {more} more checks" if more else "") + printed


def _compared(declared: Any, examined: Examined) -> Examined:
    loss = declared.declared_loss()
    said: Mapping[str, Any] = examined.described or {}
    wanted = {
        "columns": list(declared.required_columns()),
        "tables": {name: schema.to_json() for name, schema in declared.table_schemas().items()},
        "selected": list(declared.released_keys()),
        "unit": declared.unit,
        "max_rows_per_unit": declared.max_rows_per_unit,
    }
    differing = sorted(name for name, value in wanted.items() if said.get(name) != value)
    for name, value in (("epsilon", loss.epsilon), ("delta", loss.delta)):
        amount = said.get(name)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not amount <= value:
            differing.append(name)
    if differing:
        why = f"the code says something else than its declaration of {', '.join(differing)}"
        return replace(examined, findings=(*examined.findings, Finding("is-as-declared", "failed", why)))
    return replace(examined, findings=(*examined.findings, Finding("is-as-declared", "passed")))
