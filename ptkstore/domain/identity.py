"""Teams, their tokens, and what each role may do."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ptkstore.domain.names import checked_name
from ptkstore.errors import InvalidRequest

EVERY = "*"
"""Stands for all streams in a grant, and for all teams in a grant to consumers."""

LONGEST_LIFE = timedelta(days=366)
LONGEST_OVERLAP = timedelta(days=30)
_TEXT = re.compile(r"ptk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_LABEL_MAX = 100


class Role(StrEnum):
    """What somebody is to a stream; an administrator is one to the whole store."""

    PRODUCER = "producer"
    DEVELOPER = "developer"
    CONSUMER = "consumer"
    OFFICER = "officer"
    ADMINISTRATOR = "administrator"


STREAM_ROLES = frozenset(Role) - {Role.ADMINISTRATOR}


class Reach(StrEnum):
    """What an action is about."""

    STORE = "store"
    STREAM = "stream"
    ANY = "any"  # answers are filtered by what the caller may see


class Action(StrEnum):
    """All that is asked for over HTTP, in the console or in the store's home; the audit trail has these names."""

    IDENTITY_READ = "identity.read"
    TEAM_CREATE = "team.create"
    TEAM_LIST = "team.list"
    TOKEN_ISSUE = "token.issue"
    TOKEN_LIST = "token.list"
    TOKEN_ROTATE = "token.rotate"
    TOKEN_REVOKE = "token.revoke"
    GRANT_ADD = "grant.add"
    GRANT_LIST = "grant.list"
    GRANT_REMOVE = "grant.remove"
    AUDIT_READ = "audit.read"
    STREAM_CREATE = "stream.create"
    STREAM_LIST = "stream.list"
    STREAM_READ = "stream.read"
    STREAM_EVOLVE = "stream.evolve"
    STREAM_INGEST = "stream.ingest"
    STREAM_CLOSE = "stream.close"
    STREAM_PREPARE = "stream.prepare"
    STREAM_FORGET = "stream.forget"
    STREAM_RECOMMEND = "stream.recommend"
    EXPOSURE_READ = "exposure.read"
    BUDGET_READ = "budget.read"
    LEDGER_VERIFY = "ledger.verify"
    LEDGER_EXPORT = "ledger.export"
    LEDGER_KEY = "ledger.key"
    BUNDLE_UPLOAD = "bundle.upload"
    PTK_ADMIT = "ptk.admit"
    PTK_EXCHANGE = "ptk.exchange"
    PTK_REGISTER = "ptk.register"
    PTK_LIST = "ptk.list"
    PTK_READ = "ptk.read"
    PROFILE_READ = "profile.read"
    TRAINING_LIST = "training.list"
    PTK_UPDATE = "ptk.update"
    PTK_DEREGISTER = "ptk.deregister"
    PTK_NOTIFY = "ptk.notify"
    PTK_ROLL_BACK = "ptk.roll-back"
    PTK_MATERIALIZE = "ptk.materialize"
    STATE_READ = "state.read"
    STATE_TRACE = "state.trace"
    EVENT_FOLLOW = "event.follow"
    FEATURE_LOOK_UP = "feature.look-up"
    SUBSCRIPTION_CREATE = "subscription.create"
    SUBSCRIPTION_LIST = "subscription.list"
    SUBSCRIPTION_READ = "subscription.read"
    SUBSCRIPTION_ROTATE = "subscription.rotate"
    SUBSCRIPTION_REDELIVER = "subscription.redeliver"
    SUBSCRIPTION_ENABLE = "subscription.enable"
    SUBSCRIPTION_DISABLE = "subscription.disable"
    SUBSCRIPTION_DELETE = "subscription.delete"
    NOTICE_LIST = "notice.list"
    CONSOLE_SIGN_IN = "console.sign-in"
    LEDGER_RECOVER = "ledger.recover"
    LAKE_CLEAN = "lake.clean"
    CATALOG_UPGRADE = "catalog.upgrade"


@dataclass(frozen=True, slots=True)
class Rule:
    """Which roles may act, and on what; `own` keeps it to the team that the PTK or the subscription belongs to."""

    roles: frozenset[Role]
    reach: Reach
    own: bool = False


def _rule(*roles: Role, reach: Reach = Reach.STREAM, own: bool = False) -> Rule:
    return Rule(frozenset(roles), reach, own)


_P, _D, _C, _O, _A = Role
_ALL = tuple(Role)

RULES: dict[Action, Rule] = {
    Action.IDENTITY_READ: _rule(*_ALL, reach=Reach.ANY),
    Action.TEAM_CREATE: _rule(_A, reach=Reach.STORE),
    Action.TEAM_LIST: _rule(_A, reach=Reach.STORE),
    Action.TOKEN_ISSUE: _rule(_A, reach=Reach.STORE),
    Action.TOKEN_LIST: _rule(_A, reach=Reach.STORE),
    Action.TOKEN_ROTATE: _rule(_A, reach=Reach.STORE),
    Action.TOKEN_REVOKE: _rule(_A, reach=Reach.STORE),
    Action.GRANT_ADD: _rule(_A, reach=Reach.STORE),
    Action.GRANT_LIST: _rule(_A, reach=Reach.STORE),
    Action.GRANT_REMOVE: _rule(_A, reach=Reach.STORE),
    Action.AUDIT_READ: _rule(_O, _A, reach=Reach.STORE),
    Action.STREAM_CREATE: _rule(_A, reach=Reach.STORE),
    Action.STREAM_LIST: _rule(*_ALL, reach=Reach.ANY),
    Action.STREAM_READ: _rule(*_ALL),
    Action.STREAM_EVOLVE: _rule(_A),
    Action.STREAM_INGEST: _rule(_P),
    Action.STREAM_CLOSE: _rule(_P, _A),
    Action.STREAM_PREPARE: _rule(_A),
    Action.STREAM_FORGET: _rule(_P, _O),
    Action.STREAM_RECOMMEND: _rule(_D, _O, _A),
    Action.EXPOSURE_READ: _rule(_P, _O, _A),
    Action.BUDGET_READ: _rule(_D, _O, _A),
    Action.LEDGER_VERIFY: _rule(_O, _A),
    Action.LEDGER_EXPORT: _rule(_O),
    Action.LEDGER_KEY: _rule(*_ALL, reach=Reach.ANY),
    Action.BUNDLE_UPLOAD: _rule(_D, reach=Reach.ANY),
    Action.PTK_ADMIT: _rule(_D),
    Action.PTK_EXCHANGE: _rule(_D),
    Action.PTK_REGISTER: _rule(_D, own=True),
    Action.PTK_LIST: _rule(*_ALL, reach=Reach.ANY),
    Action.PTK_READ: _rule(*_ALL),
    Action.PROFILE_READ: _rule(_D, _O, _A, own=True),
    Action.TRAINING_LIST: _rule(*_ALL, own=True),
    Action.PTK_UPDATE: _rule(_D, own=True),
    Action.PTK_DEREGISTER: _rule(_D, _A, own=True),
    Action.PTK_NOTIFY: _rule(_D, own=True),
    Action.PTK_ROLL_BACK: _rule(_D, own=True),
    Action.PTK_MATERIALIZE: _rule(_D, _A, own=True),
    Action.STATE_READ: _rule(_D, _C, _O),
    Action.STATE_TRACE: _rule(_D, _C, _O, _A),
    Action.EVENT_FOLLOW: _rule(_D, _C),
    Action.FEATURE_LOOK_UP: _rule(_D, _C),
    Action.SUBSCRIPTION_CREATE: _rule(_D, _C),
    Action.SUBSCRIPTION_LIST: _rule(_D, _C, _A, reach=Reach.ANY),
    Action.SUBSCRIPTION_READ: _rule(_D, _C, _A, own=True),
    Action.SUBSCRIPTION_ROTATE: _rule(_D, _C, _A, own=True),
    Action.SUBSCRIPTION_REDELIVER: _rule(_D, _C, _A, own=True),
    Action.SUBSCRIPTION_ENABLE: _rule(_D, _C, _A, own=True),
    Action.SUBSCRIPTION_DISABLE: _rule(_D, _C, _A, own=True),
    Action.SUBSCRIPTION_DELETE: _rule(_D, _C, _A, own=True),
    Action.NOTICE_LIST: _rule(*_ALL, reach=Reach.ANY),
    Action.CONSOLE_SIGN_IN: _rule(*_ALL, reach=Reach.ANY),
    # Done in the store's home alone.
    Action.LEDGER_RECOVER: _rule(_A, reach=Reach.STORE),
    Action.LAKE_CLEAN: _rule(_A, reach=Reach.STORE),
    Action.CATALOG_UPGRADE: _rule(_A, reach=Reach.STORE),
}

# Harmless to repeat and seen by nobody else; everything else, and every refusal, leaves a trace.
UNTRACED = frozenset(
    {
        Action.IDENTITY_READ,
        Action.TEAM_LIST,
        Action.TOKEN_LIST,
        Action.GRANT_LIST,
        Action.STREAM_LIST,
        Action.STREAM_READ,
        Action.STREAM_RECOMMEND,
        Action.EXPOSURE_READ,
        Action.BUDGET_READ,
        Action.LEDGER_VERIFY,
        Action.LEDGER_KEY,
        Action.PTK_ADMIT,
        Action.PTK_LIST,
        Action.PTK_READ,
        Action.PROFILE_READ,
        Action.TRAINING_LIST,
        Action.STATE_READ,
        Action.STATE_TRACE,
        Action.EVENT_FOLLOW,
        Action.FEATURE_LOOK_UP,
        Action.SUBSCRIPTION_LIST,
        Action.SUBSCRIPTION_READ,
        Action.NOTICE_LIST,
    }
)


@dataclass(frozen=True, slots=True)
class Grant:
    """A team's role on a stream; `*` stands for every stream, and for every team where the role is the consumer's."""

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

    It opens nothing from `revoked_at` on, which lies ahead where it was rotated with an overlap.
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
        """Whether it still opens anything."""
        return now < self.expires_at and (self.revoked_at is None or now < self.revoked_at)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a team, by one of its tokens, in these roles at most."""

    team: str
    token_id: str
    scopes: frozenset[Role]

    @property
    def administers(self) -> bool:
        """Whether it may see everything that is no row."""
        return Role.ADMINISTRATOR in self.scopes


@dataclass(frozen=True, slots=True)
class Target:
    """What is acted on: a stream with its owner, and the team of the PTK or subscription if it is about one."""

    stream: str | None = None
    owner: str | None = None
    team: str | None = None


def roles_on(principal: Principal, target: Target, grants: Iterable[Grant]) -> frozenset[Role]:
    """The roles that a principal has on a stream, or on the whole store where `target` names none."""
    roles = {Role.ADMINISTRATOR}
    if target.stream is not None and target.owner == principal.team:
        roles |= STREAM_ROLES
    streams = (EVERY,) if target.stream is None else (EVERY, target.stream)
    roles |= {g.role for g in grants if g.team in (EVERY, principal.team) and g.stream in streams}
    return principal.scopes & roles


def allows(action: Action, principal: Principal, target: Target, grants: Iterable[Grant]) -> bool:
    """Whether the table lets `principal` do it; the one place where that is decided."""
    rule = RULES[action]
    if rule.reach is Reach.ANY:
        return bool(rule.roles & principal.scopes)
    acting = rule.roles & roles_on(principal, target, grants)
    if rule.own and target.team != principal.team:
        acting &= {Role.ADMINISTRATOR}
    return bool(acting)


def digest_of(secret: str) -> str:
    """What is stored of a token's secret: 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def text_of(token_id: str, secret: str) -> str:
    """A token as its holder keeps it."""
    return f"ptk_{token_id}_{secret}"


def split_text(text: str) -> tuple[str, str] | None:
    """Id and secret of a token's text, None if it is none."""
    match = _TEXT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def opens(token: Token | None, secret: str, now: datetime) -> bool:
    """Whether the secret is the token's and the token holds; takes the same time if there is no such token."""
    expected = digest_of("") if token is None else token.digest
    same = hmac.compare_digest(expected, digest_of(secret))
    return same and token is not None and token.holds(now)
