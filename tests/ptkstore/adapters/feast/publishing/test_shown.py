"""Whoever reads `ptk_state` can see which target a version was shown to meet, and how surely."""

from dataclasses import replace

import pytest

from ptkstore.adapters.feast.names import STATE_VIEW
from ptkstore.domain.versions.provenance import Shown, provenance_in

PTK, OTHER = "taxi.speed_by_hour", "ads.clicks"
NAMES = ("version", "metric", "target", "confidence", "looks")
ASKED = [f"{STATE_VIEW}:{name}" for name in NAMES]
NOTHING = {"metric": None, "target": None, "confidence": None, "looks": None}
VERDICT = {
    "decision": "accept",
    "metric": "accuracy",
    "target": 0.05,
    "confidence": 0.9,
    "look": 3,
    "bound": 0.04,
}


def validated(state, **verdict):
    shown = provenance_in({"verdict": {**VERDICT, **verdict}}, state.ptk_id).shown
    return replace(state, made=replace(state.made, shown=shown))


def test_manifests_tell_what_was_shown():
    assert provenance_in({"verdict": VERDICT}, PTK).shown == Shown("accuracy", 0.05, 0.9, 3)
    assert provenance_in({}, PTK).shown == Shown()


@pytest.mark.long
def test_ptk_state_tells_metric_target_confidence_and_looks(repo, store, make, consumer):
    make.publish(store, validated(make.state(1)), make.state(1, ptk_id=OTHER))
    rows = [{"ptk": PTK}, {"ptk": OTHER}]
    told = {"version": 1, "metric": "accuracy", "target": 0.05, "confidence": 0.9, "looks": 3}
    assert store.look_up(ASKED, rows) == [told, {"version": 1, **NOTHING}]
    read = consumer("online", repo=str(repo), features=ASKED, rows=rows)
    assert (read["metric"], read["target"], read["looks"]) == (["accuracy", None], [0.05, None], [3, None])
    make.publish(store, validated(make.state(2), look=1), make.state(2, ptk_id=OTHER))
    assert [one["looks"] for one in store.look_up(ASKED, rows)] == [1, None]
    make.publish(store, make.state(3))  # its PTK asks for no test any more
    assert store.look_up(ASKED, rows[:1]) == [{"version": 3, **NOTHING}]


@pytest.mark.long
def test_rows_of_before_stay_and_the_view_gets_the_columns(repo, store, make, monkeypatch):
    import ptkstore.adapters.feast.publishing.views as views

    narrow = views._STATE_SCHEMA
    for name in NOTHING:
        narrow = narrow.remove(narrow.get_field_index(name))
    with monkeypatch.context() as before:
        before.setattr(views, "_STATE_SCHEMA", narrow)
        make.publish(store, make.state(1, ptk_id=OTHER), make.state(1))
        assert store.look_up(ASKED[:1], [{"ptk": OTHER}]) == [{"version": 1}]
    make.publish(store, validated(make.state(2)))
    assert store.look_up(ASKED, [{"ptk": OTHER}, {"ptk": PTK}]) == [
        {"version": 1, **NOTHING},
        {"version": 2, "metric": "accuracy", "target": 0.05, "confidence": 0.9, "looks": 3},
    ]
