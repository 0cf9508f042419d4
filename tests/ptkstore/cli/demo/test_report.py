import json
import os
import re
import shlex
import stat
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from ptkstore.cli.demo import report as reports
from ptkstore.cli.demo.collect import tell
from ptkstore.cli.demo.records import (
    WARNING,
    BlockBudget,
    Deliveries,
    ErrorPoint,
    Lookup,
    PtkSummary,
    Report,
    VersionPoint,
)
from ptkstore.errors import InvalidRequest
from ptkstore.settings import Settings

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
STARTED = datetime(2026, 2, 1, 10, tzinfo=UTC)
KEYS = (
    "windows_closed",
    "ptks",
    "max_block_epsilon",
    "epsilon_g",
    "deliveries",
    "lookups",
    "raw_files_remaining",
    "seconds",
)


def sample(**changes):
    plain = Report(
        source="generated trips",
        started=STARTED,
        windows_closed=2,
        ptks=(PtkSummary("taxi.speed", "speed", "HistoricalStatistics", 2, 0.4, 64_000),),
        max_block_epsilon=0.8,
        epsilon_g=1.0,
        delta_g=1e-6,
        deliveries=Deliveries(sent=2, verified=2, failed=0),
        lookups=tuple(
            Lookup("taxi.speed", "taxi__speed", {"hour": h}, "speed_mph_mean", 10.0 + h, 10.5 + h)
            for h in range(24)
        ),
        raw_files_remaining=0,
        seconds=61.0,
        blocks=tuple(
            BlockBudget(MONDAY + timedelta(days=d), part, 1.0, 0.5, 0.3)
            for d in range(2)
            for part in ("test", "train 1")
        ),
        versions=tuple(
            VersionPoint("taxi.speed", v, MONDAY + timedelta(days=v), STARTED + timedelta(seconds=9 * v))
            for v in (1, 2)
        ),
        errors=tuple(ErrorPoint(e, "mean speed", "mph", 1 / e, 0.5 / e, 2 / e) for e in (0.1, 1.0)),
    )
    return replace(plain, **changes)


def written(tmp_path, report):
    json_path, page_path = reports.write(report, tmp_path / "out.json", tmp_path / "home")
    return json.loads(json_path.read_text()), page_path.read_text()


class Page(HTMLParser):
    """Collects tags that stay open, ids, and the words outside of drawings."""

    VOID = ("meta", "br", "path", "use")

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_json_has_the_promised_keys_and_says_that_it_holds_true_values(tmp_path):
    document, _ = written(tmp_path, sample())
    assert set(KEYS) <= set(document)
    assert document["warning"] == WARNING
    assert document["ptks"] == [
        {
            "ptk_id": "taxi.speed",
            "name": "speed",
            "family": "HistoricalStatistics",
            "versions": 2,
            "epsilon_spent": 0.4,
            "rows_granted": 64_000,
        }
    ]
    assert document["lookups"][3] == {
        "ptk": "taxi.speed",
        "view": "taxi__speed",
        "entity": {"hour": 3},
        "feature": "speed_mph_mean",
        "value": 13.0,
        "true_value": 13.5,
    }
    assert document["deliveries"] == {"sent": 2, "verified": 2, "failed": 0}
    assert document["versions"][0]["window_end"] == "2026-01-06T00:00:00+00:00"


def test_page_warns_before_anything_else_and_shows_every_chart(tmp_path):
    _, page = written(tmp_path, sample())
    body = page.split("<body>")[1]
    assert body.index("TRUE VALUES") < body.index("<h1>")
    assert page.count("<svg") == 4
    for words in (
        "mean absolute error (mph)",
        "epsilon of one release",
        "capacity",
        "reserved",
        "v2",
        "Mon 5 Jan",
    ):
        assert words in body, words
    assert "13.5" in body


def test_page_is_well_formed_and_its_ids_are_unique(tmp_path):
    parsed = Page(written(tmp_path, sample())[1])
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids)) > 10


def test_page_is_self_contained_and_forbids_loading_anything(tmp_path):
    _, page = written(tmp_path, sample())
    assert "//" not in page.replace("</", "")
    assert re.findall(r'(?:href|src)="(?!#)', page) == []
    assert "default-src 'none'" in page
    assert Page(page).tags.isdisjoint({"script", "link", "img", "iframe", "object", "a"})


def test_charts_take_their_colours_from_the_page_so_that_dark_and_print_are_readable(tmp_path):
    _, page = written(tmp_path, sample())
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawings) == []
    for variable in set(re.findall(r"var\((--\w+)\)", drawings)):
        for scheme in ("@media (prefers-color-scheme: dark)", "@media print"):
            assert f"{variable}:" in page.split(scheme)[1].split("</style>")[0].split("@media")[0]


def test_names_cannot_inject_markup(tmp_path):
    hostile = "<script>alert(1)</script>"
    lookups = (Lookup(hostile, hostile, {hostile: hostile}, hostile, 1.0, 2.0),)
    versions = (VersionPoint(hostile, 1, MONDAY, STARTED),)
    ptks = (PtkSummary(hostile, hostile, hostile, 1, 0.1, 1),)
    _, page = written(tmp_path, sample(source=hostile, lookups=lookups, versions=versions, ptks=ptks))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6


def test_a_file_is_told_by_the_very_name_it_has(tmp_path, capsys):
    lookups = (Lookup("taxi.speed", "taxi__speed", {"zone": "[/b]"}, "speed_mph_mean", 1.0, 2.0),)
    paths = (tmp_path / "out[/b].json", tmp_path / "out[/b].html")
    tell(sample(source="trips[/b].parquet", lookups=lookups), paths, Settings(home=tmp_path / "home"))
    told = capsys.readouterr().out
    assert "trips[/b].parquet: 2 windows closed" in told
    assert "zone=[/b]" in told


def test_the_commands_told_at_the_end_run_as_they_stand_and_sums_are_told_as_sums(tmp_path, capsys):
    tell(sample(), (tmp_path / "out.json", tmp_path / "out.html"), Settings(home=tmp_path / "home of mine"))
    told = capsys.readouterr().out
    steps = told.partition("Next steps\n")[2].splitlines()
    commands = [shlex.split(one.partition(":")[2]) for one in steps]
    assert [words[1] for words in commands] == ["status", "lookup", "ui"]
    assert [words[-2:] for words in commands] == [["--home", str(tmp_path / "home of mine")]] * 3
    program, *words = commands[0]
    assert (
        subprocess.run([program, words[0], "--help"], capture_output=True, env={}, check=False).returncode
        == 0
    )
    assert "summed over windows: taxi.speed v2 (epsilon 0.4)" in " ".join(told.split())


def test_page_marks_what_must_never_happen(tmp_path):
    assert 'class="bad"' not in written(tmp_path, sample())[1]
    for broken in (
        {"max_block_epsilon": 1.01},
        {"raw_files_remaining": 1},
        {"deliveries": Deliveries(2, 1, 0)},
        {"deliveries": Deliveries(2, 2, 1)},
    ):
        assert written(tmp_path, sample(**broken))[1].count('class="bad"') == 1


def test_a_run_without_results_still_has_a_report(tmp_path):
    bare = sample(ptks=(), lookups=(), blocks=(), versions=(), errors=())
    document, page = written(tmp_path, bare)
    assert document["lookups"] == []
    assert "<svg" not in page


def test_negative_and_missing_values_are_drawn_and_printed(tmp_path):
    values = [None, -40.0, *[5.0] * 6]
    lookups = tuple(
        Lookup("t.c", "t__c", {"hour": h}, "count", v, None if h == 3 else 0.0) for h, v in enumerate(values)
    )
    _, page = written(tmp_path, sample(lookups=lookups))
    drawing = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0]
    assert "−40" in drawing  # the axis reaches below zero
    assert "-40" in page


def test_many_blocks_are_cut_to_the_newest_and_the_page_says_so(tmp_path):
    blocks = tuple(BlockBudget(MONDAY + timedelta(days=d), "train 1", 1.0, 0.5, 0.0) for d in range(50))
    _, page = written(tmp_path, sample(blocks=blocks))
    assert "the newest 36 of 50 blocks" in page
    assert "Mon 5 Jan" not in page.split("Budget per block")[1].split("Versions over time")[0]


def test_values_that_json_cannot_hold_are_never_written(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        written(tmp_path, sample(seconds=float("nan")))
    assert list(tmp_path.iterdir()) == []


def test_report_is_for_its_owner_only_and_replaces_the_old_one_whole(tmp_path):
    (tmp_path / "out.json").write_text("old")
    written(tmp_path, sample())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.html", "out.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


def test_report_inside_the_home_is_refused_however_it_is_spelled(tmp_path):
    home = tmp_path / "home"
    (home / "lake").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(home / "lake")
    inside = (
        home / "out.json",
        home / "lake" / "out.json",
        tmp_path / "other" / ".." / "home" / "out.json",
        tmp_path / "link" / "out.json",
        os.path.relpath(home / "out.json"),
    )
    for path in inside:
        with pytest.raises(InvalidRequest, match="outside the PTK home"):
            reports.write(sample(), path, home)
    with pytest.raises(InvalidRequest, match="outside the PTK home"):
        reports.write(sample(), home / "out.json", tmp_path / "link" / "..")
    assert [p for p in home.rglob("*") if p.is_file()] == []


def test_a_link_into_the_home_is_replaced_and_not_followed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "out.json").symlink_to(home / "a.json")
    (tmp_path / "out.html").symlink_to(home / "a.html")
    written(tmp_path, sample())
    assert list(home.iterdir()) == []
    assert not (tmp_path / "out.html").is_symlink()


def test_a_home_beside_the_report_is_no_obstacle(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home-report").mkdir()
    json_path, page_path = reports.write(sample(), tmp_path / "home-report" / "out.json", tmp_path / "home")
    assert json_path.exists()
    assert page_path.name == "out.html"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("out.html", "name the JSON file"), ("absent/out.json", "does not exist"), (".", "is a folder")],
)
def test_targets_that_cannot_hold_the_report_are_refused_before_the_run(tmp_path, name, reason):
    with pytest.raises(InvalidRequest, match=reason):
        reports.check_target(tmp_path / name, tmp_path / "home")
