"""A kubelet for pods of kubesched: runs their containers as processes of this machine.

KWOK or our kubelets only simulate all other pods. Owns the processes, their accounts, mounts and
ports, and the static pod of one control-plane node, whose /etc/kubernetes is a folder here.
Expected values are never computed here.
"""

from __future__ import annotations

import base64
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.launch.server import ADMIN, SCHEDULER
from kubesched.cluster.playground.in_process import Playground
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.testing import Api

Document = dict[str, Any]

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
ETC = "/etc/kubernetes"
_CONTAINER = Path(__file__).with_name("container.py")
_LOOK_S = 0.1
_END_S = 30.0


@dataclass(slots=True)
class Running:
    """A running container."""

    label: str
    pod: Document
    process: subprocess.Popen[bytes]
    port: int
    log_path: Path
    command: str = ""
    mounts: dict[str, Path] = field(default_factory=dict)
    """Folders here, by the paths of the ConfigMaps and Secrets that are in them."""

    @property
    def log(self) -> str:
        """Return its output."""
        return self.log_path.read_text(errors="replace")

    def page(self, path: str, *, token: str = "", secure: bool = True) -> tuple[int, str]:
        """Return status and text of a page."""
        connection: HTTPConnection
        if secure:
            # Its certificate is self-signed; probes of kubelets do not check it either.
            context = ssl._create_unverified_context()
            connection = HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        else:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path, headers=_bearer(token))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def passes(self, probe: str) -> bool:
        """Return whether a probe of the manifest succeeds."""
        request = self.pod["spec"]["containers"][0][probe]["httpGet"]
        try:
            code, _ = self.page(request["path"], secure=request["scheme"] == "HTTPS")
        except OSError:
            return False
        return code == 200


class NodeAgent:
    """Starts and stops the containers of pods; `with` stops them all."""

    def __init__(self, cluster: Playground, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.running: dict[str, Running] = {}
        """By names of pods."""
        self.ended: list[tuple[str, int]] = []
        """Terminated containers with their exit statuses."""
        self.problem: BaseException | None = None
        self.logs: list[Path] = []
        """Of all containers that ever ran."""
        self.etc = directory / "etc" / "kubernetes"
        (self.etc / "manifests").mkdir(parents=True)
        self._programs = Programs.built()
        self._group = ProcessGroup(directory)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, name="node agent", daemon=True)
        conf = cluster.server.kubeconfigs[SCHEDULER.name]
        (self.etc / "scheduler.conf").write_text(conf.read_text())
        self.control_plane = cluster.nodes[0]

    @contextmanager
    def at_work(self) -> Iterator[NodeAgent]:
        """Run pods during the block; raise errors at its end."""
        self._thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            self._thread.join(_END_S)
            self._group.stop_all()
        if self.problem is not None:
            raise self.problem

    def until(self, predicate: Any, condition: str, timeout_s: float = 45.0) -> None:
        """Wait for a condition; fail immediately if a container has died."""

        def holds() -> object:
            if self.problem is not None:
                raise self.problem
            return predicate()

        until(holds, condition, timeout_s)

    def of(self, prefix: str) -> list[Running]:
        """Return the containers of pods whose names have a prefix."""
        return [
            one
            for name, one in sorted(self.running.copy().items(), key=_name)
            if name.startswith(prefix)
        ]

    @property
    def static_pod(self) -> Document | None:
        """Return the manifest of the scheduler's static pod."""
        found = self.running.get(self._mirror)
        return None if found is None else found.pod

    def commands(self) -> list[str]:
        """Return the command lines of all containers."""
        return [one.command for one in self.running.copy().values()]

    def until_ready(self, prefix: str, count: int) -> list[Running]:
        """Wait until a number of containers passes its probes; return them."""
        probes = ("startupProbe", "livenessProbe", "readinessProbe")

        def ready() -> bool:
            found = self.of(prefix)
            return len(found) == count and all(one.passes(p) for one in found for p in probes)

        self.until(ready, f"{count} containers of {prefix} are ready")
        return self.of(prefix)

    # -- the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            with self.cluster.server.api(ADMIN) as api:
                while not self._ends.wait(_LOOK_S):
                    self._look(api)
        except BaseException as problem:  # noqa: BLE001 - raised in the test's thread
            self.problem = problem

    def _look(self, api: Api) -> None:
        self._static_pods(api)
        self._group.check()
        pods = api.get(f"{KUBE_SYSTEM}/pods").must(200).json["items"]
        ours = {pod["metadata"]["name"]: pod for pod in pods if _is_ours(pod)}
        for name in [name for name in self.running if name not in ours]:
            if name != self._mirror:
                self._end(name)
        for name, pod in ours.items():
            if name not in self.running:
                self._start(api, pod)
            self._fill(api, self.running[name].mounts)

    def _start(self, api: Api, pod: Document) -> None:
        name = pod["metadata"]["name"]
        folder = self.directory / name
        account = folder / "serviceaccount"
        account.mkdir(parents=True)
        account.joinpath("token").write_text(_token(api, pod))
        account.joinpath("namespace").write_text(pod["metadata"]["namespace"])
        authority = self.cluster.server.ca_file
        assert authority is not None
        account.joinpath("ca.crt").write_text(authority.read_text())
        (container,) = pod["spec"]["containers"]
        mounts, paths = self._mounts(pod, container, folder)
        self._fill(api, mounts)
        (port,) = free_ports(1)
        server = urlsplit(self.cluster.server.url)
        arguments = _with_port([_replaced(one, paths) for one in container["args"]], port)
        command = [*container["command"], *arguments]
        process = self._group.start(
            name,
            [sys.executable, _CONTAINER, account, name, *command],
            env={
                "KUBERNETES_SERVICE_HOST": str(server.hostname),
                "KUBERNETES_SERVICE_PORT": str(server.port),
                "HOME": str(folder),
                "PATH": "",
            },
        )
        log = self._group.log_path(name)
        self.logs.append(log)
        self.running[name] = Running(name, pod, process, port, log, " ".join(command), mounts)

    def _mounts(
        self, pod: Document, container: Document, folder: Path
    ) -> tuple[dict[str, Path], dict[str, str]]:
        sources = _sources(pod)
        mounts, paths = {}, {}
        for mount in container["volumeMounts"]:
            if mount["name"] in sources:
                place = folder / "mounts" / mount["name"]
                place.mkdir(parents=True)
                mounts[sources[mount["name"]]] = place
                paths[f"{mount['mountPath']}/"] = f"{place}/"
        return mounts, paths

    def _fill(self, api: Api, mounts: dict[str, Path]) -> None:
        """Copy a ConfigMap into its folder, as kubelets do periodically."""
        for source, place in mounts.items():
            answer = api.get(source)
            for key, value in (answer.json.get("data") or {}).items():
                text = base64.b64decode(value).decode() if "/secrets/" in source else value
                path = place / key
                if not path.exists() or path.read_text() != text:
                    fresh = place / f".{key}.new"
                    fresh.write_text(text)
                    fresh.rename(path)

    def _end(self, name: str) -> None:
        self.ended.append((name, self._group.terminate(self.running.pop(name).label, _END_S)))

    # -- the static pod of the control plane ------------------------------------------------------

    @property
    def _mirror(self) -> str:
        return f"kube-scheduler-{self.control_plane}"

    def _static_pods(self, api: Api) -> None:
        path = self.etc / "manifests" / "kube-scheduler.yaml"
        pod = yaml.safe_load(path.read_text()) if path.exists() else None
        current = self.running.get(self._mirror)
        if current is not None and current.pod != pod:
            self._end(self._mirror)
            api.delete(f"{KUBE_SYSTEM}/pods/{self._mirror}", {"gracePeriodSeconds": 0})
        if pod is not None and self._mirror not in self.running:
            self._start_static(api, pod)

    def _start_static(self, api: Api, pod: Document) -> None:
        mirror = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **pod["metadata"],
                "name": self._mirror,
                "annotations": {"kubernetes.io/config.mirror": "static"},
            },
            "spec": {
                **pod["spec"],
                "nodeName": self.control_plane,
                "tolerations": [{"operator": "Exists"}],
            },
        }
        api.post(f"{KUBE_SYSTEM}/pods", mirror).must(201, 409)
        (container,) = pod["spec"]["containers"]
        (port,) = free_ports(1)
        program, *arguments = [
            self._reachable(api, _replaced(one, {ETC: str(self.etc)}))
            for one in container["command"]
        ]
        start: list[str | Path] = [self._programs.path(program)] if program != "kubesched" else []
        if not start:
            start = [sys.executable, _CONTAINER, self.directory, self.control_plane, program]
        label = f"static-{len(self.logs)}"
        arguments = _with_port(arguments, port)
        process = self._group.start(label, [*start, *arguments])
        log = self._group.log_path(label)
        self.logs.append(log)
        command_line = " ".join([program, *arguments])
        self.running[self._mirror] = Running(label, pod, process, port, log, command_line)

    def _reachable(self, api: Api, argument: str) -> str:
        """Replace a Service in a configuration by a replica: no node here forwards."""
        if not argument.startswith("--config="):
            return argument
        path = Path(argument.partition("=")[2])
        text = path.read_text().replace(ETC, str(self.etc))
        for service in api.get(f"{KUBE_SYSTEM}/services").must(200).json["items"]:
            for one in self.of(service["metadata"]["name"]):
                address = f"{service['spec']['clusterIP']}:{service['spec']['ports'][0]['port']}"
                text = text.replace(address, f"127.0.0.1:{one.port}")
        reachable = self.directory / "reachable.yaml"
        reachable.write_text(text)
        return f"--config={reachable}"


def label_control_plane(cluster: Playground) -> None:
    """Set up the first two nodes as kubeadm does."""
    role = "node-role.kubernetes.io/control-plane"
    for node in cluster.nodes[:2]:
        change = {
            "metadata": {"labels": {role: ""}},
            "spec": {"taints": [{"key": role, "effect": "NoSchedule"}]},
        }
        cluster.api.patch(f"/api/v1/nodes/{node}", change, MERGE_PATCH).must(200)


def _name(item: tuple[str, Running]) -> str:
    return item[0]


def _is_ours(pod: Document) -> bool:
    command = pod["spec"]["containers"][0].get("command") or [""]
    return (
        command[0] == "kubesched"
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and "kubernetes.io/config.mirror" not in pod["metadata"].get("annotations", {})
    )


def _sources(pod: Document) -> dict[str, str]:
    """Return the source paths of volumes by name."""
    found = {}
    for volume in pod["spec"]["volumes"]:
        if "configMap" in volume:
            found[volume["name"]] = f"{KUBE_SYSTEM}/configmaps/{volume['configMap']['name']}"
        elif "secret" in volume:
            found[volume["name"]] = f"{KUBE_SYSTEM}/secrets/{volume['secret']['secretName']}"
    return found


def _token(api: Api, pod: Document) -> str:
    """Return a token bound to the pod, as kubelets request it."""
    metadata = pod["metadata"]
    of_pod = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    account = pod["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
    answer = api.post(path, {"spec": {"boundObjectRef": of_pod}}).must(201)
    return str(answer.json["status"]["token"])


def _replaced(argument: str, paths: dict[str, str]) -> str:
    for source, target in paths.items():
        argument = argument.replace(source, target)
    return argument


def _with_port(arguments: list[str], port: int) -> list[str]:
    """Return arguments with a port of this machine: all containers share its network."""
    listen = re.compile(r"^--listen=.*$")
    if any(listen.match(argument) for argument in arguments):
        return [listen.sub(f"--listen=127.0.0.1:{port}", argument) for argument in arguments]
    return [*arguments, "--bind-address=127.0.0.1", f"--secure-port={port}"]


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
