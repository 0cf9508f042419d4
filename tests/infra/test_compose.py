"""The compose file: valid, complete, and as closed as it can be."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
import yaml

from ptkstore.settings import Settings
from tests.infra.rendering import INFRA, PROCESSES, SECRETS, compose, compose_file, compose_schema

OURS = (*PROCESSES, "catalog")


def test_it_is_a_compose_file() -> None:
    jsonschema.validate(compose_file(), compose_schema())


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**compose_file(), "servces": {}}, compose_schema())


def merged(first: Any, second: Any) -> Any:
    """As compose puts two files together: lists are appended."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {
            name: merged(first[name], new) if name in first else new for name, new in second.items()
        }
    return first + second if isinstance(first, list) and isinstance(second, list) else second


def test_the_file_of_the_guide_that_lets_team_code_run_fits_beside_it() -> None:
    guide = (INFRA.parent / "docs" / "guide" / "operate.md").read_text()
    (shown,) = re.findall(r"example: compose, tested as it stands -->\n```yaml\n(.*?)```", guide, re.DOTALL)
    both = merged(compose_file(), yaml.load(shown, yaml.CSafeLoader))
    jsonschema.validate(both, compose_schema())
    for name in OURS:
        wanted = ["seccomp=unconfined"] if name in ("api", "worker") else []
        assert both["services"][name]["security_opt"] == ["no-new-privileges:true", *wanted]


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_a_secret_that_is_not_set_stops_it(missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        compose({**SECRETS, missing: ""})


def test_the_example_of_secrets_names_all_and_holds_none() -> None:
    lines = [line for line in (INFRA / "compose.env").read_text().splitlines() if not line.startswith("#")]
    assert sorted(lines) == sorted(f"{name}=" for name in SECRETS)


def test_no_secret_is_written_down() -> None:
    text = (INFRA / "compose.yaml").read_text()
    for name, value in compose()["services"]["api"]["environment"].items():
        if any(word in name for word in ("PASSWORD", "SECRET", "TOKEN")):
            assert value in SECRETS.values(), name
            assert value not in text


def test_every_image_is_pinned() -> None:
    for name, service in compose()["services"].items():
        assert re.fullmatch(r"[a-z0-9./-]+:[A-Za-z0-9._-]*\d[A-Za-z0-9._-]*", service["image"]), name


@pytest.mark.parametrize("name", OURS)
def test_our_processes_run_without_rights(name: str) -> None:
    service = compose()["services"][name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    assert service["volumes"] == ["home:/var/lib/ptk"]


def test_every_setting_that_is_set_exists() -> None:
    known = {f"PTK_{name.upper()}" for name in Settings.model_fields}
    for name in OURS:
        environment: dict[str, Any] = compose()["services"][name]["environment"]
        assert {one for one in environment if one.startswith("PTK_")} <= known


def test_how_much_code_a_team_keeps_can_be_set() -> None:
    limits = ("bundles_per_team", "bundle_mib_per_team")
    usual = {f"PTK_{name.upper()}": str(Settings.model_fields[name].default) for name in limits}
    others = dict.fromkeys(usual, "7")
    example = (INFRA / "compose.env").read_text().splitlines()
    assert {f"# {name}={value}" for name, value in usual.items()} <= set(example)
    for name in OURS:
        for chosen, wanted in ((SECRETS, usual), ({**SECRETS, **others}, others)):
            assert wanted.items() <= compose(chosen)["services"][name]["environment"].items()


def test_no_process_is_the_only_schedule_and_only_the_api_is_reached_from_outside() -> None:
    services = compose()["services"]
    assert services["schedule"]["deploy"]["replicas"] == 2
    assert {name for name, one in services.items() if "ports" in one} == {"api"}
    assert services["api"]["ports"] == ["127.0.0.1:8000:8000"]
    for part in ("postgres", "redis", "devices", "s3"):
        assert services[part]["networks"] == ["inside"]
    assert compose()["networks"]["inside"] == {"internal": True}


def test_nothing_starts_before_the_catalog_is_right() -> None:
    for name in PROCESSES:
        waits = compose()["services"][name]["depends_on"]
        assert waits["catalog"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", [*PROCESSES, "postgres", "redis", "devices", "s3"])
def test_a_process_that_ends_is_started_again(name: str) -> None:
    assert compose()["services"][name]["restart"] == "unless-stopped"


def test_the_probe_of_the_api_does_not_depend_on_other_processes() -> None:
    assert "/readyz?only=requests'" in compose()["services"]["api"]["healthcheck"]["test"][-1]


def test_the_redis_of_devices_keeps_nothing_and_has_a_password_of_its_own() -> None:
    devices = compose()["services"]["devices"]
    assert "volumes" not in devices
    assert devices["read_only"] is True
    assert SECRETS["DEVICES_REDIS_PASSWORD"] not in str(compose()["services"]["redis"])
    assert SECRETS["REDIS_PASSWORD"] not in str(devices)
