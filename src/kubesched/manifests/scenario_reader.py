"""Reading a scenario from manifests or from objects in memory.

Turns documents into workloads, pod templates and objects with the state that controllers would have
written, and warns about missing parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from kubesched.api.decode import KubeObject
from kubesched.api.errors import MalformedObject
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.resource_requests import PODS
from kubesched.api.storage import PersistentVolumeClaim, StorageClass
from kubesched.api.workloads import ReplicaSet
from kubesched.manifests.controller_state import (
    WAITS,
    ClaimBinder,
    ephemeral_claims,
    with_controller_status,
)
from kubesched.manifests.defaulting import DEFAULT_NAMESPACE, Admission
from kubesched.manifests.documents import ManifestError, file_contents
from kubesched.manifests.missing_pods import DaemonNodes, Targets
from kubesched.manifests.objects import ManifestReader, Placed, Tree, and_more, first_of, lacking
from kubesched.manifests.scenario import Scenario, Template, is_pending
from kubesched.manifests.workloads import (
    OwnedPods,
    Workload,
    adopting,
    has_ended,
    is_of_workload_kind,
    is_same_template,
    is_workload,
    newest_of,
    replica_set_of,
    template_pod,
    template_uid,
    workload_of,
)
from kubesched.plugins.pod_volumes import class_of_claim
from kubesched.workloads.volume_provisioning import PROVISIONED_BY

# Kinds that are read for their template alone; of the others, decisions read more.
_ONLY_TEMPLATES = ("Deployment", "DaemonSet", "Job", "CronJob")


def read_scenario(paths: Sequence[str], *, stdin: BinaryIO | None = None) -> Scenario:
    """Read files and directories; `-` is standard input.

    Raises:
        ManifestError: A file cannot be read, or an object in it is malformed.
    """
    reader = _ScenarioReader()
    for number, path in enumerate(paths):
        reader.argument = number
        for name, data in file_contents([path], stdin):
            reader.take_file(name, data)
    return reader.scenario()


def scenario_of(objects: Iterable[object]) -> Scenario:
    """Read objects in memory, single ones or lists as `kubectl get -o json` prints them.

    Raises:
        ManifestError: An object is malformed.
    """
    reader = _ScenarioReader()
    reader.take_objects(objects)
    return reader.scenario()


@dataclass(slots=True)
class _ScenarioReader(ManifestReader):
    """Reads objects, and workloads as templates."""

    argument: int = 0
    workloads: dict[str, tuple[Workload, str]] = field(default_factory=dict)
    arguments: dict[tuple[str, str], int] = field(default_factory=dict)
    without_containers: list[str] = field(default_factory=list)
    """Notes on workloads without containers."""
    changed: list[str] = field(default_factory=list)
    """Notes on Deployments with a new template."""
    parts: set[str] = field(default_factory=set)
    """Templates of ReplicaSets whose Deployment is among the workloads."""

    def take_object(self, where: str, tree: Tree) -> None:
        workload = None
        if isinstance(tree, Mapping) and is_workload(tree):
            workload = workload_of(tree, DEFAULT_NAMESPACE)
        elif isinstance(tree, Mapping) and _is_only_template(tree):
            text = f"the template of this {tree['kind']} has no containers; no pods are created"
            self.without_containers.append(f"{where}: {text}")
            return
        if workload is None or workload.kind not in _ONLY_TEMPLATES:
            # Not `super()`: it refers to the class before dataclass(slots=True) replaced it.
            ManifestReader.take_object(self, where, tree)
            key = next(reversed(self.placed), None)
            if key is not None and self.placed[key].where == where:
                self.arguments[key] = self.argument
        if workload is not None:
            key = ("template", workload.pod_uid)
            earlier = self.placed.pop(key, None)
            if workload.kind in _ONLY_TEMPLATES:
                self.note_unknown_fields(where, tree)
                if earlier is not None:
                    self.note_duplicate(f"{workload.kind} {workload.key}", earlier.where, where)
            self.placed[key] = Placed(template_pod(workload), where)
            self.arguments[key] = self.argument
            self.workloads[workload.pod_uid] = (workload, where)

    def scenario(self) -> Scenario:
        """Return the scenario of everything read so far."""
        self._make_replica_sets()
        read = self.manifests()
        admission = Admission(read.objects)
        pods = [
            obj
            for obj in read.objects
            if isinstance(obj, Pod) and obj.metadata.uid not in self.workloads
        ]
        targets = self._targets(read.objects, pods)
        contents: list[KubeObject | Template] = []
        for obj in with_controller_status(read.objects, pods, self._scaled()):
            if not isinstance(obj, Pod) or obj.metadata.uid not in self.workloads:
                contents.append(obj)
                continue
            workload, _ = self.workloads[obj.metadata.uid]
            contents.append(
                Template(
                    f"{workload.kind} {workload.key}",
                    obj,
                    workload,
                    admission,
                    argument=self.arguments["template", workload.pod_uid],
                    is_part=workload.pod_uid in self.parts,
                    targets=targets.get(workload.pod_uid),
                )
            )
        notes = (
            *read.notes,
            *first_of(self.without_containers, "workloads without containers"),
            *first_of(self.changed, "Deployments with a new template"),
            *_no_nodes(read.objects),
        )
        scenario = Scenario(tuple(contents), notes, self.arguments, admission)
        claims = _future_claims(scenario.templates, pods, admission)
        warnings = scenario_warnings(scenario.objects, claims)
        return replace(scenario, notes=(*notes, *warnings))

    def _scaled(self) -> list[Workload]:
        """Return the workloads that define a number of replicas."""
        return [workload for uid, (workload, _) in self.workloads.items() if uid not in self.parts]

    def _targets(self, objects: Sequence[KubeObject], pods: Sequence[Pod]) -> dict[str, Targets]:
        """Return the nodes of the DaemonSets, by the uid of their templates."""
        daemons = [
            workload for workload, _ in self.workloads.values() if workload.kind == "DaemonSet"
        ]
        if not daemons:
            return {}
        nodes = DaemonNodes(obj for obj in objects if isinstance(obj, Node))
        owned = OwnedPods(pods)
        return {
            workload.pod_uid: nodes.targets(
                workload.spec.template, owned.of(workload.namespace, (workload.owner,))
            )
            for workload in daemons
        }

    def _make_replica_sets(self) -> None:
        """Assign each Deployment its ReplicaSets from the files, or a new one."""
        controlled: dict[tuple[str, str], list[ReplicaSet]] = {}
        for obj, _ in self.placed.values():
            for owner in obj.metadata.owner_references if isinstance(obj, ReplicaSet) else ():
                if owner.controller and owner.kind == "Deployment":
                    assert isinstance(obj, ReplicaSet)
                    controlled.setdefault((obj.metadata.namespace, owner.name), []).append(obj)
        admission = Admission(placed.obj for placed in self.placed.values())
        for workload, where in list(self.workloads.values()):
            if workload.kind != "Deployment":
                continue
            sets = controlled.get((workload.namespace, workload.name), [])
            try:
                self._give_sets(workload, where, sets, admission)
            except MalformedObject as problem:
                renamed = problem.replace(kind=workload.kind, key=workload.key)
                raise ManifestError(f"{where}: {renamed}") from None

    def _give_sets(
        self, workload: Workload, where: str, sets: Sequence[ReplicaSet], admission: Admission
    ) -> None:
        key = ("template", workload.pod_uid)
        template = self.placed[key].obj
        assert isinstance(template, Pod)
        same = []
        for replica_set in sets:
            own = self.placed.get(("template", template_uid(replica_set.kind, replica_set.key)))
            # A ReplicaSet without containers in its template is assumed to have the same one.
            pod = template if own is None else own.obj
            assert isinstance(pod, Pod)
            if is_same_template(template, pod, admission):
                same.append(replica_set)
        adopted = adopting(workload, sets, same)
        self.workloads[workload.pod_uid] = (adopted, where)
        self.placed[key] = Placed(template_pod(adopted), where)
        self.parts |= {template_uid(replica_set.kind, replica_set.key) for replica_set in sets}
        if not same:
            ManifestReader.take_object(self, where, replica_set_of(workload))
        if sets and not same:
            name = newest_of(sets).metadata.name
            self.changed.append(
                f"Deployment {workload.key} has another template than its ReplicaSet {name}; "
                "the rollout is not simulated, existing pods stay and count"
            )


def _no_nodes(objects: Sequence[KubeObject]) -> list[str]:
    has_pods = any(isinstance(obj, Pod) for obj in objects)
    if not has_pods or any(isinstance(obj, Node) for obj in objects):
        return []
    return ["the files hold no node; add the output of kubectl get nodes,pods -A -o json"]


def _future_claims(
    templates: Iterable[Template], pods: Iterable[Pod], admission: Admission
) -> Iterator[tuple[str, PersistentVolumeClaim]]:
    """Yield the claims that will be created with pods, and their titles."""
    for template in templates:
        claims = [] if template.workload is None else template.workload.claims(0)
        for claim in (*claims, *ephemeral_claims(template.pod, admission)):
            yield f"a claim of {template.title}", admission.admit(claim)
    for pod in pods:
        for claim in ephemeral_claims(pod, admission) if is_pending(pod) else ():
            yield f"a claim of Pod {pod.key}", claim


def _is_only_template(tree: Mapping[str, Any]) -> bool:
    return is_of_workload_kind(tree) and tree["kind"] in _ONLY_TEMPLATES


# -- warnings -------------------------------------------------------------------------------------


def scenario_warnings(
    objects: Sequence[KubeObject], future_claims: Iterable[tuple[str, PersistentVolumeClaim]]
) -> list[str]:
    """Return warnings about nodes, pods and claims that are incomplete.

    Args:
        objects: all objects of the files, without templates.
        future_claims: claims that will be created with pods, and their titles.
    """
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    allocatable = {node.metadata.name: node.status.allocatable for node in nodes}
    without_pods = [name for name, part in allocatable.items() if part and PODS not in part]
    claims = [
        (f"{obj.kind} {obj.key}", obj) for obj in objects if isinstance(obj, PersistentVolumeClaim)
    ]
    return [
        *lacking("Node", without_pods, "pods in status.allocatable; no pod fits there"),
        *_pods_on_other_nodes(objects, set(allocatable)),
        *_immediate_claims([*claims, *future_claims], objects),
    ]


def _pods_on_other_nodes(objects: Iterable[KubeObject], names: set[str]) -> Iterator[str]:
    elsewhere = [
        f"{obj.key} on {obj.spec.node_name}"
        for obj in objects
        if isinstance(obj, Pod)
        and obj.spec.node_name
        and obj.spec.node_name not in names
        and not has_ended(obj)
    ]
    if elsewhere and names:
        yield f"pods on nodes outside the files are ignored: {and_more(elsewhere)}"


def _immediate_claims(
    claims: Iterable[tuple[str, PersistentVolumeClaim]], objects: Sequence[KubeObject]
) -> Iterator[str]:
    """Yield warnings about claims that get an assumed volume, or none."""
    classes = {obj.metadata.name: obj for obj in objects if isinstance(obj, StorageClass)}
    binder = ClaimBinder(objects)
    provisioned: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    unbound: list[str] = []
    for title, claim in claims:
        name = class_of_claim(claim)
        is_delayed = name in classes and classes[name].volume_binding_mode == WAITS
        if claim.spec.volume_name or is_delayed:
            continue
        *volumes, _ = binder.bind(claim)
        if any(PROVISIONED_BY in volume.metadata.annotations for volume in volumes):
            provisioned.setdefault(name, []).append(title)
        elif not volumes and name and name not in classes:
            unknown.setdefault(name, []).append(title)
        elif not volumes:
            unbound.append(title)
    for name, titles in provisioned.items():
        where = "in its allowedTopologies" if classes[name].allowed_topologies else "on any node"
        yield (
            f"StorageClass {name} binds immediately; assuming a new volume {where} for "
            f"{and_more(titles)}"
        )
    for name, titles in unknown.items():
        yield f"StorageClass {name} of {and_more(titles)} is not in the files; no volume is found"
    if unbound:
        yield f"no volume matches {and_more(unbound)}; its pods are unschedulable"
