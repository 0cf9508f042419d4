"""The specification of a model that devices train: one text, one hash, and limits for hostile ones."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ptklib.draw_discard import Categorical, Hashed, Numeric, Specification
from ptklib.draw_discard.specification import REACH_MIN, TEXT_BYTES_MAX, WEIGHT_MAX, WEIGHTS_MAX
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.mechanisms.additive import SHORT_SCALE
from tests.support.draw_discard import n_weights, vectors

FIELDS: dict[str, Any] = {
    "features": [
        Numeric("age", 0, 120),
        Categorical("country", ["de", "fr", "it"]),
        Categorical("hour", range(24)),
    ],
    "label": Numeric("clicked", 0, 1),
    "crosses": [["country", "hour"]],
    "epsilon": 3.47,
}


def specification(**other: Any) -> Specification:
    return Specification(**(FIELDS | other))


def test_a_specification_survives_its_text() -> None:
    one = specification(k=5, clip="l2", noise="gaussian", delta=1e-6)
    again = Specification.from_text(one.text)
    assert again == one
    assert (again.text, again.digest) == (one.text, one.digest)
    assert Specification.from_text(one.text.encode()) == one
    assert Specification.from_json(json.loads(json.dumps(json.loads(one.text), indent=3))) == one


@pytest.mark.parametrize(
    "other",
    [
        lambda text: json.dumps(json.loads(text), sort_keys=True),
        lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")),
        lambda text: text + "\n",
        lambda text: "\ufeff" + text,
        lambda text: text.encode("utf-16"),
        lambda text: text.replace('"delta":0.0', '"delta":0'),
        lambda text: text.replace('"delta":0.0', '"delta":-0.0'),
        lambda text: text.replace('"low":0.0', '"low":-0.0'),
        lambda text: text.replace("3.47", "3.470"),
        lambda text: text.replace('"fr"', '"\\u0066r"'),
    ],
    ids=range(10),
)
def test_a_text_in_another_form_is_refused(other: Any) -> None:
    """Clients read the hash from the bytes, so that there would be two hashes of one specification."""
    text = specification().text
    assert other(text) != text
    with pytest.raises(InvalidParameterError, match=r"canonical|must be JSON"):
        Specification.from_text(other(text))


def test_specifications_are_equal_when_their_texts_are() -> None:
    numbers, booleans = (
        specification(features=[Categorical("c", values)], crosses=[]) for values in ([0, 1], [False, True])
    )
    assert numbers != booleans
    assert len({numbers, booleans, replace(numbers)}) == 2
    assert specification(delta=-0.0).text == specification().text
    signed = specification(features=[Numeric("x", -0.0, 1.0)], crosses=[])
    assert signed.text == specification(features=[Numeric("x", 0, 1)], crosses=[]).text
    assert specification(features=[Numeric("x", -1, -0.0)], crosses=[]).text.count("-0.0") == 0
    assert specification() == specification(features=tuple(FIELDS["features"]))
    assert specification() != specification().text


def test_text_and_hash_stay_as_they_are() -> None:
    one = Specification(features=(Numeric("x", 0, 2),), label=Numeric("y", 0, 1), epsilon=1)
    assert one.text == (
        '{"clip":"l1","crosses":[],"delta":0.0,"epsilon":1.0,"features":[{"column":"x","high":2.0,"low":0.0}],'
        '"format":"draw-discard/1","grid_bits":24,"k":20,"label":{"column":"y","high":1.0,"low":0.0},'
        '"learning_rate":0.001,"link":"logistic","max_norm":1.0,"noise":"laplace"}'
    )
    assert one.digest == "08dd1a8fe0c904780f7bffa789bb990af27ac7c4c651a107576a55b3fac860c5"


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 3.48},
        {"k": 21},
        {"max_norm": 1.5},
        {"clip": "l2"},
        {"crosses": []},
        {"grid_bits": 25},
        {"learning_rate": 0.002},
        {"features": FIELDS["features"][::-1]},
    ],
)
def test_whatever_differs_makes_another_hash(other: dict[str, Any]) -> None:
    assert specification(**other).digest != specification().digest


def test_weights_are_an_intercept_columns_values_and_crosses() -> None:
    one = specification()
    assert one.sizes == (1, 1, 3, 24, 72)
    assert one.n_weights == n_weights(one.to_json()) == 101


def test_a_number_in_a_cross_adds_no_weights() -> None:
    one = specification(crosses=[["country", "age"], ["age", "hour", "country"]])
    assert one.sizes == (1, 1, 3, 24, 3, 72)
    assert one.n_weights == n_weights(one.to_json())


def test_public_numbers_of_the_grid() -> None:
    one = specification(learning_rate=0.001, grid_bits=24, max_norm=2.0)
    assert (one.limit, one.reach) == (2**21, 2 * 16777)
    assert one.distance == 4 * 16777
    assert one.instance_variance == 10 * one.noise_variance


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": 11}, "epsilon"),
    ({"epsilon": float("nan")}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"epsilon": True}, "epsilon"),
    ({"delta": 1e-6}, "delta"),
    ({"noise": "gaussian"}, "delta"),
    ({"noise": "gaussian", "delta": 0.5}, "delta"),
    ({"noise": "normal"}, "noise"),
    ({"clip": ["l1"]}, "clip"),
    ({"clip": "none"}, "clip"),
    ({"link": "poisson"}, "link"),
    ({"k": 0}, "k must"),
    ({"k": 1000, "features": [Hashed("page", 4200)], "crosses": []}, "take a smaller k"),
    ({"k": 1001}, "k must"),
    ({"k": 2.0}, "k must"),
    ({"k": np.timedelta64(2)}, "k must"),
    ({"max_norm": 0}, "max_norm"),
    ({"max_norm": 1e300}, "max_norm"),
    ({"learning_rate": float("inf")}, "learning_rate"),
    ({"learning_rate": -1.0}, "learning_rate"),
    ({"grid_bits": 7}, "grid_bits"),
    ({"grid_bits": 31}, "grid_bits"),
    ({"grid_bits": 8}, "units of the grid"),
    ({"grid_bits": 30, "learning_rate": 2.0}, "units of the grid"),
    ({"grid_bits": 30, "learning_rate": 0.5, "epsilon": 0.1}, "no room"),
    ({"epsilon": 1e-6}, "no room"),
    ({"k": 1000, "grid_bits": 30, "epsilon": 0.1}, "no room"),
    ({"features": []}, "features"),
    ({"features": "age"}, "features"),
    ({"features": [("age", 0, 1)]}, "features"),
    ({"features": [Numeric("age", 0, 1), Numeric("AGE", 0, 1)], "crosses": []}, "repeat"),
    ({"features": [Numeric("clicked", 0, 1)], "crosses": []}, "repeat"),
    ({"features": [Numeric(f"c{i}", 0, 1) for i in range(1025)], "crosses": []}, "features"),
    ({"label": Numeric("clicked", 0, 2)}, "bounds 0 and 1"),
    ({"label": Categorical("clicked", [0, 1])}, "label"),
    ({"crosses": [["country"]]}, "cross"),
    ({"crosses": [["country", "country"]]}, "cross"),
    ({"crosses": [["country", "nobody"]]}, "cross"),
    ({"crosses": [["country", ["hour"]]]}, "cross"),
    ({"crosses": ["country"]}, "cross"),
    ({"crosses": [["country", "hour"], ["hour", "country"]]}, "repeat"),
    ({"crosses": [["country", "hour"]] * 257}, "crosses"),
]


@pytest.mark.parametrize(("other", "told"), HOSTILE, ids=str)
def test_what_cannot_be_promised_or_computed_is_refused(other: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        specification(**other)


def test_a_model_of_too_many_weights_is_refused() -> None:
    wide = [Categorical("a", range(256)), Categorical("b", range(256))]
    with pytest.raises(InvalidParameterError, match=str(WEIGHTS_MAX)):
        specification(features=wide, crosses=[["a", "b"]])


def test_a_text_that_could_not_be_read_again_is_refused() -> None:
    long = [Categorical("a", [f"{i:0250}" for i in range(TEXT_BYTES_MAX // 250)])]
    with pytest.raises(InvalidParameterError, match="bytes"):
        specification(features=long, crosses=[])


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Numeric, ("a b", 0, 1)),
        (Numeric, ("a", 1, 1)),
        (Numeric, ("a", 0, float("inf"))),
        (Numeric, ("a", 0, "1")),
        (Categorical, ("a", [])),
        (Categorical, ("a", "abc")),
        (Categorical, ("a", [1, "1"])),
        (Categorical, ("a", [1, True])),
        (Categorical, ("a", [1.0])),
        (Categorical, ("a", ["x", "x"])),
        (Categorical, ("a", ["\ud800"])),
        (Categorical, ("a", ["x" * 257])),
        (Categorical, ("a", [2**53])),
        (Categorical, ("a", {1: 2})),
        (Categorical, ("a", [[1]])),
        (Categorical, ("a", range(2**16 + 1))),
    ],
)
def test_columns_that_are_not_bounded_or_declared_are_refused(kind: Any, given: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameterError):
        kind(*given)


def changed(**other: Any) -> str:
    return json.dumps(specification().to_json() | other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "{",
        "[" * 100_000,
        "{}",
        b"\xff\xfe\xff",
        "9" * 5000,
        changed(more=1),
        changed(format="draw-discard/2"),
        changed(epsilon=float("nan")),
        changed(epsilon=float("inf")),
        changed(epsilon=None),
        changed(epsilon=10**400),
        changed(features={}),
        changed(features=[1]),
        changed(features=[{"column": "a"}]),
        changed(features=[{"column": "a", "low": 0, "high": 1, "values": [1]}]),
        changed(features=[{"column": ["a"], "low": 0, "high": 1}]),
        changed(features=[{"column": "a", "values": {"x": 1}}]),
        changed(features=[{"column": "a", "values": "\ud800"}]),
        changed(label="clicked"),
        changed(crosses=None),
        changed(clip=1),
        changed(k=[]),
        specification().text.replace('"k":20', '"k":20,"k":2'),
        specification().text.replace("3.47", "1e999"),
        " " * TEXT_BYTES_MAX + specification().text,
        specification().text.replace('"k":20,', ""),
    ],
)
def test_texts_that_somebody_made_up_are_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidParameterError) as told:
        Specification.from_text(text)
    assert "canonical" not in str(told.value)  # that is asked last


def test_only_texts_are_read() -> None:
    with pytest.raises(InvalidParameterError):
        Specification.from_text(1)  # type: ignore[arg-type]
    with pytest.raises(PrivacyParameterError):
        replace(specification(), epsilon=-1.0)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("clip", ["l1", "l2", "coordinate"])
def test_the_coarsest_grid_and_the_largest_epsilon_need_no_sampler_but_ours(noise: Any, clip: Any) -> None:
    delta = 0.0099 if noise == "gaussian" else 0.0
    least = specification(
        epsilon=10, delta=delta, noise=noise, clip=clip, learning_rate=REACH_MIN / 2**24, k=1
    )
    assert least.reach == REACH_MIN
    assert least.noise_scale >= SHORT_SCALE


def test_weights_have_room_for_eight_deviations_of_the_widest_noise() -> None:
    for bits in range(22, 31):
        try:
            one = specification(grid_bits=bits, k=100, epsilon=0.5)
        except InvalidParameterError as error:
            assert "no room" in str(error)  # noqa: PT017  (some are refused, none gets through)
        else:
            assert 8 * one.instance_variance**0.5 <= WEIGHT_MAX


def test_published_vectors_have_the_hash_of_their_specification() -> None:
    for case in vectors():
        one = Specification.from_text(case["specification"])
        assert one.text == case["specification"]
        assert one.digest == case["digest"]


def test_a_device_loads_numpy_and_our_samplers_alone() -> None:
    script = (
        "import sys, numpy as np\n"
        "from ptklib.draw_discard import *\n"
        "features = Numeric('x', 0, 1), Categorical('c', (1, 2))\n"
        "s = Specification(features=features, label=Numeric('y', 0, 1), epsilon=1)\n"
        "instances = start_instances(s)\n"
        "report = make_report(s, draw_instance(s, instances), {'x': [.5], 'c': [2], 'y': [1]})\n"
        "HonestRange.of(s, instances, .01).admits(report), put_report(s, instances, report)\n"
        "average_instances(s, instances), report_loss(s)\n"
        "heavy = {'pandas', 'pyarrow', 'scipy', 'sklearn', 'opendp', 'dp_accounting'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
