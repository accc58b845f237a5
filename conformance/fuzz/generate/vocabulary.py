"""The vocabulary of generated clusters.

Owns names, labels, sizes and images. Never draws: the lists are small, so that objects meet.
Upstream: staging/src/k8s.io/api/core/v1/{well_known_labels,types}.go (names).
"""

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

FAMILIES = (
    "resources",
    "taints",
    "nodeaffinity",
    "interpodaffinity",
    "topologyspread",
    "ports",
    "images",
    "volumes",
    "config",
    "preemption",
    "messages",
    "mixed",
)

NAMESPACES = ("default", "prod", "dev", "team-a", "kube-system")
NAMESPACE_LABELS: dict[str, dict[str, str]] = {
    "default": {},
    "prod": {"env": "prod"},
    "dev": {"env": "dev"},
    "team-a": {"env": "dev", "team": "a"},
    "kube-system": {},
}

APPS = ("web", "db", "api", "cache", "worker")
TIERS = ("front", "back")
VERSIONS = ("v1", "v2")
HASHES = ("abc12", "def34", "ffff0")

TOPOLOGY_KEYS = (
    (HOSTNAME, 5.0),
    (ZONE, 5.0),
    ("rack", 2.0),
    (REGION, 1.0),
    ("pool", 1.5),
    ("nokey", 0.3),
)

PRIORITY_CLASSES: dict[str, int] = {
    "low": -100,
    "normal": 0,
    "batch": 10,
    "high": 1000,
    "critical": 100000,
}

CPU_SMALL = ("10m", "50m", "100m", "150m", "200m", "250m", "0.3", "333m", "500m", "0", "1e-1")
CPU_LARGE = ("750m", "1", "1100m", "1.5", "1500m", "2", "3", "4", "2001m", "1999999u", "25e-1")
MEMORY_SMALL = (
    "16Mi",
    "32Mi",
    "64Mi",
    "100M",
    "128Mi",
    "200Mi",
    "256Mi",
    "131072Ki",
    "0",
    "104857600",
    "1048576500m",
)
MEMORY_LARGE = (
    "300Mi",
    "500M",
    "512Mi",
    "777Mi",
    "1Gi",
    "1e9",
    "1.5Gi",
    "1536Mi",
    "2Gi",
    "3Gi",
    "4e9",
    "2000000Ki",
)
STORAGE = ("100Mi", "500Mi", "1Gi", "2Gi", "5Gi", "10G", "50Gi")

# (cpu, memory, ephemeral-storage choices are independent) of allocatable
NODE_SIZES = (
    ("1", "1Gi"),
    ("1930m", "7089Mi"),
    ("2", "3584Mi"),
    ("2", "4Gi"),
    ("3920m", "14932788Ki"),
    ("4", "8Gi"),
    ("4", "15Gi"),
    ("4", "8e9"),
    ("6", "6Gi"),
    ("7910m", "29073120Ki"),
    ("8", "31Gi"),
    ("16", "62Gi"),
    ("100m", "64Mi"),
    ("0", "0"),
)
NODE_SIZE_WEIGHTS = (3.0, 3.5, 2.0, 1.0, 2.5, 3.0, 1.5, 2.0, 2.5, 2.0, 2.0, 1.0, 0.2, 0.05)
NODE_STORAGE = ("47093746742", "20Gi", "94Gi", "100G", "8Gi", "100Gi", "10Gi")
EXTENDED = ("nvidia.com/gpu", "example.com/fpga", "example.com/license", "vendor.io/nic")
HUGEPAGES: dict[str, tuple[str, ...]] = {
    "hugepages-2Mi": ("0", "64Mi", "512Mi", "1Gi"),
    "hugepages-1Gi": ("0", "2Gi", "4Gi"),
}
HUGEPAGE_REQUESTS: dict[str, tuple[str, ...]] = {
    "hugepages-2Mi": ("2Mi", "64Mi", "100Mi", "600Mi"),
    "hugepages-1Gi": ("1Gi", "2Gi", "3Gi"),
}

DIGEST = "quay.io/org/tool@sha256:" + "0123456789abcdef" * 4
# Names a node may list for one image, and its size in bytes. A name has one size everywhere: the
# scheduler's cache keeps the size of the node it saw first, which no case may depend on.
NODE_IMAGES: tuple[tuple[tuple[str, ...], int], ...] = (
    (("nginx:1.25",), 70000000),
    (("nginx:latest",), 187000000),
    (("busybox:latest",), 4300000),
    (("registry.local:5000/app:latest",), 950000000),
    (("ghcr.io/acme/api:v2.3.1", "ghcr.io/acme/api@sha256:" + "ab" * 32), 312000000),
    (("redis:7",), 45000000),
    (("docker.io/library/redis:7",), 117000000),
    (("tensorflow/tensorflow:2.9-gpu",), 2900000000),
    (("registry.k8s.io/pause:3.9",), 740000),
    (("postgres:15",), 412000000),
    (("acme/web:latest", "acme/web:stable"), 23000001),
    ((DIGEST, "quay.io/org/tool:1"), 640000000),
    (("registry.local:5000/team/big:v1",), 1048576000),
    (("registry.local:5000/team/huge",), 12000000000),
)
POD_IMAGES = (
    "nginx",
    "nginx:1.25",
    "nginx:latest",
    "busybox",
    "registry.local:5000/app",
    "ghcr.io/acme/api:v2.3.1",
    "ghcr.io/acme/api@sha256:" + "ab" * 32,
    "redis:7",
    "docker.io/library/redis:7",
    "tensorflow/tensorflow:2.9-gpu",
    "postgres:15",
    "acme/web",
    "acme/web:stable",
    DIGEST,
    "registry.local:5000/team/big:v1",
    "registry.local:5000/team/huge",
    "unknown/img:1",
    "localhost:5000/unknown",
)

FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "InPlacePodLevelResourcesVerticalScaling",
    "SomethingNew",
)

SCORE_PLUGINS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DynamicResources",
    "VolumeBinding",
)
PLUGINS = (
    *SCORE_PLUGINS,
    "NodeUnschedulable",
    "NodeName",
    "NodePorts",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeZone",
    "DefaultPreemption",
    "NodeDeclaredFeatures",
)
