"""Maps resources to the functions that format their table rows.

Upstream: pkg/printers/internalversion/printers.go AddHandlers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.tables import core_rows, other_rows, workload_rows
from kubesched.cluster.apiserver.tables.pod_rows import pod_row

Row = Callable[[Document, float], list[Any]]

_ADMISSION: Final = "admissionregistration.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
_STORAGE: Final = "storage.k8s.io"

ROWS: Final[dict[tuple[str, str], Row]] = {
    ("", "componentstatuses"): core_rows.component_status_row,
    ("", "configmaps"): core_rows.config_map_row,
    ("", "endpoints"): core_rows.endpoints_row,
    ("", "events"): core_rows.event_row,
    ("", "namespaces"): core_rows.namespace_row,
    ("", "nodes"): core_rows.node_row,
    ("", "persistentvolumeclaims"): core_rows.claim_row,
    ("", "persistentvolumes"): core_rows.volume_row,
    ("", "pods"): pod_row,
    ("", "podtemplates"): core_rows.pod_template_row,
    ("", "replicationcontrollers"): workload_rows.replication_controller_row,
    ("", "resourcequotas"): core_rows.quota_row,
    ("", "secrets"): core_rows.secret_row,
    ("", "serviceaccounts"): core_rows.name_and_age_row,
    ("", "services"): core_rows.service_row,
    (_ADMISSION, "mutatingadmissionpolicies"): other_rows.admission_policy_row,
    (_ADMISSION, "mutatingadmissionpolicybindings"): other_rows.admission_binding_row,
    (_ADMISSION, "mutatingwebhookconfigurations"): other_rows.webhook_row,
    (_ADMISSION, "validatingadmissionpolicies"): other_rows.admission_policy_row,
    (_ADMISSION, "validatingadmissionpolicybindings"): other_rows.admission_binding_row,
    (_ADMISSION, "validatingwebhookconfigurations"): other_rows.webhook_row,
    ("apiregistration.k8s.io", "apiservices"): other_rows.api_service_row,
    ("apps", "controllerrevisions"): workload_rows.controller_revision_row,
    ("apps", "daemonsets"): workload_rows.daemon_set_row,
    ("apps", "deployments"): workload_rows.deployment_row,
    ("apps", "replicasets"): workload_rows.replica_set_row,
    ("apps", "statefulsets"): workload_rows.stateful_set_row,
    ("autoscaling", "horizontalpodautoscalers"): workload_rows.autoscaler_row,
    ("autoscaling", "scales"): workload_rows.scale_row,
    ("batch", "cronjobs"): workload_rows.cron_job_row,
    ("batch", "jobs"): workload_rows.job_row,
    ("certificates.k8s.io", "certificatesigningrequests"): other_rows.signing_request_row,
    ("coordination.k8s.io", "leases"): other_rows.lease_row,
    ("discovery.k8s.io", "endpointslices"): other_rows.endpoint_slice_row,
    ("events.k8s.io", "events"): core_rows.event_row,
    (_FLOW, "flowschemas"): other_rows.flow_schema_row,
    (_FLOW, "prioritylevelconfigurations"): other_rows.priority_level_row,
    (_NETWORKING, "ingressclasses"): other_rows.ingress_class_row,
    (_NETWORKING, "ingresses"): other_rows.ingress_row,
    (_NETWORKING, "ipaddresses"): other_rows.ip_address_row,
    (_NETWORKING, "networkpolicies"): other_rows.network_policy_row,
    (_NETWORKING, "servicecidrs"): other_rows.service_cidr_row,
    ("node.k8s.io", "runtimeclasses"): other_rows.runtime_class_row,
    ("policy", "poddisruptionbudgets"): workload_rows.disruption_budget_row,
    (_RBAC, "clusterrolebindings"): other_rows.binding_row,
    (_RBAC, "rolebindings"): other_rows.binding_row,
    (_RESOURCE, "deviceclasses"): core_rows.name_and_age_row,
    (_RESOURCE, "resourceclaims"): other_rows.resource_claim_row,
    (_RESOURCE, "resourceclaimtemplates"): core_rows.name_and_age_row,
    (_RESOURCE, "resourceslices"): other_rows.resource_slice_row,
    ("scheduling.k8s.io", "priorityclasses"): other_rows.priority_class_row,
    (_STORAGE, "csidrivers"): other_rows.csi_driver_row,
    (_STORAGE, "csinodes"): other_rows.csi_node_row,
    (_STORAGE, "storageclasses"): other_rows.storage_class_row,
    (_STORAGE, "volumeattachments"): other_rows.attachment_row,
    (_STORAGE, "volumeattributesclasses"): other_rows.attributes_class_row,
}
