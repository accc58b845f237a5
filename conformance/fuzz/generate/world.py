"""The draft of a case: nodes, pods and other objects.

Owns the mutable draft of one case. Never draws the values of themes.
Upstream: none.
"""

from dataclasses import dataclass, field

from conformance.fuzz.generate.draw import Draw, Obj


@dataclass
class World:
    """The draft of one case: themes add to it in turn."""

    draw: Draw
    family: str
    nodes: list[Obj] = field(default_factory=list)
    pods: list[Obj] = field(default_factory=list)
    others: list[Obj] = field(default_factory=list)
    pod: Obj = field(default_factory=dict)
    config: Obj | None = None

    @property
    def node_names(self) -> list[str]:
        """Names of all nodes, in order of creation."""
        return [node["metadata"]["name"] for node in self.nodes]

    @property
    def namespace(self) -> str:
        """Namespace of the incoming pod."""
        name: str = self.pod["metadata"]["namespace"]
        return name

    @property
    def spec(self) -> Obj:
        """The incoming pod's spec."""
        spec: Obj = self.pod["spec"]
        return spec

    def bound_pods(self, node_name: str) -> list[Obj]:
        """Return the pods bound to a node."""
        return [pod for pod in self.pods if pod["spec"].get("nodeName") == node_name]

    def add(self, api_version: str, kind: str, name: str, body: Obj, **metadata: object) -> Obj:
        """Add one object which is neither a node nor a pod, unless its name is taken."""
        namespace = metadata.get("namespace")
        for other in self.others:
            same = other["kind"] == kind and other["metadata"]["name"] == name
            if same and other["metadata"].get("namespace") == namespace:
                return other
        made = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "uid": self.draw.uid(), **metadata},
            **body,
        }
        self.others.append(made)
        return made

    def find(self, kind: str, name: str) -> Obj | None:
        """Return the object with a kind and name, in any namespace."""
        for other in self.others:
            if other["kind"] == kind and other["metadata"]["name"] == name:
                return other
        return None
