"""Runs real Kubernetes v1.36.4 on loopback, for the duration of a test.

Owns the flags of etcd and kube-apiserver and the forms of a cluster: *bare* (the API server alone),
*whole* (with controllers, a scheduler and KWOK) and *without-controllers* (the API server of a
whole cluster, for callers that run the other components). `make control-plane` builds the programs.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from kubesched.cluster.launch.certificates import CertificateFiles, write_certificates
from kubesched.cluster.launch.components import COMPONENT_PROGRAMS, Components, start_components
from kubesched.cluster.launch.http import Api
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.launch.schedulers import SchedulerName
from kubesched.cluster.launch.server import USERS, ApiServer, TokenUser

Form: TypeAlias = Literal["bare", "without-controllers", "whole"]

# Disabled for bare clusters: nodes would stay tainted not-ready, and pods would be rejected for
# lack of service accounts, since no controllers run.
_PROGRAMS: Mapping[Form, tuple[str, ...]] = {
    "bare": ("etcd", "kube-apiserver"),
    "without-controllers": ("etcd", "kube-apiserver"),
    "whole": ("etcd", "kube-apiserver", *COMPONENT_PROGRAMS),
}
_API_SERVER = "kube-apiserver"
_OFF_WHEN_BARE = "ServiceAccount,TaintNodesByCondition"


@dataclass(slots=True)
class RealCluster(ApiServer):
    """A running real cluster."""

    form: Form = "bare"
    etcd_url: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    processes: ProcessGroup | None = field(default=None, repr=False)
    """Its processes; more can be started in the group and end with it."""
    api_server_flags: Sequence[str] = ()
    """Additional flags."""
    api_server_command: Sequence[str] = field(default=(), repr=False)

    @property
    def group(self) -> ProcessGroup:
        """Return the processes of a running cluster."""
        assert self.processes is not None
        return self.processes

    def kill_api_server(self) -> None:
        """Kill kube-apiserver; etcd keeps running."""
        self.group.stop(_API_SERVER)

    def start_api_server(self) -> None:
        """Start kube-apiserver again at the same address and wait until it is ready."""
        self.group.start(_API_SERVER, self.api_server_command)
        with Api(self.url, ca_file=self.ca_file) as anonymous:
            self.group.wait_until(lambda: _is_ready(anonymous), _API_SERVER, timeout_s=60)
        self.pids = self.group.pids()

    def compact(self) -> None:
        """Compact etcd to the current revision; kube-apiserver follows within a second."""
        with Api(self.etcd_url) as etcd:
            # Writing the key that API servers share also returns the current revision.
            key = base64.b64encode(b"compact_rev_key").decode()
            found = etcd.post("/v3/kv/range", {"key": key}).must(200).json
            revision = found["header"]["revision"]
            value = base64.b64encode(revision.encode()).decode()
            etcd.post("/v3/kv/put", {"key": key, "value": value}).must(200)
            etcd.post("/v3/kv/compaction", {"revision": revision, "physical": True}).must(200)


@contextmanager
def real_cluster(  # noqa: PLR0913  # What tests vary.
    form: Form = "bare",
    *,
    nodes: int = 3,
    scheduler: bool | SchedulerName = True,
    port: int | None = None,
    directory: Path | None = None,
    programs: Programs | None = None,
    api_server_flags: Sequence[str] = (),
) -> Iterator[RealCluster]:
    """Run a real cluster; its files are removed, except for the logs of a failure.

    Args:
        form: `bare`, `without-controllers` or `whole`; see the module.
        nodes: Number of nodes of a whole cluster.
        scheduler: The scheduler of a whole cluster; kube-scheduler if True, none if False.
        port: Port of kube-apiserver; a free one if None.
        directory: Directory for files, which is kept; a temporary one if None.
        programs: The programs; those in the user's cache if None.
        api_server_flags: Additional flags of kube-apiserver.
    """
    programs = programs or Programs.built()
    programs.check(_PROGRAMS[form])
    directory_path = directory or Path(tempfile.mkdtemp(prefix="kubesched-real-"))
    directory_path.mkdir(parents=True, exist_ok=True)
    cluster = RealCluster(
        url="",
        directory=directory_path,
        keeps_files=directory is not None,
        api_server_flags=api_server_flags,
    )
    try:
        with ProcessGroup(directory_path) as processes:
            cluster.processes = processes
            _start_api_server(cluster, form, port, programs, processes)
            if form == "whole":
                components = Components(nodes=nodes, scheduler=scheduler)
                start_components(cluster, programs, processes, components)
            cluster.pids = processes.pids()
            yield cluster
    except Exception as error:
        # Keep the logs of a failure.
        cluster.keep_files(error)
        raise
    finally:
        if not cluster.keeps_files:
            shutil.rmtree(directory_path, ignore_errors=True)


def _start_api_server(
    cluster: RealCluster,
    form: Form,
    port: int | None,
    programs: Programs,
    processes: ProcessGroup,
) -> None:
    directory_path = cluster.directory
    certificates = write_certificates(directory_path)
    api_port, etcd_port, peer_port = free_ports(3)
    api_port = port or api_port
    cluster.form = form
    cluster.url = f"https://127.0.0.1:{api_port}"
    cluster.etcd_url = f"http://127.0.0.1:{etcd_port}"
    cluster.ca_file = certificates.authority
    cluster.service_account_key = certificates.service_account_key
    cluster.authority_key = certificates.authority_key
    cluster.write_kubeconfigs()
    processes.start(
        "etcd",
        [
            programs.path("etcd"),
            f"--data-dir={directory_path / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={cluster.etcd_url}",
            f"--advertise-client-urls={cluster.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        ],
    )
    flags = _api_server_flags(cluster, certificates, api_port)
    cluster.api_server_command = [
        str(programs.path(_API_SERVER)),
        *flags,
        *cluster.api_server_flags,
    ]
    cluster.start_api_server()


def _api_server_flags(cluster: RealCluster, certificates: CertificateFiles, port: int) -> list[str]:
    tokens = cluster.directory / "tokens.csv"
    tokens.write_text("".join(map(_token_line, USERS)))
    flags = [
        f"--etcd-servers={cluster.etcd_url}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--tls-cert-file={certificates.serving}",
        f"--tls-private-key-file={certificates.serving_key}",
        f"--client-ca-file={certificates.authority}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=Node,RBAC",
        f"--service-account-key-file={certificates.service_account_public_key}",
        f"--service-account-signing-key-file={certificates.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--endpoint-reconciler-type=none",
        f"--requestheader-client-ca-file={certificates.authority}",
        "--requestheader-allowed-names=front",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        # As on every cluster that kubeadm or kind makes.
        "--allow-privileged=true",
    ]
    if cluster.form == "bare":
        flags.append(f"--disable-admission-plugins={_OFF_WHEN_BARE}")
    return flags


def _token_line(user: TokenUser) -> str:
    # An empty last column would be read as a group with an empty name.
    groups = f',"{",".join(user.groups)}"' if user.groups else ""
    return f"{user.token},{user.name},{user.name}-uid{groups}\n"


def _is_ready(api: Api) -> bool:
    try:
        return api.get("/readyz").code == 200
    except OSError:
        return False
