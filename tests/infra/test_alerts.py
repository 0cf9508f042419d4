"""The alert rules: every expression is one, over metrics and labels that exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ptkstore.api.device_counts import DeviceCounts
from ptkstore.api.metrics import Metrics
from ptkstore.api.online_check import OnlineRows
from tests.infra.rendering import INFRA
from tests.support.world import World

RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((INFRA / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]


@pytest.fixture(scope="module")
def parse() -> Callable[[str], object]:
    """The parser of expressions, whose import takes seconds."""
    import promql_parser

    made: Callable[[str], object] = promql_parser.parse
    return made


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a service tells: labels by name of metric."""
    world = World(tmp_path_factory.mktemp("alerts"))
    world.stream()
    world.register()
    world.publish(0)
    world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/")
    metrics = Metrics(world.service, OnlineRows(world.service), DeviceCounts())
    metrics.saw("GET", "/v1/streams", 200, 0.1)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
        # a PTK has these only once somebody missed something
        found.setdefault(
            family.name,
            {"ptk"} if family.name.startswith(("ptk_end", "ptk_dead", "ptk_outbox", "ptk_online")) else set(),
        )
    world.service.close()
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_is_over_metrics_that_exist(
    rule: dict[str, Any], told: dict[str, set[str]], parse: Callable[[str], object]
) -> None:
    parse(rule["expr"])
    bare = re.sub(r'"[^"]*"', "", rule["expr"])
    names = set(re.findall(r"\bptk_\w+", bare))
    assert names
    assert names <= set(told)
    labels = set(re.findall(r"by \((\w+)\)", rule["expr"])) - {"le"}
    labels |= set(re.findall(r"[{,](\w+)(?:=|!=|=~|!~)", bare))
    assert all(labels <= told[name] for name in names), (labels, {name: told[name] for name in names})
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= labels


def test_an_expression_that_is_none_is_seen(parse: Callable[[str], object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser has no error of its own
        parse("sum by (x) (rate(a[5m])")


def test_every_alert_is_explained(repository: Path) -> None:
    guide = (repository / "docs" / "guide" / "operate.md").read_text()
    assert [rule["alert"] for rule in RULES if f"`{rule['alert']}`" not in guide] == []
