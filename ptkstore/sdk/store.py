"""The store as its users see it, in this process and on this machine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.near_names import suggest
from ptkstore.domain.ptks.bundles import assurance_of, bundle_of
from ptkstore.domain.ptks.device_warnings import device_warnings
from ptkstore.domain.ptks.ptks import CONFIG_KEYS, PTK_ARGUMENTS
from ptkstore.domain.times import utc
from ptkstore.errors import InvalidRequest, UnknownName, missing_package
from ptkstore.sdk.documents.ledgers import budget_rows
from ptkstore.sdk.documents.listings import Budget, PtkListing
from ptkstore.sdk.documents.profiles import profile_document
from ptkstore.sdk.documents.resources import ptk_document
from ptkstore.sdk.documents.times import to_the_second
from ptkstore.sdk.lookups import entities_asked, features_asked
from ptkstore.sdk.near_names import names_in, suggesting
from ptkstore.sdk.notices import NoticeMethods
from ptkstore.sdk.repository.auditing import RUNS, examine_ptk
from ptkstore.sdk.streams import StreamMethods
from ptkstore.sdk.subscriptions import SubscriptionMethods
from ptkstore.sdk.versions import VersionMethods

if TYPE_CHECKING:
    from ptklib.checks import Examination
    from ptkstore.application.ledger.export_ledger import Export
    from ptkstore.domain.ledger.odometers import Odometers
    from ptkstore.ports.features import Answers
    from ptkstore.sdk.repository.changes import Change, Tell
    from ptkstore.sdk.repository.declarations import Repository
    from ptkstore.sdk.repository.team_code import FunctionFacts
    from ptkstore.sdk.service import StoreService
    from ptkstore.wiring import Service

AT_ONCE_MAX = 64


def connect(target: str | Path | None = None, *, token: str | None = None) -> Store:
    """Open the store in `target`, a home directory, by default `PTK_HOME`, else `.ptk`; or the one behind a URL.

    Parameters
    ----------
    target : path or str
        A directory, or `https://host[:port]`; plain `http` for this very machine alone.
    token : str
        For a URL: the API token, by default `PTK_TOKEN`.

    Raises
    ------
    InvalidRequest
        The URL is none that a token may be sent to, or there is no token.
    """
    try:
        if isinstance(target, str) and "://" in target:
            from ptkstore.sdk.remote import RemoteService

            return Store(RemoteService(target, token or os.environ.get("PTK_TOKEN", "")))
        if token is not None:
            raise InvalidRequest("a token is for a remote store; a home directory is opened without one")
        return open_home(target)
    except ModuleNotFoundError as error:
        if (message := missing_package(error)) is None:
            raise
        raise ModuleNotFoundError(message, name=error.name) from None


def open_home(home: str | Path | None) -> HomeStore:
    """Open the store in a home; what is changed there is recorded as done in the home."""
    from ptkstore.settings import load_settings
    from ptkstore.wiring import LocalService

    return HomeStore(LocalService(load_settings(home)))


@suggesting
class Store(StreamMethods, VersionMethods, SubscriptionMethods, NoticeMethods):
    """Streams, PTKs, subscriptions and lookups; every method is one transaction or one read.

    Use as a context manager, or call `close`.
    """

    def __init__(self, service: StoreService) -> None:
        self._service = service

    @property
    def service(self) -> StoreService:
        """The use cases behind this client."""
        return self._service

    # PTKs

    def register_ptk(
        self,
        train_dp: Any,
        eval: Callable[..., float] | None = None,
        train_frequency: str = "1d",
        *,
        name: str,
        stream: str,
        target: float | None = None,
        config: Mapping[str, Any] | None = None,
        team: str | None = None,
        description: str = "",
        tags: Sequence[str] = (),
        windows: tuple[int, int] = (1, 1),
        **facts: Unpack[FunctionFacts],
    ) -> str:
        """Register a PTK and return its id, with a warning where its versions are, or have, single reports of devices.

        Parameters
        ----------
        train_dp : ptklib estimator, function, TeamFunctions or an estimator of the team's own
            An estimator stands for both `train_dp` and `eval`. A function ``train_dp(trainset_iter, epsilon,
            previous_model_state, previous_config)`` is sent along with its modules, and run in a sandbox.
        eval : function, optional
            ``eval(testset_iter, model_state)`` beside a function `train_dp`.
        **facts
            What is said of a function `train_dp`: `columns`, `tables` and `epsilon`, and what else `TeamFunctions`
            takes, such as `row_losses`; what that calls `config` is `arguments` here.

        Raises
        ------
        PtkRejected
            The stream's policy has no room for it, or accepts no team code; or a check of team code failed. The message
            says which, and what is left.
        InvalidRequest
            Team code cannot be imported by its name, or belongs to an installed distribution.
        NoSandbox
            The store cannot run team code apart.
        """
        from ptkstore.sdk.repository.imported_code import described_as_imported

        given = dict(locals())
        estimator, bundle = described_as_imported(train_dp, eval, facts)
        if team is None or bundle is not None:
            owner = self._service.stream(stream)
            team = team or owner.team
            if bundle is not None and assurance_of(estimator).at_least(owner.policy.minimum_assurance):
                self._service.put_bundle(bundle, team=team)  # else the store refuses it, and need not have it
        given |= {"estimator": estimator, "config": config or {}}
        for warning in device_warnings(estimator):
            warnings.warn(f"PTK {team}.{name}: {warning}", UserWarning, stacklevel=2)
        said = {word: given[word] for word in PTK_ARGUMENTS}
        return self._service.register_ptk(team=team, name=name, stream=stream, **said)

    def deregister_ptk(self, ptk_id: str) -> None:
        """Stop training a PTK and take its views away; its versions stay in the lake."""
        self._service.deregister_ptk(ptk_id)

    def update_ptk_config(self, ptk_id: str, config: Mapping[str, Any]) -> None:
        """Change what `config` names, from the next window on; the rest stays.

        Parameters
        ----------
        config : mapping
            Parameters of the estimator; `epsilons`, `pinned`, `where` and `profile` as in a declaration, with None
            to take one away. A changed model, or other rows, start without the previous state.

        Raises
        ------
        InvalidRequest
            The family has no such parameter, or a value is not right.
        PtkRejected
            The change does not fit beside the other PTKs; the message says what would. The PTK stays as it was.
        """
        current = self._service.ptk(ptk_id)
        params = {name: value for name, value in config.items() if name not in CONFIG_KEYS}
        beside = {name: value for name, value in config.items() if name in CONFIG_KEYS}
        self._service.update_ptk(
            ptk_id,
            estimator={"family": current.family, "params": {**current.estimator["params"], **params}},
            config={**current.config, **beside},
        )

    def update_ptk_performance_target(
        self, ptk_id: str, target: float | None = None, *, tau: float | None = None
    ) -> None:
        """Change the target from the next window on; `PtkRejected`, and no change, where that needs more than there is.

        `tau` is an older name of `target`.
        """
        if (target is None) == (tau is None):
            raise InvalidRequest("give the target, once")
        self._service.update_ptk(ptk_id, target=tau if target is None else target)

    def plan(
        self,
        repository: Repository,
        *,
        prune: bool = False,
        audit: bool = True,
        tell: Tell = lambda _: None,
    ) -> tuple[Change, ...]:
        """Say what `apply` would do and refuse, what each PTK would reserve, and how it does on synthetic rows.

        `tell` hears what is checked next.
        """
        from ptkstore.sdk.repository.changes import planned  # loads what plans: a read needs none of it

        return planned(self._service, repository, prune=prune, audit=audit, tell=tell)

    def undeclared(self, repository: Repository) -> tuple[Change, ...]:
        """Return the team's PTKs that are registered though the repository does not declare them."""
        from ptkstore.sdk.repository.changes import undeclared

        return undeclared(self._service, repository)

    def apply(self, repository: Repository, *, prune: bool | Collection[str] = False) -> tuple[Change, ...]:
        """Register or update what a team's repository declares, and with `prune` deregister the rest; repeatable.

        `prune` may name the PTKs of the rest that go; then all others stay.

        Raises
        ------
        PtkRejected
            No room, or team code that failed a check; the message says which. The PTKs that were to go are still there.
        NoSandbox
            The store cannot run team code apart.
        """
        from ptkstore.sdk.repository.changes import applied

        return applied(self._service, repository, prune=prune)

    def ptks(self, *, stream: str | None = None, team: str | None = None) -> PtkListing:
        """List the registered PTKs, by id: what each is trained on, releases and loses, and its `newest_version`.

        That is 0 before the first version, and None over HTTP for a token that may not read the PTK's states.
        """
        newest, times = self._service.newest_versions(), self._service.newest_times()
        return PtkListing(
            {
                **ptk_document(spec),
                "newest_version": newest.get(spec.ptk_id),
                "newest_published_at": to_the_second(at) if (at := times.get(spec.ptk_id)) else None,
            }
            for spec in self._service.ptks(stream=stream, team=team)
        )

    def profile(self, ptk_id: str) -> dict[str, Any]:
        """Say how many rows the PTK needs at which epsilon, if that is known, its cost, and whether it drifted."""
        split_ptk_id(ptk_id)
        return profile_document(self._service.profile(ptk_id))

    def resume(self, ptk_id: str) -> int:
        """Train a PTK again that was given up as no state of it was accepted in time.

        Returns the first window that counts for its timeout. Repeating it changes nothing.

        Raises
        ------
        UnknownName
            No such PTK.
        Conflict
            It waits for no accepted version, or was rejected: that needs another target or estimator.
        """
        split_ptk_id(ptk_id)
        return self._service.resume_ptk(ptk_id)

    def test_privacy(
        self, ptk_id: str, runs: int = RUNS, *, tell: Callable[[int, int], object] | None = None
    ) -> list[Examination]:
        """Audit a PTK's trainer on synthetic neighbouring datasets; reads no row and spends nothing.

        `tell` hears after each training how many are done, and how many there are at most.

        Raises
        ------
        UnknownName
            No such PTK.
        """
        split_ptk_id(ptk_id)
        spec = self._service.ptk(ptk_id)
        if bundle_of(spec.estimator) is not None:
            raise InvalidRequest(
                f"PTK {ptk_id} is trained by its team's code, which is audited in the sandbox by `ptk plan` and "
                "at registration"
            )
        return examine_ptk(spec, runs, tell)

    # lookups

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        """Look features up through Feast: `view:feature` of the newest version, `view@vN:feature` of a pinned one.

        Parameters
        ----------
        features : list of str
        entities : list of mapping
            One per row, from join keys to their values, such as `[{"hour": 8}]`.

        Returns
        -------
        list of dict
            From features to values, one per row. Its attribute `assured` says of each view why its guarantee is
            believed: `library`, or by which team it is `asserted`.
        """
        return self._service.look_up(features_asked(features), entities_asked(entities))

    # work and reports

    def overview(self) -> dict[str, Any]:
        """Say whether the store is healthy, what needs somebody and what happened in the last day, as `ptk status`.

        Over HTTP you see what your roles allow; what they do not allow is None.
        """
        from ptkstore.sdk.overviews import overview_document  # loads what reads it: few callers need it

        return overview_document(self._service.overview())

    def work_until_idle(self, at_once: int = 1) -> int:
        """Do all due work in this process, up to `at_once` trainings beside each other; returns how many jobs it did.

        A running service (`ptk up`) does it by itself.
        """
        if isinstance(at_once, bool) or not isinstance(at_once, int) or not 1 <= at_once <= AT_ONCE_MAX:
            raise InvalidRequest(f"at_once is a whole number from 1 to {AT_ONCE_MAX}")
        return self._service.work_until_idle(at_once)

    def budget(self, stream: str, *, tight: bool = False) -> Budget:
        """List state, capacity, reserved and spent epsilon and delta per block, and line of it if there are several.

        `tight` adds the tighter figure of the releases made so far, by which nothing is ever admitted.
        """
        return Budget(budget_rows(self._service, stream, tight=tight))

    def odometers(self, stream: str) -> Odometers:
        """Read what has been spent so far per block, line, stream, PTK and team."""
        return self._service.odometers(stream)

    def person_loss(self, streams: Sequence[str]) -> dict[str, Any]:
        """Add up what one person who is in all of these streams loses to them together, until now and at most.

        Over HTTP you need to be an officer on each.

        Raises
        ------
        InvalidRequest
            The privacy unit of a stream is the record, or its rows stay on devices: no sum is a bound for a person.
        Refused
            The journal of a stream is wrong.
        """
        from ptkstore.sdk.documents.persons import person_loss_document

        return person_loss_document(self._service.person_loss(streams))

    def export_ledger(
        self, stream: str, since: datetime | str | None = None, until: datetime | str | None = None
    ) -> Export:
        """Sign a report on the windows that meet [`since`, `until`), for the privacy officer; see `check_report`."""
        start, end = (None if one is None else utc(one) for one in (since, until))
        return self._service.export_ledger(stream, start, end)

    def report_key(self) -> str:
        """Return the public key of this store's reports, in hexadecimal."""
        return self._service.report_key()

    def close(self) -> None:
        """Give connections back."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UnknownName):
            suggest(error, names_in(self._service))
        self.close()


class HomeStore(Store):
    """The store in a home on this machine, whose service has all use cases."""

    _service: Service

    def __init__(self, service: Service) -> None:
        super().__init__(service)

    @property
    def service(self) -> Service:
        """The use cases of this home."""
        return self._service
