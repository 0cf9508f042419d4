"""Views that an earlier program published learn to tell how their values were made, and change in nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptkstore.adapters.feast import versions
from ptkstore.adapters.feast.names import PROJECT, STATE_VIEW
from ptkstore.domain.accounting.assurances import UNKNOWN, Assurance, Assured, assured
from ptkstore.domain.versions.provenance import Provenance, provenance_in
from ptkstore.ports.features import Computed

PTK, VIEW, OTHER = "taxi.speed_by_hour", "taxi__speed_by_hour", "taxi.speed"
ASSERTED = Assured(Assurance.ASSERTED, "taxi")
ROW = [{"ptk": PTK}]
NEAREST = Computed(
    form="nearest",
    columns=(("x", "double"),),
    outputs=("area",),
    parameters={"centres": [[0.0], [1.0]], "lower": [0.0], "upper": [1.0]},
)


@pytest.fixture
def before(monkeypatch):
    """Publishes as programs did before views told more than epsilon and delta."""
    import ptkstore.adapters.feast.publishing.views as views

    narrow = views._STATE_SCHEMA
    for name in ("assurance", "asserted_by"):
        narrow = narrow.remove(narrow.get_field_index(name))

    def publish(make, store, *states):
        with monkeypatch.context() as old:
            old.setattr(views, "_STATE_SCHEMA", narrow)
            old.setattr(Provenance, "tags", lambda self: {"dp.epsilon": repr(self.epsilon)})
            old.setattr(Provenance, "described", lambda _, text: text)
            make.publish(store, *states)

    return publish


def tagged(found):
    return {name: value for name, value in found.tags.items() if name.startswith("dp.")}


def definitions(store):
    """All that the registry stores of PTKs' views and services, without tags and descriptions."""
    seen = {}
    with store._sessions.use() as session:
        for one in session.database.definitions("taxi"):
            one.message.spec.tags.clear()
            one.message.spec.description = ""
            seen[one.table.name, one.name, one.version] = one.message.SerializeToString(deterministic=True)
    return seen


@pytest.mark.long
def test_views_pins_services_and_computed_views_are_completed(repo, store, make, filled, before):
    from feast import FeatureStore

    one = replace(filled(1, assurance="asserted"), computed=(NEAREST,))
    two = replace(filled(2), computed=(NEAREST,))
    before(make, store, one, two, make.state(1, ptk_id=OTHER))
    assert store.without_provenance([PTK, OTHER, "taxi.none"]) == {PTK: (1, 2), OTHER: (1,)}
    kept = definitions(store)
    rows = store.look_up([f"{VIEW}:value", f"{VIEW}:n"], [{"hour": 7}])
    asked = [f"{VIEW}__filled:value_filled"], [{"hour": 8, "mph": 1.0}]
    answer = store.look_up(*asked)
    for _ in range(2):
        store.add_provenance(PTK, {1: one.made, 2: two.made})
        assert store.without_provenance([PTK, OTHER]) == {OTHER: (1,)}
    assert definitions(store) == kept  # but for tags and descriptions
    feast = FeatureStore(str(repo))
    assert tagged(feast.get_feature_view(VIEW)) == two.made.tags()
    assert tagged(feast.registry.get_feature_view_by_version(VIEW, PROJECT, 1)) == one.made.tags()
    for name in (f"{VIEW}__filled", f"{VIEW}__computed"):
        found = feast.get_on_demand_feature_view(name)
        assert tagged(found) == two.made.tags()
        assert found.description.endswith(two.made.sentence())
    assert tagged(feast.get_feature_service(VIEW)) == two.made.tags()
    assert feast.get_feature_view(VIEW).description == two.made.described("for tests")
    assert store.look_up([f"{VIEW}:value", f"{VIEW}:n"], [{"hour": 7}]) == rows
    assert store.look_up(*asked) == answer
    assert store.look_up([f"{VIEW}:value"], [{"hour": 7}]).assured == {VIEW: Assured(Assurance.LIBRARY)}
    assert store.look_up([f"{VIEW}@v1:value"], [{"hour": 7}]).assured == {f"{VIEW}@v1": ASSERTED}
    assert store.look_up(*asked).assured == {f"{VIEW}__filled": Assured(Assurance.LIBRARY)}
    make.publish(store, replace(filled(3), computed=(NEAREST,)))  # and versions go on
    assert store.look_up([f"{VIEW}:value"], [{"hour": 7}]) == [{"value": 3.0}]
    assert store.without_provenance([PTK]) == {}


@pytest.mark.long
def test_rows_of_ptk_state_are_completed_too_and_reach_plain_readers(repo, store, make, before, consumer):
    states = [make.state(1, assurance="asserted"), make.state(2, assurance="asserted")]
    before(make, store, *states, make.state(1, ptk_id=OTHER))
    store.add_provenance(PTK, {2: states[1].made})
    asked = [f"{STATE_VIEW}:{name}" for name in ("version", "epsilon", "assurance", "asserted_by")]
    assert store.look_up(asked, [*ROW, {"ptk": OTHER}]) == [
        {"version": 2, "epsilon": 0.5, "assurance": "asserted", "asserted_by": "taxi"},
        {"version": 1, "epsilon": 0.5, "assurance": None, "asserted_by": None},
    ]
    read = consumer("online", repo=str(repo), features=asked, rows=ROW)
    assert (read["version"], read["assurance"]) == ([2], ["asserted"])
    make.publish(store, make.state(3))
    assert store.look_up(asked[2:3], ROW) == [{"assurance": "library"}]


def test_what_a_manifest_does_not_tell_is_told_as_unknown(light_store, make, before):
    before(make, light_store, make.state(1))
    light_store.add_provenance(PTK, {1: provenance_in({"guarantee": {"epsilon": 0.5}}, PTK)})
    with light_store._sessions.use() as session:
        view = versions.served_view(session, VIEW)
    assert tagged(view) == {
        "dp.epsilon": "0.5",
        "dp.delta": "unknown",
        "dp.assurance": "unknown",
        "dp.privacy_unit": "unknown",
        "dp.oldest_window": "unknown",
        "dp.newest_window": "unknown",
    }
    assert "Privacy unit: unknown. Windows: unknown." in view.description
    assert light_store.look_up([f"{VIEW}:value"], [{"hour": 8}]).assured == {VIEW: UNKNOWN}
    assert light_store.without_provenance([PTK]) == {}


def test_what_views_tell_already_is_not_told_otherwise(light_store, make):
    make.publish(light_store, make.state(1, assurance="asserted"))
    other = Provenance(9.0, 0.1, assured("library", PTK), "user")
    light_store.add_provenance(PTK, {1: other})
    with light_store._sessions.use() as session:
        assert versions.served_view(session, VIEW).tags["dp.assurance"] == "asserted"
        assert versions.served_view(session, VIEW).tags["dp.epsilon"] == "0.5"


def test_units_of_users_are_told_with_their_column_and_bound():
    made = provenance_in(
        {
            "guarantee": {
                "epsilon": 0.5,
                "delta": 0.0,
                "assurance": "library",
                "privacy_unit": "user-in-window",
                "unit_column": "rider",
                "max_rows_per_unit": 3,
            },
            "oldest_contributing_window": {"index": 0, "start": "A", "end": "B"},
            "newest_contributing_window": {"index": 4, "start": "C", "end": "D"},
        },
        PTK,
    )
    told = made.tags()
    assert (told["dp.privacy_unit"], told["dp.unit_column"], told["dp.max_rows_per_unit"]) == (
        "user-in-window",
        "rider",
        "3",
    )
    assert (told["dp.oldest_window"], told["dp.newest_window"]) == ("A/B", "C/D")
    assert (
        made.sentence()
        == "Privacy unit: one user in one window (column rider, at most 3 rows per window). Windows: up to D."
    )
    assert made.described(made.described("counts")) == made.described("counts")
