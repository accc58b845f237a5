"""Feature gates that this scheduler supports.

Owns the tables of scheduler gates that cannot be enabled or disabled, each with a reason for the
user, and of those that can be set either way (`HONORED`). All other gates concern other
components and change nothing in a scheduler.
"""

from __future__ import annotations

from typing import Final

from kubesched.api.field_errors import aggregate_text
from kubesched.config.feature_gates import ALL_ALPHA, ALL_BETA, FeatureGates, GateError, known_gates

# Gates of devices are left out: they only change which arguments a plugin gets.
HONORED: Final = (
    "ComponentFlagz",
    "ComponentStatusz",
    "LoggingBetaOptions",
    "NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation",
    "RemoteRequestHeaderUID",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
)

_NO_GROUPS: Final = "kubesched schedules pods one by one and has no pod groups"
_NO_CLAIMS: Final = "kubesched does not allocate devices: pods with resource claims wait"

LACKING: Final = {
    "ClientsAllowCBOR": "kubesched uses JSON with the API server",
    "ClientsPreferCBOR": "kubesched uses JSON with the API server",
    "CoordinatedLeaderElection": "kubesched elects leaders by lease only",
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
    "LoggingAlphaOptions": "kubesched writes a single log stream without a buffer",
    "NativeHistograms": "kubesched's histograms have fixed buckets",
    "SchedulerAsyncAPICalls": "kubesched has no queue of API calls",
    "StorageCapacityScoring": "kubesched does not score nodes by free storage",
    "TaintTolerationComparisonOperators": "tolerations have Equal and Exists only",
    "TopologyAwareWorkloadScheduling": _NO_GROUPS,
    "VolumeLimitScaling": "kubesched does not check for the CSI driver of a node",
    "WorkloadAwarePreemption": _NO_GROUPS,
}
"""Gates that cannot be enabled, and why."""

ALWAYS_ON: Final = {
    "InPlacePodLevelResourcesVerticalScaling": "resizes always count in a pod's requests",
    "InPlacePodVerticalScaling": "resizes always count in a pod's requests",
    "MatchLabelKeysInPodTopologySpread": "matchLabelKeys of spread constraints always count",
    "PodLevelResources": "pod-level requests always count",
    "SchedulerQueueingHints": "pods are only retried when an event may help them",
    "VolumeAttributesClass": "volume attributes classes always have to match",
}
"""Gates that cannot be disabled, and the feature that stays enabled."""


def check_support(gates: FeatureGates) -> None:
    """Reject settings that this scheduler does not support.

    Raises:
        GateError: With every such gate and the reason.
    """
    errors = []
    for name in known_gates():
        if not gates.was_set(name) or gates.is_enabled(name) == gates.default_of(name):
            continue
        reason = (LACKING if gates.is_enabled(name) else ALWAYS_ON).get(name)
        if reason is not None:
            errors.append(_rejection(gates, name, reason))
    if errors:
        raise GateError(aggregate_text(errors))


def _rejection(gates: FeatureGates, name: str, reason: str) -> str:
    value = "true" if gates.is_enabled(name) else "false"
    through = ""
    if name not in gates.explicit:
        stage = known_gates()[name].at(gates.versions).stage
        through = f" by {ALL_ALPHA if stage == 'ALPHA' else ALL_BETA}"
    return f"cannot set feature gate {name} to {value}{through}: {reason}"


def emulation_differences(gates: FeatureGates) -> list[tuple[str, str]]:
    """Return gates that are disabled at the emulated version but stay in effect, and why."""
    return [
        (name, reason)
        for name, reason in ALWAYS_ON.items()
        if not gates.was_set(name) and not gates.is_enabled(name)
    ]
