"""The health of an endpoint, and how long a failed delivery waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ptkstore.domain.jobs import backoff
from ptkstore.domain.subscriptions import (
    DISABLE_AFTER,
    FIRST_RETRY,
    GIVE_UP_AFTER_ATTEMPTS,
    GONE,
    JITTER,
    LONGEST_RETRY,
    Subscription,
    retry_wait,
)
from ptkstore.errors import InvalidRequest

NOW = datetime(2026, 1, 10, tzinfo=UTC)
HOOK = Subscription("s1", "taxi.speed", "https://ads.example/hook", "ads")


def test_an_endpoint_that_only_fails_is_disabled_and_can_be_enabled_again() -> None:
    failing = HOOK.after("timeout", NOW)
    assert (HOOK.status, failing.status) == ("ok", "failing")
    almost = failing.after("timeout", NOW + DISABLE_AFTER - timedelta(seconds=1))
    assert (almost.status, almost.health.failures, almost.health.failing_since) == ("failing", 2, NOW)
    disabled = almost.after("timeout", NOW + DISABLE_AFTER)
    assert (disabled.status, disabled.disabled_code) == ("disabled", "timeout")
    assert disabled.enabled() == HOOK


def test_one_success_forgives_every_failure() -> None:
    found = HOOK.after("timeout", NOW).after(None, NOW + timedelta(days=1))
    assert (found.status, found.health.failures, found.health.last_success) == (
        "ok",
        0,
        NOW + timedelta(days=1),
    )


def test_an_endpoint_that_is_gone_is_disabled_at_once() -> None:
    assert HOOK.after(GONE, NOW).status == "disabled"


def test_teams_append_to_streams_of_their_own() -> None:
    keys = {
        Subscription("s", "taxi.speed", "redis-stream:news", team).stream_key for team in ("ads", "maps", "")
    }
    assert len(keys) == 3
    assert HOOK.stream_key is None
    with pytest.raises(InvalidRequest):
        _ = Subscription("s", "taxi.speed", "redis-stream:No!", "ads").stream_key


def test_two_versions_are_given_up_before_their_endpoint_is_disabled() -> None:
    longest = [
        backoff(attempt, first=FIRST_RETRY, most=LONGEST_RETRY) * (1 + JITTER)
        for attempt in range(1, GIVE_UP_AFTER_ATTEMPTS)
    ]
    assert 2 * sum(longest, timedelta()) < DISABLE_AFTER


def test_waits_grow_with_attempts_and_with_what_the_endpoint_asks_for() -> None:
    waits = [retry_wait("msg", attempt) for attempt in range(1, 40)]
    assert FIRST_RETRY * (1 - JITTER) <= waits[0] <= FIRST_RETRY * (1 + JITTER)
    assert max(waits) <= LONGEST_RETRY * (1 + JITTER)
    assert retry_wait("msg", 3) == retry_wait("msg", 3)
    assert len({retry_wait(f"msg{n}", 3) for n in range(20)}) == 20
    hour = timedelta(hours=1)
    assert hour <= retry_wait("msg", 1, requested=hour) <= hour * (1 + JITTER)
    assert retry_wait("msg", 3, requested=timedelta(0)) == retry_wait("msg", 3)
