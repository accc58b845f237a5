"""A real Kubernetes v1.36.4 on loopback, for as long as a test needs it.

Owns etcd's and kube-apiserver's flags and the forms of a cluster: *bare* (the API server alone,
with every node and pod as a test makes it), *whole* (controllers, scheduler and KWOK's kubelets
beside it) and *unstaffed* (the API server of a whole one, for those who bring the rest). Never
builds the programs: `make control-plane` does.
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

from kubesched.testing.certificates import CertificateFiles, write_certificates
from kubesched.testing.companions import COMPANION_PROGRAMS, Companions, start_companions
from kubesched.testing.http import Api
from kubesched.testing.ports import free_ports
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.programs import Programs
from kubesched.testing.schedulers import SchedulerName
from kubesched.testing.server import USERS, ApiServer, TokenUser

Form: TypeAlias = Literal["bare", "unstaffed", "whole"]

# A node that a test makes would stay tainted not-ready, and pods would wait for accounts that no
# controller makes.
_NEEDED: Mapping[Form, tuple[str, ...]] = {
    "bare": ("etcd", "kube-apiserver"),
    "unstaffed": ("etcd", "kube-apiserver"),
    "whole": ("etcd", "kube-apiserver", *COMPANION_PROGRAMS),
}
_API_SERVER = "kube-apiserver"
_OFF_WHEN_BARE = "ServiceAccount,TaintNodesByCondition"


@dataclass(slots=True)
class RealCluster(ApiServer):
    """A running cluster."""

    form: Form = "bare"
    etcd_url: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    processes: ProcessGroup | None = field(default=None, repr=False)
    """What it is made of; more programs may be started in it, and end with the cluster."""
    api_server_flags: Sequence[str] = ()
    """More than the usual ones."""
    api_server_command: Sequence[str] = field(default=(), repr=False)

    @property
    def group(self) -> ProcessGroup:
        """Return the programs of a cluster that runs."""
        assert self.processes is not None
        return self.processes

    def kill_api_server(self) -> None:
        """End kube-apiserver with SIGKILL; etcd stays."""
        self.group.stop(_API_SERVER)

    def start_api_server(self) -> None:
        """Start kube-apiserver again, at the same place, and wait until it is ready."""
        self.group.start(_API_SERVER, self.api_server_command)
        with Api(self.url, ca_file=self.ca_file) as anonymous:
            self.group.wait_until(lambda: _is_ready(anonymous), _API_SERVER, timeout_s=60)
        self.pids = self.group.pids()

    def compact(self) -> None:
        """Have etcd forget every revision but the newest; kube-apiserver follows in a second."""
        with Api(self.etcd_url) as etcd:
            # Putting the key by which API servers tell each other has the newest revision too.
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
    """Run a real cluster; everything is gone afterwards, but the logs of one that failed.

    Args:
        form: `bare`, `unstaffed`, or `whole` with controllers, a scheduler and kubelets.
        nodes: How many nodes a whole cluster has.
        scheduler: Which scheduler runs in a whole cluster, kube-scheduler if True, or none.
        port: Where kube-apiserver listens; a free port if None.
        directory: Where files go, and stay; a temporary one, removed afterwards, if None.
        programs: What to run; the user's cache if None.
        api_server_flags: More flags of kube-apiserver.
    """
    programs = programs or Programs.built()
    programs.check(_NEEDED[form])
    place = directory or Path(tempfile.mkdtemp(prefix="kubesched-real-"))
    place.mkdir(parents=True, exist_ok=True)
    cluster = RealCluster(
        url="",
        directory=place,
        keeps_files=directory is not None,
        api_server_flags=api_server_flags,
    )
    try:
        with ProcessGroup(place) as processes:
            cluster.processes = processes
            _start_api_server(cluster, form, port, programs, processes)
            if form == "whole":
                wanted = Companions(nodes=nodes, scheduler=scheduler)
                start_companions(cluster, programs, processes, wanted)
            cluster.pids = processes.pids()
            yield cluster
    except Exception as error:
        # So that whoever reads the failure can read the logs.
        cluster.keep_files(error)
        raise
    finally:
        if not cluster.keeps_files:
            shutil.rmtree(place, ignore_errors=True)


def _start_api_server(
    cluster: RealCluster,
    form: Form,
    port: int | None,
    programs: Programs,
    processes: ProcessGroup,
) -> None:
    place = cluster.directory
    certificates = write_certificates(place)
    chosen, etcd_port, peer_port = free_ports(3)
    chosen = port or chosen
    cluster.form = form
    cluster.url = f"https://127.0.0.1:{chosen}"
    cluster.etcd_url = f"http://127.0.0.1:{etcd_port}"
    cluster.ca_file = certificates.authority
    cluster.service_account_key = certificates.service_account_key
    cluster.authority_key = certificates.authority_key
    cluster.write_kubeconfigs()
    processes.start(
        "etcd",
        [
            programs.path("etcd"),
            f"--data-dir={place / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={cluster.etcd_url}",
            f"--advertise-client-urls={cluster.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        ],
    )
    flags = _api_server_flags(cluster, certificates, chosen)
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
    # An empty last column would be a group without a name.
    groups = f',"{",".join(user.groups)}"' if user.groups else ""
    return f"{user.token},{user.name},{user.name}-uid{groups}\n"


def _is_ready(api: Api) -> bool:
    try:
        return api.get("/readyz").code == 200
    except OSError:
        return False
