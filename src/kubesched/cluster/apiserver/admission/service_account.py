"""ServiceAccount: default service account, token volume, and rejection of pods without an account.

Upstream: plugin/pkg/admission/serviceaccount/admission.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.admission.rejections import Plugin, is_about, rejection
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.strategy import Request
from kubesched.golang.strconv import go_quote
from kubesched.kit.rng import RandomStream

_MIRROR = "kubernetes.io/config.mirror"
_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class ServiceAccount(Plugin):
    """Gives new pods a service account and its token."""

    def __init__(self, rng: RandomStream) -> None:
        self._rng = rng

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Set account, token volume and pull secrets of a new pod."""
        if new is None or old is not None or not is_about(request, "pods"):
            return
        spec = new["spec"]
        if _MIRROR in (new["metadata"].get("annotations") or {}):
            _check_mirror(new, request)
            return
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = _account(new, name, request)
        if _mounts_token(account, spec):
            self._mount_token(spec)
        secrets = account.get("imagePullSecrets")
        if secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.get("name") or ""} for secret in secrets]

    def _mount_token(self, spec: Document) -> None:
        volumes = spec.get("volumes") or []
        found = next(
            (volume["name"] for volume in volumes if volume["name"].startswith(_PREFIX)), None
        )
        name = found or _PREFIX + "".join(
            _LETTERS[self._rng.below(len(_LETTERS))] for _ in range(5)
        )
        is_needed = False
        for kind in ("initContainers", "containers"):
            for container in spec.get(kind) or ():
                mounts = container.get("volumeMounts") or []
                if any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
                    continue
                mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
                container["volumeMounts"] = [*mounts, mount]
                is_needed = True
        if is_needed and found is None:
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _account(pod: Document, name: str, request: Request) -> Document:
    account = request.reader.get("", "serviceaccounts", request.namespace, name)
    if account is None:
        why = (
            f"error looking up service account {request.namespace}/{name}: serviceaccount "
            f"{go_quote(name)} not found"
        )
        raise rejection(pod, request, why)
    return account


def _mounts_token(account: Document, spec: Document) -> bool:
    for holder in (spec, account):
        automount = holder.get("automountServiceAccountToken")
        if automount is not None:
            return bool(automount)
    return True


def _token_source() -> Document:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
        "defaultMode": 420,
    }


def _check_mirror(pod: Document, request: Request) -> None:
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise rejection(pod, request, "a mirror pod may not reference service accounts")
    for volume in spec.get("volumes") or ():
        if volume.get("secret") is not None:
            raise rejection(pod, request, "a mirror pod may not reference secrets")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                why = "a mirror pod may not use ServiceAccountToken volume projections"
                raise rejection(pod, request, why)
