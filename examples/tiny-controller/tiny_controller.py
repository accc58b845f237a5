"""A scheduler without the framework: binds each pod of `my-scheduler` to a random node."""

from contextlib import suppress

from kubesched.api.documents import Document, key_of, name_of
from kubesched.client.errors import ConflictError
from kubesched.client.resources import BINDINGS, NODES, PODS
from kubesched.cluster.informers.session import Session, run


async def schedule(cluster: Session) -> None:
    """Bind pending pods, including those created before the start."""
    pods, nodes = cluster.informers.of(PODS), cluster.informers.of(NODES)

    async def bind(key: str) -> None:
        pod = pods.get(key)
        if pod is None or pod["spec"]["schedulerName"] != "my-scheduler":
            return
        if len(nodes) and not pod["spec"].get("nodeName"):
            who = {field: pod["metadata"][field] for field in ("namespace", "name", "uid")}
            node = list(nodes)[cluster.rng.below(len(nodes))]
            target = {"kind": "Node", "name": name_of(node)}
            with suppress(ConflictError):  # It is already bound. Other errors are retried.
                await cluster.api.create(BINDINGS, {"metadata": who, "target": target})

    def node_changed(old: Document | None, new: Document | None) -> None:
        for pod in pods if old is None and len(nodes) == 1 else ():  # They waited for a node.
            queue.add(key_of(pod))

    queue = await cluster.work("bind", bind)
    pods.on_change(lambda old, new: queue.add(key_of(new)) if new else None)
    nodes.on_change(node_changed)


if __name__ == "__main__":
    run("tiny-controller", schedule)
