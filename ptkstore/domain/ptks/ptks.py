"""PTKs: what a team registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import Loss, checked_epsilon
from ptkstore.domain.durations import duration, duration_text
from ptkstore.domain.fields import (
    Content,
    Estimator,
    Frequency,
    LeastAndMost,
    PositiveNumber,
    Tags,
    Words,
    declared_fields,
    declared_in,
    declared_json,
    fields_of,
)
from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline
from ptkstore.domain.ptks.profiles import ProfileAsk
from ptkstore.domain.ptks.serving import Serving, plain, serving_of
from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.streams.blocks import FIRST_TRAIN, settled_where, share_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest

CONFIG_KEYS = frozenset(
    {"accept", "epsilons", "evaluate", "pinned", "profile", "recency", "serve", "start_from", "where"}
)
"""What a PTK's config may say beside its estimator: the test that its versions have to pass, a range of epsilons, what
it pays for an estimate of its loss, what of its place is fixed, how it is profiled by samples, after how many windows
old rows teach it nothing, how its online answers are filled, the central version that devices begin with, and the
blocks that it is trained on alone. A declaration
has each of them as a field of its own."""

LOOKED_UP = frozenset({"menu", "facts", "waiting"})
"""What a `PtkSpec` knows from elsewhere, and no text of it has."""


@dataclass(frozen=True, slots=True)
class ReleasedFacts:
    """The facts about the data that the released state of a version gives the formula of its family."""

    version: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PtkSpec:
    """One registered PTK.

    A field that is annotated with its kind is what a team says of a PTK. It is declared nowhere else, but that `PTK`
    and `Store.register_ptk` name it as an argument; all else follows from it.

    `estimator` is the trainer as data (`{"family": ..., "params": {...}}`), `loss` what one training costs and `event`
    the mechanisms that cost it, `tables` the released tables (`{"keys": [...], "columns": [[name, type], ...]}` each),
    all known without data. `every` is the number of windows between two trainings, `windows` the least and the most
    that one training may read, with one draw of noise. `target` is in the unit of the PTK's own evaluation, or of the
    loss that it is profiled by. A PTK that devices train has none, and its `loss` is that of one report. `profile`
    says how it is profiled by samples, None if it is not. `menu` is what was released of that, (epsilon, privacy
    units) to choose from, 0 for all there are: the catalog fills it in. `facts` are what windows of a PTK that is
    profiled by formula are planned with; whoever plans one looks them up. `waiting` says whether it waits for an
    accepted version, None if its versions need no verdict; the catalog fills it in.
    """

    ptk_id: str
    team: str
    name: str
    stream: str
    estimator: Annotated[Mapping[str, Any], Estimator("The trainer as data.", default=..., reported=None)]
    loss: Loss
    event: Mapping[str, Any]
    tables: Mapping[str, Any]
    target: Annotated[
        float | None, PositiveNumber("How small its error is to be.", optional=True, reported=None)
    ]
    every: Annotated[
        int,
        Frequency(
            "The time between two trainings.",
            default="1d",
            argument="train_frequency",
            reported=None,
            fixed=True,
        ),
    ]
    assurance: Assurance = Assurance.LIBRARY
    config: Annotated[
        Mapping[str, Any], Content("What is said beside the estimator.", default={}, reported=None)
    ] = field(default_factory=dict)
    description: Annotated[str, Words("One line for those who look for features.", reported=None)] = ""
    windows: Annotated[
        tuple[int, int],
        LeastAndMost(
            "How many windows one training may read, at least and at most.", limit=10_000, later=True
        ),
    ] = (1, 1)
    tags: Annotated[
        tuple[str, ...], Tags("Words to find it by.", most=10, longest=32, reported=None, later=True)
    ] = ()
    profile: ProfileAsk | None = None
    menu: tuple[tuple[float, int], ...] = ()
    facts: ReleasedFacts | None = None
    waiting: AcceptDeadline | None = None

    def trains_on(self, window: int) -> bool:
        """Return whether the PTK is trained on a window."""
        return not self.has_given_up and window % self.every == 0

    def wants(self, window: int) -> bool:
        """Return whether a window is read for the PTK's training or its profile, as far as that is public."""
        return self.trains_on(window) or (self.profile is not None and not self.has_given_up)

    @property
    def accept(self) -> Accept | None:
        """The verdict that each of its trained states needs; None if they need none."""
        return Accept.of(self.config)

    @property
    def tested_on(self) -> str:
        """The stream whose test blocks pay for verdicts on its states: its own, but where its rows are on devices."""
        accept = self.accept
        return self.stream if accept is None or accept.stream is None else accept.stream

    def has_timed_out(self, window: int, policy: Policy) -> bool:
        """Return whether no state was accepted for its whole timeout before this window began."""
        accept = self.accept
        if self.waiting is None or accept is None:
            return False
        return self.waiting.has_passed(accept.timeout, window, policy)

    @property
    def has_given_up(self) -> bool:
        """Whether no further training is reserved: no state was accepted in time, or none can be."""
        return self.waiting is not None and self.waiting.given_up is not None

    @property
    def is_averaged(self) -> bool:
        """Whether devices train it: its versions are averages of what they put back, and no row of it is read."""
        return is_averaged(self.estimator)

    @property
    def start_from(self) -> StartFrom | None:
        """The central version that a PTK which devices train begins with; None for zero."""
        return StartFrom.of(self.config)

    @property
    def family(self) -> str:
        """The class name of the estimator."""
        return str(self.estimator["family"])


AVERAGED = "DrawDiscardModel"
"""The family that devices train, of streams whose rows stay there."""


def is_averaged(estimator: Mapping[str, Any]) -> bool:
    """Return whether devices train an estimator, given as data."""
    return estimator.get("family") == AVERAGED


PTK_FIELDS = declared_fields(PtkSpec)
PTK_ARGUMENTS = {one.argument or one.name: one for one in PTK_FIELDS}
LATER_FIELDS = tuple(one for one in PTK_FIELDS if one.later)
FOR_PEOPLE = frozenset({"description", "tags"})
"""What is said for those who look for features. No training, version or verdict depends on it."""


def said_of(spec: PtkSpec) -> dict[str, Any]:
    """Return what a team says of a PTK, by field; the rest follows from that."""
    return {one.name: getattr(spec, one.name) for one in PTK_FIELDS}


def ptk_json(spec: PtkSpec, *, with_later: bool = True) -> dict[str, Any]:
    """Return the fields of a PTK in their order, those that a team says and the profile as plain JSON."""
    said = declared_json(spec, PTK_FIELDS, with_later=with_later)
    looked_at = {"profile": spec.profile, "waiting": spec.waiting}
    plain = {name: None if one is None else asdict(one) for name, one in looked_at.items()}
    content = {**fields_of(spec), **said, **plain}
    left_out = {one.name for one in PTK_FIELDS} - set(said)
    return {name: value for name, value in content.items() if name not in left_out}


def ptk_fields_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `PtkSpec` that a document has, all but `loss` and `menu` as `PtkSpec` takes them."""
    profile, waiting = content["profile"], content.get("waiting")
    return {
        **{one.name: content[one.name] for one in fields(PtkSpec) if one.name in content},
        **declared_in(content, PTK_FIELDS),
        "assurance": Assurance(content["assurance"]),
        "profile": None if profile is None else ProfileAsk.of(profile),
        "waiting": None if waiting is None else AcceptDeadline.of(waiting),
    }


def windows_between(policy: Policy, train_frequency: str) -> int:
    """Count the windows between two trainings; a frequency must be a whole number of window lengths."""
    span = duration(train_frequency)
    if span % policy.window:
        raise InvalidRequest(
            f"train frequency {train_frequency!r} must be a multiple of the window length "
            f"{duration_text(policy.window)}"
        )
    return span // policy.window


def epsilons_of(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the least and the greatest epsilon that a PTK may be given; None for one that asks for what it declares.

    Raises
    ------
    InvalidRequest
        `epsilons` is no pair of rising numbers in [1e-6, 10].
    """
    given = config.get("epsilons")
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidRequest("epsilons of a PTK is the least and the greatest it may be given")
    low, high = (float(checked_epsilon(number, "each of epsilons")) for number in given)
    if low > high:
        raise InvalidRequest("epsilons of a PTK rise: the least first")
    return low, high


@dataclass(frozen=True, slots=True)
class Pin:
    """The fixed part of a PTK's place in a window: the train partition, the rows, or both; None for what is free."""

    partition: int | None = None
    n_rows: int | None = None


def pin_of(config: Mapping[str, Any], policy: Policy) -> Pin:
    """Return what a config fixes with `pinned`.

    Raises
    ------
    InvalidRequest
        It names no partition of the policy, or more rows than a partition can expect.
    """
    given = config.get("pinned")
    if given is None:
        return Pin()
    if not isinstance(given, Mapping) or not given or set(given) - {"partition", "rows"}:
        raise InvalidRequest("pinned of a PTK names a partition, rows, or both")
    most = max(1, int(share_of(policy, FIRST_TRAIN) * policy.rows_per_window))
    limits = {"partition": (0, policy.train_partitions - 1), "rows": (1, most)}
    for name, value in given.items():
        low, high = limits[name]
        if type(value) is not int or not low <= value <= high:
            raise InvalidRequest(
                f"{name} of pinned is a whole number between {low} and {high} in this stream"
            )
    return Pin(given.get("partition"), given.get("rows"))


def by_formula(spec: PtkSpec) -> bool:
    """Return whether a PTK names a range of epsilons that the formula of its family chooses rows for."""
    return spec.profile is None and epsilons_of(spec.config) is not None


def settled_config(config: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Return a config in its one form: `where` and `serve` with lists, and nothing that says None."""
    where, serve = settled_where(policy, config.get("where")), plain(config.get("serve"))
    settled = {**config, "where": where, "serve": serve}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in settled.items()
        if value is not None
    }


def columns_of(spec: PtkSpec) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table that the PTK will release."""
    return {table: tuple(name for name, _ in form["columns"]) for table, form in spec.tables.items()}


def servings_of(tables: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Serving]:
    """Return how the answers of each table are filled, where the config declares it; see `serving_of`."""
    features = {
        table: [(name, kind) for name, kind in form["columns"] if name not in form["keys"]]
        for table, form in tables.items()
    }
    return serving_of(config, features)


def granted(estimator: Mapping[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
    """Return the estimator with the loss it was granted, whatever it was registered with."""
    params = {**estimator["params"], "epsilon": epsilon, "delta": delta}
    return {"family": estimator["family"], "params": params}


def same_model(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two estimators differ in their losses alone, so that one can continue from the other's state."""
    return _without_loss(one) == _without_loss(other)


def _without_loss(estimator: Mapping[str, Any]) -> dict[str, Any]:
    params = {k: v for k, v in estimator["params"].items() if k not in ("epsilon", "delta")}
    return {"family": estimator["family"], "params": params}
