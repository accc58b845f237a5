from __future__ import annotations

import pytest
import yaml

from kubesched.config.load import load_config_object
from kubesched.framework.cluster_event import ActionType, ClusterEvent
from kubesched.framework.interface import EventRegistration
from kubesched.framework.runtime.registry import Registry
from kubesched.profile.build import build
from kubesched.run.options.parse import parse_options
from kubesched.run.options.values import Options
from kubesched.run.rbac import Right, Subject, needed_rights, rbac_yaml, rules


def rights_of(options: Options, registry: Registry | None = None) -> list[Right]:
    return needed_rights(build(options.config, out_of_tree=registry), options)


def titles(rights: list[Right], verb: str) -> set[str]:
    return {right.title for right in rights if verb in right.verbs}


def without(*plugins: str) -> Options:
    config = load_config_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {"plugins": {"multiPoint": {"disabled": [{"name": name} for name in plugins]}}}
            ],
        }
    )
    return Options(config=config)


def test_the_default_configuration_reads_the_kinds_that_upstream_watches() -> None:
    # extender-and-rbac section 6, without devices, which are not allocated.
    assert titles(rights_of(parse_options([])), "watch") == {
        "pods", "nodes", "namespaces", "csinodes.storage.k8s.io",
        "persistentvolumes", "persistentvolumeclaims", "storageclasses.storage.k8s.io",
        "csidrivers.storage.k8s.io", "csistoragecapacities.storage.k8s.io",
        "volumeattachments.storage.k8s.io", "poddisruptionbudgets.policy",
        "services", "replicationcontrollers", "replicasets.apps", "statefulsets.apps",
    }  # fmt: skip


def test_the_default_configuration_needs_these_writes() -> None:
    rights = rights_of(parse_options([]))
    assert titles(rights, "create") == {
        "pods/binding", "events.events.k8s.io", "leases.coordination.k8s.io",
        "events", "tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io",
    }  # fmt: skip
    assert titles(rights, "patch") == {
        "pods/status", "events.events.k8s.io", "persistentvolumes", "persistentvolumeclaims",
        "events",
    }  # fmt: skip
    assert titles(rights, "delete") == {"pods"}
    assert titles(rights, "update") == {"leases.coordination.k8s.io kube-system/kube-scheduler"}


@pytest.mark.parametrize(
    ("plugins", "unread"),
    [
        (["DefaultPreemption"], {"poddisruptionbudgets.policy"}),
        (["PodTopologySpread"], {"services", "replicasets.apps", "statefulsets.apps"}),
        (["NodeVolumeLimits"], {"volumeattachments.storage.k8s.io"}),
        (["VolumeBinding"], {"csistoragecapacities.storage.k8s.io"}),
        (
            ["VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"],
            {"persistentvolumes", "persistentvolumeclaims", "storageclasses.storage.k8s.io"},
        ),
    ],
)
def test_a_plugin_that_is_disabled_reads_nothing(plugins: list[str], unread: set[str]) -> None:
    assert not titles(rights_of(without(*plugins)), "watch") & unread
    assert unread <= titles(rights_of(without()), "watch")


def test_nothing_is_evicted_without_preemption() -> None:
    assert titles(rights_of(without("DefaultPreemption")), "delete") == set()


def test_no_volume_is_written_without_volume_binding() -> None:
    assert "persistentvolumes" not in titles(rights_of(without("VolumeBinding")), "patch")


def test_no_lease_without_leader_election() -> None:
    rights = rights_of(parse_options(["--leader-elect=false"]))
    assert not any(right.resource == "leases" for right in rights)


def test_events_about_reloading_need_a_permission_in_the_namespace_of_the_lease() -> None:
    rights = rights_of(parse_options(["--leader-elect=false", "--reload"]))
    (events,) = [right for right in rights if (right.group, right.resource) == ("", "events")]
    assert (events.verbs, events.namespace) == (("create", "patch"), "kube-system")


def test_the_lease_is_the_configured_one() -> None:
    rights = rights_of(
        parse_options(["--leader-elect-resource-name=a", "--leader-elect-resource-namespace=b"])
    )
    assert titles(rights, "update") == {"leases.coordination.k8s.io b/a"}


def test_no_reviews_without_serving() -> None:
    rights = rights_of(parse_options(["--secure-port=0"]))
    assert not any("reviews" in right.resource for right in rights)


def test_shadow_mode_needs_no_writes() -> None:
    writing = {"create", "update", "patch", "delete"}
    rights = rights_of(parse_options(["--shadow", "--secure-port=0"]))
    assert not any(writing & set(right.verbs) for right in rights)


def test_a_kind_that_an_out_of_tree_plugin_registers_for_is_read() -> None:
    class Listener:
        name = "Listener"

        def pre_enqueue(self, pod: object) -> None:
            return None

        def events_to_register(self) -> list[EventRegistration]:
            event = ClusterEvent("widgets.v1.example.com", ActionType.ADD)
            return [EventRegistration(event)]

    options = parse_options([]).enabling(["Listener"])
    rights = rights_of(options, Registry({"Listener": Listener}))
    (right,) = [right for right in rights if right.resource == "widgets"]
    assert (right.group, right.verbs) == ("example.com", ("get", "list", "watch"))
    assert right.purpose == "read by Listener"


def test_rules_with_the_same_verbs_are_merged() -> None:
    merged = rules(
        [
            Right("", "pods", ("get", "list"), ""),
            Right("", "nodes", ("get", "list"), ""),
            Right("", "pods", ("delete",), ""),
            Right("apps", "replicasets", ("get", "list"), ""),
            Right("", "services", ("get", "list"), ""),
        ]
    )
    assert merged == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["nodes", "services"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list"]},
    ]


def test_a_lease_in_another_namespace_needs_a_role_there() -> None:
    rights = rights_of(parse_options(["--leader-elect-resource-namespace=team"]))
    documents = list(yaml.safe_load_all(rbac_yaml(rights, Subject("me", ""))))
    roles = {(d["kind"], d["metadata"].get("namespace")): d for d in documents}
    assert set(roles) == {
        ("ClusterRole", None), ("ClusterRoleBinding", None), ("Role", "team"),
        ("RoleBinding", "team"), ("RoleBinding", "kube-system"),
    }  # fmt: skip
    assert roles["RoleBinding", "kube-system"]["roleRef"]["name"] == (
        "extension-apiserver-authentication-reader"
    )
    assert roles["Role", "team"]["rules"][1]["resourceNames"] == ["kube-scheduler"]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "me"}
    assert roles["ClusterRoleBinding", None]["subjects"] == [subject]


def test_two_accounts_do_not_share_a_role() -> None:
    rights = rights_of(parse_options([]))
    documents = yaml.safe_load_all(rbac_yaml(rights, Subject("mine", "team")))
    names = {(doc["kind"], doc["metadata"]["name"]) for doc in documents}
    assert names == {
        ("ServiceAccount", "mine"), ("ClusterRole", "mine"), ("ClusterRoleBinding", "mine"),
        ("Role", "mine"), ("RoleBinding", "mine"), ("RoleBinding", "mine-authentication-reader"),
    }  # fmt: skip
