"""`ptk lookup` and `ptk versions`: what is answered, and what is said of names that are not there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command_line import CREATE, Line, repository
from tests.support.world import trips

DECLARED = """
late = PTK(
    name="late",
    stream="taxi",
    target=0.1,
    estimator=HistoricalStatistics(keys=["hour"], domains={"hour": [0, 1]}, statistics=("count",), epsilon=0.1),
)
zones = PTK(
    name="zones",
    stream="taxi",
    target=0.1,
    estimator=CountFeaturizer(
        ["hour", "zone"], "long", domains={"hour": [0, 1], "zone": ["z"]}, classes=[False, True], epsilon=0.1
    ),
)
"""


@pytest.fixture(scope="module")
def ptk(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A home with a PTK that has a version, and one that has none yet."""
    folder: Path = tmp_path_factory.mktemp("lookups")
    line = Line(folder / "home")
    line.run(*CREATE)
    team = repository(folder / "team")
    line.run("apply", team)
    pq.write_table(trips((0.1, 0.2, 0.3)), folder / "trips.parquet")
    line.run("ingest", "taxi", str(folder / "trips.parquet"))
    line.run("close", "taxi", "--until", "2026-01-06")
    line.run("work")
    declared = folder / "team" / "ptks.py"
    text = declared.read_text().replace("import Hist", "import CountFeaturizer, Hist")
    declared.write_text(text + DECLARED)
    line.run("apply", team)
    return line


@pytest.mark.long
def test_features_are_looked_up_by_ptk_and_by_view(ptk: Line) -> None:
    answer = ptk.json("lookup", "taxi.speed", "hour=1")
    assert set(answer) == {"count", "speed_sum", "speed_mean"}
    assert ptk.json("lookup", "taxi__speed", "hour=1") == answer
    assert ptk.json("lookup", "taxi.speed@v1:", "hour=1") == answer
    chosen = ptk.json("lookup", "taxi__speed:speed_mean, count", "hour=1")
    assert chosen == {name: answer[name] for name in ("speed_mean", "count")}
    assert ptk.json("lookup", "ptk_state:version", "ptk=taxi.speed") == {"version": 1}


def test_a_key_without_a_released_value_is_told_and_no_more(ptk: Line) -> None:
    found = ptk.run("lookup", "taxi.speed", "hour=99")
    told = "no released value for hour=99: count, speed_mean, speed_sum. Whether there are rows of it is not told"
    assert sorted(found.stderr.strip().replace(",", "").replace(".", "").split()) == sorted(
        told.replace(",", "").replace(".", "").split()
    )
    assert ptk.run("lookup", "taxi.speed", "hour=1").stderr == ""
    assert set(ptk.json("lookup", "taxi.speed", "hour=99").values()) == {None}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["taxi.spead"], "no PTK or view 'taxi.spead'; did you mean 'taxi.speed'"),
        (["taxi__spead:count"], "no PTK or view 'taxi__spead'; did you mean 'taxi__speed'"),
        (["speed"], "did you mean 'taxi__speed' or 'taxi.speed'?"),
        (["ptk_stat:version"], "did you mean 'ptk_state'?"),
        (["bikes.trips"], "no PTK or view 'bikes.trips'; see: ptk list"),
        (
            ["taxi.late"],
            "no published version of PTK 'taxi.late'; the first comes once a window of taxi has closed",
        ),
        (["taxi__late@v3:count"], "no published version of PTK 'taxi.late'"),
        (["taxi.speed@v9"], "no served version 'taxi__speed@v9'; the newest is v1"),
        (["taxi.zones"], "taxi.zones has several tables; name a view: taxi__zones__hour, taxi__zones__zone"),
        (["taxi.speed:speed_men"], "no feature 'taxi__speed:speed_men'; did you mean 'speed_mean'"),
        (["taxi.speed:x"], "no feature 'taxi__speed:x'; taxi__speed has count, speed_sum, speed_mean"),
        (["taxi.speed@x"], "is no feature reference"),
        (["taxi.speed", "minute=1"], "taxi__speed is looked up by hour=VALUE, not by minute"),
        (["taxi.speed", "hour=x"], "join key 'hour' of taxi__speed is a 64-bit integer"),
        (["taxi__speed__computed:x"], "no feature view 'taxi__speed__computed'"),
    ],
)
def test_a_lookup_of_what_is_not_there_says_what_is_wrong(ptk: Line, words: Sequence[str], says: str) -> None:
    features, *keys = words
    assert says in ptk.refused("lookup", features, *(keys or ["hour=1"]), code=2)


@pytest.mark.parametrize("command", ["versions", "show"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("taxi.spead", "there is no PTK 'taxi.spead'; did you mean 'taxi.speed'?"),
        ("bikes.trips", "there is no PTK 'bikes.trips'; see: ptk list"),
        ("taxi__speed", "must be <team>.<name>; this view is of 'taxi.speed'"),
        ("taxi__zones__hour", "must be <team>.<name>; this view is of 'taxi.zones'"),
    ],
)
def test_no_versions_are_told_of_a_ptk_that_is_not_there(
    ptk: Line, command: str, name: str, says: str
) -> None:
    assert says in ptk.refused(command, name, code=2)


def test_a_ptk_without_a_version_has_none(ptk: Line) -> None:
    assert ptk.json("versions", "taxi.late") == []
    assert "nothing published yet; the first version comes once" in ptk.run("versions", "taxi.late").stdout
    assert [one["version"] for one in ptk.json("versions", "taxi.speed")] == [1]


def test_a_lookup_without_keys_is_told_which_they_are(ptk: Line) -> None:
    for features, keys in (("taxi.speed", "hour=VALUE"), ("ptk_state:version", "ptk=VALUE")):
        told = ptk.refused("lookup", features, code=2)
        assert f"name the join keys: ptk lookup {features} {keys}" in told


@pytest.mark.long
def test_a_lookup_tells_people_which_version_answered_and_how_noisy_it_is(ptk: Line) -> None:
    shown = ptk.run("lookup", "taxi.speed", "hour=1").stdout
    assert re.search(
        r"^version 1, published .* UTC: epsilon 0\.1; noise is one standard deviation$", shown, re.MULTILINE
    )
    (count,) = (line for line in shown.splitlines() if "count" in line)
    assert float(count.split("│")[3]) > 0
    missing = ptk.run("lookup", "taxi.speed", "hour=99").stdout
    assert "version 1" not in missing
    assert "noise" not in missing


@pytest.mark.long
def test_what_a_version_says_is_shown_with_its_noise(ptk: Line) -> None:
    shown = ptk.run("show", "taxi.speed", "--values").stdout
    assert re.search(r"count ± \d", shown)
    assert "± is one standard deviation of the noise" in shown
    assert "guarantee: One training is (0.1, 0)-differentially private: whether one record" in shown
    values = ptk.json("show", "taxi.speed", "--values")["values"]
    assert (values["n_rows"], len(values["rows"]), set(values["noise_std"])) == (2, 2, {"count", "speed_sum"})
    assert "no state to show" in ptk.run("show", "taxi.late", "--values").stdout
    assert "values" not in ptk.json("show", "taxi.speed")


@pytest.mark.long
def test_ptks_are_found_by_words(ptk: Line) -> None:
    assert [one["ptk"] for one in ptk.json("list", "SPEED", "hour")] == ["taxi.speed"]
    assert len(ptk.json("list")) == 3
    assert "did you mean 'speed hour'?" in ptk.run("list", "sped", "hour").stdout
    assert "no PTK has all of these words; ptk list shows all" in ptk.run("list", "xylophone").stdout
    (speed, late) = (
        next(one for one in ptk.json("list") if one["ptk"] == name) for name in ("taxi.speed", "taxi.late")
    )
    assert speed["newest_published_at"]
    assert late["newest_published_at"] is None


@pytest.mark.long
def test_lists_in_a_pipe_are_no_wider_than_what_they_tell(ptk: Line) -> None:
    listed = ptk.run("list").stdout
    assert "age" in listed
    assert not {"windows", "tags", "asserted_by", "delta"} & set(re.findall(r"\w+", listed))
    made = ptk.run("versions", "taxi.speed").stdout
    assert max(map(len, made.splitlines())) < 110
    assert ptk.json("versions", "taxi.speed")[0]["manifest_sha256"][:12] in made


@pytest.mark.long
def test_a_pinned_version_is_featurized(ptk: Line, tmp_path: Path) -> None:
    pq.write_table(trips((0.1, 0.2)), tmp_path / "mine.parquet")
    arguments = (str(tmp_path / "mine.parquet"), "-o", str(tmp_path / "out.parquet"))
    assert "taxi__speed__count" in ptk.run("featurize", "taxi.speed@v1", *arguments).stdout
    assert "taxi.speed v9" in ptk.run("featurize", "taxi.speed@v9", *arguments, code=2).stderr
