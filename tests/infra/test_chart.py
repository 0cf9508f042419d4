"""The Helm chart: linted and rendered by Helm itself, valid for Kubernetes, and as closed as it can be."""

from __future__ import annotations

from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from ptkstore.settings import Settings
from tests.infra.rendering import CHART, PROCESSES, chart, compose, pods

ALONE = {
    "home": {"accessMode": "ReadWriteOnce", "singleNode": True},
    "postgres": {"enabled": False},
    "redis": {"enabled": False},
    "s3": {"enabled": False},
    "networkPolicy": {
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "partsTo": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
    },
}
DEVICES = {"devices": {"enabled": True}}
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "maintenance": {"maintenance": True},
    "alone": ALONE,
    "devices": DEVICES,
}
KUBERNETES = "1.31"


@pytest.fixture(params=VARIANTS)
def manifests(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return chart(VARIANTS[request.param])


def test_helm_has_nothing_against_it() -> None:
    report = helm_python.lint(CHART, strict=True)
    assert report["errors"] == []
    assert [one for one in report["messages"] if one["severity"] > 1] == []


def test_kubernetes_knows_every_field(manifests: list[dict[str, Any]]) -> None:
    assert len(manifests) >= 16
    for one in manifests:
        kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_seen(manifests: list[dict[str, Any]]) -> None:
    broken = {**manifests[0], "spec_": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


@pytest.mark.parametrize(
    "values",
    [
        {"nonsense": 1},
        {"home": {"accessMode": "ReadWriteOnce"}},
        {"schedule": {"replicas": 1}},
        {"image": {"tag": "latest"}},
        {"redis": {"image": "redis"}},
        {"settings": {"PTK_REDIS_URL": "redis://:secret@x"}},
        {"objects": {"lakeUrl": "/tmp/lake"}},
        {"teamCode": {"seccompProfile": {"type": "Localhost"}}},
    ],
    ids=str,
)
def test_values_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(helm_python.HelmValuesError):
        chart(values)


def test_every_value_is_in_the_schema_and_explained() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    assert set(values) <= set(schema["properties"])
    for name in values:
        assert f"\n{name}:" in (CHART / "values.yaml").read_text()


def test_pods_meet_the_restricted_standard(manifests: list[dict[str, Any]]) -> None:
    for name, pod in pods(manifests).items():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] > 0, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        assert all("hostPath" not in volume for volume in spec["volumes"]), name
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name
            assert "memory" in container["resources"]["limits"], name


def test_what_lives_long_is_probed_and_survives_a_drain(manifests: list[dict[str, Any]]) -> None:
    budgets = {one["metadata"]["name"] for one in manifests if one["kind"] == "PodDisruptionBudget"}
    for one in manifests:
        if one["kind"] in ("Deployment", "StatefulSet"):
            (container,) = one["spec"]["template"]["spec"]["containers"]
            assert {"startupProbe", "livenessProbe"} <= set(container)
        if one["kind"] == "Deployment":
            assert one["metadata"]["name"] in budgets


def test_secrets_are_referred_to_and_never_made(manifests: list[dict[str, Any]]) -> None:
    assert "Secret" not in {one["kind"] for one in manifests}
    for name, pod in pods(manifests).items():
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
            for variable in container.get("env", []):
                if any(word in variable["name"] for word in ("PASSWORD", "SECRET", "TOKEN", "ACCESS_KEY")):
                    assert variable["valueFrom"]["secretKeyRef"]["name"] == "ptkstore", name


def test_nobody_reaches_anything_that_no_policy_names(manifests: list[dict[str, Any]]) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in manifests if one["kind"] == "NetworkPolicy"}
    assert policies["ptk-nothing"] == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/instance": "ptk"}},
        "policyTypes": ["Ingress", "Egress"],
    }
    for pod in pods(manifests).values():
        assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == "ptk"
    outside = [
        name
        for name, spec in policies.items()
        for rule in spec.get("egress", [])
        for peer in rule["to"]
        if peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0"
    ]
    assert outside == ["ptk-webhooks"]
    assert policies["ptk-webhooks"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "relay"
    (block, _) = policies["ptk-webhooks"]["egress"][0]["to"]
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= set(
        block["ipBlock"]["except"]
    )


def test_the_redis_of_devices_keeps_nothing_and_consumers_do_not_reach_it() -> None:
    consumers = [{"ipBlock": {"cidr": "10.2.0.0/16"}}]
    made = chart({**DEVICES, "networkPolicy": {"consumersFrom": consumers}})
    (part,) = (
        one for one in made if one["kind"] == "StatefulSet" and one["metadata"]["name"] == "ptk-devices"
    )
    assert "volumeClaimTemplates" not in part["spec"]
    data = {volume["name"]: volume for volume in part["spec"]["template"]["spec"]["volumes"]}["data"]
    assert data["emptyDir"]["medium"] == "Memory"
    (container,) = part["spec"]["template"]["spec"]["containers"]
    of_compose = compose()["services"]["devices"]["command"][-1].removeprefix("exec redis-server ")
    said = container["command"][-1].removeprefix("exec redis-server --dir /data ")
    assert said == of_compose
    reached = {
        one["metadata"]["name"]
        for one in made
        if one["kind"] == "NetworkPolicy"
        for rule in one["spec"].get("ingress", [])
        if consumers[0] in rule["from"]
    }
    assert reached == {"ptk-redis", "ptk-s3"}


def test_processes_are_started_as_by_compose() -> None:
    services, made = compose()["services"], pods(chart())
    for name in PROCESSES:
        spec = made[f"ptk-{name}"]["spec"]
        assert spec["containers"][0]["command"] == services[name]["command"]
        assert spec["initContainers"][0]["command"] == services["catalog"]["command"]
    known = {f"PTK_{name.upper()}" for name in Settings.model_fields}
    (settings,) = (one["data"] for one in chart() if one["kind"] == "ConfigMap")
    variables = {one["name"] for one in made["ptk-worker"]["spec"]["containers"][0]["env"]}
    assert {one for one in variables | set(settings) if one.startswith("PTK_")} <= known
    assert variables | set(settings) == set(services["worker"]["environment"])


def test_only_pods_that_run_teams_code_get_the_profile_that_lets_its_sandbox_work() -> None:
    other = {"type": "Localhost", "localhostProfile": "profiles/ptk.json"}
    made = chart({"teamCode": {"seccompProfile": other}})
    for one in made:
        if one["kind"] == "Deployment":
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
    profiles = {name: spec["spec"]["securityContext"]["seccompProfile"] for name, spec in pods(made).items()}
    assert {name for name, profile in profiles.items() if profile == other} == {
        name for name in profiles if name.endswith(("-api", "-worker"))
    }
    assert all(profile in (other, {"type": "RuntimeDefault"}) for profile in profiles.values())


def test_how_much_code_a_team_keeps_can_be_set() -> None:
    limits = ("bundles_per_team", "bundle_mib_per_team")
    usual = {f"PTK_{name.upper()}": str(Settings.model_fields[name].default) for name in limits}
    one_other = {"PTK_BUNDLES_PER_TEAM": "7"}
    for values, wanted in (({}, usual), ({"settings": one_other}, {**usual, **one_other})):
        (settings,) = (one["data"] for one in chart(values) if one["kind"] == "ConfigMap")
        assert wanted.items() <= settings.items()


def test_maintenance_stops_every_process_and_upgrades_once() -> None:
    made = chart({"maintenance": True})
    assert {one["spec"]["replicas"] for one in made if one["kind"] == "Deployment"} == {0}
    job = pods(made)["ptk-catalog-upgrade-1"]["spec"]["containers"][0]
    assert job["command"] == ["ptk", "catalog", "upgrade", "--backed-up"]
    assert {one["spec"]["replicas"] for one in chart() if one["kind"] == "Deployment"} == {2}


def test_a_home_that_one_node_mounts_keeps_its_pods_on_that_node() -> None:
    for name, pod in pods(chart(ALONE)).items():
        affinity = pod["spec"]["affinity"]["podAffinity"]
        (rule,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert rule["topologyKey"] == "kubernetes.io/hostname", name
        assert rule["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_the_home_outlives_the_release() -> None:
    (home,) = (one for one in chart() if one["kind"] == "PersistentVolumeClaim")
    assert home["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
