"""A scenario: the cluster of some files, and the pods that are to be placed in it.

Owns the step from files to objects that a run starts from: workloads become owners and templates,
what they lack becomes pods, in the order of the files. Reading itself is `app.manifests`'. Never
decides anything.
Upstream: none; a cluster's controllers do this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Any, BinaryIO

from msgspec.structs import replace

from kubesched.app.admission import DEFAULT_NAMESPACE, Admission
from kubesched.app.explain import ExplainError, Subject, choose_pod, is_waiting
from kubesched.app.manifests import (
    ManifestError,
    ManifestReader,
    Placed,
    Tree,
    file_contents,
    first_of,
)
from kubesched.engine.naming import nearest
from kubesched.objects.decode import KubeObject
from kubesched.objects.errors import MalformedObject
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod, PodStatus
from kubesched.objects.storage import PersistentVolumeClaim
from kubesched.objects.workloads import ReplicaSet
from kubesched.sim.claims import ClaimBinder
from kubesched.sim.completed import completed
from kubesched.sim.daemons import DaemonNodes, Targets
from kubesched.sim.deployments import adopting, is_same_template, newest_of, replica_set_of
from kubesched.sim.ephemeral import ephemeral_claims
from kubesched.sim.oddities import oddities
from kubesched.sim.workloads import (
    OwnedPods,
    ToMake,
    Workload,
    controller_of,
    has_ended,
    is_of_workload_kind,
    is_workload,
    template_pod,
    template_uid,
    workload_of,
)

_PODS_MADE_MAX = 1_000_000
# Kinds that are read for their template alone; of the others, decisions read more.
_ONLY_TEMPLATES = ("Deployment", "DaemonSet", "Job", "CronJob")
# As kubectl has them; a Job has none.
_SHORT_NAMES = {
    "Pod": "po",
    "Deployment": "deploy",
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "Job": "job",
    "CronJob": "cj",
    "ReplicationController": "rc",
}

WORKLOAD_WORDS = frozenset(
    word
    for kind, short in _SHORT_NAMES.items()
    if kind != "Pod"
    for word in (kind.lower(), f"{kind.lower()}s", short)
)
"""The words before the slash by which workloads are asked for."""


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
    targets: Targets | None = None
    """Of a DaemonSet: the nodes it is for; a copy is for one of those that lack it."""

    def missing(self, pods: OwnedPods) -> ToMake:
        """Return the pods that are still to be made, given those there are."""
        assert self.workload is not None
        to_make = self.workload.missing(pods)
        if self.targets is not None and not self.workload.is_terminating:
            lacking = len(self.targets.lacking)
            to_make = ToMake(lacking, range(lacking))
        return ToMake(0, to_make.indexes) if self.is_part else to_make

    def copy(self, index: int) -> tuple[Pod, list[PersistentVolumeClaim]]:
        """Return a copy, and the claims that are made for it."""
        if self.workload is not None and self.targets is not None:
            return self.workload.pod_for(self.pod, self.targets.lacking[index]), []
        if self.workload is not None:
            pod = self.workload.pod(self.pod, index)
            return pod, [_admitted(self.admission, one) for one in self.workload.claims(index)]
        meta = self.pod.metadata
        name = f"{meta.name}-{index}"
        meta = replace(meta, name=name, uid=f"copy/{meta.namespace}/{name}")
        spec = replace(self.pod.spec, node_name="")
        return replace(self.pod, metadata=meta, spec=spec, status=PodStatus()), []

    @property
    def has_free_names(self) -> bool:
        """Return whether copies stand for something that does not hang on their names."""
        indexed = None if self.is_uniform else self.workload
        return indexed is not None and indexed.kind != "StatefulSet"

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
        """Return the scenario with the pods that its workloads still have to make.

        Raises:
            ManifestError: One of them lacks more than can be made.
        """
        pods = OwnedPods(self._pods)
        known = self._names_taken()
        objects: list[KubeObject] = []
        made: list[str] = []
        for one in self.order:
            if not isinstance(one, Template):
                objects.append(one)
                continue
            to_make = one.missing(pods)
            if to_make.count > _PODS_MADE_MAX:
                limit = f"at most {_PODS_MADE_MAX} are made of one workload here"
                raise ManifestError(f"{one.title} lacks {to_make.count} pods: {limit}")
            if to_make.count:
                made.append(f"{to_make.count} of {one.title}")
                objects += _copies(one, to_make, known)
        objects = _without_replaced(objects)
        notes = (*self.notes, *_notes_on(made, self.templates))
        return Scenario(tuple(objects), (), notes, self.arguments, tuple(objects), self.admission)

    @property
    def _pods(self) -> list[Pod]:
        return [obj for obj in self.objects if isinstance(obj, Pod)]

    def _names_taken(self) -> set[tuple[str, str]]:
        """Return kind and key of what keeps its name: all but pods that are to be replaced."""
        return {(obj.kind, obj.key) for obj in self.objects if not _is_replaceable(obj)}

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
            name_one = f", or name one of {there}" if there else "; the files hold neither"
            raise ManifestError(
                "no pod template: give a Pod or a workload in a file that holds no node and no "
                f"bound pod{name_one}"
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
            return self._with_volumes(choose_pod(self.objects, name))
        if template.targets is not None and not template.targets.lacking:
            raise ExplainError(_nothing_lacks(template.title, template.targets))
        to_make = template.missing(OwnedPods(self._pods))
        *claims, pod = _copies(template, replace_fields(to_make, count=1), self._names_taken())
        assert isinstance(pod, Pod)
        note = f"what is explained is the next pod of {template.title}, here called {pod.key}"
        *others, _ = _without_replaced([*self.objects, *claims, pod])
        return self._with_volumes(Subject(pod, others, (note,)))

    def _with_volumes(self, subject: Subject) -> Subject:
        """Return the subject with the claims of the pod's ephemeral volumes, and new ones bound."""
        known = {obj.key for obj in self.objects if isinstance(obj, PersistentVolumeClaim)}
        made = ephemeral_claims(subject.pod, self.admission)
        missing = [one for one in made if one.key not in known]
        others = [*subject.others, *missing]
        return replace_fields(subject, others=ClaimBinder(others).all_bound(others))

    def _template_to_explain(self, name: str | None) -> Template | None:
        pods = self._pods
        if name is not None:
            if any(name in (pod.key, pod.metadata.name) for pod in pods):
                return None
            found = [one for one in self.templates if name in _names(one)]
            if not found and not self.templates:
                return None
            return _named([*self.templates, *self._pod_templates()], name)
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


def scenario_of(objects: Iterable[object]) -> Scenario:
    """Return what objects come to, as `kubectl get -o json` has them, one by one or in lists.

    Raises:
        ManifestError: One is malformed.
    """
    reader = _ScenarioReader()
    reader.take_objects(objects)
    return reader.scenario()


@dataclass(slots=True)
class _ScenarioReader(ManifestReader):
    """Reads objects as `kubesched explain` does, and workloads beside them."""

    argument: int = 0
    workloads: dict[str, tuple[Workload, str]] = field(default_factory=dict)
    arguments: dict[tuple[str, str], int] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)
    """Workloads of which no pod can be made."""
    changed: list[str] = field(default_factory=list)
    """Deployments that would be rolled out."""
    parts: set[str] = field(default_factory=set)
    """Templates of ReplicaSets whose Deployment is among the workloads."""

    def take_object(self, where: str, tree: Tree) -> None:
        workload = None
        if isinstance(tree, Mapping) and is_workload(tree):
            workload = workload_of(tree, DEFAULT_NAMESPACE)
        elif isinstance(tree, Mapping) and _is_only_template(tree):
            text = f"a {tree['kind']} without containers in its template: no pod is made of it"
            self.bare.append(f"{where}: {text}")
            return
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
        pods = [
            obj
            for obj in read.objects
            if isinstance(obj, Pod) and obj.metadata.uid not in self.workloads
        ]
        targets = self._targets(read.objects, pods)
        order: list[KubeObject | Template] = []
        for obj in completed(read.objects, pods, self._scaled()):
            found = self.workloads.get(obj.metadata.uid) if isinstance(obj, Pod) else None
            if found is None:
                order.append(obj)
                continue
            assert isinstance(obj, Pod)
            argument = self.arguments["template", found[0].pod_uid]
            title = f"{found[0].kind} {found[0].key}"
            is_part = found[0].pod_uid in self.parts
            aim = targets.get(found[0].pod_uid)
            order.append(Template(title, obj, found[0], admission, argument, is_part, aim))
        objects = tuple(one for one in order if not isinstance(one, Template))
        templates = tuple(one for one in order if isinstance(one, Template))
        return Scenario(
            objects=objects,
            templates=templates,
            notes=(
                *read.notes,
                *first_of(self.bare, "workloads are without containers"),
                *first_of(self.changed, "Deployments are not rolled out"),
                *_no_nodes(read.objects),
                *oddities(objects, _claims_to_come(templates, pods, admission)),
            ),
            arguments=self.arguments,
            order=tuple(order),
            admission=admission,
        )

    def _scaled(self) -> list[Workload]:
        """Return the workloads that say how many pods there should be."""
        return [one for uid, (one, _) in self.workloads.items() if uid not in self.parts]

    def _targets(self, objects: Sequence[KubeObject], pods: Sequence[Pod]) -> dict[str, Targets]:
        """Return the nodes of the DaemonSets, by the uid of their templates."""
        daemons = [one for one, _ in self.workloads.values() if one.kind == "DaemonSet"]
        if not daemons:
            return {}
        nodes = DaemonNodes(obj for obj in objects if isinstance(obj, Node))
        owned = OwnedPods(pods)
        return {
            one.pod_uid: nodes.targets(one.spec.template, owned.of(one.namespace, (one.owner,)))
            for one in daemons
        }

    def _make_replica_sets(self) -> None:
        """Give every Deployment a ReplicaSet: those in the files that it controls, or a new one."""
        controlled: dict[tuple[str, str], list[ReplicaSet]] = {}
        for obj, _ in self.placed.values():
            for owner in obj.metadata.owner_references if isinstance(obj, ReplicaSet) else ():
                if owner.controller and owner.kind == "Deployment":
                    assert isinstance(obj, ReplicaSet)
                    controlled.setdefault((obj.metadata.namespace, owner.name), []).append(obj)
        admission = Admission(one.obj for one in self.placed.values())
        for workload, where in list(self.workloads.values()):
            if workload.kind != "Deployment":
                continue
            sets = controlled.get((workload.namespace, workload.name), [])
            try:
                self._give_sets(workload, where, sets, admission)
            except MalformedObject as problem:
                told = MalformedObject(
                    kind=workload.kind,
                    key=workload.key,
                    field=problem.field,
                    value=problem.value,
                    problem=problem.problem,
                )
                raise ManifestError(f"{where}: {told}") from None

    def _give_sets(
        self, workload: Workload, where: str, sets: Sequence[ReplicaSet], admission: Admission
    ) -> None:
        key = ("template", workload.pod_uid)
        template = self.placed[key].obj
        assert isinstance(template, Pod)
        same = []
        for one in sets:
            theirs = self.placed.get(("template", template_uid(one.kind, one.key)))
            # A set without containers in its template cannot be told from any other.
            pod = template if theirs is None else theirs.obj
            assert isinstance(pod, Pod)
            if is_same_template(template, pod, admission):
                same.append(one)
        adopted = adopting(workload, sets, same)
        self.workloads[workload.pod_uid] = (adopted, where)
        self.placed[key] = Placed(template_pod(adopted), where)
        self.parts |= {template_uid(one.kind, one.key) for one in sets}
        if not same:
            ManifestReader.take_object(self, where, replica_set_of(workload))
        if sets and not same:
            named = newest_of(sets).metadata.name
            self.changed.append(
                f"the template of Deployment {workload.key} is not that of its ReplicaSet {named}: "
                "no rollout takes place here, pods that are there stay and count"
            )


def _no_nodes(objects: Sequence[KubeObject]) -> list[str]:
    has_pods = any(isinstance(obj, Pod) for obj in objects)
    if not has_pods or any(isinstance(obj, Node) for obj in objects):
        return []
    return ["the files hold no node: add the cluster, as kubectl get nodes,pods -A -o json has it"]


def _claims_to_come(
    templates: Iterable[Template], pods: Iterable[Pod], admission: Admission
) -> Iterator[tuple[str, PersistentVolumeClaim]]:
    """Yield the claims that are made with pods, and whose they are."""
    for one in templates:
        made = [] if one.workload is None else one.workload.claims(0)
        for claim in (*made, *ephemeral_claims(one.pod, admission)):
            yield f"a claim of {one.title}", _admitted(admission, claim)
    for pod in pods:
        for claim in ephemeral_claims(pod, admission) if is_waiting(pod) else ():
            yield f"a claim of Pod {pod.key}", claim


def _is_only_template(tree: Mapping[str, Any]) -> bool:
    return is_of_workload_kind(tree) and tree["kind"] in _ONLY_TEMPLATES


def _notes_on(made: Sequence[str], templates: Iterable[Template]) -> list[str]:
    """Return what was made, and of what nothing is made."""
    templates = tuple(templates)
    notes = [f"pods made: {', '.join(made)}"] if made else []
    passed_over = [
        f"{one.targets.passed_over} by {one.title}"
        for one in templates
        if one.targets is not None and one.targets.passed_over
    ]
    if passed_over:
        notes.append(f"nodes passed over, not being for it: {', '.join(passed_over)}")
    timed = [one.title for one in templates if one.workload and one.workload.kind == "CronJob"]
    if timed:
        more = f" and {len(timed) - 1} more" if len(timed) > 1 else ""
        notes.append(f"no pods are made for {timed[0]}{more}: nothing happens at a time here")
    return notes


def _nothing_lacks(title: str, targets: Targets) -> str:
    """Return why a DaemonSet has no next pod."""
    if targets.served:
        return f"{title} has a pod on every node that it is for; name one of its pods"
    why = "its node selector, its affinity or their taints keep it from all of them"
    return f"{title} is for none of the nodes: {why if targets.passed_over else 'there is none'}"


def _admitted(admission: Admission, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    admitted = admission.admit(claim)
    assert isinstance(admitted, PersistentVolumeClaim)
    return admitted


def _copies(template: Template, to_make: ToMake, known: set[tuple[str, str]]) -> list[KubeObject]:
    """Return pods of a template under names that are free, claims before their pod."""
    made: list[KubeObject] = []
    left = to_make.count
    for index in to_make.indexes:
        if not left:
            break
        pod, claims = template.copy(index)
        if (pod.kind, pod.key) in known and template.has_free_names:
            pod = _renamed(pod, known)  # There is one of that name, but it has ended.
        if (pod.kind, pod.key) in known:
            continue
        known.add((pod.kind, pod.key))
        made += [one for one in claims if (one.kind, one.key) not in known]
        made.append(pod)
        left -= 1
    return made


def _is_replaceable(obj: KubeObject) -> bool:
    """Return whether a controller makes a new pod of the same name in the place of this one."""
    if not isinstance(obj, Pod) or not has_ended(obj):
        return False
    owner = controller_of(obj)
    return owner is not None and owner.kind == "StatefulSet"


def _without_replaced(objects: Sequence[KubeObject]) -> list[KubeObject]:
    """Return the objects without pods that have ended and of which there is a new one."""
    new = {obj.key for obj in objects if isinstance(obj, Pod) and not has_ended(obj)}
    return [obj for obj in objects if not (_is_replaceable(obj) and obj.key in new)]


def _renamed(pod: Pod, known: set[tuple[str, str]]) -> Pod:
    """Return the pod under a name that is free."""
    while (pod.kind, pod.key) in known:
        meta = pod.metadata
        pod = replace(pod, metadata=replace(meta, name=f"{meta.name}-new", uid=f"{meta.uid}-new"))
    return pod


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
