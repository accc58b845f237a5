"""`kubesched extender`: options, and the output of `--print-config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.running import ROOT, kubesched

EXAMPLE = f"{ROOT / 'examples' / 'http-extender' / 'http_extender.py'}:HttpExtender"
COLUMNS = f"{ROOT / 'examples' / 'plugins' / 'spare_gpu_columns.py'}"
FILTER_ONLY = """
from kubesched import ActionType, ClusterEvent, EventRegistration, EventResource, unschedulable

class Never:
    name = "Never"
    def filter(self, state, pod, node):
        return unschedulable("never")
    def events_to_register(self):
        return [
            EventRegistration(ClusterEvent("volcanoes.v1.geo.example", ActionType.ADD)),
            EventRegistration(ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)),
        ]
"""
WAITS_ONLY = """
class Waits:
    name = "Waits"
    def permit(self, state, pod, node_name):
        return None, 0.0
"""


def printed(*arguments: str) -> list[Any]:
    run = kubesched("extender", "--print-config", *arguments)
    assert run.status == 0, run.err
    return list(yaml.safe_load_all(run.out))


def rules(documents: list[Any]) -> list[tuple[list[str], list[str]]]:
    (role,) = (document for document in documents if document.get("kind") == "ClusterRole")
    return [(rule["resources"], rule["verbs"]) for rule in role["rules"]]


def test_the_snippet_and_the_rights_of_an_extender() -> None:
    snippet, *rbac = printed("--plugin", EXAMPLE)
    assert snippet == {
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:8888",
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": True,
                "httpTimeout": "5s",
                "ignorable": False,
            }
        ]
    }
    assert [document["kind"] for document in rbac] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    ]
    assert {document["metadata"]["name"] for document in rbac} == {"kubesched-extender"}
    assert rules(rbac) == [(["pods", "nodes", "namespaces"], ["get", "list", "watch"])]


def test_binding_requires_one_more_right() -> None:
    snippet, *rbac = printed("--plugin", EXAMPLE, "--bind", "--service-account=shop/extender")
    assert snippet["extenders"][0]["bindVerb"] == "bind"
    assert rules(rbac)[1:] == [(["pods/binding"], ["create"])]
    assert rbac[-1]["subjects"] == [
        {"kind": "ServiceAccount", "name": "extender", "namespace": "shop"}
    ]


def test_the_snippet_has_only_verbs_that_plugins_serve(tmp_path: Path) -> None:
    (tmp_path / "never.py").write_text(FILTER_ONLY)
    snippet, *rbac = printed(
        "--plugin", f"{tmp_path / 'never.py'}:Never", "--url=http://x:1/scheduler"
    )
    (entry,) = snippet["extenders"]
    assert entry["urlPrefix"] == "http://x:1/scheduler"
    assert "prioritizeVerb" not in entry
    assert "weight" not in entry
    # It may read the resources that it registers events for.
    read = ["get", "list", "watch"]
    assert rules(rbac) == [
        (["pods", "nodes", "namespaces"], read),
        (["volcanoes"], read),
        (["storageclasses"], read),
    ]


def test_the_snippet_of_an_extender_with_certificates() -> None:
    files = ["--tls-cert-file=c", "--tls-private-key-file=k", "--client-ca-file=a"]
    snippet, *_ = printed("--plugin", EXAMPLE, "--listen=0.0.0.0:9443", *files)
    (entry,) = snippet["extenders"]
    assert entry["urlPrefix"] == "https://127.0.0.1:9443"
    assert entry["enableHTTPS"] is True
    assert list(entry["tlsConfig"]) == ["caFile", "certFile", "keyFile"]


def test_a_scheduler_accepts_the_snippet(tmp_path: Path) -> None:
    snippet, *_ = printed("--plugin", EXAMPLE, "--bind")
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump({**head, **snippet}))
    run = kubesched("config", "validate", "-f", str(path))
    assert run.status == 0, run.err


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        ([], 1, "nothing to serve: give --plugin, or a --config that enables out-of-tree plugins"),
        (["--plugin", EXAMPLE, "--listen", "8888x"], 2, "'8888x' is not ADDRESS:PORT"),
        (["--plugin", EXAMPLE, "--listen", "127.0.0.1:70000"], 2, "is not ADDRESS:PORT"),
        (
            ["--plugin", EXAMPLE, "--tls-cert-file", "c"],
            2,
            "--tls-cert-file and --tls-private-key-file go together",
        ),
        (["--plugin", EXAMPLE, "--client-ca-file", "c"], 2, "needs --tls-cert-file"),
        (["--plugin", EXAMPLE, "--service-account", "me"], 2, "not NAMESPACE/NAME"),
        (["--plugin", EXAMPLE, "--plugin-budget", "long"], 2, "--plugin-budget"),
        (["--plugin", "nowhere.py:Nobody"], 2, "there is no such file"),
    ],
)
def test_invalid_options_are_rejected(arguments: list[str], status: int, problem: str) -> None:
    run = kubesched("extender", "--print-config", *arguments)
    assert run.status == status
    assert problem in run.err


def test_a_plugin_without_served_extension_points_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS_ONLY)
    run = kubesched("extender", "--print-config", "--plugin", f"{tmp_path / 'waits.py'}:Waits")
    assert run.status == 1
    assert "Waits: no filter or score plugin, and bind is off: nothing to serve" in run.err


def test_a_plugin_that_no_profile_enables_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(yaml.safe_dump(head))
    run = kubesched("extender", "--print-config", "--plugin", EXAMPLE, "--config", str(path))
    assert run.status == 1
    assert "no profile enables the plugin http-extender" in run.err


def test_the_help_has_the_next_steps() -> None:
    run = kubesched("extender", "--help")
    assert run.status == 0
    for word in ("--print-config", "nodeCacheCapable", "/readyz", "priority", "--bind"):
        assert word in run.out
