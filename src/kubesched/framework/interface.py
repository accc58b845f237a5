"""The plugin contract: one protocol per extension point.

Owns the signatures plugin authors write against. A plugin is a plain class that has the methods of
the points it extends; nothing here needs to be inherited from.
Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.trial import PodRows
from kubesched.columns.view import NodeTable, NodeView
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.model.cluster_event import ClusterEvent, QueueingHint
from kubesched.model.pod_info import PodInfo, PodShape

NODE_SCORE_MAX = 100
NODE_SCORE_MIN = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A verdict on the nodes of a mask; the first that holds for a node is its status."""

    mask: BoolColumn
    status: Status


@dataclass(frozen=True, slots=True)
class AllReasons:
    """Verdicts that add up: a node gets the reasons of every one that holds, and the worst code."""

    rejections: Sequence[Rejected]

    def __bool__(self) -> bool:
        return bool(self.rejections)


FilterVerdict: TypeAlias = "Sequence[Rejected] | AllReasons"


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Names of the only nodes worth looking at."""

    node_names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from one node, most important first."""

    node_name: str
    pods: tuple[BoundPod, ...]
    pdb_violation_count: int = 0


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a post-filter plugin found; an empty node name clears the pod's nomination."""

    nominated_node_name: str
    victims: Victims | None = None


PostFilterAnswer: TypeAlias = "tuple[PostFilterResult | None, Status]"


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """Whether a plugin's pre-bind may run beside the next one's."""

    allow_parallel: bool = False


@dataclass(frozen=True, slots=True)
class SignFragment:
    """A part of a pod's signature: pods of equal signatures are interchangeable to the plugin."""

    key: str
    value: Any


HintReads: TypeAlias = Literal["nothing", "shape", "template", "pod"]
HintReadsOf: TypeAlias = "Callable[[PodShape, Any, Any], HintReads]"
HintFunction: TypeAlias = "Callable[[PodInfo, Any, Any], QueueingHint]"
"""`(pod, old_object, new_object)`; an object is None when it was added or deleted."""


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """An event that may make a refused pod fit, and who to ask; without a hint, always retry."""

    event: ClusterEvent
    hint: HintFunction | None = field(default=None, compare=False)
    reads: HintReads | HintReadsOf = field(default="pod", compare=False)
    """What of the waiting pod the hint looks at, its uid aside.

    `nothing` of it; its `shape`, which has the namespace, the scheduler's name and what rules read
    of the spec; its `template`, that is also labels and owner; or anything of the `pod`. A hint
    that reads less is asked once about all pods that share it. The pod that the event is about is
    asked alone, so that a hint may compare uids whatever it says here. Where it depends, a function
    of `(shape, old_object, new_object)` gives one of the words.
    """


@dataclass(frozen=True, slots=True)
class Reads:
    """What a plugin's verdict on a row depends on, beside the pod's template.

    The template is all that pods of one controller share: spec, labels, namespace, owner; the node
    that each pod of a DaemonSet names in its node affinity is not part of it. A plugin
    that declares this has its verdicts and raw scores kept, and is asked again about a row only
    when something it reads there has changed.
    """

    nodes: bool = False
    """The node itself: labels, annotations, taints, allocatable, images, features."""
    usage: bool = False
    """What pods take on that very node: requests, ports, the pods themselves."""
    objects: tuple[str, ...] = ()
    """Other objects, by the names of `ObjectStores`."""
    terms: bool = False
    """Which pod affinity terms there are at all; when one is new, `reads` is asked again."""
    idle: bool = False
    """Nothing of the pod either: `pre_filter` and `pre_score` would skip it and write nothing."""


READS_NOTHING = Reads()


class NodeStatuses(Protocol):
    """Each node's verdict after filtering, by name."""

    def get(self, node_name: str) -> Status: ...
    def names_with(self, *codes: int) -> list[str]: ...


class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str: ...


class CacheablePlugin(Plugin, Protocol):
    """Says what its verdicts depend on, so that they can be kept; None: on more than that.

    With an attribute `same_for_family = True` of its very class it is asked once for all pods of a
    family (see `PodShape.family`) what it reads and whether it is skipped: while it reads no other
    objects, that and what it writes before it looks at nodes depends on family and node name alone.
    """

    def reads(self, pod: PodInfo) -> Reads | None: ...

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod the verdicts depend on; only needed to share them between pods."""
        ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Decides whether a pod may enter the queue of pods to be tried."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None: ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue; exactly one is enabled.

    With a method `sort_key(queued)`, whose values compare as `less` would decide, the queue sorts
    by that, which is faster.
    """

    def less(self, first: Any, second: Any) -> bool: ...


class EnqueueExtensions(Plugin, Protocol):
    """Tells which events may cure a refusal of this plugin."""

    def events_to_register(self) -> Sequence[EventRegistration]: ...


class PreFilterPlugin(Plugin, Protocol):
    """Works out what its filter needs, refuses the pod, or names the only nodes."""

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | PreFilterResult | None: ...


class PreFilterExtensions(Plugin, Protocol):
    """Keeps the filter's state right when a pod is supposed on, or gone from, one node."""

    def add_pod(
        self, state: CycleState, pod: PodInfo, added: BoundPod, node: NodeView
    ) -> Status | None: ...

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: BoundPod, node: NodeView
    ) -> Status | None: ...


class ColumnPreFilterExtensions(Plugin, Protocol):
    """The same for one pod on each of many nodes; each node's change concerns that node alone."""

    def add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None: ...

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None: ...


class FilterPlugin(Plugin, Protocol):
    """Refuses one node."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None: ...


class ColumnFilterPlugin(Plugin, Protocol):
    """Refuses nodes, all at once.

    With `takes_rows = True` it says that its rule is written for a `NodeRow`, too: plain numbers in
    place of columns, and a plain bool for a mask. Then few nodes are judged without any array.
    """

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict: ...


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make room when no node fits."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]: ...


class PreScorePlugin(Plugin, Protocol):
    """Works out what its score needs, over the nodes that fit."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None: ...


class ScorePlugin(Plugin, Protocol):
    """Scores one node."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int: ...


class ColumnScorePlugin(Plugin, Protocol):
    """Scores the nodes that fit, all at once."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn: ...


class ScoreExtensions(Plugin, Protocol):
    """Brings the scores of all nodes that fit into 0 to 100."""

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn: ...


class ReservePlugin(Plugin, Protocol):
    """Takes what the chosen node gives, and gives it back.

    With an attribute `reserves_if_skipped = False` of its very class it is not asked to reserve
    anything for a pod for which its pre-filter had it skipped.
    """

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class PermitPlugin(Plugin, Protocol):
    """Allows, refuses or delays the binding; returns a status and how many seconds to wait."""

    def permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status | None, float] | Awaitable[tuple[Status | None, float]]: ...


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the binding is written."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | PreBindPreFlightResult | None: ...

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None: ...


class BindPlugin(Plugin, Protocol):
    """Writes the binding, or leaves it to the next with SKIP."""

    def bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Is told that the pod was bound."""

    def post_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Awaitable[None] | None: ...


class SignPlugin(Plugin, Protocol):
    """Names what it reads of a pod, so that equal pods can share a result."""

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status: ...


class PlacementGeneratePlugin(Plugin, Protocol):
    """Proposes sets of nodes for a group of pods (alpha, off by default)."""

    def generate_placements(self, state: CycleState, group: Any, parent: Any) -> Any: ...


class PlacementScorePlugin(Plugin, Protocol):
    """Scores a set of nodes for a group of pods (alpha, off by default)."""

    def score_placement(self, state: CycleState, group: Any, placement: Any) -> int: ...


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """One extension point: its key in the configuration, upstream's type, and its methods."""

    key: str
    type_name: str
    methods: tuple[str, ...]
    """Alternatives; a plugin extends the point if it has one of them."""
    protocols: tuple[type, ...]


EXTENSION_POINTS: Mapping[str, ExtensionPoint] = {
    point.key: point
    for point in (
        ExtensionPoint("preEnqueue", "PreEnqueuePlugin", ("pre_enqueue",), (PreEnqueuePlugin,)),
        ExtensionPoint("queueSort", "QueueSortPlugin", ("less",), (QueueSortPlugin,)),
        ExtensionPoint("preFilter", "PreFilterPlugin", ("pre_filter",), (PreFilterPlugin,)),
        ExtensionPoint(
            "filter", "FilterPlugin", ("filter_nodes", "filter"), (ColumnFilterPlugin, FilterPlugin)
        ),
        ExtensionPoint("postFilter", "PostFilterPlugin", ("post_filter",), (PostFilterPlugin,)),
        ExtensionPoint("preScore", "PreScorePlugin", ("pre_score",), (PreScorePlugin,)),
        ExtensionPoint(
            "score", "ScorePlugin", ("score_nodes", "score"), (ColumnScorePlugin, ScorePlugin)
        ),
        ExtensionPoint("reserve", "ReservePlugin", ("reserve", "unreserve"), (ReservePlugin,)),
        ExtensionPoint("permit", "PermitPlugin", ("permit",), (PermitPlugin,)),
        ExtensionPoint("preBind", "PreBindPlugin", ("pre_bind",), (PreBindPlugin,)),
        ExtensionPoint("bind", "BindPlugin", ("bind",), (BindPlugin,)),
        ExtensionPoint("postBind", "PostBindPlugin", ("post_bind",), (PostBindPlugin,)),
        ExtensionPoint(
            "placementGenerate",
            "PlacementGeneratePlugin",
            ("generate_placements",),
            (PlacementGeneratePlugin,),
        ),
        ExtensionPoint(
            "placementScore", "PlacementScorePlugin", ("score_placement",), (PlacementScorePlugin,)
        ),
    )
}


def points_of(plugin: object) -> frozenset[str]:
    """Return the extension points a plugin class or instance extends, by configuration key."""
    return frozenset(
        key
        for key, point in EXTENSION_POINTS.items()
        if any(callable(getattr(plugin, method, None)) for method in point.methods)
    )
