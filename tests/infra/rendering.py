"""The compose file and the chart, rendered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import check_jsonschema
import helm_python
import yaml
from podman_compose import rec_subs

INFRA = Path(__file__).resolve().parents[2] / "infra"
CHART = INFRA / "helm" / "ptkstore"
SECRETS = {
    "POSTGRES_PASSWORD": "pg-4711",
    "REDIS_PASSWORD": "redis-4711",
    "DEVICES_REDIS_PASSWORD": "devices-4711",
    "S3_USER": "test",
    "S3_PASSWORD": "s3-4711",
    "PTK_METRICS_TOKEN": "collector-0123456789abcdef",
}
PROCESSES = ("api", "worker", "relay", "schedule")


@cache
def compose_file() -> dict[str, Any]:
    """As it is written."""
    document: dict[str, Any] = yaml.load((INFRA / "compose.yaml").read_text(), yaml.CSafeLoader)
    return document


def compose(variables: Mapping[str, str] = SECRETS) -> dict[str, Any]:
    """With its variables filled in, by podman-compose."""
    return _compose(tuple(sorted(variables.items())))


@cache
def _compose(variables: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    document: dict[str, Any] = rec_subs(deepcopy(compose_file()), dict(variables))
    return document


def compose_schema() -> dict[str, Any]:
    """The schema of the Compose Specification."""
    package = Path(str(check_jsonschema.__file__)).parent
    schema: dict[str, Any] = json.loads(
        (package / "builtin_schemas" / "vendor" / "compose-spec.json").read_text()
    )
    return schema


def chart(values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The manifests that Helm makes of the chart."""
    return _chart(json.dumps(values or {}))


@cache
def _chart(values: str) -> list[dict[str, Any]]:
    with helm_python.Chart.load(CHART) as loaded:
        rendered = loaded.render(json.loads(values), name="ptk", namespace="ptk")
    documents = (one for text in rendered.values() for one in yaml.load_all(text, yaml.CSafeLoader))
    return [one for one in documents if one is not None]


def pods(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod template of everything that runs, by name."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]
        for one in manifests
        if one["kind"] in ("Deployment", "StatefulSet", "Job")
    }
