"""The compared state: the scheduler's writes, without values that differ between clusters.

Owns the choice of fields and the names that replace uids. Never compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from conformance.side_by_side.steps import Obj
from conformance.side_by_side.store import Store
from kubesched.testing import Api

State: TypeAlias = dict[str, dict[str, str]]
"""Text by field by object."""
Event: TypeAlias = tuple[str, ...]
"""Regarding object, type, reason, action, reporting controller, note, related object."""

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CONDITIONS = frozenset({"PodScheduled", "DisruptionTarget"})
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def state_of(store: Store, suffix: str) -> State:
    """Return the compared fields of pods and volumes; pod names lose a suffix."""
    state: State = {}
    for key, pod in store.objects("Pod").items():
        fields = _pod(pod, store.names)
        state[f"pod {key.removesuffix(suffix)}"] = {
            name: text.replace(suffix, "") for name, text in fields.items()
        }
    for key, claim in store.objects("PersistentVolumeClaim").items():
        annotations = claim["metadata"].get("annotations", {})
        state[f"claim {key}"] = {
            "volumeName": claim["spec"].get("volumeName", ""),
            "selectedNode": annotations.get(_SELECTED_NODE, ""),
        }
    for key, volume in store.objects("PersistentVolume").items():
        claimed = volume["spec"].get("claimRef") or {}
        state[f"volume {key}"] = {
            "claim": f"{claimed['namespace']}/{claimed['name']}" if claimed else "",
            "boundByController": _annotation(volume, "pv.kubernetes.io/bound-by-controller"),
        }
    return state


class Events(NamedTuple):
    """The events about the pods of one run."""

    written: frozenset[Event] = frozenset()
    repeated: frozenset[str] = frozenset()
    """Objects with a series of rejections, of which only one message is known."""


def events_of(api: Api, names: Mapping[str, str], suffix: str) -> Events:
    """Return the events about pods of this run; pod names lose a suffix."""
    listed = api.get("/apis/events.k8s.io/v1/events").must(200).json["items"]
    found = set()
    repeated = set()
    for event in listed:
        regarding = event.get("regarding", {})
        if regarding.get("uid") in names:
            related = event.get("related") or {}
            subject = f"{regarding.get('kind')} {names[regarding['uid']].removesuffix(suffix)}"
            if event.get("series") and event.get("reason") == "FailedScheduling":
                repeated.add(subject)
            found.add(
                (
                    subject,
                    event.get("type", ""),
                    event.get("reason", ""),
                    event.get("action", ""),
                    event.get("reportingController", ""),
                    _without_uids(event.get("note", ""), names).replace(suffix, ""),
                    f"{related.get('kind', '')} {related.get('name', '')}".strip(),
                )
            )
    return Events(frozenset(found), frozenset(repeated))


def _pod(pod: Obj, names: Mapping[str, str]) -> dict[str, str]:
    status = pod.get("status", {})
    fields = {
        "nodeName": pod["spec"].get("nodeName", ""),
        "nominatedNodeName": status.get("nominatedNodeName", ""),
        "phase": status.get("phase", ""),
        "terminating": "yes" if "deletionTimestamp" in pod["metadata"] else "",
    }
    for condition in status.get("conditions", []):
        if condition["type"] in _CONDITIONS:
            parts = ("status", "reason", "message", "observedGeneration")
            texts = [f"{part}={condition[part]}" for part in parts if part in condition]
            fields[condition["type"]] = _without_uids(" ".join(texts), names)
    return fields


def _annotation(obj: Obj, key: str) -> str:
    return str(obj["metadata"].get("annotations", {}).get(key, ""))


def _without_uids(text: str, names: Mapping[str, str]) -> str:
    return _UID.sub(lambda found: f"<{names.get(found[0], 'unknown')}>", text)
