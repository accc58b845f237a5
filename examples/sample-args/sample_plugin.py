"""A plugin with typed arguments, at three extension points."""

import re

import msgspec

from kubesched import CycleState, Handle, NodeTable, NodeView, PodInfo, Status, error


class SampleArgs(msgspec.Struct, frozen=True):
    """The arguments under pluginConfig; keys are in camelCase."""

    favorite_color: str = "#326CE5"
    favorite_number: int = 7
    thanks_to: str = ""

    def validate(self) -> list[str]:
        """Return the problems of the values."""
        problems = []
        if not re.fullmatch("#[0-9A-Fa-f]{6}", self.favorite_color):
            problems.append(f"favoriteColor: {self.favorite_color!r} is not a color like '#326CE5'")
        if self.favorite_number < 0:
            problems.append(f"favoriteNumber: {self.favorite_number} is less than 0")
        return problems


class SamplePlugin:
    """Logs its calls, at level 3 (-v=3)."""

    name = "sample-plugin"

    def __init__(self, args: SampleArgs, handle: Handle) -> None:
        self.args = args
        self.handle = handle
        handle.log.info("Sample plugin", level=3, args=msgspec.to_builtins(args))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> None:
        self.handle.log.info("Prefilter", level=3, pod=pod.key)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        self.handle.log.info("Filter", level=3, pod=pod.key, node=node.name)
        return None

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        node = self.handle.snapshot.node(node_name)
        if node is None:
            problem = f'nodeinfo not found for node name "{node_name}"'
            return error(f"prebind get node: {node_name} info error: {problem}")
        self.handle.log.info("Prebind", level=3, pod=pod.key, node=node.name, pods=node.pod_count)
        return None
