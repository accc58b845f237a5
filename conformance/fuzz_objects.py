"""Random objects of core kinds, sent to a real API server and to ours.

Each step takes a valid document, changes a few fields at random (to values that are valid, invalid
or unusual), and sends it to both servers with dryRun=All: as a creation, as an update of an object
that both have, or as an update of its status. Compares codes, documents, rejections with their
causes, and warnings; not the order of causes where upstream iterates over a Go map.

    python conformance/fuzz_objects.py --real URL --token TOKEN --ours URL
        [--steps N] [--seed N] [--kinds pods,...] [--show N] [--record FILE]

With --record, writes requests with equal responses and the real server's response (gzipped JSON
lines): tests/unit/cluster/apiserver/kinds/recorded.jsonl.gz.

The real server runs without the ServiceAccount and TaintNodesByCondition admission plugins.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
import re
import ssl
import sys
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubesched.api.schema.load import schema_for
from kubesched.api.schema.types import ListOf, MapOf, Scalar, ScalarKind, Struct, Type

Document = dict[str, Any]
ENUMS = (
    "Always", "Never", "OnFailure", "TCP", "UDP", "SCTP", "Exists", "In", "NotIn",
    "DoesNotExist", "Equal", "Gt", "Lt", "NoSchedule", "PreferNoSchedule", "NoExecute",
    "IfNotPresent", "File", "FallbackToLogsOnError", "ClusterFirst", "Default", "None",
    "ClusterFirstWithHostNet", "DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore",
    "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod", "Filesystem", "Block",
    "Retain", "Delete", "Recycle", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName",
    "Cluster", "Local", "SingleStack", "PreferDualStack", "RequireDualStack", "IPv4", "IPv6",
    "ClientIP", "Container", "Pod", "PersistentVolumeClaim", "Opaque", "kubernetes.io/tls",
    "kubernetes.io/basic-auth", "kubernetes.io/dockercfg", "Normal", "Warning", "HTTP", "HTTPS",
    "Localhost", "RuntimeDefault", "Unconfined", "Bidirectional", "HostToContainer", "Enabled",
    "IfPossible", "linux", "windows", "cpu", "memory", "NotRequired", "RestartContainer",
    "Restart", "PreemptLowerPriority", "Directory", "Socket", "BestEffort", "NotBestEffort",
    "Terminating", "PriorityClass", "Merge", "Strict", "Recursive", "OnRootMismatch",
    "Unmasked", "kubernetes", "orphan", "PreferClose", "Node", "VIP",
)  # fmt: skip
STRINGS = (
    "", "a", "b", "x-1", "A_b!", "a" * 64, "a" * 254, "x.y", "..", "../up", "/abs", "/a/../b",
    "node.kubernetes.io/x", "example.com/thing", "bad key!", "-", "a-", "1.2.3.4", "01.2.3.4",
    "::1", "::ffff:1.2.3.4", "2001:db8::1", "10.0.0.0/24", "10.0.0.1/24", "127.0.0.1",
    "nginx:latest", "nginx@sha256:" + "a" * 64, " padded ", "metadata.name", "status.podIP",
    "metadata.labels['a']", "limits.cpu", "é", "v1", "default", "http", "snapshot",
    "beta.kubernetes.io/os", "topology.kubernetes.io/zone",
)  # fmt: skip
INTS = (-1, 0, 1, 2, 5, 30, 80, 100, 101, 600, 3600, 8080, 30080, 65535, 65536, 2**31 - 1)
QUANTITIES = ("0", "1", "2", "100m", "-1", "1.5", "1Gi", "2Gi", "500Mi", "1u", "1e3", "1000m", "10")
RESOURCES = (
    "cpu", "memory", "ephemeral-storage", "storage", "pods", "hugepages-2Mi", "example.com/gpu",
    "nvidia.com/gpu", "requests.cpu", "limits.memory", "services", "bad name!", "foo", "count/pods",
)  # fmt: skip
KEYS = ("a", "app", "example.com/x", "bad key!", "x" * 64, "kubernetes.io/os", ".key", "..k")
TIMES = ("2024-01-02T03:04:05Z", "1999-12-31T23:59:59Z")


def _pod_spec() -> Document:
    return {
        "containers": [
            {
                "name": "a",
                "image": "nginx:1.2",
                "ports": [{"containerPort": 80, "name": "http"}],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
                "env": [{"name": "A", "value": "b"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "initContainers": [{"name": "i", "image": "busybox"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }


TEMPLATES: dict[str, tuple[str, str, Document]] = {
    "pods": ("", "Pod", {"metadata": {"labels": {"app": "x"}}, "spec": _pod_spec()}),
    "nodes": ("", "Node", {
        "spec": {"podCIDR": "10.244.1.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                   "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}]}}),
    "namespaces": ("", "Namespace", {"metadata": {"labels": {"a": "b"}}}),
    "services": ("", "Service", {"spec": {
        "selector": {"app": "x"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}),
    "persistentvolumes": ("", "PersistentVolume", {"spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"}, "storageClassName": "slow"}}),
    "persistentvolumeclaims": ("", "PersistentVolumeClaim", {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "slow"}}),
    "configmaps": ("", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"bin": "AAEC"}}),
    "secrets": ("", "Secret", {"data": {"a": "YQ=="}, "stringData": {"s": "t"}}),
    "serviceaccounts": ("", "ServiceAccount", {"secrets": [{"name": "s", "kind": "Secret"}]}),
    "limitranges": ("", "LimitRange", {"spec": {"limits": [
        {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}}]}}),
    "resourcequotas": ("", "ResourceQuota", {"spec": {"hard": {"requests.storage": "100Gi"}}}),
    "replicationcontrollers": ("", "ReplicationController", {"spec": {
        "replicas": 0, "template": {"metadata": {"labels": {"app": "x"}}, "spec": _pod_spec()}}}),
    "podtemplates": ("", "PodTemplate", {"template": {
        "metadata": {"labels": {"app": "x"}}, "spec": _pod_spec()}}),
    "endpoints": ("", "Endpoints", {"subsets": [
        {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]}),
    "events": ("", "Event", {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "r", "message": "m", "type": "Normal", "firstTimestamp": TIMES[0]}),
    "newevents": ("events.k8s.io", "Event", {
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "r",
        "note": "m", "type": "Normal", "eventTime": "2024-01-02T03:04:05.000001Z",
        "action": "a", "reportingController": "example.com/c", "reportingInstance": "i"}),
}  # fmt: skip
CLUSTER_WIDE = {"nodes", "namespaces", "persistentvolumes"}
WITH_STATUS = ("pods", "nodes", "services", "persistentvolumes", "persistentvolumeclaims",
               "resourcequotas", "replicationcontrollers")  # fmt: skip


class Inventor:
    """Generates values."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def value(self, kind: Type, name: str, depth: int) -> Any:
        """Return a value of a type."""
        rng = self.rng
        if isinstance(kind, Scalar):
            return self._scalar(kind.kind, name)
        if isinstance(kind, ListOf):
            return [self.value(kind.element, name, depth + 1) for _ in range(rng.choice((1, 1, 2)))]
        if isinstance(kind, MapOf):
            is_amount = isinstance(kind.value, Scalar) and kind.value.kind == ScalarKind.QUANTITY
            keys = RESOURCES if is_amount else KEYS
            chosen = [rng.choice(keys) for _ in range(rng.choice((1, 1, 2)))]
            return {key: self.value(kind.value, name, depth + 1) for key in chosen}
        return self._struct(kind, depth)

    def _struct(self, kind: Struct, depth: int) -> Document:
        names = [one for one in kind.fields if one not in {"kind", "apiVersion", "metadata"}]
        count = min(len(names), self.rng.choice((0, 1, 2, 3, 4)))
        if len(names) <= 4:
            count = self.rng.randint(min(1, len(names)), len(names))
        if depth > 5:
            count = min(count, 1)
        return {
            name: self.value(kind.fields[name].type, name, depth + 1)
            for name in self.rng.sample(names, count)
        }

    def _scalar(self, kind: ScalarKind, name: str) -> Any:
        rng = self.rng
        if kind == ScalarKind.BOOL:
            return rng.random() < 0.6
        if kind in {ScalarKind.INT32, ScalarKind.INT64}:
            return rng.choice(INTS)
        if kind == ScalarKind.QUANTITY:
            return rng.choice(QUANTITIES)
        if kind == ScalarKind.INT_OR_STRING:
            return rng.choice((*INTS[:10], "http", "", "Bad", "50%"))
        if kind == ScalarKind.TIME:
            return rng.choice((*TIMES, None))
        if kind == ScalarKind.MICRO_TIME:
            return rng.choice(("2024-01-02T03:04:05.000006Z", None))
        if kind == ScalarKind.BYTES:
            return rng.choice(("", "YQ==", "e30="))
        if kind == ScalarKind.STRING:
            return rng.choice(STRINGS) if rng.random() < 0.55 else rng.choice(ENUMS)
        return None


@dataclass(slots=True)
class Mutation:
    """A change that can be applied to several documents."""

    path: tuple[Any, ...]
    value: Any
    is_removal: bool = False

    def apply(self, document: Document) -> None:
        """Apply the change; a missing path is ignored."""
        place: Any = document
        for step in self.path[:-1]:
            if isinstance(place, list):
                if not isinstance(step, int) or step >= len(place):
                    return
                place = place[step]
            else:
                place = place.setdefault(step, {})
        last = self.path[-1]
        if isinstance(place, list):
            if isinstance(last, int) and last <= len(place) and not self.is_removal:
                place.insert(last, copy.deepcopy(self.value))
        elif isinstance(place, dict):
            if self.is_removal:
                place.pop(last, None)
            else:
                place[last] = copy.deepcopy(self.value)


def mutations(
    rng: random.Random, schema: Struct, document: Document, roots: tuple[str, ...], count: int
) -> list[Mutation]:
    """Return random changes of a document."""
    inventor = Inventor(rng)
    found: list[Mutation] = []
    for _ in range(count):
        root = rng.choice(roots)
        path: list[Any] = [root]
        kind: Type = schema.fields[root].type
        place: Any = document.get(root)
        while True:
            if isinstance(kind, Struct) and kind.fields and rng.random() < 0.93:
                known = (
                    [one for one in place if one in kind.fields] if isinstance(place, dict) else []
                )
                names = known if known and rng.random() < 0.6 else list(kind.fields)
                name = rng.choice(names)
                path.append(name)
                kind = kind.fields[name].type
                place = place.get(name) if isinstance(place, dict) else None
            elif (
                isinstance(kind, ListOf)
                and isinstance(place, list)
                and place
                and rng.random() < 0.8
            ):
                index = rng.randrange(len(place))
                path.append(index)
                kind, place = kind.element, place[index]
            else:
                break
        if isinstance(path[-1], int):
            found.append(Mutation(tuple(path), inventor.value(kind, str(path[-2]), 2)))
        elif rng.random() < 0.15:
            found.append(Mutation(tuple(path), None, is_removal=True))
        else:
            found.append(Mutation(tuple(path), inventor.value(kind, str(path[-1]), 1)))
    return found


@dataclass(slots=True)
class Answer:
    """The response of a server."""

    code: int
    body: Document
    warnings: list[str]


@dataclass(slots=True)
class Server:
    """One of the two servers."""

    url: str
    token: str = ""
    _connection: HTTPConnection | None = field(default=None)

    def ask(self, method: str, path: str, body: Document | None = None) -> Answer:
        """Send a request."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        for attempt in range(3):
            try:
                connection = self._open()
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                raw = response.read()
                break
            except OSError:
                self._connection = None
                if attempt == 2:
                    raise
        warnings = [
            re.sub(r"\\(.)", r"\1", one.removeprefix('299 - "').removesuffix('"'))
            for one in response.headers.get_all("Warning") or []
        ]
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = {"text": raw.decode(errors="replace")}
        return Answer(response.status, parsed, sorted(warnings))

    def _open(self) -> HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.url)
            if parts.scheme == "https":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                self._connection = HTTPSConnection(parts.netloc, context=context, timeout=20)
            else:
                self._connection = HTTPConnection(parts.netloc, timeout=20)
        return self._connection


def comparable(answer: Answer) -> Any:
    """Return the parts of a response that must be equal."""
    body = copy.deepcopy(answer.body)
    if body.get("kind") == "Status":
        details = body.get("details") or {}
        # Upstream checks metadata several times; a cause counts once.
        causes = {
            f"{one.get('field')}: {one.get('reason')}: {one.get('message')}": 1
            for one in details.pop("causes", [])
        }
        message = body.get("message") if not causes else ""
        return [answer.code, body.get("reason"), message, details, causes]
    metadata = body.get("metadata") or {}
    for name in ("uid", "creationTimestamp", "managedFields", "resourceVersion"):
        metadata.pop(name, None)
    status = body.get("status") or {}
    status.pop("lastPhaseTransitionTime", None)
    for condition in status.get("conditions") or ():
        if "lastTransitionTime" in condition:
            condition["lastTransitionTime"] = "now"
    spec = body.get("spec") or {}
    if body.get("kind") == "Service":
        _hide_allocated(spec)
    return [answer.code, body, answer.warnings]


def _hide_allocated(spec: Document) -> None:
    for name in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
        if spec.get(name) not in (None, "None", ["None"]):
            spec[name] = "allocated"
    for port in spec.get("ports") or ():
        if "nodePort" in port:
            port["nodePort"] = "allocated"


def differences(first: Any, second: Any, path: str = "") -> list[str]:
    """Return where two values differ."""
    if first == second:
        return []
    if isinstance(first, dict) and isinstance(second, dict):
        return [
            text
            for key in sorted({*first, *second})
            for text in differences(
                first.get(key, "-"), second.get(key, "-"), f"{path}.{key[:600]}"
            )
        ]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [
            text
            for index, pair in enumerate(zip(first, second, strict=True))
            for text in differences(*pair, f"{path}[{index}]")
        ]
    return [f"{path}: real {str(first)[:900]} != ours {str(second)[:900]}"]


class Fuzz:
    """A run."""

    def __init__(self, real: Server, ours: Server, seed: int) -> None:
        self.real, self.ours, self.rng = real, ours, random.Random(seed)
        self.prefix = f"fuzz-{seed}"
        self.counts: Counter[str] = Counter()
        self.recorded: list[Document] = []

    def collection(self, kind: str) -> str:
        """Return a kind's path."""
        group = TEMPLATES[kind][0]
        start = f"/apis/{group}/v1" if group else "/api/v1"
        name = "events" if kind == "newevents" else kind
        # Limits and quotas have a namespace of their own.
        namespace = "kube-public" if kind in {"limitranges", "resourcequotas"} else "default"
        return (
            f"{start}/{name}" if kind in CLUSTER_WIDE else f"{start}/namespaces/{namespace}/{name}"
        )

    def base(self, kind: str, name: str) -> Document:
        """Return a valid document."""
        group, kind_name, template = TEMPLATES[kind]
        document = copy.deepcopy(template)
        document["kind"], document["apiVersion"] = kind_name, f"{group}/v1" if group else "v1"
        document.setdefault("metadata", {})["name"] = name
        return document

    def prepare(self, kinds: list[str]) -> None:
        """Create the objects to update on both servers."""
        for kind in kinds:
            for variant in range(3):
                name = f"{self.prefix}-{kind}-{variant}"
                document = self.base(kind, name)
                _vary(kind, variant, document)
                for server in (self.real, self.ours):
                    made = server.ask("POST", self.collection(kind), document)
                    if made.code >= 300:
                        print("not created", server.url, kind, made.body, file=sys.stderr)

    def clean(self, kinds: list[str]) -> None:
        """Delete the created objects."""
        query = "gracePeriodSeconds=0&propagationPolicy=Background"
        for kind in kinds:
            for variant in range(3):
                path = f"{self.collection(kind)}/{self.prefix}-{kind}-{variant}?{query}"
                for server in (self.real, self.ours):
                    server.ask("DELETE", path)

    def step(self, kind: str) -> tuple[list[str], str, Document]:
        """Send one request to both; return the differences, the request and the document."""
        mode = self.rng.choice(("create", "create", "update", "status"))
        if mode == "status" and kind not in WITH_STATUS:
            mode = "update"
        group, kind_name, _ = TEMPLATES[kind]
        schema = schema_for(group, "v1", kind_name)
        assert schema is not None
        name = "f" if mode == "create" else f"{self.prefix}-{kind}-{self.rng.randrange(3)}"
        roots = tuple(one for one in schema.fields if one not in {"kind", "apiVersion", "metadata"})
        if mode == "status":
            roots = ("status",)
        elif self.rng.random() < 0.1:
            roots = ("metadata",)
        base = self.base(kind, name)
        changes = mutations(self.rng, schema, base, roots, self.rng.choice((1, 1, 2, 3)))
        path = self.collection(kind)
        answers = []
        sent: Document = {}
        for server in (self.real, self.ours):
            if mode == "create":
                document = self.base(kind, name)
            else:
                document = server.ask("GET", f"{path}/{name}").body
            for change in changes:
                change.apply(document)
            sent = document
            if mode == "create":
                answers.append(server.ask("POST", f"{path}?dryRun=All", document))
            else:
                view = "/status" if mode == "status" else ""
                answers.append(server.ask("PUT", f"{path}/{name}{view}?dryRun=All", document))
        self.counts[f"{mode} {answers[0].code}"] += 1
        self._record(mode, path, name, changes, answers)
        return (
            differences(*(comparable(one) for one in answers)),
            f"{mode} {kind}",
            sent | {"changes": [str(one) for one in changes]},
        )

    def _record(
        self, mode: str, path: str, name: str, changes: list[Mutation], answers: list[Answer]
    ) -> None:
        """Record the response of the real server, if ours is the same."""
        if comparable(answers[0]) != comparable(answers[1]):
            return
        kind = path.rpartition("/")[2]
        before = None if mode == "create" else self.real.ask("GET", f"{path}/{name}").body
        body = (
            self.base(self._kind_of(path, kind), name) if before is None else copy.deepcopy(before)
        )
        for change in changes:
            change.apply(body)
        view = {"create": "", "update": f"/{name}", "status": f"/{name}/status"}[mode]
        self.recorded.append({
            "method": "POST" if mode == "create" else "PUT",
            "path": f"{path}{view}",
            "before": before,
            "body": body,
            "answer": comparable(answers[0]),
        })  # fmt: skip

    def _kind_of(self, path: str, resource: str) -> str:
        return "newevents" if path.startswith("/apis/events.k8s.io") else resource


def _vary(kind: str, variant: int, document: Document) -> None:
    if kind == "pods" and variant == 1:
        document["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
        document["spec"]["affinity"] = {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}  # fmt: skip
    if kind == "pods" and variant == 2:
        document["spec"]["activeDeadlineSeconds"] = 100
        document["spec"]["nodeName"] = "n1"
    if kind == "services":
        document["spec"]["type"] = ("ClusterIP", "NodePort", "LoadBalancer")[variant]
    if kind in {"configmaps", "secrets"} and variant == 1:
        document["immutable"] = True


def main() -> int:
    """Send the requests and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--ours", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(TEMPLATES))
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--record", type=Path, default=None)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    run = Fuzz(Server(options.real, options.token), Server(options.ours), options.seed)
    run.clean(kinds)
    run.prepare(kinds)
    failed: Counter[str] = Counter()
    printed = 0
    weights = [4 if kind == "pods" else 1 for kind in kinds]
    for number in range(options.steps):
        kind = run.rng.choices(kinds, weights)[0]
        texts, request, document = run.step(kind)
        if texts:
            failed[request] += 1
            if printed < options.show:
                printed += 1
                print(f"--- step {number}: {request}\n    {document['changes']}")
                for text in texts:
                    print(f"    {text}")
    run.clean(kinds)
    if options.record is not None:
        lines = "".join(json.dumps(one, sort_keys=True) + "\n" for one in run.recorded)
        options.record.write_bytes(gzip.compress(lines.encode(), mtime=0))
    summary = {
        "steps": options.steps,
        "answers": dict(sorted(run.counts.items())),
        "different": sum(failed.values()),
        "by": dict(failed),
    }
    print(json.dumps(summary, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
