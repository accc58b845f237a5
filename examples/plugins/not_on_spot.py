"""A filter with arguments, for all nodes at once."""

import msgspec

from kubesched import CycleState, NodeTable, PodInfo, Rejected, unresolvable


class NotOnSpotArgs(msgspec.Struct, frozen=True):
    """The arguments under pluginConfig: label, value, priorityMin."""

    label: str = "example.com/lifecycle"
    value: str = "spot"
    priority_min: int = 0

    def validate(self) -> list[str]:
        """Return what is wrong with the values."""
        return [] if self.label else ["label: must not be empty"]


class NotOnSpot:
    """Keeps pods of some priority away from nodes that may vanish."""

    name = "NotOnSpot"

    def __init__(self, args: NotOnSpotArgs) -> None:
        """Take the arguments of the configuration, or the defaults."""
        self.args = args

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        """Refuse the nodes that carry the label."""
        if pod.priority < self.args.priority_min:
            return []
        is_spot = nodes.has_label(self.args.label, self.args.value)
        return [Rejected(is_spot, unresolvable("node(s) may vanish"))]
