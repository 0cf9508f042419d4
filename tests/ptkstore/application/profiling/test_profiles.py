"""Profiles by samples: paid before rows are opened, kept as answers, planned with, reused, renewed, given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptklib.exceptions import InvalidParameterError
from ptklib.spec import estimator_from_spec
from ptkstore.application.planning import profile_plans
from ptkstore.application.profiling.read_profile import ProfileView
from ptkstore.domain.accounting.assurances import Assurance, Assured
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ptks.profiles import Point, Verdict
from ptkstore.domain.streams.blocks import part_bounds
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.windows import WindowState
from ptkstore.errors import InvalidRequest, WindowGone
from ptkstore.ports.row_processes import DriftRequest, ProfileRequest, RunFailed
from tests.support.cases import case
from tests.support.profiled_world import (
    EPSILON,
    ROWS,
    TARGET,
    asked,
    centre,
    profiled_world,
    register,
    rides,
    world,
)
from tests.support.world import STREAM, World, speed

__all__ = ["world"]

HALF = int(4.5 * 10**9)
KINDS = ("prepare", "allocate", "profile", "drift", "train", "place")
FOUND = ((0.5, 64),)


def hours() -> Mapping[str, Any]:
    """Shares of 24 hours; of rows at all hours alike no model has a risk of 0.2."""
    domains = {"hour": list(range(24))}
    return HistoricalStatistics(keys=["hour"], statistics=("count",), domains=domains, epsilon=1.0).to_spec()


def run(world: World, day: int, rows: pa.Table | None = None, *kinds: str) -> list[str]:
    """A window from its rows to the end of its work, without expiry."""
    world.service.ingest(STREAM, rides(day) if rows is None else rows)
    world.close(day + 1)
    return world.work(*(kinds or KINDS))


def empty(day: int) -> pa.Table:
    """A window in which nothing is shown: a single ride."""
    return rides(day, 1)


def spent(world: World, number: int) -> tuple[int, int]:
    """Reserved and spent nano-epsilon of a block."""
    block = next(b for b in world.service.budget(STREAM) if b.number == number)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def view(world: World, ptk_id: str = "taxi.centre") -> ProfileView:
    return world.service.profile(ptk_id)


def codes(world: World) -> list[str]:
    return [code for _, code in world.notices()]


def profiles_of(jobs: list[str]) -> list[str]:
    return [job for job in jobs if job.startswith(("profile/", "drift/"))]


# what it costs, and of what


def test_a_model_that_a_newer_library_refuses_stops_nobody_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(world, "aged", estimator=centre(n_clusters=2))
    register(world)

    def newer(spec: Mapping[str, Any]) -> Any:
        if dict(spec)["params"]["n_clusters"] == 2:
            raise InvalidParameterError("n_clusters must be 1")
        return estimator_from_spec(spec)

    monkeypatch.setattr("ptklib.profiling.subjects.estimator_from_spec", newer)
    assert profiles_of(run(world, 0)) == ["profile/taxi.centre/0"]
    assert view(world).menu == FOUND
    assert ("taxi.aged profile of window 0", "profile-refused") in world.notices()


def test_a_profile_is_spent_on_the_profile_block_before_the_key_is_asked_for(world: World) -> None:
    register(world)
    world.service.ingest(STREAM, rides(0))
    world.close(1)
    world.work("prepare", "allocate")
    assert [spent(world, number) for number in range(3)] == [(HALF, 0), (0, 0), (10**9, 0)]
    asked_for: list[tuple[int, int]] = []
    opening_key = world.service.keys.opening_key

    def watched(*args: object) -> bytes:
        asked_for.append(spent(world, 0))
        return opening_key(*args)  # type: ignore[arg-type]

    world.service.keys.opening_key = watched  # type: ignore[method-assign,assignment]
    world.work("profile")
    assert asked_for == [(0, HALF)]
    (paid,) = view(world).paid
    assert (paid.what, paid.window, paid.blocks.lo, paid.blocks.hi) == ("profile", 0, 0, 1)
    assert paid.loss.epsilon_nano == HALF
    assert world.service.verify_ledger(STREAM).faults == ()


def test_a_profile_that_would_cost_more_when_it_is_claimed_again_opens_no_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(world)
    world.service.ingest(STREAM, rides(0))
    world.close(1)
    world.work("prepare", "allocate")

    def die() -> None:
        raise KeyboardInterrupt

    world.steps.at["opened"] = die
    with pytest.raises(KeyboardInterrupt):
        world.service.work_on("profile/taxi.centre/0")
    world.clock.pass_(hours=2)

    def dearer(loss: Any, policy: Any) -> Any:
        price = priced(loss, policy)
        amounts = tuple(amount + 1 for amount in price.charge.amounts)
        return replace(price, charge=replace(price.charge, amounts=amounts))

    priced = profile_plans._price
    monkeypatch.setattr(profile_plans, "_price", dearer)
    world.work("profile")
    assert world.profiler.requests == []
    assert world.job("profile/taxi.centre/0").outcome is Outcome.WITHDRAWN
    assert ("taxi.centre profile of window 0", "changed-after-its-reservation") in world.notices()
    assert spent(world, 0) == (0, HALF)


def test_profile_rows_and_train_rows_are_disjoint_for_the_life_of_the_stream(world: World) -> None:
    register(world)
    run(world, 0)
    (request,) = world.profiler.requests
    ((asked,), (training,)) = request.profile_set, world.trainer.requests[0].rows
    assert not set(asked.part_urls) & set(training.part_urls)
    bounds = part_bounds(world.service.streams()[0].policy)
    assert (asked.low, asked.high) == (0, bounds[0])
    read = world.service.raw.read_part
    profile = read(asked.part_urls[0], training.window_key)["ptk_hash"].to_numpy()
    train = read(training.part_urls[0], training.window_key)["ptk_hash"].to_numpy()
    assert 2_000 < len(profile) < 2_800  # of 4,800 coins: eleven standard deviations
    assert profile.max() < bounds[0] <= bounds[1] <= train.min()


def test_the_profile_block_is_never_overspent_and_who_does_not_fit_is_told_and_waits(world: World) -> None:
    for name, clusters in (("a", 1), ("b", 2), ("c", 3)):
        register(world, name, estimator=centre(n_clusters=clusters, epsilon=1.0))
    assert profiles_of(run(world, 0)) == ["profile/taxi.a/0", "profile/taxi.b/0"]
    assert spent(world, 0) == (0, 2 * HALF)
    assert ("taxi.c profile of window 0", "profile-budget-denied") in world.notices()
    assert profiles_of(run(world, 1)) == ["profile/taxi.c/1"]
    assert view(world, "taxi.c").menu == FOUND
    assert all(b.spent.epsilon_nano <= EPSILON * 10**9 for b in world.service.budget(STREAM))


# what it is for


def test_windows_after_the_profile_take_the_rows_and_the_epsilon_that_were_found(world: World) -> None:
    register(world)
    run(world, 0)
    assert view(world).menu == FOUND
    run(world, 1)
    planned = [(v.content["planned"]["n"], v.content["guarantee"]["epsilon"]) for v in versions(world)]
    assert planned == [(1_920, 1.0), (64, 0.5)]
    assert codes(world) == ["profiled"]
    (train,) = world.trainer.requests[1].rows
    assert (train.high - train.low) / 2**64 == pytest.approx(64 / ROWS)


def test_a_profile_is_made_once_for_all_who_ask_for_the_same(world: World) -> None:
    register(world)
    run(world, 0)
    register(world, "again", estimator=centre(epsilon=0.7))  # epsilon is what the profile is about
    world.service.register_ptk(
        team="fares", name="too", stream=STREAM, train_frequency="1d",
        estimator=centre(), target=TARGET, config=asked(),
    )  # fmt: skip
    assert profiles_of(run(world, 1)) == []
    for ptk_id in ("taxi.again", "fares.too"):
        assert view(world, ptk_id).menu == FOUND
        assert world.service.versions(ptk_id)[0].content["planned"]["n"] == 64
    assert spent(world, 128) == (0, 0)


def test_parameters_that_are_left_out_count_as_their_defaults(world: World) -> None:
    register(world, "whole")
    params = {k: v for k, v in centre()["params"].items() if k not in ("unit", "method", "scale", "delta")}
    register(world, "short", estimator={"family": "Clustering", "params": params}, config=asked(drift=0.5))
    assert profiles_of(run(world, 0)) == ["profile/taxi.short/0"]
    assert profiles_of(run(world, 1)) == ["drift/taxi.short/1"]
    assert view(world, "taxi.whole").menu == FOUND


def test_two_who_ask_at_once_pay_once(world: World) -> None:
    register(world, "a")
    register(world, "b")
    assert profiles_of(run(world, 0)) == ["profile/taxi.a/0"]
    assert view(world, "taxi.b").menu == FOUND
    assert {s for s, code in world.notices() if code == "profiled"} == {"taxi.a profile", "taxi.b profile"}


def test_contexts_that_must_not_learn_of_each_other_share_no_profile(tmp_path: Path) -> None:
    sharing = Sharing((("north", ("taxi",)), ("south", ("fares",))), "nobody works for two of the countries")
    world = profiled_world(tmp_path / "home", sharing=sharing)
    register(world)
    world.service.register_ptk(
        team="fares", name="centre", stream=STREAM, train_frequency="1d",
        estimator=centre(), target=TARGET, config=asked(),
    )  # fmt: skip
    assert profiles_of(run(world, 0)) == ["profile/fares.centre/0", "profile/taxi.centre/0"]
    with world.service.begin() as uow:
        lines = {entry.request.line for entry in uow.ledger.journal(STREAM) if "profile" in entry.key}
    assert lines == {"context north", "context south"}
    world.service.close()


# how it is renewed


@pytest.mark.parametrize(
    "change", [{"target": 0.31}, {"estimator": centre(n_clusters=2)}], ids=["target", "config"]
)
def test_a_changed_config_or_target_is_profiled_anew_and_planned_with_nothing_until_then(
    world: World, change: dict[str, Any]
) -> None:
    ptk_id = register(world)
    run(world, 0)
    world.service.update_ptk(ptk_id, **change)
    assert view(world).menu == ()
    assert profiles_of(run(world, 1)) == ["profile/taxi.centre/1"]
    assert versions(world)[1].content["planned"]["n"] == 1_920
    assert view(world).asked_at == 1
    world.service.update_ptk(ptk_id, estimator=centre(), target=TARGET)
    assert (view(world).asked_at, view(world).menu) == (0, FOUND)
    assert profiles_of(run(world, 2)) == []


def test_an_aged_profile_is_renewed_and_used_until_it_is(world: World) -> None:
    register(world, config=asked(max_age=1))
    made = [profiles_of(run(world, day)) for day in range(3)]
    assert made == [["profile/taxi.centre/0"], [], ["profile/taxi.centre/2"]]
    assert [v.content["planned"]["n"] for v in versions(world)] == [1_920, 64, 64]
    assert (view(world).number, view(world).asked_at, view(world).age) == (2, 2, 0)
    assert [one.window for one in view(world).paid] == [0, 2]


def test_the_age_is_the_policys_unless_the_ptk_says_otherwise(tmp_path: Path) -> None:
    world = profiled_world(tmp_path / "home", profile_max_age=5)
    register(world)
    assert view(world).max_age == 5
    register(world, "other", config=asked(max_age=2))
    assert view(world, "taxi.other").max_age == 2
    world.service.close()


def test_a_profile_that_drifted_is_told_not_planned_with_and_renewed(world: World) -> None:
    register(world, config=asked(drift=0.5, n_min=256))
    run(world, 0, rides(0, at=2.0))
    assert profiles_of(run(world, 1, rides(1, at=2.0))) == ["drift/taxi.centre/1"]
    assert view(world).drifted_at is None
    assert profiles_of(run(world, 2, rides(2, at=58.0))) == ["drift/taxi.centre/2"]
    assert (view(world).drifted_at, view(world).menu) == (2, ())
    assert codes(world)[-1] == "profile-drifted"
    assert profiles_of(run(world, 3, rides(3, at=58.0))) == ["profile/taxi.centre/3"]
    assert [v.content["planned"]["n"] for v in versions(world)] == [1_920, 256, 256, 1_920]
    assert (view(world).number, view(world).drifted_at, view(world).menu) == (2, None, ((0.5, 256),))
    assert spent(world, 256) == (0, 5 * 10**8)
    tests = [r for r in world.profiler.requests if isinstance(r, DriftRequest)]
    assert [set(r.state) >= {"centers.parquet", "state.json"} for r in tests] == [True, True]


def test_only_a_state_that_was_trained_as_the_profile_says_is_tested(world: World) -> None:
    register(world, config=asked(drift=0.5))
    run(world, 0, rides(0), "prepare", "allocate", "profile")  # its training waits
    assert profiles_of(run(world, 1)) == []
    assert [v.content["planned"]["n"] for v in versions(world)] == [1_920, 64]
    with world.service.begin() as uow:
        (spec,) = uow.ptks.find()
        assert spec.profile is not None
        (record,) = uow.profiles.of([spec.profile.key])[spec.profile.key]
        uow.profiles.save(replace(record, points=(Point(0.5, Verdict.FOUND, 1_000),)))
        uow.commit()
    assert profiles_of(run(world, 2)) == []  # the newest state has 64 rows, and a thousand were promised
    assert profiles_of(run(world, 3)) == ["drift/taxi.centre/3"]


# when it finds nothing


def test_needs_more_goes_on_with_larger_samples_of_the_next_window_until_it_is_given_up(world: World) -> None:
    register(world, config=asked(tries=2, n_max=512, n_min=64))
    # 2,400 units have room for the validation set and samples up to 256; the next window for 512 alone.
    run(world, 0, empty(0))
    assert view(world).points == tuple(Point(e, Verdict.NEEDS_MORE, 256) for e in (0.5, 1.0))
    assert (view(world).state, view(world).tries, codes(world)) == ("open", 1, [])
    run(world, 1, empty(1))
    first, second = (r for r in world.profiler.requests if isinstance(r, ProfileRequest))
    assert (first.n_min, second.n_min) == (64, 257)
    assert not set(first.profile_set[0].part_urls) & set(second.profile_set[0].part_urls)
    assert (view(world).state, view(world).tries) == ("given-up", 2)
    assert view(world).points == tuple(Point(e, Verdict.NEEDS_MORE, 512) for e in (0.5, 1.0))
    assert codes(world) == ["profile-needs-more"]
    assert "larger target" in str(view(world).advice)
    assert [spent(world, number) for number in (0, 128)] == [(0, HALF), (0, HALF)]
    assert profiles_of(run(world, 2)) == []
    assert {v.content["planned"]["n"] for v in versions(world)} == {1_920}


def test_a_profile_goes_on_where_the_rows_come_later(world: World) -> None:
    register(world, config=asked(n_max=512))
    run(world, 0, empty(0))
    run(world, 1)
    assert view(world).points == tuple(Point(e, Verdict.FOUND, 512) for e in (0.5, 1.0))
    assert (view(world).state, view(world).asked_at, view(world).menu) == ("answered", 0, ((0.5, 512),))


def test_a_profile_is_given_up_when_no_profile_set_has_room_for_larger_samples(world: World) -> None:
    register(world, config=asked(n_max=1_024))
    run(world, 0, empty(0))
    run(world, 1, empty(1))
    assert [point.n for point in view(world).points] == [512, 512]
    assert profiles_of(run(world, 2, empty(2))) == []
    assert (view(world).state, codes(world)) == ("given-up", ["profile-needs-more"])


def test_a_target_no_model_reaches_is_told_with_what_would_help(tmp_path: Path) -> None:
    world = profiled_world(tmp_path / "home", profile_share=Decimal("0.7"))
    register(world, "hours", estimator=hours(), config=asked(), target=0.2)
    run(world, 0)
    told = view(world, "taxi.hours")
    assert {point.verdict for point in told.points} == {Verdict.UNREACHABLE}
    assert codes(world) == ["profile-target-unreachable"]
    assert "no model of this config has a risk of 0.2 or less" in str(told.advice)
    assert told.menu == ()
    world.service.close()


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ({"target": 0.05}, "profile-set-too-small", "profile set of a window has 2400"),
        ({"config": asked(budget=9.5)}, "profile-over-budget", "does not fit a profile block"),
    ],
)
def test_a_ptk_that_no_window_can_profile_stays_with_declared_rows_and_its_owner_is_told_at_once(
    world: World, more: dict[str, Any], code: str, says: str
) -> None:
    register(world, **more)
    assert world.notices() == [("taxi.centre profile", code)]
    assert says in str(view(world).advice)
    assert profiles_of(run(world, 0)) == []
    assert versions(world)[0].content["planned"]["n"] == 1_920
    assert len(world.notices()) == 1


def test_a_profile_set_of_more_rows_than_sums_are_exact_for_is_not_profiled(tmp_path: Path) -> None:
    made = profiled_world(tmp_path / "home", rows_per_window=2**27, n_max=2**27)
    register(made)
    assert made.notices() == [("taxi.centre profile", "profile-set-too-large")]
    assert "more than the 8,388,608 that are summed exactly enough" in str(view(made).advice)
    made.service.close()


def test_a_family_with_a_formula_is_profiled_by_samples_where_it_asks_for_it_alone(world: World) -> None:
    world.register("means", estimator=speed(1.0), target=0.1, config={"epsilons": [0.5, 1.0]})
    assert view(world, "taxi.means").method == "formula"
    register(world, "hours", estimator=hours())
    assert view(world, "taxi.hours").method == "samples"
    world.register("declared", 0.1)
    assert view(world, "taxi.declared") == ProfileView(
        "declared", ((0.1, 1_920),), assured=Assured(Assurance.LIBRARY)
    )


def test_the_settings_of_a_profile_are_checked_at_registration(world: World) -> None:
    for config, says in [
        ({"profile": {}}, "name it with epsilons"),
        (asked(colour="red"), "it may have"),
        ({"epsilons": [0.5, 1.0], "profile": 3}, "mapping of settings"),
        (asked(models=0), "models of a profile is a whole number"),
        (asked(tries=True), "tries of a profile is a whole number"),
        (asked(budget=0.4), "budget must pay for one training"),
        (asked(budget="all"), "must be a number"),
        (asked(growth=1), "growth above 1"),
        (asked(confidence=2), "confidence must be in"),
        (asked(confidence=1 - 2**-53), "confidence must be in"),  # divided by the tries none is left
        (asked(evaluation="mine"), "evaluation must be"),
        (asked(loss_bounds=[0, 1, 2]), "cannot be profiled"),
        (asked(drift=1e-4), "could never tell"),
    ]:
        with case(str((config, says))):
            with pytest.raises(InvalidRequest, match=says):
                register(world, config=config)
            assert world.service.ptks() == ()


def test_a_setting_of_a_profile_that_says_nothing_is_the_default(world: World) -> None:
    register(world, config=asked(tries=None, models=None, max_age=None))
    assert (view(world).most_tries, view(world).max_age) == (3, 30)


# what goes wrong


def test_expiry_wins_over_a_profile_nobody_opened(world: World) -> None:
    register(world)
    world.service.ingest(STREAM, rides(0))
    world.close(1)
    world.work("prepare", "allocate")
    world.service.close_windows(STREAM, world.clock.now(), expire_unfinished=True)
    world.work("expire")
    assert world.state(0) is WindowState.EXPIRED
    assert world.job("profile/taxi.centre/0").outcome is Outcome.EXPIRED
    assert ("taxi.centre profile of window 0", "expired") in world.notices()
    assert spent(world, 0) == (0, 0)
    assert world.work("profile") == []
    assert world.profiler.requests == []


def test_an_operator_is_warned_before_a_profile_would_expire(world: World) -> None:
    register(world)
    run(world, 0, None, "prepare", "allocate", "train", "place")
    run(world, 1, None, "prepare")
    with pytest.raises(Exception, match="window 0"):
        world.close(3)


def test_a_profile_whose_window_lost_its_key_ends_expired_and_the_next_window_goes_on(world: World) -> None:
    register(world)
    opening_key = world.service.keys.opening_key

    def gone(window: Any, *args: Any) -> bytes:
        if window.index == 0:
            raise WindowGone("the key is gone")
        return opening_key(window, *args)

    world.service.keys.opening_key = gone  # type: ignore[method-assign]
    run(world, 0, None, "prepare", "allocate", "profile")
    assert world.job("profile/taxi.centre/0").outcome is Outcome.EXPIRED
    assert spent(world, 0) == (0, HALF)
    run(world, 1, None, "prepare", "allocate", "profile")
    assert (view(world).menu, view(world).tries) == (FOUND, 2)


def test_a_run_that_fails_keeps_the_spend_tells_a_code_and_the_next_window_asks_the_same(
    world: World,
) -> None:
    register(world)
    world.profiler.failing = RunFailed("timeout")
    run(world, 0)
    job = world.job("profile/taxi.centre/0")
    assert (job.state, job.outcome, spent(world, 0)) == (JobState.ENDED, Outcome.FAILED, (0, HALF))
    assert world.notices() == [("taxi.centre profile of window 0", "timeout")]
    assert view(world).menu == ()
    run(world, 1)
    first, second = world.profiler.requests
    assert isinstance(first, ProfileRequest)
    assert isinstance(second, ProfileRequest)
    assert (first.epsilons, first.n_min) == (second.epsilons, second.n_min)
    assert (view(world).menu, view(world).tries) == (FOUND, 2)


@pytest.mark.long
def test_runs_that_fail_are_given_up_after_the_declared_number(world: World) -> None:
    register(world, config=asked(tries=2))
    for day in range(3):
        world.profiler.failing = RunFailed("memory-limit")
        run(world, day, empty(day))
    assert (view(world).state, view(world).tries) == ("given-up", 2)
    assert codes(world) == ["memory-limit", "memory-limit", "profile-needs-more"]
    assert len(world.profiler.requests) == 2


def test_a_worker_that_was_overtaken_keeps_nothing(world: World) -> None:
    register(world)
    run(world, 0, None, "prepare", "allocate")

    def overtaken() -> None:
        world.clock.pass_(minutes=2)
        assert world.service.work_on("profile/taxi.centre/0")
        world.profiler.failing = RunFailed("killed")  # what the slow one would tell

    world.profiler.meanwhile = overtaken
    world.work("profile")
    assert len(world.profiler.requests) == 2
    assert (world.job("profile/taxi.centre/0").outcome, codes(world)) == (Outcome.DONE, ["profiled"])
    assert (view(world).menu, view(world).tries, spent(world, 0)) == (FOUND, 1, (0, HALF))


def test_a_ptk_that_changed_before_its_profile_was_opened_gets_the_reservation_back(world: World) -> None:
    ptk_id = register(world)
    run(world, 0, None, "prepare", "allocate")
    world.service.update_ptk(ptk_id, target=0.31)
    world.work("profile")
    assert world.job("profile/taxi.centre/0").outcome is Outcome.WITHDRAWN
    assert spent(world, 0) == (0, 0)
    assert world.profiler.requests == []


def test_who_shares_a_profile_goes_on_with_it_when_the_one_who_paid_is_deregistered(world: World) -> None:
    register(world, "a")
    register(world, "b")
    run(world, 0, None, "prepare", "allocate")
    world.service.deregister_ptk("taxi.a")
    assert spent(world, 0) == (0, 0)
    assert world.work("profile") == []
    assert profiles_of(run(world, 1)) == ["profile/taxi.b/1"]
    assert view(world, "taxi.b").menu == FOUND


def test_a_second_window_starts_nothing_while_the_first_is_still_asked(world: World) -> None:
    register(world)
    run(world, 0, None, "prepare", "allocate")
    run(world, 1, None, "prepare", "allocate")
    assert profiles_of(world.work("profile")) == ["profile/taxi.centre/0"]


def test_everybody_who_fitted_still_does_when_a_profile_comes_to_nothing(world: World) -> None:
    """Registered with what was found at .5; after a drift it would ask for its own 6 beside one of 8.5 in 9."""
    register(world, "other", estimator=centre(epsilon=6.0), config=asked(drift=0.5, n_min=256))
    run(world, 0, rides(0, at=2.0))
    world.register("big", 8.5)
    run(world, 1, rides(1, at=58.0))
    assert codes(world)[-1] == "profile-drifted"
    run(world, 2, rides(2, at=58.0))
    assert "budget-denied" not in codes(world)
    newest = world.service.versions("taxi.other")[-1].content
    assert (newest["planned"]["n"], newest["guarantee"]["epsilon"]) == (1_920, 0.5)


# units and blocks


def test_units_of_users_are_what_a_profile_counts(tmp_path: Path) -> None:
    policy = {
        "privacy_unit": PrivacyUnit.USER_IN_WINDOW,
        "unit_column": "zone",
        "max_rows_per_unit": 2,
        "rows_per_window": 2 * ROWS,
    }
    world = profiled_world(tmp_path / "home", **policy)
    users = pa.array([f"u{i // 2}" for i in range(2 * ROWS)])
    rows = rides(0, 2 * ROWS).set_column(3, "zone", users)
    register(world, estimator=centre(unit="zone", max_rows_per_unit=2))
    run(world, 0, rows)
    (request,) = world.profiler.requests
    assert request.ask.population == 2_400
    assert view(world).points[0] == Point(0.5, Verdict.FOUND, 64)
    assert view(world).menu == ((0.5, 128),)
    run(world, 1, rows.set_column(0, "at", rides(1, 2 * ROWS)["at"]))
    assert versions(world)[1].content["planned"]["n"] == 128
    world.service.close()


def test_a_user_is_charged_on_the_shards_of_the_profile_part_for_life(tmp_path: Path) -> None:
    world = profiled_world(
        tmp_path / "home", privacy_unit=PrivacyUnit.USER, unit_column="zone", user_shards=2
    )
    register(
        world,
        estimator=centre(unit="zone", max_rows_per_unit=1),
        config=asked(tries=3, n_max=512, drift=None),
    )
    assert view(world).drift_epsilon is None
    for day in range(3):
        run(world, day, empty(day))
    assert [spent(world, number) for number in range(6)][:4] == [(0, 2 * HALF)] * 2 + [(0, 0)] * 2
    world.service.close()


def test_a_ptk_of_some_groups_is_profiled_and_charged_on_their_blocks_alone(tmp_path: Path) -> None:
    world = profiled_world(tmp_path / "home", attribute="long", attribute_values=(False, True))
    register(world, config={**asked(), "where": {"long": True}})
    run(world, 0)
    (request,) = world.profiler.requests
    assert [url.rpartition("/")[2] for url in request.profile_set[0].part_urls] == ["1.parquet"]
    assert [spent(world, number) for number in range(2)] == [(0, 0), (0, HALF)]
    assert view(world).menu == FOUND
    world.service.close()


def test_reserved_and_released_profiles_are_told_apart_in_the_journal(world: World) -> None:
    register(world)
    run(world, 0)
    with world.service.begin() as uow:
        entries = [entry for entry in uow.ledger.journal(STREAM) if entry.key == "profile/taxi.centre/0"]
    assert [entry.kind for entry in entries] == [EntryKind.RESERVE, EntryKind.SPEND]
    assert entries[1].event["name"] == "Parallel"


def versions(world: World, ptk_id: str = "taxi.centre") -> Any:
    return world.service.versions(ptk_id)
