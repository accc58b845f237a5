"""A scenario: the objects of a cluster, pod templates of workloads, and the pod to explain.

Templates and their copies, the pods that workloads still have to create, and the choice of the pod
or template that a user names. `scenario_reader` reads scenarios from files.
Upstream: none; a cluster's controllers create pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import cached_property

from msgspec.structs import replace

from kubesched.api.decode import KubeObject
from kubesched.api.node import Node
from kubesched.api.pod import Pod, PodStatus
from kubesched.api.storage import PersistentVolumeClaim
from kubesched.cache.cache import TERMINAL_PHASES
from kubesched.kit.text import nearest
from kubesched.manifests.controller_state import ClaimBinder, ephemeral_claims
from kubesched.manifests.defaulting import Admission
from kubesched.manifests.documents import ManifestError
from kubesched.manifests.missing_pods import MissingPods, Targets
from kubesched.manifests.objects import and_more
from kubesched.manifests.workloads import OwnedPods, Workload, controller_of, has_ended

_PODS_MADE_MAX = 1_000_000
# kubectl's short names; a Job has none.
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
"""The kinds that may precede the slash in the name of a workload."""


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template with defaults applied, to create copies from."""

    title: str
    """Kind and key: `Deployment shop/web`, `Pod shop/web-7`."""
    pod: Pod
    workload: Workload | None
    admission: Admission
    argument: int
    """The number of the file or directory argument it was read from."""
    is_part: bool = False
    """Whether it is a ReplicaSet of a Deployment in the files, which creates the pods."""
    targets: Targets | None = None
    """The nodes of a DaemonSet; each copy is for a node that lacks a pod."""

    def missing(self, pods: OwnedPods) -> MissingPods:
        """Return the pods that still have to be created."""
        assert self.workload is not None
        missing = self.workload.missing(pods)
        if self.targets is not None and not self.workload.is_terminating:
            lacking = len(self.targets.lacking)
            missing = MissingPods(lacking, range(lacking))
        return MissingPods(0, missing.indexes) if self.is_part else missing

    def copy(self, index: int) -> tuple[Pod, list[PersistentVolumeClaim]]:
        """Return a copy and its claims."""
        if self.workload is not None and self.targets is not None:
            return self.workload.pod_for(self.pod, self.targets.lacking[index]), []
        if self.workload is not None:
            pod = self.workload.pod(self.pod, index)
            return pod, [self.admission.admit(claim) for claim in self.workload.claims(index)]
        meta = self.pod.metadata
        name = f"{meta.name}-{index}"
        meta = replace(meta, name=name, uid=f"copy/{meta.namespace}/{name}")
        spec = replace(self.pod.spec, node_name="")
        return replace(self.pod, metadata=meta, spec=spec, status=PodStatus()), []

    @property
    def has_free_names(self) -> bool:
        """Return whether the names of indexed copies do not matter."""
        indexed = None if self.is_uniform else self.workload
        return indexed is not None and indexed.kind != "StatefulSet"

    @property
    def is_uniform(self) -> bool:
        """Return whether copies differ only by name."""
        return self.workload is None or not self.workload.is_indexed


@dataclass(frozen=True)
class Scenario:
    """The objects and templates of some files, and notes for the user."""

    contents: tuple[KubeObject | Template, ...]
    """Objects and templates, in the order of the files."""
    notes: tuple[str, ...]
    arguments: Mapping[tuple[str, str], int]
    """Kind and key of an object to the number of the argument it was read from."""
    admission: Admission

    @cached_property
    def objects(self) -> tuple[KubeObject, ...]:
        """The objects without templates."""
        return tuple(entry for entry in self.contents if not isinstance(entry, Template))

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The templates of workloads."""
        return tuple(entry for entry in self.contents if isinstance(entry, Template))

    def with_missing_pods(self) -> Scenario:
        """Return the scenario with the pods that its workloads still have to create.

        Raises:
            ManifestError: A workload lacks more pods than the limit.
        """
        pods = OwnedPods(self._pods)
        taken = self._names_taken()
        objects: list[KubeObject] = []
        created: list[str] = []
        for entry in self.contents:
            if not isinstance(entry, Template):
                objects.append(entry)
                continue
            missing = entry.missing(pods)
            if missing.count > _PODS_MADE_MAX:
                limit = f"the limit is {_PODS_MADE_MAX} per workload"
                raise ManifestError(f"{entry.title} lacks {missing.count} pods; {limit}")
            if missing.count:
                created.append(f"{missing.count} of {entry.title}")
                objects += _copies(entry, missing, taken)
        notes = (*self.notes, *_notes_on(created, self.templates))
        return Scenario(tuple(_without_replaced(objects)), notes, self.arguments, self.admission)

    @property
    def _pods(self) -> list[Pod]:
        return [obj for obj in self.objects if isinstance(obj, Pod)]

    def _names_taken(self) -> set[tuple[str, str]]:
        """Return kind and key of all objects but pods that will be replaced."""
        return {(obj.kind, obj.key) for obj in self.objects if not _is_replaceable(obj)}

    def capacity_templates(self, names: Sequence[str] = ()) -> list[Template]:
        """Return the named templates, or the templates in files beside the cluster's.

        Raises:
            ManifestError: A name is unknown, or there is no template beside the cluster.
        """
        everything = [*self.templates, *self._pod_templates()]
        if names:
            return [_named(everything, name) for name in names]
        beside = self.beside_the_cluster()
        if not beside:
            names = nearest(_argument(template) for template in everything if not template.is_part)
            hint = f", or name one of {names}" if names else "; the files hold neither"
            raise ManifestError(
                "no pod template: add a Pod or a workload in a file without nodes and bound "
                f"pods{hint}"
            )
        return beside

    def beside_the_cluster(self) -> list[Template]:
        """Return the templates in files without nodes and bound pods."""
        cluster = {
            self.arguments.get((obj.kind, obj.key), 0)
            for obj in self.objects
            if isinstance(obj, Node) or (isinstance(obj, Pod) and obj.spec.node_name)
        }
        beside = [
            template
            for template in (*self.templates, *self._pod_templates())
            if template.argument not in cluster
            and not template.pod.spec.node_name
            and not template.is_part
        ]
        return sorted(beside, key=lambda template: template.argument)

    def subject(self, name: str | None) -> Subject:
        """Return the pod to explain: by name, the only pending pod, or a workload's next pod.

        Raises:
            ExplainError: There is no such pod or workload, or there are several.
            ManifestError: Several workloads have the name.
        """
        template = self._template_to_explain(name)
        if template is None:
            return self._with_volumes(choose_pod(self.objects, name))
        if template.targets is not None and not template.targets.lacking:
            raise ExplainError(_no_next_pod(template.title, template.targets))
        missing = template.missing(OwnedPods(self._pods))
        *claims, pod = _copies(template, replace_fields(missing, count=1), self._names_taken())
        assert isinstance(pod, Pod)
        note = f"explaining the next pod of {template.title}, named {pod.key} here"
        *others, _ = _without_replaced([*self.objects, *claims, pod])
        return self._with_volumes(Subject(pod, others, (note,)))

    def _with_volumes(self, subject: Subject) -> Subject:
        """Return the subject with the claims of the pod's ephemeral volumes, new claims bound."""
        existing = {obj.key for obj in self.objects if isinstance(obj, PersistentVolumeClaim)}
        claims = ephemeral_claims(subject.pod, self.admission)
        missing = [claim for claim in claims if claim.key not in existing]
        others = [*subject.others, *missing]
        return replace_fields(subject, others=ClaimBinder(others).bind_all(others))

    def _template_to_explain(self, name: str | None) -> Template | None:
        pods = self._pods
        if name is not None:
            if any(name in (pod.key, pod.metadata.name) for pod in pods):
                return None
            named = [template for template in self.templates if name in _names(template)]
            if not named and not self.templates:
                return None
            return _named([*self.templates, *self._pod_templates()], name)
        pending = [pod.key for pod in pods if is_pending(pod)]
        beside = [
            template for template in self.beside_the_cluster() if template.workload is not None
        ]
        if not pods and not beside:
            beside = [template for template in self.templates if not template.is_part]
        if not pending and len(beside) == 1:
            return beside[0]
        if not beside:
            return None
        names = nearest((*pending, *map(_argument, beside)))
        raise ExplainError(f"several pods and workloads can be explained; name one of {names}")

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
        """Return the objects without the pending pods that serve as templates."""
        used = {template.pod.key for template in templates if template.workload is None}
        return tuple(
            obj
            for obj in self.objects
            if not (isinstance(obj, Pod) and obj.key in used and not obj.spec.node_name)
        )


def _notes_on(created: Sequence[str], templates: Iterable[Template]) -> list[str]:
    """Return notes about created pods, excluded nodes and CronJobs."""
    templates = tuple(templates)
    notes = [f"pods created: {', '.join(created)}"] if created else []
    excluded = [
        f"{template.targets.excluded} by {template.title}"
        for template in templates
        if template.targets is not None and template.targets.excluded
    ]
    if excluded:
        notes.append(f"nodes excluded: {', '.join(excluded)}")
    timed = [
        template.title
        for template in templates
        if template.workload and template.workload.kind == "CronJob"
    ]
    if timed:
        notes.append(f"no pods are created for {and_more(timed)}: schedules are not simulated")
    return notes


def _no_next_pod(title: str, targets: Targets) -> str:
    """Return why a DaemonSet has no next pod."""
    if targets.served:
        return f"{title} has a pod on each of its nodes; name one of its pods"
    if targets.excluded:
        return f"{title} runs on no node: node selector, affinity or taints exclude all of them"
    return f"{title} runs on no node: there are no nodes"


def _copies(
    template: Template, missing: MissingPods, taken: set[tuple[str, str]]
) -> list[KubeObject]:
    """Return copies of a template under free names, each preceded by its claims."""
    copies: list[KubeObject] = []
    left = missing.count
    for index in missing.indexes:
        if not left:
            break
        pod, claims = template.copy(index)
        if (pod.kind, pod.key) in taken and template.has_free_names:
            pod = _renamed(pod, taken)  # A terminated pod has the name.
        if (pod.kind, pod.key) in taken:
            continue
        taken.add((pod.kind, pod.key))
        copies += [claim for claim in claims if (claim.kind, claim.key) not in taken]
        copies.append(pod)
        left -= 1
    return copies


def _is_replaceable(obj: KubeObject) -> bool:
    """Return whether a controller replaces this pod by one of the same name."""
    if not isinstance(obj, Pod) or not has_ended(obj):
        return False
    owner = controller_of(obj)
    return owner is not None and owner.kind == "StatefulSet"


def _without_replaced(objects: Sequence[KubeObject]) -> list[KubeObject]:
    """Return the objects without terminated pods that have been replaced."""
    new = {obj.key for obj in objects if isinstance(obj, Pod) and not has_ended(obj)}
    return [obj for obj in objects if not (_is_replaceable(obj) and obj.key in new)]


def _renamed(pod: Pod, taken: set[tuple[str, str]]) -> Pod:
    """Return the pod under a free name."""
    while (pod.kind, pod.key) in taken:
        meta = pod.metadata
        pod = replace(pod, metadata=replace(meta, name=f"{meta.name}-new", uid=f"{meta.uid}-new"))
    return pod


def _named(templates: Sequence[Template], name: str) -> Template:
    named = [template for template in templates if name in _names(template)]
    if not named:
        names = nearest(
            (_argument(template) for template in templates if not template.is_part), name
        )
        hint = f"; the files hold {names}" if names else ""
        raise ManifestError(f"no pod or workload in the files is named {name}{hint}")
    if len(named) > 1:
        raise ManifestError(f"{name} is ambiguous; use one of {nearest(map(_argument, named))}")
    return named[0]


def _argument(template: Template) -> str:
    """Return the name of a template on the command line."""
    kind, _, key = template.title.partition(" ")
    return key if kind == "Pod" else f"{kind.lower()}/{key}"


def _names(template: Template) -> set[str]:
    kind, _, key = template.title.partition(" ")
    name = key.rpartition("/")[2]
    kinds = (kind.lower(), f"{kind.lower()}s", _SHORT_NAMES[kind])
    return {name, key, *(f"{kind_name}/{called}" for kind_name in kinds for called in (name, key))}


# -- the pod to explain ---------------------------------------------------------------------------


class ExplainError(ValueError):
    """A pod that cannot be explained; the message is one line."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The pod to explain, treated as pending, the other objects of the cluster, and notes."""

    pod: Pod
    others: Sequence[KubeObject]
    notes: tuple[str, ...] = ()


def choose_pod(objects: Sequence[KubeObject], name: str | None) -> Subject:
    """Return the pod with a name, or the only pending one.

    Raises:
        ExplainError: There is no such pod, there are several, or it has terminated.
    """
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    pod = _only_pending(pods) if name is None else _by_name(pods, name)
    others = [obj for obj in objects if obj is not pod]
    notes: list[str] = []
    if pod.status.phase in TERMINAL_PHASES:
        raise ExplainError(
            f"pod {pod.key} has terminated (phase {pod.status.phase}) and is not scheduled"
        )
    if pod.metadata.deletion_timestamp:
        notes.append(f"pod {pod.key} is being deleted; the scheduler skips it")
    if pod.spec.node_name:
        notes.append(
            f"pod {pod.key} is already bound to {pod.spec.node_name}; "
            "it is explained as if it were pending"
        )
        pod = replace(
            pod,
            spec=replace(pod.spec, node_name=""),
            status=replace(pod.status, nominated_node_name=""),
        )
    return Subject(pod, others, tuple(notes))


def is_pending(pod: Pod) -> bool:
    """Return whether a pod has no node and has not terminated."""
    return not pod.spec.node_name and pod.status.phase not in TERMINAL_PHASES


def _only_pending(pods: Iterable[Pod]) -> Pod:
    pods = list(pods)
    pending = [pod for pod in pods if is_pending(pod)]
    if not pods:
        raise ExplainError("the files hold no pod; add a pod or a workload")
    if not pending:
        raise ExplainError(f"no pod in the files is pending; name one of {_listed(pods)}")
    if len(pending) > 1:
        raise ExplainError(f"{len(pending)} pods are pending; name one of {_listed(pending)}")
    return pending[0]


def _by_name(pods: Sequence[Pod], name: str) -> Pod:
    named = [pod for pod in pods if name in (pod.key, pod.metadata.name)]
    if len(named) > 1:
        raise ExplainError(f"{name} is ambiguous; use one of {_listed(named)}")
    if not named:
        hint = f"; they hold {_listed(pods, name)}" if pods else "; they hold no pod"
        raise ExplainError(f"pod {name} is not in the files{hint}")
    return named[0]


def _listed(pods: Sequence[Pod], like: str = "") -> str:
    return nearest((pod.key for pod in pods), like)
