"""`ptk set-config` and `ptk set-target`: what changes, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cases import case
from tests.support.planned_stream import Line, ptk, taxi

__all__ = ["ptk", "taxi"]


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def params(line: Line) -> dict[str, object]:
    (shown,) = [one for one in line.json("list") if one["ptk"] == "taxi.speed"]
    assert shown["tau"] == shown["target"]
    return {key: shown[key] for key in ("epsilon", "target")}


def test_a_config_is_changed_by_name_and_the_rest_stays(taxi: Line, tmp_path: Path) -> None:
    file = written(tmp_path, "smaller.json", '{"epsilon": 0.2}')
    told = taxi.json("set-config", "taxi.speed", file)
    assert (told["ptk"], told["epsilon"], told["params"]["values"]) == ("taxi.speed", 0.2, ["speed"])
    assert params(taxi) == {"epsilon": 0.2, "target": 0.1}
    wider = written(tmp_path, "wider.toml", "epsilons = [0.1, 0.3]\nbounds = {speed = [0.0, 90.0]}\n")
    assert "has a new bounds, epsilons" in taxi.run("set-config", "taxi.speed", wider).stdout
    told = taxi.json("set-config", "taxi.speed", written(tmp_path, "none.json", '{"epsilons": null}'))
    assert (told["config"], told["params"]["bounds"]) == ({}, {"speed": [0.0, 90.0]})


def test_a_target_is_changed(taxi: Line) -> None:
    assert taxi.json("set-target", "taxi.speed", "0.25")["target"] == 0.25
    assert "has the target 0.5" in taxi.run("set-target", "taxi.speed", "0.5").stdout
    assert params(taxi)["target"] == 0.5


def test_what_does_not_fit_is_refused_with_what_would_and_changes_nothing(taxi: Line, tmp_path: Path) -> None:
    before = params(taxi)
    for config, says in (
        ({"epsilon": 0.7}, "ask for at most epsilon 0.6, delta 0."),  # beside the other's 0.4 of 1
        ({"epsilons": [0.7, 0.9]}, "ask for at most epsilon 0.6, delta 0."),
    ):
        file = written(tmp_path, "larger.json", json.dumps(config))
        assert says in taxi.run("set-config", "taxi.speed", file, code=1).stderr
    told = json.loads(taxi.run("set-config", "taxi.speed", file, "--json", code=1).stdout)
    assert told["error"]["code"] == "ptk-rejected"
    assert params(taxi) == before
    taxi.run("set-config", "taxi.speed", written(tmp_path, "fits.json", '{"epsilon": 0.6}'))
    (notice,) = taxi.json("stream", "show", "taxi")["notices"]
    assert (notice["subject"], notice["code"]) == ("taxi taxi.speed", "ptk-rejected")


def test_a_file_that_says_nothing_right_is_wrong_use(taxi: Line, tmp_path: Path) -> None:
    for name, text, says in [
        ("c.yaml", "epsilon: 1", "the ending must be .json or .toml"),
        ("c.json", '{"epsilon": 0.1,\n}', "cannot be read as .json, line 2"),
        ("c.toml", "epsilon = ", "cannot be read as .toml"),
        ("c.json", "[1]", "must name what is to change"),
        ("c.json", "{}", "must name what is to change"),
        ("c.json", '{"epsilonn": 0.1}', "epsilonn"),
        ("c.json", '{"epsilon": "much"}', "epsilon"),
        ("c.json", '{"where": {"city": "rome"}}', "this stream has no blocks by an attribute"),
    ]:
        with case(str((name, text, says))):
            assert says in taxi.run("set-config", "taxi.speed", written(tmp_path, name, text), code=2).stderr
            assert params(taxi) == {"epsilon": 0.4, "target": 0.1}


def test_wrong_words_are_refused_in_one_line(taxi: Line) -> None:
    for words, says in [
        (["set-config", "taxi.speed", "nowhere.json"], "nowhere.json"),
        (["set-target", "taxi.other", "0.1"], "there is no PTK 'taxi.other'"),
        (["set-target", "speed", "0.1"], "must be <team>.<name>"),
        (["set-target", "taxi.speed", "0"], "the target must be a positive, finite number"),
        (["set-target", "taxi.speed", "nan"], "the target must be a positive, finite number"),
        (["set-target", "taxi.speed", "-1"], "the target must be a positive, finite number"),
        (["set-target", "taxi.speed", "-1e-3"], "the target must be a positive, finite number"),
        (["set-target", "taxi.speed", "1e999"], "the target must be a positive, finite number"),
        (["set-target", "taxi.speed", "0.1", "--jsno"], "Usage"),
    ]:
        with case(str((words, says))):
            assert says in taxi.run(*words, code=2).stderr


@pytest.mark.parametrize(
    ("config", "inside", "outside", "says"),
    [
        (
            {"epsilons": [0.3, 0.5]},
            "0.6",
            ("1", "2.5"),
            "with epsilons a PTK is planned by a formula: target must be between 0 and 1, the range of the error, "
            "both excluded; it is {}",
        ),
        (
            {"epsilons": [0.3, 0.5], "profile": {}},
            "0.4",
            ("0.5", "2.5"),
            "PTK taxi.speed cannot be profiled: target must be between 0 and 0.5, the lower half of loss_bounds, "
            "both excluded; it is {}",
        ),
        (
            {"epsilons": [0.3, 0.5], "profile": {"evaluation": "eval", "loss_bounds": [0.2, 0.6]}},
            "0.3",
            ("0.2", "0.4"),
            "PTK taxi.speed cannot be profiled: target must be between 0.2 and 0.4, the lower half of loss_bounds, "
            "both excluded; it is {}",
        ),
    ],
)
def test_a_target_out_of_range_is_refused_with_the_range(
    taxi: Line, tmp_path: Path, config: dict[str, object], inside: str, outside: tuple[str, ...], says: str
) -> None:
    taxi.run("set-target", "taxi.speed", "0.3")
    taxi.run("set-config", "taxi.speed", written(tmp_path, "c.json", json.dumps(config)))
    taxi.run("set-target", "taxi.speed", inside)
    for target in outside:
        assert says.format(target) in taxi.run("set-target", "taxi.speed", target, code=2).stderr
    assert params(taxi)["target"] == float(inside)


def test_a_stream_shows_who_pays_from_what(ptk: Line) -> None:
    ptk.run(
        *(
            "stream",
            "create",
            "rides",
            "--team",
            "taxi",
            "--schema",
            "at:timestamp,hour:int64",
            "--epsilon",
            "1",
        ),
        *("--time-column", "at", "--closing", "operator", "--train-partitions", "3"),
        *("--context", "north=taxi", "--context", "south=bikes", "--reserve", "taxi.speed=0.25"),
        *("--no-collusion", "two companies"),
    )
    shown = ptk.json("stream", "show", "rides")
    assert shown["train_partitions"] == 3
    assert shown["contexts"] == {"north": ["taxi"], "south": ["bikes"]}
    assert (shown["no_collusion"], shown["reserved_shares"]) == ("two companies", {"taxi.speed": 0.25})
    assert shown["lines"] == {
        "context north": {"epsilon": 0.75, "delta": 0.0},
        "context south": {"epsilon": 1.0, "delta": 0.0},
        "ptk taxi.speed": {"epsilon": 0.25, "delta": 0.0},
    }
    assert "contexts: {'north': ['taxi']" in ptk.run("stream", "show", "rides").stdout
    assert ptk.json("stream", "show", "taxi")["train_partitions"] == 1
