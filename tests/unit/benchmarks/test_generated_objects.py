"""Objects that the generator creates from the workload files."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.generate import Line, Maker, Template
from benchmarks.workload import Op, Variable, load_workload, workload_names
from kubesched.api.check import check_object
from kubesched.api.decode import decode_as, decode_object
from kubesched.api.pod import Pod

NODES = 20


def lines_of(name: str, seed: int = 1) -> list[Line]:
    workload = load_workload(name)
    maker = Maker(NODES, seed)
    return [*maker.cluster(workload.cluster), *maker.workload(workload)]


def test_a_placeholder_in_a_text_takes_text_and_one_alone_takes_a_number() -> None:
    template = Template({"kind": "X", "name": "a-${i}-b", "port": "#{port}", "plain": "$x"})
    assert template.names == ["i", "port"]
    rendered = msgspec.json.decode(template.render(["7", "80"]))
    assert rendered == {"kind": "X", "name": "a-7-b", "port": 80, "plain": "$x"}


def test_variables_count_from_their_start_by_their_step_and_wrap_around() -> None:
    op = Op(
        opcode="createObjects",
        count=5,
        template={"kind": "X", "metadata": {"name": "${v}-${w}"}},
        variables={"v": Variable(start=10, step=5, modulo=3), "w": Variable(per_node=True)},
    )
    names = [msgspec.json.decode(line.data)["metadata"]["name"] for line in Maker(2).run(op)]
    assert names == ["10-0", "15-0", "20-1", "10-1", "15-2"]


@pytest.mark.parametrize("name", workload_names())
def test_the_scheduler_can_read_every_object(name: str) -> None:
    for line in lines_of(name):
        check_object(decode_object(line.data))


@pytest.mark.parametrize("name", workload_names())
def test_uids_and_names_are_unique(name: str) -> None:
    documents = [msgspec.json.decode(line.data) for line in lines_of(name)]
    metadata = [(d["kind"], d["metadata"]) for d in documents]
    assert len({meta["uid"] for _, meta in metadata}) == len(metadata)
    keys = {(kind, meta.get("namespace"), meta["name"]) for kind, meta in metadata}
    assert len(keys) == len(metadata)


@pytest.mark.parametrize("name", workload_names())
def test_bound_pods_have_nodes_that_exist_and_the_burst_waits(name: str) -> None:
    lines = lines_of(name)
    nodes = {
        msgspec.json.decode(line.data)["metadata"]["name"] for line in lines if line.kind == "Node"
    }
    assert len(nodes) == NODES
    burst = 0
    for line in lines:
        if line.kind == "Pod":
            pod = decode_as(Pod, line.data)
            nominated = bool(pod.status.nominated_node_name)
            assert bool(pod.spec.node_name) + nominated + line.measured == 1
            assert line.measured or {pod.spec.node_name, pod.status.nominated_node_name} & nodes
            burst += line.measured
    assert burst > 0


def test_equal_seeds_give_equal_bytes_and_different_seeds_do_not() -> None:
    first, again, other = (
        [line.data for line in lines_of("preemption-4", seed)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_the_burst_comes_last_and_can_be_shortened() -> None:
    workload = load_workload("bound-volumes")
    lines = list(Maker(NODES).workload(workload, burst=3))
    assert [line.measured for line in lines[-4:]] == [False, True, True, True]
    assert sum(line.measured for line in lines) == 3
