"""What spans may say: names, ids and codes in their own alphabets, and nothing that does not fit."""

from __future__ import annotations

import pytest

from ptkstore.adapters.tracing.allowed import attributes, fits, is_step, span_name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http.request.method", "GET"),
        ("http.route", "/v1/streams/{stream}/ingest"),
        ("http.route", "(none)"),
        ("http.response.status_code", 404),
        ("ptk.code", "budget-denied"),
        ("ptk.job", "train/taxi.speed/12"),
        ("ptk.job", "notify/sub_0cf5a237599085e8"),
        ("ptk.job.kind", "train"),
        ("ptk.ptk", "taxi.speed_by_hour"),
        ("ptk.request", "0123456789abcdef"),
        ("ptk.stream", "taxi"),
        ("ptk.team", "ads"),
        ("ptk.token", "7d2e01c0a139efc5"),
        ("ptk.window", 0),
    ],
)
def test_ids_names_and_codes_are_told(name: str, value: object) -> None:
    assert fits(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ptk.code", "no room for row 17.25 of Ann"),
        ("ptk.code", 17),
        ("ptk.window", 1.5),
        ("ptk.window", -1),
        ("ptk.window", True),
        ("ptk.window", "0"),
        ("ptk.team", "a" * 201),
        ("ptk.team", "ads\n"),
        ("ptk.stream", "<script>"),
        ("ptk.token", "ptk_0123_secret"),
        ("ptk.request", "Ann"),
        ("ptk.rows", 17),
        ("exception.message", "x"),
        ("http.route", "/v1/streams/Ann Smith"),
        ("http.route", "/v1/streams/taxi?hour=8"),
        ("http.response.status_code", 17_000),
        ("http.url", "http://x"),
    ],
)
def test_all_else_is_left_out(name: str, value: object) -> None:
    assert not fits(name, value)
    assert attributes({name: value, "ptk.team": "ads", "ptk.stream": None}).get(name) in (None, "ads")  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["GET /v1/streams", "other (none)", "job train"])
def test_a_span_is_named_after_a_route_or_a_kind_of_job(name: str) -> None:
    assert span_name(name) == name


@pytest.mark.parametrize("name", ["GET /v1/streams/Ann", "job of Ann", "", "GET " + "/a" * 200])
def test_other_names_are_not_told(name: str) -> None:
    assert span_name(name) == "other"


def test_a_step_is_a_code() -> None:
    assert is_step("parts-written")
    assert not is_step("17 rows")
    assert not is_step("a" * 41)
