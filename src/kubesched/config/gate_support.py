"""Which feature gates this scheduler can honour.

Owns the one table of gates that concern a scheduler and that we lack or cannot switch off, each
with the reason that a user is told. Gates that are in none of them either concern other components
and change nothing here, or are honoured (`HONOURED`).
"""

from __future__ import annotations

from typing import Final

from kubesched.config.feature_gates import (
    ALL_ALPHA,
    ALL_BETA,
    FeatureGates,
    GateError,
    known_gates,
)
from kubesched.objects.field_errors import aggregate_text

# Both values mean something here. Gates of devices only change which arguments a plugin gets.
HONOURED: Final = (
    "ComponentFlagz",
    "ComponentStatusz",
    "LoggingBetaOptions",
    "NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation",
    "RemoteRequestHeaderUID",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "WatchListClient",
)

_NO_GROUPS: Final = "kubesched schedules pods one by one and has no pod groups"
_NO_CLAIMS: Final = "kubesched does not allocate devices: pods with resource claims wait"

LACKING: Final = {
    "ClientsAllowCBOR": "kubesched talks JSON with the API server",
    "ClientsPreferCBOR": "kubesched talks JSON with the API server",
    "CoordinatedLeaderElection": "kubesched takes part in elections by lease only",
    "DRAAdminAccess": _NO_CLAIMS,
    "DRAConsumableCapacity": _NO_CLAIMS,
    "DRADeviceBindingConditions": _NO_CLAIMS,
    "DRADeviceTaintRules": _NO_CLAIMS,
    "DRADeviceTaints": _NO_CLAIMS,
    "DRAExtendedResource": _NO_CLAIMS,
    "DRAListTypeAttributes": _NO_CLAIMS,
    "DRANodeAllocatableResources": _NO_CLAIMS,
    "DRAPartitionableDevices": _NO_CLAIMS,
    "DRAPrioritizedList": _NO_CLAIMS,
    "DRAWorkloadResourceClaims": _NO_GROUPS,
    "DynamicResourceAllocation": _NO_CLAIMS,
    "GangScheduling": _NO_GROUPS,
    "GenericWorkload": _NO_GROUPS,
    "LoggingAlphaOptions": "kubesched's log has one stream and no buffer to set",
    "NativeHistograms": "kubesched's histograms have fixed buckets",
    "SchedulerAsyncAPICalls": "kubesched sends every call itself, without a queue between",
    "StorageCapacityScoring": "kubesched does not score nodes by free storage",
    "TaintTolerationComparisonOperators": "kubesched knows Equal and Exists in tolerations",
    "TopologyAwareWorkloadScheduling": _NO_GROUPS,
    "VolumeLimitScaling": "kubesched does not look for the CSI driver of a node",
    "WorkloadAwarePreemption": _NO_GROUPS,
}
"""Gates that cannot be switched on, and why."""

ALWAYS_ON: Final = {
    "InPlacePodLevelResourcesVerticalScaling": "resizes always count in a pod's requests",
    "InPlacePodVerticalScaling": "resizes always count in a pod's requests",
    "MatchLabelKeysInPodTopologySpread": "matchLabelKeys of spread constraints always count",
    "PodLevelResources": "requests of a pod as a whole always count",
    "SchedulerQueueingHints": "pods are only tried again when an event may help them",
    "VolumeAttributesClass": "classes of volumes always have to match",
}
"""Gates that cannot be switched off, and what stays on with them."""


def check_support(gates: FeatureGates) -> None:
    """Refuse settings that this scheduler cannot honour.

    Raises:
        GateError: With every such gate and the reason.
    """
    errors = []
    for name in known_gates():
        if not gates.was_set(name) or gates.is_enabled(name) == gates.default_of(name):
            continue
        reason = (LACKING if gates.is_enabled(name) else ALWAYS_ON).get(name)
        if reason is not None:
            errors.append(_refusal(gates, name, reason))
    if errors:
        raise GateError(aggregate_text(errors))


def _refusal(gates: FeatureGates, name: str, reason: str) -> str:
    value = "true" if gates.is_enabled(name) else "false"
    through = ""
    if name not in gates.explicit:
        stage = known_gates()[name].at(gates.versions).stage
        through = f" by {ALL_ALPHA if stage == 'ALPHA' else ALL_BETA}"
    return f"cannot set feature gate {name} to {value}{through}: {reason}"


def emulation_differences(gates: FeatureGates) -> list[tuple[str, str]]:
    """Return gates that are off at the emulated version but whose feature stays on, and why."""
    return [
        (name, reason)
        for name, reason in ALWAYS_ON.items()
        if not gates.was_set(name) and not gates.is_enabled(name)
    ]
