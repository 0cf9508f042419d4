"""PTKs, their versions, lookups of their features."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, StringConstraints

from ptkstore.domain.ptks.ptks import PTK_ARGUMENTS, PTK_FIELDS
from ptkstore.wire.base import LIST_MAX, Instant, Loss, Name, PtkId, Wire
from ptkstore.wire.declared import ESTIMATOR, types_of, with_fields

EXAMPLE: dict[str, JsonValue] = {
    "name": "speed",
    "stream": "trips",
    "estimator": ESTIMATOR,
    "target": 0.1,
    "train_frequency": "1d",
    "description": "Mean speed by hour.",
}


_SENT: dict[str, Any] = {
    word: (types_of(one)[0], Field(default_factory=dict) if one.default == {} else one.default)
    for word, one in PTK_ARGUMENTS.items()
}
_CHANGED: dict[str, Any] = {
    word: (types_of(one)[0] | None, None) for word, one in PTK_ARGUMENTS.items() if not one.fixed
}
_SHOWN: dict[str, Any] = {
    one.key: (types_of(one)[1], one.default if one.later else ...) for one in PTK_FIELDS
}


@with_fields(_SENT)
class PtkIn(Wire, json_schema_extra={"examples": [EXAMPLE]}):
    """A PTK to register for the caller's team."""

    name: Name
    team: Annotated[Name | None, Field(description="the caller's own team, which is the default")] = None
    stream: Name


@with_fields(_SENT)
class WantedIn(Wire):
    """A PTK as its team wants it to be, whether it is registered by now or not."""

    name: Name


class ExchangeIn(
    Wire,
    json_schema_extra={
        "examples": [
            {
                "ptks": [{"name": "speed_by_hour", "estimator": ESTIMATOR, "target": 0.1}],
                "deregister": ["taxi.speed"],
            }
        ]
    },
):
    """The wanted PTKs of the caller's team on a stream; those that are not named stay as they are."""

    ptks: Annotated[list[WantedIn], Field(max_length=LIST_MAX)] = Field(default_factory=list)
    deregister: Annotated[list[PtkId], Field(max_length=LIST_MAX)] = Field(default_factory=list)


class Refusal(Wire):
    """Why a PTK would not be registered or changed, as the problem that it would end with."""

    ptk_id: str
    code: str
    detail: str


class RoomOut(Wire):
    """The loss that the caller's team may still reserve in each block once all that is not refused has come.

    `left` is the largest loss that one more PTK of the team fits with, `capacity` what the team's budget may lose.
    """

    capacity: Loss
    left: Loss
    accountant: str
    context: Annotated[
        str, Field(description="the team or context of this budget; empty where all teams share one")
    ]


class Returning(Wire):
    """A PTK whose name was deregistered and comes back, with its newest version, 0 for none."""

    ptk_id: str
    version: int


class AdmissionOut(Wire):
    """The refusals of a plan; `at_once` if there is room only if old and new PTKs are exchanged in one step."""

    refusals: list[Refusal]
    at_once: bool
    room: RoomOut | None
    returning: list[Returning]


class Exchanged(Wire):
    """That all of it was done."""

    stream: str


@with_fields(_CHANGED)
class PtkPatch(Wire, json_schema_extra={"examples": [{"target": 0.2}]}):
    """The changes from the next window on; a field that is missing stays as it is."""


class WaitingOut(Wire):
    """That a PTK waits for an accepted version, and why it is trained no longer."""

    since: Annotated[int, Field(description="the first window that counts for its timeout")]
    given_up: Annotated[
        Literal["timeout", "reject", "confidence-used-up"] | None,
        Field(description="null while it is trained"),
    ] = None


@with_fields(_SHOWN)
class PtkOut(Wire):
    """A registered PTK: what it is, what one training of it costs, what it releases."""

    # Fields of the first release are written out: they keep their place.
    ptk_id: str
    team: str
    name: str
    stream: str
    family: str
    estimator: dict[str, Any]
    loss: Loss
    event: dict[str, Any]
    tables: dict[str, Any]
    target: Annotated[float | None, Field(description="null where devices train it")]
    every: Annotated[int, Field(description="windows between two trainings")]
    assurance: str
    asserted_by: Annotated[
        str | None, Field(description="the team whose word it is, where it is not proven")
    ] = None
    config: dict[str, Any]
    description: str
    menu: list[list[float]]
    profile: Annotated[dict[str, Any] | None, Field(description="the questions to a profile by samples")]
    waiting: Annotated[WaitingOut | None, Field(description="null where its versions need no verdict")] = None
    guarantee_model: Annotated[
        Literal["central", "local"],
        Field(
            description="local where devices train it: `loss` is then of one report, and no block pays for it"
        ),
    ] = "central"


class ListedPtk(PtkOut):
    """A registered PTK in a list."""

    newest_version: Annotated[
        int | None,
        Field(
            description="the number of its newest version, 0 before the first; null for who may read no states"
        ),
    ]
    newest_published_at: Annotated[
        Instant | None, Field(description="when that version was published; null where there is none to read")
    ]


class PointOut(Wire):
    """An answer of a profile; `n` are the privacy units found, or the most that were tried."""

    epsilon: float
    verdict: Literal["found", "needs-more", "unreachable"]
    n: int


class PaidOut(Wire):
    """The charge for a profile, to the blocks from `first_block` up to `end_block`."""

    what: str
    window: int
    first_block: int
    end_block: int
    loss: Loss


class ProfileOut(Wire):
    """How a PTK is planned with; all but method, menu, facts_of, advice and assurance are of profiles by samples."""

    method: Literal["samples", "formula", "declared"]
    menu: Annotated[
        list[list[float]], Field(description="pairs of epsilon and rows of a window to choose from")
    ]
    facts_of: Annotated[int, Field(description="the version whose facts a formula has; 0 for none")]
    state: str | None
    number: int
    asked_at: Annotated[int | None, Field(description="the first window that it was asked of")]
    age: Annotated[int | None, Field(description="windows that have closed since")]
    max_age: int | None
    drifted_at: Annotated[
        int | None, Field(description="the window whose test said that it is not valid any more")
    ]
    tries: int
    most_tries: int
    target: float | None
    evaluation: str | None
    drift_epsilon: float | None
    advice: str | None
    assurance: Annotated[str | None, Field(description="of the PTK: `library`, `composed` or `asserted`")] = (
        None
    )
    asserted_by: Annotated[
        str | None, Field(description="the team on whose word its losses rest, null for `library`")
    ] = None
    points: list[PointOut]
    paid: list[PaidOut]


class Registered(Wire):
    """The id of a new PTK."""

    ptk_id: str


class BundleOut(Wire):
    """A bundle that is stored."""

    sha256: str
    bytes: int


class VersionOut(Wire):
    """A published version; `manifest_sha256` is the hash of its manifest's bytes."""

    ptk_id: str
    version: int
    published_at: Instant
    newest_contributing_window: dict[str, Any]
    release_decision: Annotated[
        str | None, Field(description="`elected` by a training, `accepted` by a validation, or `rolled-back`")
    ] = None
    made_from: Annotated[
        list[dict[str, Any]],
        Field(
            description="the versions whose states it continues or, rolled back, repeats, by `ptk_id`, `version` and "
            "`sha256` of the manifest; none of one that was trained on its own windows alone"
        ),
    ]
    guarantee: dict[str, Any]
    assurance: str | None = None
    asserted_by: str | None = None
    instances: Annotated[
        dict[str, Any] | None,
        Field(
            description="of a version that devices trained: the spread of what was averaged against the law, how far "
            "the average moved, and how many reports were taken and refused, in powers of two"
        ),
    ] = None
    manifest_sha256: str


class DescendantOut(Wire):
    """A published version that a window's rows went into."""

    ptk_id: str
    version: int
    window_end: Annotated[Instant, Field(description="of the newest window in its state, ISO 8601 in UTC")]
    release_decision: Annotated[
        str,
        Field(
            description="how it came to be: `elected` by a training, `accepted` by a validation, `rolled-back` to "
            "repeat an older version, or `unreadable` where nobody can tell what else "
            "went into it, as its manifest is damaged"
        ),
    ]
    made_from: Annotated[
        list[str],
        Field(description="the versions whose states went into it directly, as `<ptk_id> v<number>`"),
    ]
    newest: Annotated[bool, Field(description="no later version of its PTK is in the lake")]
    assurance: str | None = None
    asserted_by: str | None = None


class EvaluationOut(Wire):
    """The paid estimate of a version's loss.

    Noisy sums over the privacy units of a test set, in 2**-20 of a loss of 1: of their losses, and of what is missing
    in each to 1.
    """

    ptk_id: str
    version: int
    window: Annotated[int, Field(description="the newest window whose test set was opened")]
    windows: Annotated[list[int], Field(description="all windows whose test sets were opened")]
    epsilon: float
    lost: int
    kept: int
    assurance: Annotated[
        str | None, Field(description="of the version: `library`, `composed` or `asserted`")
    ] = None
    asserted_by: Annotated[
        str | None, Field(description="the team on whose word its losses rest, null for `library`")
    ] = None
    at: Instant


class ValidationOut(Wire):
    """The verdict on a trained state, and the paid release that it follows from.

    Noisy sums as in the estimate of a version's loss. Looks are counted since the last state that was accepted.
    """

    ptk_id: str
    version: Annotated[
        int | None, Field(description="the version that it became, null if it was not accepted")
    ]
    window: int
    look: int
    epsilon: float
    reject_epsilon: Annotated[
        float | None,
        Field(
            description="the cost of the look beside `epsilon`, on the same rows, null for one that cannot reject"
        ),
    ] = None
    lost: int
    kept: int
    verdict: dict[str, Any]
    at: Instant


class RollbackIn(Wire, json_schema_extra={"examples": [{"to": 3}]}):
    """The version whose state is to be published again."""

    to: Annotated[int, Field(ge=1, le=10**8 - 1)]


class RolledBack(Wire):
    """The new version, which repeats the older one."""

    version: int


class Resumed(Wire):
    """The first window that counts for the PTK's timeout."""

    window: int


class Materialized(Wire):
    """The newest version, whose rows workers write online again."""

    version: int


class Told(Wire):
    """How many subscriptions will hear of the newest version once more."""

    subscriptions: int


KeyValue = (
    Annotated[str, StringConstraints(max_length=1_000)] | int | Annotated[float, Field(allow_inf_nan=False)]
)
Reference = Annotated[
    str,
    StringConstraints(min_length=3, max_length=300),
    Field(description="`view:feature` for the newest version, `view@vN:feature` for a pinned one"),
]


class LookupIn(
    Wire,
    json_schema_extra={
        "examples": [{"features": ["taxi__speed:speed_mean"], "entities": [{"hour": 8}, {"hour": 9}]}]
    },
):
    """Features to look up, and of each row the join keys and the numbers that a filled view wants sent along."""

    features: Annotated[list[Reference], Field(min_length=1, max_length=500)]
    entities: Annotated[
        list[
            Annotated[dict[Annotated[str, StringConstraints(max_length=200)], KeyValue], Field(max_length=50)]
        ],
        Field(max_length=10_000),
    ]


class AssuredOut(Wire):
    """Why a guarantee is believed: `library` is proven; all else is the word of the teams in `asserted_by`."""

    assurance: Annotated[str | None, Field(description="null where nothing is known of it")] = None
    asserted_by: str | None = None


class LookupOut(Wire):
    """One object per entity, in order; null where nothing was released, and for a number that is not finite."""

    results: list[dict[str, JsonValue]]
    assured: Annotated[
        dict[str, AssuredOut], Field(description="by view, as the request names it; not of `ptk_state`")
    ] = Field(default_factory=dict)
