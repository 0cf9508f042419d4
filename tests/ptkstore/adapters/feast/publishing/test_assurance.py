"""Whoever reads a value in Feast can see whether its guarantee is proven, or which team asserts it."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from ptkstore.adapters.feast import versions
from ptkstore.adapters.feast.names import PROJECT, STATE_VIEW
from ptkstore.adapters.feast.publishing import flips
from ptkstore.adapters.feast.publishing.views import state_view
from ptkstore.domain.accounting.assurances import UNKNOWN, Assurance, Assured, assured
from ptkstore.domain.versions.provenance import Provenance

VIEW, OTHER = "taxi__speed_by_hour", "ads__clicks"
ASSERTED = Assured(Assurance.ASSERTED, "taxi")
MADE_OF = "Privacy unit: one record. Windows: up to 2026-01-03T00:00:00+00:00."
WORD = "Asserted by team taxi: its privacy loss is that team's word, nobody has proven it."


@pytest.mark.long
def test_plain_feast_tells_by_tags_and_descriptions_who_vouches_for_a_guarantee(repo, store, make):
    from feast import FeatureStore

    make.publish(store, make.state(1, assurance="asserted"), make.state(1, ptk_id="ads.clicks"))
    feast = FeatureStore(str(repo))
    view, other = feast.get_feature_view(VIEW), feast.get_feature_view(OTHER)
    assert (view.tags["dp.assurance"], view.tags["dp.asserted_by"]) == ("asserted", "taxi")
    assert view.description == f"for tests. {WORD} {MADE_OF}"
    assert {name: value for name, value in view.tags.items() if name.startswith("dp.")} == {
        "dp.assurance": "asserted",
        "dp.asserted_by": "taxi",
        "dp.epsilon": "0.5",
        "dp.delta": "1e-09",
        "dp.privacy_unit": "record",
        "dp.oldest_window": "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00",
        "dp.newest_window": "2026-01-02T00:00:00+00:00/2026-01-03T00:00:00+00:00",
    }
    assert other.tags["dp.assurance"] == "library"
    assert "dp.asserted_by" not in other.tags
    assert (
        other.description
        == f"for tests. Library: its privacy loss is proven for the library's own estimators. {MADE_OF}"
    )
    service = feast.get_feature_service(VIEW)
    assert (service.tags["dp.assurance"], service.tags["dp.asserted_by"]) == ("asserted", "taxi")
    assert service.description.endswith(f"{WORD} {MADE_OF}")
    assert service.tags["dp.privacy_unit"] == "record"
    make.publish(store, make.state(2))  # by the library now; the version before stays what it was
    feast.refresh_registry()
    assert feast.get_feature_view(VIEW).tags["dp.assurance"] == "library"
    pinned = feast.registry.get_feature_view_by_version(VIEW, PROJECT, 1)
    assert pinned.tags["dp.assurance"] == "asserted"


@pytest.mark.long
def test_plain_feast_finds_views_by_the_tags_of_their_ptk(repo, store, make):
    from feast import FeatureStore

    make.publish(
        store, replace(make.state(1), tags=("ads", "fraud-2026")), make.state(1, ptk_id="ads.clicks")
    )
    feast = FeatureStore(str(repo))

    def found(tag):
        return [view.name for view in feast.list_feature_views(tags={f"ptk.tag.{tag}": "true"})]

    assert (found("ads"), found("fraud-2026"), found("none")) == ([VIEW], [VIEW], [])
    make.publish(store, make.state(2))
    feast.refresh_registry()
    assert found("ads") == []
    make.publish(store, replace(make.state(3), tags=("ads",)))
    feast.refresh_registry()
    assert found("ads") == [VIEW]


@pytest.mark.long
def test_ptk_state_tells_who_vouches_for_each_ptk(repo, store, make, consumer):
    make.publish(store, make.state(1, assurance="asserted"), make.state(1, ptk_id="ads.clicks"))
    asked = [f"{STATE_VIEW}:{name}" for name in ("version", "assurance", "asserted_by")]
    found = store.look_up(asked, [{"ptk": "taxi.speed_by_hour"}, {"ptk": "ads.clicks"}])
    assert found == [
        {"version": 1, "assurance": "asserted", "asserted_by": "taxi"},
        {"version": 1, "assurance": "library", "asserted_by": None},
    ]
    assert found.assured == {}
    read = consumer("online", repo=str(repo), features=asked, rows=[{"ptk": "taxi.speed_by_hour"}])
    assert read["assurance"] == ["asserted"]


def test_a_lookup_tells_it_of_each_view_and_version_that_was_asked(store, make):
    make.publish(
        store, make.state(1, assurance="asserted"), make.state(2), make.state(1, ptk_id="ads.clicks")
    )
    for _ in range(2):  # of the registry, and of what is known by then
        found = store.look_up([f"{VIEW}:value"], [{"hour": 8}])
        assert found == [{"value": 2.0}]
        assert found.assured == {VIEW: Assured(Assurance.LIBRARY)}
    assert store.look_up([f"{VIEW}@v1:value"], [{"hour": 8}]).assured == {f"{VIEW}@v1": ASSERTED}
    asked = [f"{VIEW}@v1:value", f"{OTHER}:ptk_version"]
    assert store.look_up(asked, [{"hour": 8}]).assured == {
        f"{VIEW}@v1": ASSERTED,
        OTHER: Assured(Assurance.LIBRARY),
    }
    make.publish(store, make.state(3, assurance="asserted"))
    assert store.look_up([f"{VIEW}:value"], [{"hour": 8}]).assured == {VIEW: ASSERTED}


def test_views_that_are_filled_tell_it_too(repo, store, make, filled):
    from feast import FeatureStore

    make.publish(store, filled(1, assurance="asserted"))
    name = f"{VIEW}__filled"
    found = store.look_up([f"{name}:value_filled"], [{"hour": 8, "mph": 1.0}])
    assert found.assured == {name: ASSERTED}
    view = FeatureStore(str(repo)).get_on_demand_feature_view(name)
    assert (view.tags["dp.assurance"], view.tags["dp.asserted_by"]) == ("asserted", "taxi")
    assert WORD in view.description


@pytest.mark.long
def test_what_was_published_before_it_was_told_is_unknown_and_its_rows_stay(repo, store, make, monkeypatch):
    """A registry of before has neither the tags nor the columns of ptk_state."""
    import ptkstore.adapters.feast.publishing.views as views

    narrow = views._STATE_SCHEMA
    for name in ("assurance", "asserted_by"):
        narrow = narrow.remove(narrow.get_field_index(name))
    with monkeypatch.context() as before:
        before.setattr(views, "_STATE_SCHEMA", narrow)
        before.setattr(Provenance, "tags", lambda _: {})
        make.publish(store, make.state(1, ptk_id="ads.clicks"), make.state(1, assurance="asserted"))
        asked = [f"{STATE_VIEW}:version"]
        assert store.look_up(asked, [{"ptk": "ads.clicks"}]) == [{"version": 1}]
    assert store.look_up([f"{VIEW}:value"], [{"hour": 8}]).assured == {VIEW: UNKNOWN}
    for _ in range(2):
        make.publish(store, make.state(2, assurance="asserted"))
        asked = [f"{STATE_VIEW}:{name}" for name in ("version", "assurance", "asserted_by")]
        assert store.look_up(asked, [{"ptk": "ads.clicks"}, {"ptk": "taxi.speed_by_hour"}]) == [
            {"version": 1, "assurance": None, "asserted_by": None},
            {"version": 2, "assurance": "asserted", "asserted_by": "taxi"},
        ]
    assert store.look_up([f"{VIEW}:value"], [{"hour": 8}]).assured == {VIEW: ASSERTED}
    (path,) = repo.rglob(f"{STATE_VIEW}/**/*.parquet")
    rows = pq.read_table(path).to_pylist()
    told = {(row["ptk"], row["version"]): row["assurance"] for row in rows if row["version"] is not None}
    assert told == {
        ("ads.clicks", 1): None,
        ("taxi.speed_by_hour", 1): None,
        ("taxi.speed_by_hour", 2): "asserted",
    }


@pytest.mark.parametrize("again", [False, True], ids=["once", "killed between its two steps"])
def test_a_view_is_widened_also_after_a_crash_half_way(light_repo, make, again, monkeypatch):
    import ptkstore.adapters.feast.publishing.views as views
    from ptkstore.adapters.feast import FeastFeatureStore

    store = FeastFeatureStore(light_repo)
    narrow = views._STATE_SCHEMA.remove(views._STATE_SCHEMA.get_field_index("assurance"))
    with monkeypatch.context() as before:
        before.setattr(views, "_STATE_SCHEMA", narrow)
        before.setattr(views, "state_table", views.state_table)
        with pytest.MonkeyPatch.context() as rows:
            rows.setattr(
                "ptkstore.domain.accounting.assurances.Assured.document",
                lambda self: {"asserted_by": self.by or None},
            )
            rows.setattr(Provenance, "tags", lambda _: {})
            make.publish(store, make.state(1))
    with store._sessions.use() as session, session.database.exclusive():
        if again:
            session.database.delete_snapshots(STATE_VIEW)
        flips.widen(session, state_view(store._history))
        flips.widen(session, state_view(store._history))
        assert versions.served_version(session, STATE_VIEW) == 0
    make.publish(store, make.state(2, assurance="asserted"))
    assert store.look_up([f"{STATE_VIEW}:assurance"], [{"ptk": "taxi.speed_by_hour"}]) == [
        {"assurance": "asserted"}
    ]
    store.close()


def test_all_that_the_library_does_not_prove_is_its_teams_word():
    assert assured("library", "taxi.speed") == Assured(Assurance.LIBRARY)
    assert assured("composed", "taxi.speed") == Assured(Assurance.COMPOSED, "taxi")
    assert assured("asserted", "taxi.speed").words() == "asserted by taxi"
    assert assured(None, "taxi.speed") is UNKNOWN
