"""The key of kept verdicts covers every field of a pod that a plugin reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from kubesched.api.pod import PodSpec
from kubesched.attempt.kept.verdict_cache import cache_of
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads, Rejected
from kubesched.framework.pod_keys import (
    UNIQUE_FIELDS,
    PodKeys,
    TemplatePod,
    UndeclaredFieldError,
)
from kubesched.framework.status import SKIP, StatusError, unschedulable
from kubesched.snapshot import pod_info
from kubesched.snapshot.pod_info import (
    SHAPE_SPEC_FIELDS,
    TEMPLATE_FIELDS,
    PodInfo,
    PodShapes,
)
from tests.property.test_hook_laws import PLUGINS, cases_of, judged
from tests.property.test_kept_verdicts import NAME, agreed, outcome_of, profile_pair
from tests.unit.builders import a_cache, a_wire_pod, built_with

NO = unschedulable("not for this pod")
Read = Callable[[Any], Any]


class Reading:
    """Rejects every node for a pod for which `hit` is true."""

    name = "Reading"
    hit: Read = staticmethod(bool)

    def reads(self, pod: PodInfo) -> Reads | None:
        return Reads(nodes=True)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> Any:
        return [Rejected(np.full(len(nodes), bool(self.hit(pod))), NO)]


class WithFragment(Reading):
    def fragment(self, pod: PodInfo) -> str:
        return "any pod"


class Swallowing(Reading):
    """Continues if reading fails, as if it did not reject the pod."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> Any:
        try:
            return super().filter_nodes(state, pod, nodes)
        except StatusError:
            return []


class PreFilter(Reading):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> None:
        state.write("Reading", bool(self.hit(pod)))

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> Any:
        return [Rejected(np.full(len(nodes), state.read("Reading")), NO)]


class Idle(Reading):
    """Skips some pods, and rejects all others."""

    def reads(self, pod: PodInfo) -> Reads | None:
        return Reads(idle=True) if self.hit(pod) else Reads(nodes=True)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> Any:
        return SKIP if self.hit(pod) else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> Any:
        return [Rejected(np.full(len(nodes), True), NO)]


def reader(kind: type, read: Read) -> type:
    """Return a plugin that reads a field of a pod."""
    return type("Reading", (kind,), {"hit": staticmethod(read)})


POD_FIELDS: dict[str, tuple[Read, dict[str, Any], dict[str, Any]]] = {
    "priority": (lambda pod: pod.priority > 5, {"priority": 1}, {"priority": 10}),
    "an annotation": (
        lambda pod: pod.annotations.get("team") == "a",
        {"metadata": {"annotations": {"team": "b"}}},
        {"metadata": {"annotations": {"team": "a"}}},
    ),
    "a field of the spec": (
        lambda pod: pod.spec.runtime_class_name == "gvisor",
        {},
        {"runtimeClassName": "gvisor"},
    ),
    "the whole object": (
        lambda pod: pod.object.spec.runtime_class_name == "gvisor",
        {},
        {"runtimeClassName": "gvisor"},
    ),
    "the object behind it": (
        lambda pod: pod._object.spec.runtime_class_name == "gvisor",
        {},
        {"runtimeClassName": "gvisor"},
    ),
    "the status": (lambda pod: pod.status.phase == "Odd", {}, {"status": {"phase": "Odd"}}),
    "gates": (lambda pod: pod.scheduling_gates, {}, {"schedulingGates": [{"name": "a"}]}),
    "owners": (
        lambda pod: any(owner.name == "a" for owner in pod.owners),
        {},
        {"metadata": {"ownerReferences": [{"name": "a", "kind": "X", "apiVersion": "v1"}]}},
    ),
    "the name": (lambda pod: pod.name == "pod-3", {}, {}),
    "labels": (lambda pod: pod.labels.get("a"), {}, {"labels": {"a": "b"}}),
    "the owner's uid": (
        lambda pod: pod.controller is not None and pod.controller.uid == "2",
        {"metadata": {"ownerReferences": [{"name": "a", "uid": "1", "controller": True}]}},
        {"metadata": {"ownerReferences": [{"name": "a", "uid": "2", "controller": True}]}},
    ),
}


@pytest.mark.parametrize("kind", [Reading, Swallowing, PreFilter, WithFragment, Idle])
@pytest.mark.parametrize("field", POD_FIELDS)
def test_an_out_of_tree_plugin_never_gets_another_pods_verdict(field: str, kind: type) -> None:
    read, one, other = POD_FIELDS[field]
    pair, cache = profile_pair(reader(kind, read)), a_cache("n1", "n2")
    hosts = set()
    for number, parts in enumerate((one, one, one, other, other, one, other)):
        pod = cache.pod_info(a_wire_pod(f"pod-{number}", **parts))
        hosts.add(agreed(pair, cache, pod) == "")
    assert hosts == {True, False}, "the plugin rejects some pods only"


def test_verdicts_are_kept_by_the_fields_that_were_read() -> None:
    built = built_with(reader(Reading, POD_FIELDS["priority"][0]))
    profile, cache = built.profiles[NAME], a_cache("n1", "n2")
    for number in range(8):
        pod = cache.pod_info(a_wire_pod(f"pod-{number}", priority=number % 2 * 10))
        outcome_of(built, cache, pod, None)
    assert profile.pod_keys.fields == ("priority",)
    kept = cache_of(profile)
    assert kept is not None
    assert len(kept) == 2, "one entry for each priority"


def test_plugins_of_an_in_tree_profile_get_the_pod_itself() -> None:
    pod = a_cache().pod_info(a_wire_pod())
    assert built_with().profiles[NAME].pod_keys.recording_view(pod) is pod


@pytest.mark.parametrize("plugin", [pytest.param(p, id=p.name) for p in PLUGINS])
def test_an_in_tree_plugin_reads_nothing_outside_the_template(plugin: Any) -> None:
    if not hasattr(plugin, "reads"):
        return

    keys = PodKeys(["an out-of-tree plugin"])
    for case in cases_of(plugin):
        template = keys.recording_view(case.pod)
        assert isinstance(template, TemplatePod)
        guarded = replace(case, pod=template, state=CycleState())
        if guarded.plugin.reads(template) is not None:
            if hasattr(plugin, "fragment"):
                guarded.plugin.fragment(template)
            judged(guarded)
        assert keys.fields == (), case.title


def test_every_field_of_a_pod_is_in_the_template_or_checked() -> None:
    names = {name for name in dir(PodInfo) if not name.startswith("_")}
    assert names > TEMPLATE_FIELDS
    assert names > UNIQUE_FIELDS
    pod = a_cache().pod_info(a_wire_pod())
    for name in names - TEMPLATE_FIELDS - {"spec"}:
        keys = PodKeys()
        with pytest.raises(UndeclaredFieldError, match=name):
            getattr(TemplatePod(pod, keys), name)
        assert keys.fields == (name,)


def test_a_shape_is_compiled_from_the_fields_of_its_key_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rule that reads a further field does not find it in any pod."""
    seen: list[PodSpec] = []
    compiled = pod_info._required_features

    def spy(spec: PodSpec) -> tuple[str, ...]:
        seen.append(spec)
        return compiled(spec)

    monkeypatch.setattr(pod_info, "_required_features", spy)
    pod = a_wire_pod(
        runtimeClassName="gvisor", priority=7, serviceAccountName="s", tolerations=[{"key": "a"}]
    )
    PodShapes().shape_of(pod)
    known = {*SHAPE_SPEC_FIELDS, "volumes"}
    default = PodSpec()
    for name in PodSpec.__struct_fields__:
        expected = pod.spec if name in known - {"volumes"} else default
        assert getattr(seen[0], name) == getattr(expected, name), name
    assert msgspec.json.encode(pod.spec.tolerations) == msgspec.json.encode(seen[0].tolerations)
