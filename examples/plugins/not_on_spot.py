"""A filter with arguments, for all nodes at once."""

import msgspec

from kubesched import CycleState, NodeTable, PodInfo, Rejected, unresolvable
from kubesched.config.types import RawArgs


class NotOnSpotArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a configuration may say under pluginConfig."""

    label: str = "example.com/lifecycle"
    value: str = "spot"
    priority_min: int = 0


class NotOnSpot:
    """Keeps pods of some priority away from nodes that may vanish."""

    name = "NotOnSpot"

    def __init__(self, args: RawArgs | None) -> None:
        """Take the arguments as they stand in the configuration; none means the defaults."""
        self.args = msgspec.convert({} if args is None else args.value, NotOnSpotArgs)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        """Refuse the nodes that carry the label."""
        if pod.priority < self.args.priority_min:
            return []
        is_spot = nodes.has_label(self.args.label, self.args.value)
        return [Rejected(is_spot, unresolvable("node(s) may vanish"))]
