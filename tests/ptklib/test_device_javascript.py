"""The JavaScript client computes what ours does, to the last bit, and keeps the same rules."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import exp
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ptklib.canonical_json import canonical_json
from ptklib.draw_discard import (
    Categorical,
    Numeric,
    Specification,
    encode_rows,
    make_report,
    mean_gradient,
    report_loss,
)
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms import vectorised
from tests.support import draw_discard as slow
from tests.support.device_server import (
    DRAW,
    LIMITS,
    ONE,
    PUT,
    ROWS,
    SPECIFICATION,
    DeviceServer,
    _Handler,
    served,
)
from tests.support.node import run_device


def test_the_published_vectors_are_what_it_computes() -> None:
    cases = slow.vectors()
    assert len(cases) >= 10
    computed = run_device("compute", cases)
    names = ("inputs", "labels", "gradient", "step", "report")
    assert sum("report" in case for case in cases) >= 3
    assert any("integers" in case for case in cases)
    for case, found in zip(cases, computed, strict=True):
        assert found == {name: case[name] for name in names if name in case}, case["name"]
    parsed = run_device("parse", [case["specification"] for case in cases])
    for case, found in zip(cases, parsed, strict=True):
        public = ("digest", "n_weights", "limit", "reach", "distance")
        assert {name: found[name] for name in public} == {name: case[name] for name in public}
        gaussian = json.loads(case["specification"])["noise"] == "gaussian"
        assert found["noise_scale"] == pytest.approx(case["noise_scale"], rel=3e-9 if gaussian else 0)


EPSILONS = (1e-2, 0.1, 1.0, 1.0986122886681098, 2.0, 3.47, 3.4657359027997265, 10.0)


def specifications() -> Iterator[Specification]:
    """Specifications of all kinds of noise and clipping, with numbers that Python writes in different ways."""
    for epsilon in EPSILONS:
        for clip in ("l1", "l2", "coordinate"):
            yield replace(ONE, epsilon=epsilon, clip=clip, learning_rate=0.0005, grid_bits=22)
            for delta in (1e-12, 1e-6, 0.005):
                yield replace(
                    ONE, epsilon=epsilon, clip=clip, noise="gaussian", delta=delta, grid_bits=22, k=2
                )
    yield replace(ONE, learning_rate=1e-05, grid_bits=30)
    yield replace(ONE, features=[Numeric("x", -1e22, 1e16), Numeric("z", -0.0, 123456789.125)])
    yield replace(
        ONE,
        features=[
            Categorical("c", ['"', "\\", "\x01\n\x7f", "é\u2028", "\U0001f600"]),
            Numeric("z", 1e-300, 1e15),
        ],
    )
    yield replace(ONE, features=[Categorical("c", [-(2**53) + 1, 0, 7])], crosses=[])


def test_noise_scales_and_losses_are_ours() -> None:
    all_of_them = list(specifications())
    for one, found in zip(all_of_them, run_device("parse", [one.text for one in all_of_them]), strict=True):
        assert "code" not in found, (one.text, found)
        assert (found["digest"], found["distance"]) == (one.digest, one.distance)
        loss = report_loss(one).whole
        assert found["loss"]["delta"] == loss.delta
        if one.noise == "laplace":
            assert found["noise_scale"] == one.noise_scale
            assert loss.epsilon <= found["loss"]["epsilon"] <= loss.epsilon * (1 + 1e-14)
        else:
            assert one.noise_scale * (1 - 3e-9) <= found["noise_scale"] <= one.noise_scale * (1 + 3e-9)
            assert found["loss"]["epsilon"] >= loss.epsilon * (1 - 1e-9)


def _with(**fields: Any) -> str:
    return canonical_json(json.loads(ONE.text) | fields)


REFUSED = {
    "another format": _with(format="draw-discard/2"),
    "an unknown field": _with(momentum=0.9),
    "an unknown link": _with(link="poisson"),
    "an unknown noise": _with(noise="none"),
    "an unknown clip": _with(clip="none"),
    "an unknown column": _with(features=[{"column": "x", "image": 3}]),
    "a column with more": _with(features=[{"column": "x", "high": 1.0, "low": 0.0, "mean": 0.5}]),
    "no columns": _with(features=[]),
    "bounds in the wrong order": _with(features=[{"column": "x", "high": 0.0, "low": 1.0}]),
    "values of two kinds": _with(features=[{"column": "x", "values": ["a", 1]}]),
    "values that repeat": _with(features=[{"column": "x", "values": ["a", "a"]}]),
    "a large integer": _with(features=[{"column": "x", "values": [2**53]}]),
    "a long value": _with(features=[{"column": "x", "values": ["é" * 129]}]),
    "a bad name": _with(features=[{"column": "x y", "high": 1.0, "low": 0.0}]),
    "two names that differ in case": _with(features=[{"column": c, "high": 1.0, "low": 0.0} for c in "xX"]),
    "a cross of another column": _with(crosses=[["country", "clicked"]]),
    "a cross of one column": _with(crosses=[["country"]]),
    "a label of other bounds": _with(label={"column": "clicked", "high": 2.0, "low": 0.0}),
    "no epsilon": _with(epsilon=0.0),
    "a large epsilon": _with(epsilon=10.1),
    "delta without Gaussian noise": _with(delta=1e-6),
    "Gaussian noise without delta": _with(noise="gaussian"),
    "a large delta": _with(noise="gaussian", delta=0.01),
    "a large k": _with(k=1001),
    "a coarse grid": _with(grid_bits=8),
    "no room for the noise": _with(epsilon=1e-6),
    "too many weights": _with(
        features=[{"column": "x", "values": list(range(300))}, {"column": "z", "values": list(range(300))}],
        crosses=[["x", "z"]],
    ),
    "spaces": json.dumps(json.loads(ONE.text), sort_keys=True),
    "another order": json.dumps(dict(reversed(json.loads(ONE.text).items())), separators=(",", ":")),
    "a field twice": ONE.text.replace('"k":20', '"k":5,"k":20'),
    "an integer for a float": ONE.text.replace('"delta":0.0', '"delta":0'),
    "a float for an integer": ONE.text.replace('"k":20', '"k":20.0'),
    "a negative zero": ONE.text.replace('"low":0.0', '"low":-0.0'),
    "a longer float": ONE.text.replace("3.47", "3.470"),
    "no JSON": "{",
    "null": "null",
    "a megabyte": " " * 2**20 + ONE.text,
}


def test_what_it_does_not_know_is_refused() -> None:
    found = run_device("parse", list(REFUSED.values()))
    assert {name: told.get("code") for name, told in zip(REFUSED, found, strict=True)} == dict.fromkeys(
        REFUSED, "untrusted-answer"
    )
    for text in REFUSED.values():  # here, too
        with pytest.raises(InvalidParameterError):
            Specification.from_text(text)


def _law(noise: str, scale: float, size: int) -> float:
    return exp(-abs(size) / scale) if noise == "laplace" else exp(-(size**2) / (2 * scale**2))


@pytest.mark.fresh_noise
@pytest.mark.parametrize(
    ("noise", "scale"), [("laplace", 2.7), ("laplace", 0.4), ("gaussian", 3.3), ("gaussian", 0.7)]
)
def test_small_noise_has_the_law_of_each_number(noise: str, scale: float) -> None:
    """False alarm once in 10**6 runs."""
    drawn = np.array(run_device("noise", {"noise": noise, "scale": scale, "n": 100_000}))
    reach = 60
    law = np.array([_law(noise, scale, size) for size in range(-reach, reach + 1)])
    expected = law / law.sum() * len(drawn)
    observed = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    rare = expected < 20
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-6


@pytest.mark.fresh_noise
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_large_noise_is_that_of_our_sampler(noise: str) -> None:
    """False alarm once in 10**6 runs; a scale that is 10 % off fails."""
    scale = 9669.452449567723
    drawn = np.array(run_device("noise", {"noise": noise, "scale": scale, "n": 60_000}))
    ours = getattr(vectorised, f"discrete_{noise}")(scale, 200_000)
    assert stats.ks_2samp(drawn, ours).pvalue > 1e-6
    assert stats.ks_2samp(drawn * 1.1, ours).pvalue < 1e-6
    assert drawn[:-1] @ drawn[1:] / (drawn @ drawn) == pytest.approx(0, abs=0.03)


def test_of_many_rows_the_first_with_a_label_are_used() -> None:
    rows = {"age": [*range(120)] * 100, "country": ["de"] * 12_000, "clicked": [None, 1, 0, 1] * 3000}
    case = {"specification": ONE.text, "rows": rows, "instance": [5, -5, 7, 9]}
    (found,) = run_device("compute", [case])
    encoded = encode_rows(ONE, rows)
    assert found["labels"] == encoded.labels.tolist()
    assert len(found["labels"]) == 2**13
    assert (
        found["gradient"] == mean_gradient(ONE, np.array(case["instance"], dtype=np.int32), encoded).tolist()
    )


@pytest.mark.fresh_noise
def test_a_report_is_instance_minus_step_plus_noise_within_32_bits() -> None:
    """False alarm once in 10**6 runs."""
    many = replace(ONE, features=[Categorical("value", list(range(20_000)))])
    rows = {"value": [3], "clicked": [1]}
    instance = [2**31 - 1] * 1000 + [-(2**31) + 1] * 1000 + [12345] * 18_001
    report = np.array(run_device("report", {"specification": many.text, "rows": rows, "instance": instance}))
    reach = int(60 * many.noise_scale)
    assert report[:1000].min() > 2**31 - 1 - reach
    assert report[1000:2000].max() < -(2**31) + 1 + reach
    ours = make_report(many, np.array(instance, dtype=np.int32), rows)
    assert stats.ks_2samp(report[2000:], ours[2000:]).pvalue > 1e-6


@pytest.fixture
def server() -> Iterator[DeviceServer]:
    with served(ONE) as world:
        yield world


def contribute(server: DeviceServer, **other: Any) -> Any:
    given: dict[str, Any] = {
        "url": server.url,
        "stored": {},
        "rows": ROWS,
        "limits": LIMITS,
        "tickets": [server.issue()],
        "options": {},
    }
    return run_device("contribute", given | other)


def test_a_report_is_drawn_counted_and_put(server: DeviceServer) -> None:
    server.instances[:] = 1000
    done = contribute(server)
    (result,) = done["results"]
    assert server.requests == [SPECIFICATION, DRAW, PUT]
    moved = np.frombuffer(server.puts[0], "<i4") - 1000
    assert (moved != 0).all()
    assert np.abs(moved).max() < 60 * ONE.noise_scale
    assert result["kept"]["specification"] == ONE.digest
    assert (result["kept"]["stream"], result["kept"]["window"]) == ("phones", 3)
    assert done["inAll"] == {"reports": 1, "epsilon": 3.47, "delta": 0}


def test_limits_of_window_and_person_hold(server: DeviceServer) -> None:
    done = contribute(server, tickets=[server.issue(), server.issue()])
    assert [result.get("code") for result in done["results"]] == [None, "limit-reached"]
    assert done["results"][1]["forGood"] is False
    server.window_ends = datetime.now(UTC) + timedelta(hours=6)
    jumped = contribute(server, stored=done["stored"])
    assert jumped["results"][0]["code"] == "untrusted-answer"
    short = contribute(server, limits=LIMITS | {"reports_in_all": 0})
    assert (short["results"][0]["code"], short["results"][0]["forGood"]) == ("limit-reached", True)
    assert len(server.puts) == 1


@pytest.mark.parametrize(
    "limits",
    [None, LIMITS | {"report_epsilon": 3.4}, LIMITS | {"columns": ["age", "clicked"]}],
)
def test_what_the_person_has_not_allowed_is_refused_and_may_be_asked(
    server: DeviceServer, limits: dict[str, Any] | None
) -> None:
    refused = contribute(server, limits=limits)
    assert refused["results"][0]["code"] == "not-allowed"
    assert server.requests == [SPECIFICATION]
    allowed = contribute(server, limits=limits, allow=refused["results"][0]["asked"])
    assert "kept" in allowed["results"][0]
    assert "kept" in contribute(server, limits=limits, agree=True)["results"][0]
    assert contribute(server, limits=limits, agree=False)["results"][0]["code"] == "not-allowed"


def test_where_nothing_was_allowed_few_reports_are_asked_for(server: DeviceServer) -> None:
    server.limits |= {"reports_per_window": 2**31, "reports_in_all": 2**31}
    asked = contribute(server, limits=None)["results"][0]["asked"]
    assert (asked["reports_per_window"], asked["reports_in_all"]) == (1, 8)
    agreed = contribute(server, limits=None, agree=True)
    assert json.loads(agreed["stored"]["ptk-odometer"])["limits"] == asked


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (lambda s: s | {"ptk-odometer": None}, "missing"),
        (lambda s: s | {"ptk-odometer": s["ptk-odometer"].replace("3.47", "0.47")}, "damaged"),
        (lambda s: s | {"ptk-odometer-mark": None}, "damaged"),
        (lambda s: s | {"ptk-odometer": "{"}, "damaged"),
    ],
)
def test_an_odometer_that_cannot_be_trusted_sends_nothing(
    server: DeviceServer, stored: Callable[[dict[str, Any]], dict[str, Any]], told: str
) -> None:
    kept = contribute(server)["stored"]
    server.next_window()
    requests = len(server.requests)
    again = contribute(server, stored=stored(kept))
    assert again["results"][0]["code"] == "odometer"
    assert told in again["results"][0]["message"]
    assert len(server.requests) == requests


def test_an_odometer_that_lags_its_mark_by_a_crash_is_used(server: DeviceServer) -> None:
    first = contribute(server, rows=ROWS, tickets=[])
    assert first["stored"] == {}
    begun = contribute(server, tickets=[], allow=LIMITS)["stored"]
    kept = contribute(server, stored=dict(begun))["stored"]
    crashed = kept | {"ptk-odometer-mark": begun["ptk-odometer-mark"]}
    assert contribute(server, stored=crashed)["results"][0]["code"] == "limit-reached"


def _text(change: Callable[[dict[str, Any]], Any]) -> Callable[[_Handler], None]:
    def answer(handler: _Handler) -> None:
        document = handler.world.offer()
        change(document)
        handler.answer(200, json.dumps(document).encode())

    return answer


HOSTILE: dict[str, tuple[str, Callable[[_Handler], None], str]] = {
    "another digest": (SPECIFICATION, _text(lambda d: d.update(digest="0" * 64)), "untrusted-answer"),
    "no limits": (SPECIFICATION, _text(lambda d: d.pop("limits")), "untrusted-answer"),
    "an end without an offset": (
        SPECIFICATION,
        _text(lambda d: d["window"].update(ends="2026-01-01T00:00:00")),
        "untrusted-answer",
    ),
    "an end in eleven years": (
        SPECIFICATION,
        _text(lambda d: d["window"].update(ends=(datetime.now(UTC) + timedelta(days=4000)).isoformat())),
        "untrusted-answer",
    ),
    "a limit below the loss": (
        SPECIFICATION,
        _text(lambda d: d["limits"].update(report_epsilon=3.0)),
        "untrusted-answer",
    ),
    "a name that steers a terminal": (
        SPECIFICATION,
        _text(lambda d: d.update(ptk="\x1b[31m")),
        "untrusted-answer",
    ),
    "no JSON": (SPECIFICATION, lambda h: h.answer(200, b"<html>"), "untrusted-answer"),
    "too long": (
        SPECIFICATION,
        lambda h: h.answer(200, json.dumps(h.world.offer()).encode() + b" " * 2**22),
        "untrusted-answer",
    ),
    "a redirect": (
        SPECIFICATION,
        lambda h: h.answer(307, b"", {"Location": "http://localhost:9/"}),
        "no-answer",
    ),
    "expired": (SPECIFICATION, lambda h: h.refuse(401, "ticket-expired"), "server-refused"),
    "a short instance": (
        DRAW,
        lambda h: h.answer(200, bytes(12), {"Ptk-Specification": ONE.digest}),
        "untrusted-answer",
    ),
    "a long instance": (
        DRAW,
        lambda h: h.answer(200, bytes(20), {"Ptk-Specification": ONE.digest}),
        "untrusted-answer",
    ),
    "another specification": (
        DRAW,
        lambda h: h.answer(200, bytes(16), {"Ptk-Specification": "0" * 64}),
        "untrusted-answer",
    ),
    "unavailable": (DRAW, lambda h: h.refuse(503, "unavailable"), "no-answer"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_odd_answers_end_in_an_error_and_nothing_is_sent(server: DeviceServer, name: str) -> None:
    path, answer, code = HOSTILE[name]
    server.instead[path] = answer
    done = contribute(server)
    assert done["results"][0]["code"] == code
    assert done["results"][0]["counted"] is False
    assert server.requests == [SPECIFICATION, DRAW][: 1 + (path == DRAW)]
    assert done["inAll"]["reports"] == 0


def test_a_report_that_was_refused_is_counted(server: DeviceServer) -> None:
    server.instead[PUT] = lambda h: h.refuse(422, "report-refused")
    done = contribute(server)
    assert (done["results"][0]["problem"], done["results"][0]["counted"]) == ("report-refused", True)
    assert done["inAll"]["reports"] == 1
    assert server.requests.count(PUT) == 1


def test_what_is_sent_again_are_the_same_bytes(server: DeviceServer) -> None:
    bodies: list[bytes] = []

    def fail(handler: _Handler) -> None:
        bodies.append(handler.body)
        if len(bodies) < 3:
            handler.refuse(503, "unavailable")
        else:
            handler.honest()

    server.instead[PUT] = fail
    done = contribute(server)
    assert "kept" in done["results"][0]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1


@pytest.mark.parametrize(("code", "kept"), [("ticket-used", True), ("epoch-over", False)])
def test_a_ticket_that_was_used_by_a_lost_try_is_done(server: DeviceServer, code: str, kept: bool) -> None:
    def fail(handler: _Handler) -> None:
        if server.requests.count(PUT) == 1:
            handler.refuse(503, "unavailable")
        else:
            handler.refuse(409, code)

    server.instead[PUT] = fail
    (result,) = contribute(server)["results"]
    assert ("kept" in result) is kept
    assert result.get("problem") == (None if kept else code)


def test_a_url_that_is_no_server_is_refused() -> None:
    with pytest.raises(AssertionError, match="http is for loopback alone"):
        run_device("contribute", {"url": "http://ptk.example.org", "stored": {}, "rows": {}, "tickets": []})
