"""Streams whose unit is a user, or whose blocks are by city: what is refused, charged, opened and published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptklib import UserEmbeddings
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest, PtkRejected
from ptkstore.sdk import Store
from tests.support.ridden import (
    CITIES,
    IN_WINDOW,
    OF_USERS,
    USERS,
    bare,
    by_city,
    close,
    register,
    rides,
    spent,
    stream,
)
from tests.support.world import World

__all__ = ["bare"]

TENTH = 10**8
BY_CITY: dict[str, Any] = {"attribute": "city", "attribute_values": CITIES}


def counts(world: World, ptk_id: str, version: int = 1) -> dict[str, float]:
    content, files = world.service.ptk_version(ptk_id, version)
    (name,) = files
    table = pq.read_table(pa.BufferReader(files[name]))
    assert content["version"] == version
    return dict(zip(table["city"].to_pylist(), table["count"].to_pylist(), strict=True))


# registration


@pytest.mark.parametrize("policy", [IN_WINDOW, USERS], ids=["user-in-window", "user"])
@pytest.mark.parametrize(
    "params",
    [{}, {"max_rows_per_unit": 2}, {"unit": "city", "max_rows_per_unit": 2}, {"unit": "user"}],
    ids=str,
)
def test_a_ptk_that_does_not_cover_all_rows_of_a_user_is_told_what_to_write(
    bare: World, policy: dict[str, Any], params: dict[str, Any]
) -> None:
    stream(bare, **policy)
    with pytest.raises(InvalidRequest, match=r"train with unit='user', max_rows_per_unit=2"):
        register(bare, estimator=by_city(**params))
    register(bare, "covers", estimator=by_city(**OF_USERS))
    register(bare, "covers_more", estimator=by_city(unit="user", max_rows_per_unit=3))


def embeddings(**changes: Any) -> Mapping[str, Any]:
    params: dict[str, Any] = {
        "user": "user",
        "item": "city",
        "rating": "speed",
        "users": ["ann", "bob"],
        "items": list(CITIES),
        "bounds": (0.0, 60.0),
        "n_factors": 2,
        "max_rows_per_user": 2,
        "epsilon": 0.5,
        "delta": 1e-6,
    }
    spec: Mapping[str, Any] = UserEmbeddings(**{**params, **changes}).to_spec()
    return spec


def test_embeddings_say_it_with_parameters_of_their_own(bare: World) -> None:
    stream(bare, **IN_WINDOW)
    for wrong in ({"guarantee": "record"}, {"max_rows_per_user": 1}):
        with pytest.raises(InvalidRequest, match=r"guarantee='user', user='user', max_rows_per_user=2"):
            register(bare, estimator=embeddings(**wrong))


def test_a_ptk_of_a_user_is_refused_where_records_count(bare: World) -> None:
    stream(bare)
    with pytest.raises(InvalidRequest, match="accounts per record: train without unit"):
        register(bare, estimator=by_city(**OF_USERS))


def test_where_is_checked_at_registration_and_kept_in_one_form(bare: World) -> None:
    stream(bare, **BY_CITY)
    with pytest.raises(InvalidRequest, match="outside the domain of 'city'"):
        register(bare, config={"where": {"city": "oslo"}})
    ptk_id = register(bare, config={"where": {"city": "rome"}})
    assert bare.service.update_ptk(ptk_id, target=0.2).config == {"where": {"city": ["rome"]}}
    for same in ({"city": ["rome"]}, {"city": ("rome",)}, {"city": ["rome", "rome"]}):
        assert bare.service.update_ptk(ptk_id, config={"where": same}).config == {"where": {"city": ["rome"]}}
    for everywhere in (None, {}, {"city": list(reversed(CITIES))}):
        assert bare.service.update_ptk(ptk_id, config={"where": everywhere}).config == {}


def test_where_may_change_if_there_is_room_and_else_stays(bare: World) -> None:
    stream(bare, **BY_CITY)
    ptk_id = register(bare, epsilon=0.6, config={"where": {"city": "rome"}})
    register(bare, "rival", epsilon=0.6, config={"where": {"city": "paris"}})
    with pytest.raises(PtkRejected):
        Store(bare.service).update_ptk_config(ptk_id, {"where": {"city": "paris"}})
    assert bare.service.ptks()[-1].config == {"where": {"city": ["rome"]}}
    Store(bare.service).update_ptk_config(ptk_id, {"where": {"city": "berlin"}})
    assert bare.service.ptks()[-1].config == {"where": {"city": ["berlin"]}}
    assert bare.service.ptks()[-1].loss.epsilon == 0.6


def test_on_other_rows_a_ptk_starts_without_the_state_of_before(bare: World) -> None:
    stream(bare, **BY_CITY)
    ptk_id = register(bare, config={"where": {"city": "rome"}})
    trained(bare, ["ann"])
    trained(bare, ["ann"], day=1)
    Store(bare.service).update_ptk_config(ptk_id, {"where": {"city": "paris"}})
    trained(bare, ["ann"], day=2)
    assert [request.previous_state is not None for request in bare.trainer.requests] == [False, True, False]
    newest = bare.service.versions(ptk_id)[-1].content
    assert [block["number"] % 128 for block in newest["blocks"]] == [7]


def test_ptks_of_different_cities_do_not_compete(bare: World) -> None:
    stream(bare, **BY_CITY)
    for city in CITIES:
        register(bare, f"in_{city}", epsilon=0.9, config={"where": {"city": city}})
    register(bare, "everywhere", epsilon=0.1)
    for config in ({"where": {"city": "rome"}}, {}):
        with pytest.raises(PtkRejected):
            register(bare, "too_much", epsilon=0.1, config=config)
    close(bare, 1)
    bare.work("prepare", "allocate", "train")
    assert spent(bare) == dict.fromkeys((6, 7, 8), 10 * TENTH)


# ingest


def test_a_row_outside_the_attributes_domain_is_refused_with_its_reason(bare: World) -> None:
    stream(bare, **BY_CITY)
    reply = bare.service.ingest("rides", rides(0.5, ["ann"] * 4, ["rome", "oslo", "ROME", "rome "]))
    assert (reply.accepted, reply.refused) == (1, {"outside-domain": 3})


# charges, and what they open


def trained(world: World, users: list[str], day: int = 0, cities: list[str] | None = None) -> None:
    """One more window from rows to the lake."""
    world.service.ingest("rides", rides(day + 0.5, users, cities))
    close(world, day + 1)
    world.work()


def test_a_window_keeps_the_bound_of_each_user_and_the_manifest_says_so(bare: World) -> None:
    stream(bare, epsilon=10, profile_share=0, test_share=0, **IN_WINDOW)
    ptk_id = register(bare, epsilon=9, estimator=by_city(9.0, **OF_USERS))
    trained(bare, ["ann"] * 200 + ["bob"] * 200 + ["cid"])
    # Five rows are kept; noise of scale 2 * 2 / 9 or so beyond 30 would be seen less than once in 10**20 runs.
    assert sum(counts(bare, ptk_id).values()) < 35
    (version,) = bare.service.versions(ptk_id)
    guarantee = version.content["guarantee"]
    assert guarantee["privacy_unit"] == "user-in-window"
    assert (guarantee["unit_column"], guarantee["max_rows_per_unit"]) == ("user", 2)
    assert spent(bare) == {2: 9 * 10**9}


def test_a_training_on_one_city_charges_and_opens_that_city_alone(bare: World) -> None:
    stream(bare, epsilon=10, profile_share=0, test_share=0, **BY_CITY)
    ptk_id = register(bare, estimator=by_city(9.0), config={"where": {"city": "paris"}})
    trained(bare, [f"user-{i}" for i in range(300)])
    assert spent(bare) == {7: 9 * 10**9}
    (request,) = bare.trainer.requests
    assert [Path(url).name for url in request.rows[0].part_urls] == ["7.parquet"]
    found = counts(bare, ptk_id)
    assert found["paris"] == pytest.approx(100, abs=30)  # scale below 1, as above
    assert found["rome"] == pytest.approx(0, abs=30)
    (version,) = bare.service.versions(ptk_id)
    assert [(b["number"], b.get("last")) for b in version.content["blocks"]] == [(7, None)]


def test_a_training_on_all_cities_charges_each_of_them(bare: World) -> None:
    stream(bare, **BY_CITY)
    ptk_id = register(bare)
    trained(bare, ["ann"])
    assert spent(bare) == {6: TENTH, 7: TENTH, 8: TENTH}
    (version,) = bare.service.versions(ptk_id)
    assert [(b["number"], b["last"]) for b in version.content["blocks"]] == [(6, 8)]
    assert len(bare.service.budget("rides")) == 9


def test_a_run_opens_what_was_reserved_whatever_has_changed_since(bare: World) -> None:
    stream(bare, **BY_CITY)
    register(bare, config={"where": {"city": "berlin"}})
    close(bare, 1)
    bare.work("prepare", "allocate")
    with bare.service.begin() as uow:  # an older service let owners change it
        spec = uow.ptks.get("taxi.speed")
        uow.ptks.replace(replace(spec, config={"where": {"city": "rome"}}))
        uow.commit()
    bare.work()
    assert spent(bare) == {6: TENTH}
    assert [Path(url).name for url in bare.trainer.requests[0].rows[0].part_urls] == ["6.parquet"]


def test_shards_of_users_are_charged_by_every_window_and_end_when_used_up(bare: World) -> None:
    stream(bare, epsilon=0.25, **USERS)
    ptk_id = register(bare, estimator=by_city(0.1, **OF_USERS))
    for day in range(4):
        trained(bare, ["ann", "bob"], day)
    assert len(bare.service.budget("rides")) == 12
    assert spent(bare) == dict.fromkeys(range(8, 12), 2 * TENTH)
    assert [v.number for v in bare.service.versions(ptk_id)] == [1, 2]
    assert ("taxi.speed window 2", "budget-denied") in bare.notices()
    assert bare.service.verify_ledger("rides").faults == ()


def test_shards_of_users_outlive_their_windows(bare: World) -> None:
    stream(bare, **USERS)
    register(bare, estimator=by_city(0.1, **OF_USERS))
    for day in range(4):
        trained(bare, ["ann"], day)
        bare.work("expire")
    with bare.service.begin() as uow:
        states = [window.state.value for window in uow.windows.of("rides")]
    assert states == ["expired", "expired", "prepared", "prepared"]
    assert {b.state for b in bare.service.budget("rides")} == {BlockState.ACTIVE}
    assert spent(bare) == dict.fromkeys(range(8, 12), 4 * TENTH)


def test_a_user_lies_in_the_same_part_in_every_window(bare: World) -> None:
    stream(bare, train_partitions=5, **USERS)
    users = [f"user-{i}" for i in range(40)]
    raw, keys = bare.service.raw, bare.service.keys
    places: list[dict[str, int]] = []
    for day in range(2):
        bare.service.ingest("rides", rides(day + 0.5, users))
        close(bare, day + 1)
        bare.work("prepare")
        window = WindowId("rides", day)
        tables = [raw.read_part(raw.part_url(window, part), keys.sealing_key(window)) for part in range(7)]
        places.append({user: part for part, table in enumerate(tables) for user in table["user"].to_pylist()})
    assert places[0] == places[1]
    assert len(places[0]) == 40
