"""The four outputs of a shadow scheduler, and that it cannot write."""

import asyncio
import io

import pytest

from kubesched.client.errors import TransportError
from tests.unit.builders import CONFIG_VERSION
from tests.unit.shadow.shadow_world import World, json_lines

NODES = {"small": "4", "large": "6"}
# LeastAllocated averages cpu and memory: one cpu of 4 leaves 75 %, of 6 it leaves 83 %, so the
# larger node leads by (83 - 75) / 2; BalancedAllocation prefers it, too.
POINTS = {"NodeResourcesFit": 4, "NodeResourcesBalancedAllocation": 2}
EXPLANATION = (
    "large has 461 points, small has 455: NodeResourcesFit +4, NodeResourcesBalancedAllocation +2"
)


def a_world_with_a_difference(file: io.StringIO | None = None) -> World:
    world = World(NODES, file=file)
    for name, node in (("a", "small"), ("b", "large")):
        world.wait(name)
        world.bind(name, node)
    world.later()
    assert world.results == [("a", "different_node"), ("b", "same")]
    return world


def test_a_difference_is_a_line_in_the_log() -> None:
    world = a_world_with_a_difference()
    (line,) = world.lines
    assert '"Decision differs" pod="default/a" profile="default-scheduler"' in line
    assert 'result="different_node" theirs="small" ours="large"' in line
    assert f'why="{EXPLANATION}"' in line


def test_every_comparison_is_counted() -> None:
    world = a_world_with_a_difference()
    text = world.metrics.text()
    assert 'kubesched_shadow_decisions_total{result="same"} 1' in text
    assert 'kubesched_shadow_decisions_total{result="different_node"} 1' in text
    assert 'kubesched_shadow_decisions_total{result="tie"} 0' in text


def test_the_file_has_a_line_for_each_difference() -> None:
    file = io.StringIO()
    a_world_with_a_difference(file)
    (line,) = json_lines(file)
    assert line.pop("time").startswith("1970-01-01T00:16:40.")
    assert line == {
        "pod": "default/a",
        "profile": "default-scheduler",
        "result": "different_node",
        "theirs": "small",
        "ours": "large",
        "why": EXPLANATION,
        "theirTotal": 455,
        "ourTotal": 461,
        "points": POINTS,
    }


def test_a_summary_has_counts_and_the_differences_since_the_last() -> None:
    world = a_world_with_a_difference()
    world.wait("c")
    world.step()
    world.report.sum_up(world.shadow.waiting_count)
    assert world.printed.getvalue().splitlines() == [
        "shadow: 2 decisions compared, 1 differ",
        "  1 the same, 1 on another node",
        "  1 pods pending",
        f"  default/a: different_node: {EXPLANATION}",
    ]
    world.report.sum_up(0)
    assert world.printed.getvalue().count("shadow:") == 1  # Nothing has happened.
    world.report.sum_up(0, is_last=True)
    assert world.printed.getvalue().splitlines()[4:] == [
        "shadow: 2 decisions compared, 1 differ",
        "  1 the same, 1 on another node",
    ]


def test_there_is_always_a_last_summary() -> None:
    async def main() -> str:
        world = World(NODES)
        world.scheduler.start_scheduling()
        await world.scheduler.stop()
        return world.printed.getvalue()

    assert asyncio.run(main()) == "shadow: 0 decisions compared, 0 differ\n"


def test_received_changes_are_compared_before_the_end() -> None:
    async def main() -> str:
        world = World(NODES)
        world.scheduler.start_scheduling()
        world.wait("slow")
        world.wait("a")
        world.bind("a", "small")
        await world.scheduler.stop()
        return world.printed.getvalue()

    first, second, *_ = asyncio.run(main()).splitlines()
    assert (first, second) == ("shadow: 1 decisions compared, 1 differ", "  1 on another node")


@pytest.mark.parametrize("own", [True, False], ids=["its client", "the client of events"])
def test_the_client_cannot_write(own: bool) -> None:
    async def main() -> World:
        world = World(NODES)
        client = world.scheduler.environment.client
        client = client if own else client.sibling(user_agent="events")
        pod = {"namespace": "default", "name": "a"}
        for write in (
            client.bind_pod(**pod, uid="u", node_name="large"),
            client.patch_pod_status(**pod, patch={"status": {}}),
            client.delete_pod(**pod),
            client.request("POST", "/apis/events.k8s.io/v1/namespaces/default/events", body={}),
            client.request("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", body={}),
            client.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body={}),
        ):
            with pytest.raises(TransportError, match="not sent, since this client is read-only"):
                await write
        return world

    assert asyncio.run(main()).network.sent == []


def test_other_profiles_are_compared_by_their_own_plugins() -> None:
    most = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    config = {
        "apiVersion": CONFIG_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "spread"},
            {
                "schedulerName": "pack",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": most}}],
            },
        ],
    }
    world = World(NODES, config=config)
    # Of two pods the second goes to the emptier node, or to the fuller one.
    for name, scheduler in (("a", "spread"), ("b", "pack"), ("c", "spread")):
        node = "small" if name == "c" else "large"
        world.wait(name, schedulerName=scheduler)
        world.bind(name, node, schedulerName=scheduler)
    world.later()
    assert world.results == [("a", "same"), ("b", "same"), ("c", "same")]
    assert [verdict.profile for verdict in world.verdicts] == ["spread", "pack", "spread"]


def test_extenders_are_not_called_which_is_logged() -> None:
    config = {
        "apiVersion": CONFIG_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}],
    }
    world = World(NODES, config=config)
    world.scheduler.environment.log.flush()
    (line,) = (line for line in world.lines if "Extenders are not called" in line)
    assert 'extenders=["http://127.0.0.1:1"]' in line
    world.wait("a")
    world.bind("a", "large")
    world.later()
    assert world.results == [("a", "same")]
