"""The plugin contract: one protocol per extension point.

Owns the signatures that plugin authors implement. A plugin is a plain class with the methods of the
points that it extends; it need not inherit from anything here.
Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from kubesched.framework.cluster_event import ClusterEvent, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo, PodShape
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import NodeTable, NodeView

NODE_SCORE_MAX = 100
NODE_SCORE_MIN = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejection of the nodes of a mask; a node's status is that of its first rejection."""

    mask: BoolColumn
    status: Status


@dataclass(frozen=True, slots=True)
class AllReasons:
    """Rejections that add up: a node gets the reasons of all its rejections, and the worst code."""

    rejections: Sequence[Rejected]

    def __bool__(self) -> bool:
        return bool(self.rejections)


FilterVerdict: TypeAlias = "Sequence[Rejected] | AllReasons"


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The names of the only nodes to consider."""

    node_names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from one node, most important first."""

    node_name: str
    pods: tuple[BoundPod, ...]
    pdb_violation_count: int = 0


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of a PostFilter plugin; an empty node name clears the pod's nomination."""

    nominated_node_name: str
    victims: Victims | None = None


PostFilterReturn: TypeAlias = "tuple[PostFilterResult | None, Status]"


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """Whether a plugin's PreBind may run in parallel with the next plugin's."""

    allow_parallel: bool = False


HintReads: TypeAlias = Literal["nothing", "shape", "template", "pod"]
HintReadsOf: TypeAlias = "Callable[[PodShape, Any, Any], HintReads]"
HintFunction: TypeAlias = "Callable[[PodInfo, Any, Any], QueueingHint]"
"""`(pod, old_object, new_object)`; an object is None when it was added or deleted."""


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """An event that may make a rejected pod schedulable; without a hint, the pod is retried."""

    event: ClusterEvent
    hint: HintFunction | None = field(default=None, compare=False)
    reads: HintReads | HintReadsOf = field(default="pod", compare=False)
    """The part of the waiting pod that the hint reads, apart from its uid.

    `nothing`; the `shape`: the namespace, the scheduler's name and the fields of the spec that
    in-tree rules read; the `template`: the shape, labels and owner; or anything of the `pod`. A
    hint is called once for all pods that are equal in that part. For the pod that the event is
    about it is called separately, so that a hint may always compare uids. If the part depends on
    the event, a function of `(shape, old_object, new_object)` returns one of these words.
    """


@dataclass(frozen=True, slots=True)
class Reads:
    """The inputs of a plugin's verdict on a row, apart from the pod.

    The verdicts and raw scores of a plugin that declares this are kept, and the plugin is called
    again for a row only when one of these inputs has changed. They are kept for all pods of a
    template: the fields of the spec that in-tree rules read, labels, namespace, controller. A
    plugin need not declare what it reads of the pod: a field outside the template (priority, an
    annotation, `spec.runtime_class_name`) becomes part of the key when it is first read; see
    `framework.pod_keys`. The node that a pod of a DaemonSet names in its node affinity is not part
    of the template.
    """

    nodes: bool = False
    """The node itself: labels, annotations, taints, allocatable, images, features."""
    usage: bool = False
    """The pods on the same node: their requests, their ports, the pods themselves."""
    objects: tuple[str, ...] = ()
    """Other objects, by the names of `ObjectStores`."""
    terms: bool = False
    """The pod affinity terms in the cluster; after a new one, `reads` is called again."""
    idle: bool = False
    """Not even the pod: `pre_filter` and `pre_score` would skip and write nothing."""


READS_NOTHING = Reads()


class NodeStatuses(Protocol):
    """The status of each node after filtering, by name."""

    def get(self, node_name: str) -> Status: ...
    def names_with(self, *codes: int) -> list[str]: ...


class Plugin(Protocol):
    """The part that all plugins have."""

    @property
    def name(self) -> str: ...


class CacheablePlugin(Plugin, Protocol):
    """Declares the inputs of its verdicts, so that they can be kept; None if `Reads` lacks one."""

    def reads(self, pod: PodInfo) -> Reads | None: ...

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the part of the pod that is an input of the verdicts, to share them by it.

        Only of in-tree plugins, for which tests ensure that the part is complete.
        """
        ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Decides whether a pod may enter the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None: ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue; exactly one is enabled.

    The queue sorts faster by a method `sort_key(queued)`, if there is one; its values must compare
    as `less` decides.
    """

    def less(self, first: Any, second: Any) -> bool: ...


class EnqueueExtensions(Plugin, Protocol):
    """Registers the events that may make a pod schedulable after this plugin rejected it."""

    def events_to_register(self) -> Sequence[EventRegistration]: ...


class PreFilterPlugin(Plugin, Protocol):
    """Prepares the filter's state, rejects the pod, or returns the only nodes to consider."""

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | PreFilterResult | None: ...


class PreFilterExtensions(Plugin, Protocol):
    """Updates the filter's state in a trial that adds a pod to a node, or removes one."""

    def add_pod(
        self, state: CycleState, pod: PodInfo, added: BoundPod, node: NodeView
    ) -> Status | None: ...

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: BoundPod, node: NodeView
    ) -> Status | None: ...


class ColumnPreFilterExtensions(Plugin, Protocol):
    """The same for one pod on each of many nodes; a change affects only its own node."""

    def add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None: ...

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None: ...


class FilterPlugin(Plugin, Protocol):
    """Accepts or rejects one node."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None: ...


class ColumnFilterPlugin(Plugin, Protocol):
    """Rejects some of many nodes at once.

    With `takes_rows = True`, the method also takes a `NodeRow`: plain numbers in place of columns,
    and a plain bool as mask. Then few nodes are evaluated without any array.
    """

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict: ...


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make the pod schedulable when no node fits."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]: ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares the score, over the feasible nodes."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None: ...


class ScorePlugin(Plugin, Protocol):
    """Scores one node."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int: ...


class ColumnScorePlugin(Plugin, Protocol):
    """Scores all feasible nodes at once."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn: ...


class ScoreExtensions(Plugin, Protocol):
    """Scales the scores of all feasible nodes to 0 to 100."""

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn: ...


class ReservePlugin(Plugin, Protocol):
    """Reserves resources of the chosen node, and releases them.

    If its own class sets `reserves_if_skipped = False`, `reserve` is not called for a pod for which
    `pre_filter` returned `SKIP`.
    """

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class PermitPlugin(Plugin, Protocol):
    """Allows, rejects or delays the binding; returns a status and a timeout in seconds."""

    def permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status | None, float] | Awaitable[tuple[Status | None, float]]: ...


class PreBindPlugin(Plugin, Protocol):
    """Does the work that must precede the binding."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | PreBindPreFlightResult | None: ...

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None: ...


class BindPlugin(Plugin, Protocol):
    """Writes the binding, or leaves it to the next plugin with `SKIP`."""

    def bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Is informed that the pod was bound."""

    def post_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Awaitable[None] | None: ...


class PlacementGeneratePlugin(Plugin, Protocol):
    """Proposes sets of nodes for a group of pods (alpha, off by default)."""

    def generate_placements(self, state: CycleState, group: Any, parent: Any) -> Any: ...


class PlacementScorePlugin(Plugin, Protocol):
    """Scores a set of nodes for a group of pods (alpha, off by default)."""

    def score_placement(self, state: CycleState, group: Any, placement: Any) -> int: ...


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """One extension point: its key in the configuration, its methods and their protocols."""

    key: str
    methods: tuple[str, ...]
    """Alternatives; a plugin extends the point if it has one of them."""
    protocols: tuple[type, ...]

    @property
    def type_name(self) -> str:
        """Return the name of upstream's interface."""
        return self.protocols[-1].__name__


EXTENSION_POINTS: Mapping[str, ExtensionPoint] = {
    point.key: point
    for point in (
        ExtensionPoint("preEnqueue", ("pre_enqueue",), (PreEnqueuePlugin,)),
        ExtensionPoint("queueSort", ("less",), (QueueSortPlugin,)),
        ExtensionPoint("preFilter", ("pre_filter",), (PreFilterPlugin,)),
        ExtensionPoint("filter", ("filter_nodes", "filter"), (ColumnFilterPlugin, FilterPlugin)),
        ExtensionPoint("postFilter", ("post_filter",), (PostFilterPlugin,)),
        ExtensionPoint("preScore", ("pre_score",), (PreScorePlugin,)),
        ExtensionPoint("score", ("score_nodes", "score"), (ColumnScorePlugin, ScorePlugin)),
        ExtensionPoint("reserve", ("reserve", "unreserve"), (ReservePlugin,)),
        ExtensionPoint("permit", ("permit",), (PermitPlugin,)),
        ExtensionPoint("preBind", ("pre_bind",), (PreBindPlugin,)),
        ExtensionPoint("bind", ("bind",), (BindPlugin,)),
        ExtensionPoint("postBind", ("post_bind",), (PostBindPlugin,)),
        ExtensionPoint("placementGenerate", ("generate_placements",), (PlacementGeneratePlugin,)),
        ExtensionPoint("placementScore", ("score_placement",), (PlacementScorePlugin,)),
    )
}


def points_of(plugin: object) -> frozenset[str]:
    """Return the extension points a plugin class or instance extends, by configuration key."""
    return frozenset(
        key
        for key, point in EXTENSION_POINTS.items()
        if any(callable(getattr(plugin, method, None)) for method in point.methods)
    )
