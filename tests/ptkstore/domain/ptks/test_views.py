"""Names of the feature views that PTKs are served by."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.domain.ptks.views import STATE_VIEW, all_views, base_view, columns_of, features_of, views_of
from tests.support.builders import ptk_spec

STATISTICS = {"keys": ["zone"], "columns": [["zone", "int64"], ["mean", "double"], ["n", "int64"]]}
ONE_ROW = {"keys": [], "columns": [["bias", "double"]]}
ONE = replace(ptk_spec("taxi.speed"), tables={"statistics": STATISTICS})
TWO = replace(ptk_spec("taxi.fares"), tables={"weights": STATISTICS, "bias": ONE_ROW})


def test_a_ptk_with_one_table_has_one_view_of_its_own_name() -> None:
    assert base_view("taxi.speed") == "taxi__speed"
    assert views_of(ONE) == {"taxi__speed": "statistics"}
    assert views_of(TWO) == {"taxi__fares__weights": "weights", "taxi__fares__bias": "bias"}


def test_all_views_have_different_names_and_the_state_view_is_first() -> None:
    assert all_views([]) == [STATE_VIEW]
    views = all_views([ONE, TWO])
    assert views[0] == STATE_VIEW
    assert len(set(views)) == len(views) == 4
    assert all("__" in view for view in views[1:])


def test_join_keys_are_no_features() -> None:
    assert columns_of(TWO, "weights") == ("mean", "n")
    assert features_of([TWO, ONE]) == [
        "taxi__fares__weights:mean",
        "taxi__fares__weights:n",
        "taxi__fares__bias:bias",
        "taxi__speed:mean",
        "taxi__speed:n",
    ]
