"""Teams, their tokens, and what each role may do."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from ptkstore.domain.names import checked_name
from ptkstore.errors import InvalidRequest

EVERY = "*"
"""Stands for all streams in a grant, and for all teams in a grant to consumers."""

LONGEST_LIFE = timedelta(days=366)
LONGEST_OVERLAP = timedelta(days=30)
_TEXT = re.compile(r"ptk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_LABEL_MAX = 100


class Role(StrEnum):
    """A role on a stream; an administrator's is on the whole store.

    A device gateway is an app's backend, which gets tickets for devices and sees nothing else.
    """

    PRODUCER = "producer"
    DEVELOPER = "developer"
    CONSUMER = "consumer"
    OFFICER = "officer"
    DEVICE_GATEWAY = "device-gateway"
    ADMINISTRATOR = "administrator"


STREAM_ROLES = frozenset(Role) - {Role.ADMINISTRATOR}

ROLE_TEXTS: Mapping[Role, str] = {
    Role.PRODUCER: "sends rows, closes windows, has users forgotten",
    Role.DEVELOPER: "registers PTKs for the own team, plans rows, reads budgets, subscribes, looks features up",
    Role.CONSUMER: "looks features up, reads published states, subscribes",
    Role.OFFICER: "reads budgets, exposure and the ledger, exports signed reports, has users forgotten",
    Role.DEVICE_GATEWAY: "gets tickets for devices, and sees nothing else: the backend of an app",
    Role.ADMINISTRATOR: "creates streams, teams, tokens and grants, reads the trail",
}
"""What each role is for."""


class Reach(StrEnum):
    """The things that an action may be about."""

    STORE = "store"
    STREAM = "stream"
    ANY = "any"  # answers are filtered by what the caller may see


@dataclass(frozen=True, slots=True)
class Rule:
    """The roles that may act, and on what; `own` keeps it to the team that the PTK or the subscription belongs to.

    An action that is not `traced` is harmless to repeat and seen by nobody else. All others, and every refusal, leave a
    trace.
    """

    roles: frozenset[Role]
    reach: Reach
    own: bool = False
    traced: bool = True


def _rule(*roles: Role, reach: Reach = Reach.STREAM, own: bool = False, traced: bool = True) -> Rule:
    return Rule(frozenset(roles), reach, own, traced)


_P, _D, _C, _O, _G, _A = Role
_ALL = (_P, _D, _C, _O, _A)


class Action(StrEnum):
    """All that is asked for over HTTP, in the console or in the store's home, each with its rule.

    The audit trail has these names.
    """

    _value_: str
    rule: Rule

    def __new__(cls, text: str, rule: Rule) -> Self:
        action = str.__new__(cls, text)
        action._value_ = text
        action.rule = rule
        return action

    IDENTITY_READ = "identity.read", _rule(*Role, reach=Reach.ANY, traced=False)
    TEAM_CREATE = "team.create", _rule(_A, reach=Reach.STORE)
    TEAM_LIST = "team.list", _rule(_A, reach=Reach.STORE, traced=False)
    TOKEN_ISSUE = "token.issue", _rule(_A, reach=Reach.STORE)
    TOKEN_LIST = "token.list", _rule(_A, reach=Reach.STORE, traced=False)
    TOKEN_ROTATE = "token.rotate", _rule(_A, reach=Reach.STORE)
    TOKEN_REVOKE = "token.revoke", _rule(_A, reach=Reach.STORE)
    GRANT_ADD = "grant.add", _rule(_A, reach=Reach.STORE)
    GRANT_LIST = "grant.list", _rule(_A, reach=Reach.STORE, traced=False)
    GRANT_REMOVE = "grant.remove", _rule(_A, reach=Reach.STORE)
    AUDIT_READ = "audit.read", _rule(_O, _A, reach=Reach.STORE)
    STREAM_CREATE = "stream.create", _rule(_A, reach=Reach.STORE)
    STREAM_LIST = "stream.list", _rule(*_ALL, reach=Reach.ANY, traced=False)
    STREAM_READ = "stream.read", _rule(*_ALL, traced=False)
    STREAM_EVOLVE = "stream.evolve", _rule(_A)
    STREAM_INGEST = "stream.ingest", _rule(_P)
    STREAM_CLOSE = "stream.close", _rule(_P, _A)
    STREAM_PREPARE = "stream.prepare", _rule(_A)
    STREAM_FORGET = "stream.forget", _rule(_P, _O)
    STREAM_RECOMMEND = "stream.recommend", _rule(_D, _O, _A, traced=False)
    EXPOSURE_READ = "exposure.read", _rule(_P, _O, _A, traced=False)
    TICKET_ISSUE = "ticket.issue", _rule(_G)
    BUDGET_READ = "budget.read", _rule(_D, _O, _A, traced=False)
    LEDGER_VERIFY = "ledger.verify", _rule(_O, _A, traced=False)
    LEDGER_EXPORT = "ledger.export", _rule(_O)
    PERSON_LOSS_READ = "person-loss.read", _rule(_O, traced=False)
    LEDGER_KEY = "ledger.key", _rule(*_ALL, reach=Reach.ANY, traced=False)
    BUNDLE_UPLOAD = "bundle.upload", _rule(_D, reach=Reach.ANY)
    PTK_ADMIT = "ptk.admit", _rule(_D, traced=False)
    PTK_EXCHANGE = "ptk.exchange", _rule(_D)
    PTK_REGISTER = "ptk.register", _rule(_D, own=True)
    PTK_LIST = "ptk.list", _rule(*_ALL, reach=Reach.ANY, traced=False)
    PTK_READ = "ptk.read", _rule(*_ALL, traced=False)
    PROFILE_READ = "profile.read", _rule(_D, _O, _A, own=True, traced=False)
    TRAINING_LIST = "training.list", _rule(*_ALL, own=True, traced=False)
    PTK_UPDATE = "ptk.update", _rule(_D, own=True)
    PTK_DEREGISTER = "ptk.deregister", _rule(_D, _A, own=True)
    PTK_RESUME = "ptk.resume", _rule(_D, _A, own=True)
    PTK_NOTIFY = "ptk.notify", _rule(_D, own=True)
    PTK_ROLL_BACK = "ptk.roll-back", _rule(_D, own=True)
    PTK_MATERIALIZE = "ptk.materialize", _rule(_D, _A, own=True)
    STATE_READ = "state.read", _rule(_D, _C, _O, traced=False)
    STATE_TRACE = "state.trace", _rule(_D, _C, _O, _A, traced=False)
    EVENT_FOLLOW = "event.follow", _rule(_D, _C, traced=False)
    FEATURE_LOOK_UP = "feature.look-up", _rule(_D, _C, traced=False)
    SUBSCRIPTION_CREATE = "subscription.create", _rule(_D, _C)
    SUBSCRIPTION_LIST = "subscription.list", _rule(_D, _C, _A, reach=Reach.ANY, traced=False)
    SUBSCRIPTION_READ = "subscription.read", _rule(_D, _C, _A, own=True, traced=False)
    SUBSCRIPTION_ROTATE = "subscription.rotate", _rule(_D, _C, _A, own=True)
    SUBSCRIPTION_TEST = "subscription.test", _rule(_D, _C, _A, own=True)
    SUBSCRIPTION_REDELIVER = "subscription.redeliver", _rule(_D, _C, _A, own=True)
    SUBSCRIPTION_ENABLE = "subscription.enable", _rule(_D, _C, _A, own=True)
    SUBSCRIPTION_DISABLE = "subscription.disable", _rule(_D, _C, _A, own=True)
    SUBSCRIPTION_DELETE = "subscription.delete", _rule(_D, _C, _A, own=True)
    NOTICE_LIST = "notice.list", _rule(*_ALL, reach=Reach.ANY, traced=False)
    OVERVIEW_READ = "overview.read", _rule(*_ALL, reach=Reach.ANY, traced=False)
    CONSOLE_SIGN_IN = "console.sign-in", _rule(*_ALL, reach=Reach.ANY)
    # Done in the store's home alone.
    LEDGER_RECOVER = "ledger.recover", _rule(_A, reach=Reach.STORE)
    LAKE_CLEAN = "lake.clean", _rule(_A, reach=Reach.STORE)
    CATALOG_UPGRADE = "catalog.upgrade", _rule(_A, reach=Reach.STORE)


@dataclass(frozen=True, slots=True)
class Grant:
    """A team's role on a stream; `*` means every stream and, for the role of a consumer, every team."""

    team: str
    stream: str
    role: Role

    def __post_init__(self) -> None:
        if self.role is Role.ADMINISTRATOR:
            raise InvalidRequest("administrators are made by tokens, not by grants on a stream")
        if self.stream != EVERY:
            checked_name("stream", self.stream)
        if self.team == EVERY:
            if self.role is not Role.CONSUMER:
                raise InvalidRequest("all teams at once can be consumers only; name the team")
        else:
            checked_name("team", self.team)


@dataclass(frozen=True, slots=True)
class Token:
    """An API token without its secret, of which `digest` is the SHA-256 in hexadecimal.

    It opens nothing from `revoked_at` on. After a rotation with an overlap that is in the future.
    """

    id: str
    team: str
    label: str
    scopes: frozenset[Role]
    digest: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None

    def __post_init__(self) -> None:
        checked_name("team", self.team)
        if not self.scopes:
            raise InvalidRequest(f"a token acts in at least one of the roles {', '.join(Role)}")
        if len(self.label) > _LABEL_MAX or (self.label and not self.label.isprintable()):
            raise InvalidRequest(f"a token's label has at most {_LABEL_MAX} printable characters")
        if not timedelta(0) < self.expires_at - self.created_at <= LONGEST_LIFE:
            raise InvalidRequest(f"a token lives {LONGEST_LIFE.days} days at most, and longer than no time")

    @property
    def prefix(self) -> str:
        """The beginning of the token's text, which may be shown."""
        return f"ptk_{self.id}"

    def holds(self, now: datetime) -> bool:
        """Tell whether it still opens anything."""
        return now < self.expires_at and (self.revoked_at is None or now < self.revoked_at)


@dataclass(frozen=True, slots=True)
class Principal:
    """The one who asks: a team, by one of its tokens, in these roles at most."""

    team: str
    token_id: str
    scopes: frozenset[Role]

    @property
    def administers(self) -> bool:
        """Whether it may see everything that is no row."""
        return Role.ADMINISTRATOR in self.scopes


@dataclass(frozen=True, slots=True)
class Target:
    """The thing acted on: a stream with its owner, and the team of the PTK or subscription if it is about one."""

    stream: str | None = None
    owner: str | None = None
    team: str | None = None


def roles_on(principal: Principal, target: Target, grants: Iterable[Grant]) -> frozenset[Role]:
    """Return the roles that a principal has on a stream, or on the whole store where `target` names none."""
    roles = {Role.ADMINISTRATOR}
    if target.stream is not None and target.owner == principal.team:
        roles |= STREAM_ROLES
    streams = (EVERY,) if target.stream is None else (EVERY, target.stream)
    roles |= {g.role for g in grants if g.team in (EVERY, principal.team) and g.stream in streams}
    return principal.scopes & roles


def sees(principal: Principal, target: Target, grants: Iterable[Grant]) -> bool:
    """Return whether a principal has a role that reads on a stream; a gateway of devices gets tickets alone."""
    return bool(roles_on(principal, target, grants) - {Role.DEVICE_GATEWAY})


def allows(action: Action, principal: Principal, target: Target, grants: Iterable[Grant]) -> bool:
    """Tell whether the table lets `principal` do it; the one place where that is decided."""
    rule = action.rule
    if rule.reach is Reach.ANY:
        return bool(rule.roles & principal.scopes)
    acting = rule.roles & roles_on(principal, target, grants)
    if rule.own and target.team != principal.team:
        acting &= {Role.ADMINISTRATOR}
    return bool(acting)


def digest_of(secret: str) -> str:
    """Return what is stored of a token's secret: 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def text_of(token_id: str, secret: str) -> str:
    """Write a token as its holder keeps it."""
    return f"ptk_{token_id}_{secret}"


def split_text(text: str) -> tuple[str, str] | None:
    """Id and secret of a token's text, None if it is none."""
    match = _TEXT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def opens(token: Token | None, secret: str, now: datetime) -> bool:
    """Tell whether the secret is the token's and the token is valid; takes the same time if there is no such token."""
    expected = digest_of("") if token is None else token.digest
    same = hmac.compare_digest(expected, digest_of(secret))
    return same and token is not None and token.holds(now)
