"""What older configuration versions had and v1 has not: plugins, fields, lock types.

Owns the advice for each removed name, shared by the converter and by the hints. Never changes a
document.
Upstream: the v1beta2, v1beta3 and v1 API documentation of kube-scheduler configuration
"""

from kubesched.config.schema import GROUP

OLD_VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1beta1", "v1beta2", "v1beta3"))

_LIMITS = "NodeVolumeLimits counts the volumes of every CSI driver"
REMOVED_PLUGINS = {
    "SelectorSpread": "PodTopologySpread spreads the pods of a workload by default",
    "NodePreferAvoidPods": "taint nodes with the effect PreferNoSchedule instead",
    "NodeLabel": "give NodeAffinity an addedAffinity instead",
    "ServiceAffinity": "use inter-pod affinity instead",
    "EBSLimits": _LIMITS,
    "GCEPDLimits": _LIMITS,
    "CinderLimits": _LIMITS,
    "AzureDiskLimits": _LIMITS,
}
# Scoring plugins that became strategies of NodeResourcesFit.
FIT_STRATEGIES = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_SECURE_PORT = "health and metrics are served on the secure port"
REMOVED_FIELDS = {
    "healthzBindAddress": _SECURE_PORT,
    "metricsBindAddress": _SECURE_PORT,
    "algorithmSource": "describe the plugins in profiles",
    "hardPodAffinitySymmetricWeight": "set hardPodAffinityWeight of InterPodAffinityArgs",
    "bindTimeoutSeconds": "set bindTimeoutSeconds of VolumeBindingArgs",
    "disablePreemption": "disable the postFilter plugin DefaultPreemption",
    "schedulerName": "a scheduler name belongs to a profile",
    "unreserve": "reserve plugins undo their own reservations",
}
OLD_LOCKS = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")
