"""The manifests of deploy/: all forms are equal, and fit kubesched."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.programs import Programs
from tests.deploy.documents import (
    CHART,
    DEPLOY,
    ROOT,
    Document,
    Documents,
    by_kind,
    kustomized,
    plain,
    rendered,
)
from tests.unit.cli.running import kubesched

SCHEDULERS = {"second-scheduler": "kubesched", "replacement": "kubesched-replacement"}
NAMES = {**SCHEDULERS, "extender": "kubesched-extender"}
MODES = {"second-scheduler": "second", "replacement": "replacement", "extender": "extender"}
VALUES = {
    "second-scheduler": (),
    "replacement": (),
    "extender": (
        "--set=plugins={spare_gpu.py:SpareGpu}",
        f"--set-file=pluginFiles.spare_gpu\\.py={ROOT / 'examples/plugins/spare_gpu.py'}",
    ),
}
folders = pytest.mark.parametrize("folder", NAMES)
schedulers = pytest.mark.parametrize("folder", SCHEDULERS)


def pod_template(found: Documents) -> Document:
    (deployment,) = found["Deployment"]
    pod: Document = deployment["spec"]["template"]["spec"]
    return pod


def container_of(found: Documents) -> Document:
    (container,) = pod_template(found)["containers"]
    assert isinstance(container, dict)
    return container


def read_configs(found: Documents) -> Documents:
    """Return documents with embedded YAML parsed, so that its spaces do not count."""
    for one in found.get("ConfigMap", []):
        for name, text in one["data"].items():
            one["data"][name] = yaml.safe_load(text) if name.endswith(".yaml") else text
    return found


@pytest.mark.programs
@folders
def test_kustomize_and_the_chart_make_the_same_objects_as_the_files(folder: str) -> None:
    expected = plain(folder)
    assert kustomized(DEPLOY / folder) == expected
    chart = rendered(NAMES[folder], f"--set=mode={MODES[folder]}", *VALUES[folder])
    assert read_configs(chart) == read_configs(expected)


@schedulers
def test_the_rights_are_those_that_the_doctor_prints(folder: str, tmp_path: Path) -> None:
    found = plain(folder)
    config = tmp_path / "scheduler.yaml"
    config.write_text(found["ConfigMap"][0]["data"]["scheduler.yaml"])
    account = f"--service-account=kube-system/{NAMES[folder]}"
    printed = kubesched("doctor", f"--config={config}", "--reload", "--rbac", account)
    assert (printed.status, printed.err) == (0, "")
    expected = by_kind(yaml.safe_load_all(printed.out))
    assert {kind: found[kind] for kind in expected} == expected


def test_the_rights_of_the_extender_are_those_that_it_prints() -> None:
    found = plain("extender")
    printed = kubesched(
        "extender",
        f"--plugin={ROOT / 'examples/plugins/spare_gpu.py'}:SpareGpu",
        "--print-config",
        "--service-account=kube-system/kubesched-extender",
    )
    assert printed.status == 0, printed.err
    documents = [one for one in yaml.safe_load_all(printed.out) if one and "kind" in one]
    expected = {kind: objects for kind, objects in by_kind(documents).items() if kind in found}
    assert set(expected) >= {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    assert {kind: found[kind] for kind in expected} == expected


def test_leases_are_granted_by_name() -> None:
    for folder, lease in (("second-scheduler", "kubesched"), ("replacement", "kube-scheduler")):
        found = plain(folder)
        cluster_wide = [rule for role in found["ClusterRole"] for rule in role["rules"]]
        assert not any("*" in str(rule) or "leases" in str(rule) for rule in cluster_wide)
        (role,) = found["Role"]
        named = [rule for rule in role["rules"] if "leases" in rule["resources"]]
        assert named == [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": [lease],
                "verbs": ["get", "update"],
            },
        ]
        assert role["metadata"]["namespace"] == "kube-system"


@folders
def test_pods_are_restricted_and_protected(folder: str) -> None:
    found = plain(folder)
    pod, container = pod_template(found), container_of(found)
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert found["Deployment"][0]["spec"]["replicas"] == 2
    (budget,) = found["PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == 1
    labels = found["Deployment"][0]["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert found["Deployment"][0]["spec"]["selector"]["matchLabels"] == labels
    assert pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == labels


@schedulers
def test_schedulers_are_probed_where_they_serve(folder: str) -> None:
    container = container_of(plain(folder))
    requests = {probe: container[probe]["httpGet"] for probe in PROBES}
    assert {one["port"] for one in requests.values()} == {10259}
    assert {one["scheme"] for one in requests.values()} == {"HTTPS"}
    assert [one["path"] for one in requests.values()] == ["/livez", "/livez", "/readyz"]


PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def test_the_two_schedulers_differ_in_names_and_in_where_they_run() -> None:
    """A fix in one of them must also be in the other."""
    second, replacement = map(plain, SCHEDULERS)
    text = yaml.safe_dump({**replacement, "ConfigMap": [], "Role": []})
    renamed = yaml.safe_load(text.replace("kubesched-replacement", "kubesched"))
    pod = pod_template(renamed)
    assert pod.pop("nodeSelector") == {"node-role.kubernetes.io/control-plane": ""}
    assert [one["effect"] for one in pod.pop("tolerations")] == ["NoSchedule"]
    assert renamed == {**second, "ConfigMap": [], "Role": []}


def test_the_static_pod_is_kubeadms_except_for_the_program() -> None:
    manifest = yaml.safe_load((DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text())
    kubeadms = yaml.safe_load(Path(__file__).with_name("kubeadm-kube-scheduler.yaml").read_text())
    (container,) = manifest["spec"]["containers"]
    (other,) = kubeadms["spec"]["containers"]
    assert container["command"] == ["kubesched", "run", *other["command"][1:]]
    assert container["volumeMounts"] == other["volumeMounts"]
    assert manifest["metadata"] == kubeadms["metadata"]
    for name in ("hostNetwork", "priority", "priorityClassName", "volumes"):
        assert manifest["spec"][name] == kubeadms["spec"][name], name


SHAPE = (
    "imagePullPolicy",
    "ports",
    *PROBES,
    "resources",
    "securityContext",
)


def examples() -> list[Any]:
    """Return the Deployments of schedulers in examples and in new projects."""
    found = [
        *ROOT.glob("examples/*/manifests/*.yaml"),
        ROOT / "examples" / "load-aware" / "deployment.yaml",
        ROOT / "src/kubesched/cli/new_plugin_files/manifests/scheduler.yaml.tmpl",
    ]
    return [
        pytest.param(one, id=path.relative_to(ROOT).as_posix())
        for path in sorted(found)
        for one in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        if one["kind"] == "Deployment"
    ]


@pytest.mark.parametrize("deployment", examples())
def test_examples_are_deployed_alike(deployment: Document) -> None:
    found = {"Deployment": [deployment]}
    pod, container = pod_template(found), container_of(found)
    arguments = [*container.get("command", ()), *container["args"]]
    like = plain("extender" if "extender" in arguments else "second-scheduler")
    assert {name: container.get(name) for name in SHAPE} == {
        name: container_of(like)[name] for name in SHAPE
    }
    for name in ("priorityClassName", "securityContext"):
        assert pod[name] == pod_template(like)[name]
    label = {"app.kubernetes.io/name": deployment["metadata"]["name"]}
    assert deployment["spec"]["selector"]["matchLabels"] == label


def test_all_manifests_use_one_image() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    images = {container_of(plain(folder))["image"] for folder in NAMES}
    static = yaml.safe_load((DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text())
    images.add(static["spec"]["containers"][0]["image"])
    assert images == {f"kubesched:{chart['appVersion']}"}


def test_the_plugin_of_the_extender_is_the_example() -> None:
    (config_map,) = plain("extender")["ConfigMap"]
    source = ROOT / "examples" / "plugins" / "spare_gpu.py"
    assert config_map["data"] == {source.name: source.read_text()}


@schedulers
def test_the_configuration_is_valid(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(plain(folder)["ConfigMap"][0]["data"]["scheduler.yaml"])
    completed = kubesched("config", "validate", "-f", str(path))
    assert completed.status == 0, completed.err


@pytest.mark.programs
def test_the_chart_is_valid() -> None:
    completed = helm("lint", str(CHART), "--strict", "--kube-version=v1.36.4")
    assert completed.returncode == 0, completed.stdout


@pytest.mark.programs
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("mode=third", "mode"),
        ("mode=extender", "an extender needs plugins"),
        ("replicas=none", "replicas"),
        ("imgae.tag=1", "imgae"),
    ],
)
def test_invalid_values_are_rejected(value: str, message: str) -> None:
    completed = helm("template", "x", str(CHART), "--kube-version=v1.36.4", f"--set={value}")
    assert completed.returncode != 0
    assert message in completed.stderr


@pytest.mark.programs
def test_effects_of_values() -> None:
    chart = rendered(
        "mine",
        "--set=mode=extender,extender.bind=true,extender.tlsSecret=cert,image.tag=2,verbosity=4",
        "--set=plugins={pack.mod:Packing},extraArgs={--max-score=5},nodeSelector.pool=system",
        "--set=profiles[0].schedulerName=any,imagePullSecrets[0].name=pull",
    )
    pod, container = pod_template(chart), container_of(chart)
    assert container["args"] == [
        "--listen=0.0.0.0:8888",
        "--config=/etc/kubesched/scheduler.yaml",
        "--plugin=pack.mod:Packing",
        "--bind",
        "--tls-cert-file=/etc/kubesched-tls/tls.crt",
        "--tls-private-key-file=/etc/kubesched-tls/tls.key",
        "--v=4",
        "--max-score=5",
    ]
    assert container["image"] == "kubesched:2"
    assert {container[probe]["httpGet"]["scheme"] for probe in PROBES} == {"HTTPS"}
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["volumes"][1] == {"name": "tls", "secret": {"secretName": "cert"}}
    assert chart["ClusterRole"][0]["rules"][1]["resources"] == ["pods/binding"]
    scheduler: Any = yaml.safe_load(chart["ConfigMap"][0]["data"]["scheduler.yaml"])
    assert scheduler["profiles"] == [{"schedulerName": "any"}]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Programs.built().path("helm"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
