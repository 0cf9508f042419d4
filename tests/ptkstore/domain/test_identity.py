"""Who may do what: the one table, and what a token is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import (
    EVERY,
    ROLE_TEXTS,
    STREAM_ROLES,
    Action,
    Grant,
    Principal,
    Reach,
    Role,
    Target,
    Token,
    allows,
    digest_of,
    opens,
    roles_on,
    split_text,
    text_of,
)
from ptkstore.errors import InvalidRequest
from tests.architecture.source import REPOSITORY

NOW = datetime(2026, 1, 10, tzinfo=UTC)
SECRET = "s" * 43
TAXI = Target("trips", "taxi", "taxi")

roles = st.sampled_from(list(Role))
scopes = st.frozensets(roles, min_size=1)
streams = st.sampled_from(["trips", "clicks", EVERY])
grants = st.lists(
    st.builds(Grant, st.sampled_from(["taxi", "ads"]), streams, st.sampled_from(sorted(STREAM_ROLES)))
)


def token(**changes: object) -> Token:
    fields = {
        "id": "0" * 16,
        "team": "taxi",
        "label": "",
        "scopes": frozenset({Role.PRODUCER}),
        "digest": digest_of(SECRET),
        "created_at": NOW,
        "expires_at": NOW + timedelta(days=90),
    }
    return Token(**{**fields, **changes})  # type: ignore[arg-type]


def principal(*scopes: Role, team: str = "taxi") -> Principal:
    return Principal(team, "0" * 16, frozenset(scopes))


def test_every_action_has_somebody_who_may() -> None:
    assert all(action.rule.roles for action in Action)


@given(scopes, grants, st.sampled_from(list(Action)))
def test_nobody_acts_in_a_role_that_the_token_lacks(
    held: frozenset[Role], given_: list[Grant], action: Action
) -> None:
    who = principal(*held)
    assert roles_on(who, TAXI, given_) <= held
    if not action.rule.roles & held:
        assert not allows(action, who, TAXI, given_)


@given(scopes, grants, st.sampled_from([a for a in Action if a.rule.reach is Reach.STREAM]))
def test_a_stranger_to_a_stream_does_nothing_on_it(
    held: frozenset[Role], given_: list[Grant], action: Action
) -> None:
    who = principal(*held - {Role.ADMINISTRATOR}, team="strangers")
    assert not allows(action, who, TAXI, given_)


@given(scopes, st.sampled_from(list(Action)))
def test_more_grants_never_take_anything_away(held: frozenset[Role], action: Action) -> None:
    who = principal(*held, team="ads")
    if allows(action, who, TAXI, []):
        assert allows(action, who, TAXI, [Grant("ads", EVERY, role) for role in STREAM_ROLES])


def test_the_owner_of_a_stream_has_every_role_on_it_and_on_no_other() -> None:
    who = principal(*STREAM_ROLES)
    assert roles_on(who, TAXI, []) == STREAM_ROLES
    assert roles_on(who, Target("clicks", "web"), []) == frozenset()
    assert roles_on(who, Target(), []) == frozenset()


def test_a_grant_on_one_stream_is_none_on_the_store() -> None:
    officer = principal(Role.OFFICER, team="privacy")
    assert not allows(Action.AUDIT_READ, officer, Target(), [Grant("privacy", "trips", Role.OFFICER)])
    assert allows(Action.AUDIT_READ, officer, Target(), [Grant("privacy", EVERY, Role.OFFICER)])


def test_what_belongs_to_another_team_is_changed_by_its_team_or_an_administrator() -> None:
    developer = principal(Role.DEVELOPER, team="ads")
    given_ = [Grant("ads", "trips", Role.DEVELOPER)]
    assert not allows(Action.PTK_UPDATE, developer, TAXI, given_)
    assert allows(Action.PTK_UPDATE, developer, replace(TAXI, team="ads"), given_)
    administrator = principal(Role.ADMINISTRATOR, team="ads")
    assert allows(Action.PTK_DEREGISTER, administrator, TAXI, [])
    assert not allows(Action.PTK_UPDATE, administrator, TAXI, [])


@pytest.mark.parametrize(
    ("team", "stream", "role"),
    [
        ("taxi", "trips", Role.ADMINISTRATOR),
        (EVERY, "trips", Role.DEVELOPER),
        (EVERY, "trips", Role.PRODUCER),
        ("Taxi", "trips", Role.CONSUMER),
        ("taxi", "trips; drop", Role.CONSUMER),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(team: str, stream: str, role: Role) -> None:
    with pytest.raises(InvalidRequest):
        Grant(team, stream, role)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": frozenset()},
        {"team": "Taxi"},
        {"label": "x" * 101},
        {"label": "two\nlines"},
        {"expires_at": NOW},
        {"expires_at": NOW + timedelta(days=367)},
    ],
    ids=str,
)
def test_a_token_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        token(**wrong)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"expires_at": NOW + timedelta(seconds=5)}, False),  # its end is not part of its life
        ({"expires_at": NOW + timedelta(seconds=6)}, True),
        ({"revoked_at": NOW + timedelta(seconds=5)}, False),
        ({"revoked_at": NOW + timedelta(seconds=6)}, True),
    ],
    ids=str,
)
def test_a_token_opens_until_it_expires_or_is_revoked(changes: dict[str, object], holds: bool) -> None:
    assert opens(token(**changes), SECRET, NOW + timedelta(seconds=5)) is holds


def test_a_wrong_secret_opens_nothing_and_no_token_does_neither() -> None:
    assert not opens(token(), "t" * 43, NOW)
    assert not opens(None, SECRET, NOW)
    assert not opens(None, "", NOW)  # the digest that stands in for an unknown token opens nothing


def test_a_tokens_text_is_read_back_and_nothing_else_is() -> None:
    assert split_text(text_of("0" * 16, SECRET)) == ("0" * 16, SECRET)
    for text in (
        "",
        "ptk_",
        f"ptk_{'0' * 16}_{'s' * 42}",
        f"ptk_{'0' * 16}_{SECRET}\n",
        f"{'0' * 16}_{SECRET}",
    ):
        assert split_text(text) is None


@pytest.mark.parametrize("name", [None, "", "a b", "x\ny", "alice@example.org", "a" * 201, "../x" * 9])
def test_a_callers_own_text_does_not_enter_the_trail(name: str | None) -> None:
    assert subject_of("stream", name) == "stream"


def test_the_reference_says_of_each_role_what_the_console_says() -> None:
    page = (REPOSITORY / "docs/reference/http.md").read_text()
    assert set(ROLE_TEXTS) == set(Role)
    for role, text in ROLE_TEXTS.items():
        assert f"| {role} | {text} |" in page
