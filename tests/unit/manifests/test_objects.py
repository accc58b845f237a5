import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.manifests.documents import ManifestError
from kubesched.manifests.objects import Manifests, read_manifests


def read(tmp_path: Path, *documents: dict[str, Any]) -> Manifests:
    file = tmp_path / "all.json"
    file.write_text("\n".join(map(json.dumps, documents)))
    return read_manifests([str(file)])


def an_object(kind: str, version: str = "v1", *, name: str = "x", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def a_pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c"}]},
    }


def test_skipped_kinds_are_counted(tmp_path: Path) -> None:
    manifests = read(
        tmp_path,
        an_object("Deployment", "apps/v1"),
        an_object("ConfigMap"),
        an_object("Deployment", "apps/v1", name="y"),
        an_object("Service", "serving.knative.dev/v1"),
        a_pod("kept"),
    )
    assert manifests.notes == ("skipped: 2 Deployment, 1 ConfigMap, 1 Service.serving.knative.dev",)
    assert [obj.key for obj in manifests.objects if obj.kind == "Pod"] == ["default/kept"]


def test_a_removed_version_of_a_known_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no kind 'PodDisruptionBudget' is known for version"):
        read(tmp_path, an_object("PodDisruptionBudget", "policy/v1beta1"))


def test_the_last_object_with_a_key_wins(tmp_path: Path) -> None:
    manifests = read(
        tmp_path, a_pod("a", labels={"v": "1"}), a_pod("a", namespace="default", labels={"v": "2"})
    )
    pods = [obj for obj in manifests.objects if obj.kind == "Pod"]
    assert [pod.metadata.labels for pod in pods] == [{"v": "2"}]
    file = tmp_path / "all.json"
    (note,) = manifests.notes
    places = f"{file}: document 1 is ignored, {file}: document 2 is used"
    assert note == f"duplicate Pod default/a: {places}"


def test_a_file_read_twice_is_noted_in_a_few_lines(tmp_path: Path) -> None:
    pods = [a_pod(f"p{number}") for number in range(50)]
    notes = read(tmp_path, *pods, *pods).notes
    assert len(notes) == 6
    assert notes[-1] == "and 45 more duplicate objects"


ITEMS = [
    a_pod("a", labels={"v": "1"}, creationTimestamp=None),
    {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{"metadata": {"name": "inner"}, "spec": {"containers": [{"name": "c"}]}}],
    },
    an_object("Event"),
    an_object("Deployment", "apps/v1"),
    an_object("StorageClass", "storage.k8s.io/v1", provisioner="p"),
    an_object("Node", spec=None, status={"allocatable": {"cpu": "1", "pods": 5}}),
    None,
]


def test_a_list_read_item_by_item_equals_the_decoded_list(tmp_path: Path) -> None:
    as_list = read(tmp_path, {"apiVersion": "v1", "kind": "List", "items": ITEMS})
    # With a second document, both go through the reader that decodes whole documents.
    whole = read(tmp_path, {"apiVersion": "v1", "kind": "List", "items": ITEMS}, an_object("Event"))
    assert as_list.objects == whole.objects
    assert as_list.notes == ("skipped: 1 Deployment, 1 Event",)
    kinds = [obj.kind for obj in as_list.objects if obj.kind != "Namespace"]
    assert kinds == ["Pod", "Pod", "StorageClass", "Node"]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        pytest.param(
            a_pod("x") | {"spec": {"containers": [{"resources": {"requests": {"cpu": [1]}}}]}},
            "items[1]: Pod x: spec.containers[0].resources.requests.cpu: Expected `int | float",
            id="a pod of the wrong type",
        ),
        pytest.param(
            an_object("Node", status={"allocatable": {"cpu": "much"}}),
            "items[1]: Node x: status.allocatable.cpu:",
            id="not a quantity",
        ),
        pytest.param(5, "items[1]: expected an object, got 5", id="no object at all"),
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "x"}},
            "items[1]: Pod x: kind: Object 'apiVersion' is missing",
            id="no version",
        ),
        pytest.param(
            {"kind": 7, "apiVersion": "v1", "metadata": {"name": "x"}},
            "items[1]",
            id="a kind that is a number",
        ),
    ],
)
def test_an_error_in_a_list_is_reported_with_its_place(
    tmp_path: Path, item: object, problem: str
) -> None:
    items = [a_pod("fine"), item]
    with pytest.raises(ManifestError) as found:
        read(tmp_path, {"apiVersion": "v1", "kind": "List", "items": items})
    assert problem in str(found.value)


def test_the_same_name_in_two_namespaces_is_two_pods(tmp_path: Path) -> None:
    manifests = read(tmp_path, a_pod("a"), a_pod("a", namespace="shop"))
    assert [obj.key for obj in manifests.objects if obj.kind == "Pod"] == ["default/a", "shop/a"]
    assert manifests.notes == ()


def test_missing_uids_are_generated_and_unique(tmp_path: Path) -> None:
    manifests = read(
        tmp_path,
        a_pod("a"),
        a_pod("b", uid="same"),
        a_pod("c", uid="same"),
        a_pod("d", uid="pod/default/a"),
    )
    uids = {obj.key: obj.metadata.uid for obj in manifests.objects if obj.kind == "Pod"}
    assert all(uids.values())
    assert len(set(uids.values())) == 4
    assert uids["default/b"] == "same"
    assert uids["default/d"] == "pod/default/a"
    assert manifests.notes == ("Pod default/c has the uid of default/b; it gets another uid",)


def test_generated_uids_are_deterministic(tmp_path: Path) -> None:
    first, second = read(tmp_path, a_pod("a")), read(tmp_path, a_pod("a"))
    assert [o.metadata.uid for o in first.objects] == [o.metadata.uid for o in second.objects]


def test_names_are_generated(tmp_path: Path) -> None:
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "job-"}}
    manifests = read(tmp_path, nameless, nameless)
    pods = [obj.metadata.name for obj in manifests.objects if obj.kind == "Pod"]
    assert len(set(pods)) == 2
    assert all(name.startswith("job-") and name != "job-" for name in pods)


def test_a_repeated_key_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  name: b\n"
        "status: {capacity: {pods: 9}}\n"
    )
    manifests = read_manifests([str(file)])
    assert [obj.key for obj in manifests.objects if obj.kind == "Node"] == ["b"]
    (note,) = manifests.notes
    assert note.startswith(f"{file}: document 1: ")
    assert 'key "name" already set in map' in note


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(
            a_pod("a") | {"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}},
            "Pod default/a: spec.containers[0].resources.requests.cpu: ",
            id="not a quantity",
        ),
        pytest.param(
            a_pod("a") | {"spec": {"tolerations": {}}}, "Pod a: spec.tolerations: ", id="no list"
        ),
        pytest.param(
            a_pod("a", labels={"tier": True}),
            "Pod a: metadata.labels",
            id="a label that is not a string",
        ),
        pytest.param(
            a_pod("a") | {"status": {"startTime": "yesterday"}},
            "Pod default/a: status.startTime: ",
            id="not a time",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
            "metadata.name: Required value: name is required",
            id="no name",
        ),
        pytest.param(
            an_object("Node") | {"metadata": {"name": "a", "namespace": "b"}},
            "Node a: metadata.namespace: Forbidden: not allowed on this type (value 'b')",
            id="a namespace on a cluster-scoped object",
        ),
        pytest.param(
            a_pod("a") | {"spec": {"priorityClassName": "gold"}},
            "Pod default/a: spec.priorityClassName: no PriorityClass with name gold was found",
            id="a missing priority class",
        ),
    ],
)
def test_a_malformed_object_is_reported_with_file_document_field_and_value(
    tmp_path: Path, document: dict[str, Any], problem: str
) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [an_object("Node", name="n"), document]}
    with pytest.raises(ManifestError) as raised:
        read(tmp_path, an_object("Node", name="m"), listed)
    shown = str(raised.value)
    assert shown.startswith(f"{tmp_path / 'all.json'}: document 2, items[1]: ")
    assert problem in shown
    assert "(value " in shown
    assert "\n" not in shown


# -- notes for the user ---------------------------------------------------------------------------


def test_unknown_fields_are_reported(tmp_path: Path) -> None:
    typo = a_pod("p")
    typo["spec"]["containers"][0]["resources"] = {"request": {"cpu": "2"}}
    typo["spec"]["nodeSelecter"] = {"a": "b"}
    place = f"{tmp_path / 'all.json'}: document 1: Pod p"
    assert sorted(read(tmp_path, typo).notes) == [
        f'{place}: unknown field "spec.containers[0].resources.request", ignored',
        f'{place}: unknown field "spec.nodeSelecter", ignored',
    ]


def test_stored_objects_are_not_checked_for_unknown_fields(tmp_path: Path) -> None:
    for stored in ({"uid": "u"}, {"resourceVersion": "7"}):
        newer = a_pod("p", **stored)
        newer["spec"]["fieldOfTheNextVersion"] = 1
        assert read(tmp_path, newer).notes == ()


def test_many_unknown_fields_are_reported_in_a_few_lines(tmp_path: Path) -> None:
    pods = [a_pod(f"p{number}") | {"stauts": {}} for number in range(300)]
    notes = read(tmp_path, *pods).notes
    assert len(notes) == 6
    # Not every one of so many objects is checked.
    assert notes[-1] == "and 195 more unknown fields"


def test_pods_without_containers_are_reported(tmp_path: Path) -> None:
    bare = a_pod("bare") | {"spec": {}}
    assert read(tmp_path, bare, a_pod("p")).notes == (
        "Pod default/bare has no containers; it requests nothing",
    )
    other = a_pod("other") | {"spec": {}}
    assert read(tmp_path, bare, other).notes == (
        "Pod default/bare and 1 more have no containers; it requests nothing",
    )


@pytest.mark.parametrize(
    ("document", "field"),
    [
        pytest.param(
            a_pod("x") | {"spec": {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}},
            "Pod default/x: spec.containers[0].resources.requests.cpu",
            id="a request",
        ),
        pytest.param(
            a_pod("x") | {"spec": {"initContainers": [{"resources": {"limits": {"cpu": -0.5}}}]}},
            "Pod default/x: spec.initContainers[0].resources.limits.cpu",
            id="a limit",
        ),
        pytest.param(
            an_object("Node", status={"allocatable": {"memory": "-1Gi"}}),
            "Node x: status.allocatable.memory",
            id="of a node",
        ),
    ],
)
def test_negative_amounts_are_rejected(
    tmp_path: Path, document: dict[str, Any], field: str
) -> None:
    with pytest.raises(ManifestError) as raised:
        read(tmp_path, document)
    assert f"{field}: Invalid value: must be greater than or equal to 0" in str(raised.value)


def test_minus_zero_is_zero(tmp_path: Path) -> None:
    zero = a_pod("x") | {"spec": {"containers": [{"resources": {"requests": {"cpu": "-0"}}}]}}
    assert len(read(tmp_path, zero).objects) == 2


# -- large lists in YAML --------------------------------------------------------------------------


MANY = 12
FILLER = 100_000 * "x"
"""So many make more than a megabyte, which is read item by item."""


def large_list(count: int, tail: str = 'kind: List\nmetadata:\n  resourceVersion: ""\n') -> str:
    """Return so many pods as kubectl prints them."""
    pod = """- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      text: |
        - a line that looks like an item

        and one after nothing
      quoted: "one
        two"
      filler: FILLER
    name: p{number}
  spec:
    containers:
    - name: c
      resources:
        requests:
          cpu: 100m
"""
    pod = pod.replace("FILLER", FILLER)
    pods = "".join(pod.replace("{number}", str(number)) for number in range(count))
    return f"apiVersion: v1\nitems:\n{pods}{tail}"


def read_yaml(tmp_path: Path, text: str) -> Manifests:
    file = tmp_path / "all.yaml"
    file.write_text(text)
    return read_manifests([str(file)])


def test_a_large_yaml_list_is_read_like_a_small_one(tmp_path: Path) -> None:
    (small,) = (obj for obj in read_yaml(tmp_path, large_list(1)).objects if obj.kind == "Pod")
    large = [obj for obj in read_yaml(tmp_path, large_list(MANY)).objects if obj.kind == "Pod"]
    assert [obj.metadata.name for obj in large] == [f"p{number}" for number in range(MANY)]
    assert large[0] == small
    assert large[-1].metadata.annotations == {
        "text": "- a line that looks like an item\n\nand one after nothing\n",
        "quoted": "one two",
        "filler": FILLER,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            large_list(MANY).replace(
                "metadata:\n  resourceVersion", "metadata: [\n  resourceVersion"
            ),
            "document 1: yaml: line",
            id="a broken end",
        ),
        pytest.param(
            large_list(MANY).replace("name: p11", "name: [p11"),
            "document 1: yaml: line",
            id="a broken item",
        ),
        pytest.param(
            large_list(MANY).replace("cpu: 100m", "cpu: much", 1),
            "document 1, items[0]: Pod default/p0: spec.containers[0].resources.requests.cpu",
            id="a faulty item",
        ),
    ],
)
def test_an_error_in_a_large_list_is_reported_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ManifestError) as raised:
        read_yaml(tmp_path, text)
    assert f"all.yaml: {problem}" in str(raised.value)


def test_a_node_without_allocatable_is_reported(tmp_path: Path) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    other = {**bare, "metadata": {"name": "b"}}
    whole = {**bare, "metadata": {"name": "c"}, "status": {"capacity": {"cpu": "1"}}}
    assert read(tmp_path, bare, whole).notes == (
        "Node a has no status.allocatable; no pod fits there",
    )
    assert read(tmp_path, bare, whole, other).notes == (
        "Node a and 1 more have no status.allocatable; no pod fits there",
    )


def test_a_skipped_kind_of_another_group_is_reported_with_its_group(tmp_path: Path) -> None:
    old = an_object("Deployment", "extensions/v1beta1")
    assert read(tmp_path, old).notes == ("skipped: 1 Deployment.extensions",)
