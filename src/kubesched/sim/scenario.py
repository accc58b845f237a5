"""A scenario: the cluster of some files, and the pods that are to be placed in it.

Owns the step from files to objects that a run starts from: workloads become owners and templates,
what they lack becomes pods, in the order of the files. Reading itself is `app.manifests`'. Never
decides anything.
Upstream: none; a cluster's controllers do this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from msgspec.structs import replace

from kubesched.app.admission import DEFAULT_NAMESPACE, Admission
from kubesched.app.explain import ExplainError, Subject, choose_pod, is_waiting
from kubesched.app.manifests import (
    ManifestError,
    ManifestReader,
    Placed,
    Tree,
    file_contents,
)
from kubesched.engine.naming import nearest
from kubesched.objects.decode import KubeObject
from kubesched.objects.errors import MalformedObject
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod, PodStatus
from kubesched.objects.storage import PersistentVolumeClaim
from kubesched.objects.workloads import ReplicaSet
from kubesched.sim.workloads import (
    OwnedPods,
    Workload,
    adopting,
    is_workload,
    replica_set_of,
    template_pod,
    template_uid,
    workload_of,
)

# Kinds that are read for their template alone; of the others, decisions read more.
_ONLY_TEMPLATES = ("Deployment", "Job", "CronJob")
# As kubectl has them; a Job has none.
_SHORT_NAMES = {
    "Pod": "po",
    "Deployment": "deploy",
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "Job": "job",
    "CronJob": "cj",
    "ReplicationController": "rc",
}


@dataclass(frozen=True, slots=True)
class Template:
    """A pod of which copies can be made, filled in as if it were stored."""

    title: str
    """How users know it: `Deployment shop/web`, `Pod shop/web-7`."""
    pod: Pod
    workload: Workload | None
    admission: Admission
    argument: int
    """Which of the given files or directories it stood in."""
    is_part: bool = False
    """Whether it is a ReplicaSet whose Deployment is there too, which makes the pods."""

    def copy(self, index: int) -> tuple[Pod, list[PersistentVolumeClaim]]:
        """Return a copy, and the claims that are made for it."""
        if self.workload is not None:
            pod = self.workload.pod(self.pod, index)
            return pod, [_admitted(self.admission, one) for one in self.workload.claims(index)]
        meta = self.pod.metadata
        name = f"{meta.name}-{index}"
        meta = replace(meta, name=name, uid=f"copy/{meta.namespace}/{name}")
        spec = replace(self.pod.spec, node_name="")
        return replace(self.pod, metadata=meta, spec=spec, status=PodStatus()), []

    @property
    def is_uniform(self) -> bool:
        """Return whether copies differ by their names alone."""
        return self.workload is None or not self.workload.is_indexed


@dataclass(frozen=True, slots=True)
class Scenario:
    """The objects of some files, the templates among them, and what a user should know."""

    objects: tuple[KubeObject, ...]
    """In the order of the files, without templates."""
    templates: tuple[Template, ...]
    """Workloads in the order of the files."""
    notes: tuple[str, ...]
    arguments: Mapping[tuple[str, str], int]
    """Kind and key of an object to the number of the argument it stood in."""
    order: tuple[KubeObject | Template, ...] = ()
    """Objects and templates together, in the order of the files."""
    admission: Admission = field(default_factory=lambda: Admission(()))

    def with_missing_pods(self) -> Scenario:
        """Return the scenario with the pods that its workloads still have to make."""
        pods = OwnedPods(obj for obj in self.objects if isinstance(obj, Pod))
        known = {(obj.kind, obj.key) for obj in self.objects}
        objects: list[KubeObject] = []
        made: list[str] = []
        for one in self.order:
            if not isinstance(one, Template):
                objects.append(one)
                continue
            assert one.workload is not None
            count = 0 if one.is_part else one.workload.missing(pods)
            if count:
                made.append(f"{count} of {one.title}")
                objects += _copies(one, count, known)
        notes = (*self.notes, *_notes_on(made, self.templates))
        return Scenario(tuple(objects), (), notes, self.arguments, tuple(objects), self.admission)

    def capacity_templates(self, names: Sequence[str] = ()) -> list[Template]:
        """Return what copies are to be made of: what is named, or what stands beside the cluster.

        Raises:
            ManifestError: Nothing is named like that, or nothing stands beside the cluster.
        """
        everything = [*self.templates, *self._pod_templates()]
        if names:
            return [_named(everything, name) for name in names]
        found = self.beside_the_cluster()
        if not found:
            there = nearest(_called(one) for one in everything if not one.is_part)
            name_one = f"name one of {there}" if there else "there is none in the files"
            raise ManifestError(
                "no pod template: give a Pod or a workload in a file that holds no node and no "
                f"bound pod, or {name_one}"
            )
        return found

    def beside_the_cluster(self) -> list[Template]:
        """Return the templates in files that hold no node and no bound pod."""
        cluster = {
            self.arguments.get((obj.kind, obj.key), 0)
            for obj in self.objects
            if isinstance(obj, Node) or (isinstance(obj, Pod) and obj.spec.node_name)
        }
        found = [
            one
            for one in (*self.templates, *self._pod_templates())
            if one.argument not in cluster and not one.pod.spec.node_name and not one.is_part
        ]
        return sorted(found, key=lambda one: one.argument)

    def subject(self, name: str | None) -> Subject:
        """Return the pod to explain: of a name, the only waiting one, or a workload's next pod.

        Raises:
            ExplainError: There is no such pod or workload, or there are several.
            ManifestError: Several workloads have the name.
        """
        template = self._template_to_explain(name)
        if template is None:
            return choose_pod(self.objects, name)
        known = {(obj.kind, obj.key) for obj in self.objects}
        *claims, pod = _copies(template, 1, known)
        assert isinstance(pod, Pod)
        note = f"what is explained is the next pod of {template.title}, here called {pod.key}"
        return Subject(pod, [*self.objects, *claims], (note,))

    def _template_to_explain(self, name: str | None) -> Template | None:
        pods = [obj for obj in self.objects if isinstance(obj, Pod)]
        if name is not None:
            if any(name in (pod.key, pod.metadata.name) for pod in pods):
                return None
            found = [one for one in self.templates if name in _names(one)]
            return _named(self.templates, name) if found else None
        waiting = [pod.key for pod in pods if is_waiting(pod)]
        beside = [one for one in self.beside_the_cluster() if one.workload is not None]
        if not pods and not beside:
            beside = [one for one in self.templates if not one.is_part]
        if not waiting and len(beside) == 1:
            return beside[0]
        if not beside:
            return None
        names = nearest((*waiting, *map(_called, beside)))
        raise ExplainError(f"several pods and workloads could be explained; name one of {names}")

    def _pod_templates(self) -> list[Template]:
        return [
            Template(
                f"Pod {obj.key}",
                obj,
                None,
                self.admission,
                self.arguments.get((obj.kind, obj.key), 0),
            )
            for obj in self.objects
            if isinstance(obj, Pod)
        ]

    def without(self, templates: Iterable[Template]) -> tuple[KubeObject, ...]:
        """Return the objects without the waiting pods that serve as templates."""
        used = {one.pod.key for one in templates if one.workload is None}
        return tuple(
            obj
            for obj in self.objects
            if not (isinstance(obj, Pod) and obj.key in used and not obj.spec.node_name)
        )


def read_scenario(paths: Sequence[str], *, stdin: BinaryIO | None = None) -> Scenario:
    """Return what files and directories hold; `-` is the given stream.

    Raises:
        ManifestError: A file cannot be read, or an object in it is malformed.
    """
    reader = _ScenarioReader()
    for number, path in enumerate(paths):
        reader.argument = number
        for name, data in file_contents([path], stdin):
            reader.take_file(name, data)
    return reader.scenario()


@dataclass(slots=True)
class _ScenarioReader(ManifestReader):
    """Reads objects as `kubesched explain` does, and workloads beside them."""

    argument: int = 0
    workloads: dict[str, tuple[Workload, str]] = field(default_factory=dict)
    arguments: dict[tuple[str, str], int] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)
    """Templates of ReplicaSets whose Deployment is among the workloads."""

    def take_object(self, where: str, tree: Tree) -> None:
        workload = None
        if isinstance(tree, Mapping) and is_workload(tree):
            workload = workload_of(tree, DEFAULT_NAMESPACE)
        if workload is None or workload.kind not in _ONLY_TEMPLATES:
            # Named in full: a class with slots is made twice, and `super()` knows the first only.
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
                    self.note_twice(f"{workload.kind} {workload.key}", earlier.where, where)
            self.placed[key] = Placed(template_pod(workload), where)
            self.arguments[key] = self.argument
            self.workloads[workload.pod_uid] = (workload, where)

    def scenario(self) -> Scenario:
        """Return all that was taken."""
        self._make_replica_sets()
        read = self.manifests()
        admission = Admission(read.objects)
        order: list[KubeObject | Template] = []
        for obj in read.objects:
            found = self.workloads.get(obj.metadata.uid) if isinstance(obj, Pod) else None
            if found is None:
                order.append(obj)
                continue
            assert isinstance(obj, Pod)
            argument = self.arguments["template", found[0].pod_uid]
            title = f"{found[0].kind} {found[0].key}"
            is_part = found[0].pod_uid in self.parts
            order.append(Template(title, obj, found[0], admission, argument, is_part))
        return Scenario(
            objects=tuple(one for one in order if not isinstance(one, Template)),
            templates=tuple(one for one in order if isinstance(one, Template)),
            notes=read.notes,
            arguments=self.arguments,
            order=tuple(order),
            admission=admission,
        )

    def _make_replica_sets(self) -> None:
        """Give every Deployment a ReplicaSet: those in the files that it controls, or a new one."""
        controlled: dict[tuple[str, str], list[ReplicaSet]] = {}
        for obj, _ in self.placed.values():
            for owner in obj.metadata.owner_references if isinstance(obj, ReplicaSet) else ():
                if owner.controller and owner.kind == "Deployment":
                    assert isinstance(obj, ReplicaSet)
                    controlled.setdefault((obj.metadata.namespace, owner.name), []).append(obj)
        for uid, (workload, where) in list(self.workloads.items()):
            if workload.kind != "Deployment":
                continue
            sets = controlled.get((workload.namespace, workload.name))
            try:
                if sets is None:
                    ManifestReader.take_object(self, where, replica_set_of(workload))
                    continue
                adopted = adopting(workload, sets)
                self.workloads[uid] = (adopted, where)
                self.placed["template", uid] = Placed(template_pod(adopted), where)
                self.parts |= {template_uid(one.kind, one.key) for one in sets}
            except MalformedObject as problem:
                raise ManifestError(f"{where}: {problem}") from None


def _notes_on(made: Sequence[str], templates: Iterable[Template]) -> list[str]:
    """Return what was made, and of what nothing is made."""
    notes = [f"pods made: {', '.join(made)}"] if made else []
    timed = [one.title for one in templates if one.workload and one.workload.kind == "CronJob"]
    if timed:
        more = f" and {len(timed) - 1} more" if len(timed) > 1 else ""
        notes.append(f"no pods are made for {timed[0]}{more}: nothing happens at a time here")
    return notes


def _admitted(admission: Admission, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    admitted = admission.admit(claim)
    assert isinstance(admitted, PersistentVolumeClaim)
    return admitted


def _copies(template: Template, count: int, known: set[tuple[str, str]]) -> list[KubeObject]:
    """Return so many pods of a template under names that are free, claims before their pod."""
    made: list[KubeObject] = []
    index = 0
    while count:
        pod, claims = template.copy(index)
        index += 1
        if (pod.kind, pod.key) in known:
            continue
        known.add((pod.kind, pod.key))
        made += [one for one in claims if (one.kind, one.key) not in known]
        made.append(pod)
        count -= 1
    return made


def _named(templates: Sequence[Template], name: str) -> Template:
    found = [one for one in templates if name in _names(one)]
    if not found:
        there = nearest((_called(one) for one in templates if not one.is_part), name)
        hint = f"; there are {there}" if there else ""
        raise ManifestError(f"no pod or workload in the files is named {name}{hint}")
    if len(found) > 1:
        raise ManifestError(f"several are named {name}: {nearest(map(_called, found))}; say which")
    return found[0]


def _called(template: Template) -> str:
    """Return the name by which a user can ask for a template."""
    kind, _, key = template.title.partition(" ")
    return key if kind == "Pod" else f"{kind.lower()}/{key}"


def _names(template: Template) -> set[str]:
    kind, _, key = template.title.partition(" ")
    name = key.rpartition("/")[2]
    kinds = (kind.lower(), f"{kind.lower()}s", _SHORT_NAMES[kind])
    return {name, key, *(f"{one}/{called}" for one in kinds for called in (name, key))}
