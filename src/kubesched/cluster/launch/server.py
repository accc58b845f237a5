"""A running API server, real or embedded.

Owns its address, users and kubeconfigs. `real_cluster` and `embedded` start it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kubesched.cluster.launch.http import Api


@dataclass(frozen=True, slots=True)
class TokenUser:
    """A user with a bearer token."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


ADMIN = TokenUser("admin", "admin-token", ("system:masters",))
PLAIN = TokenUser("plain", "plain-token")
SCHEDULER = TokenUser("system:kube-scheduler", "scheduler-token")
CONTROLLER_MANAGER = TokenUser("system:kube-controller-manager", "controller-manager-token")
USERS = (ADMIN, PLAIN, SCHEDULER, CONTROLLER_MANAGER)


@dataclass(slots=True)
class ApiServer:
    """Address, users and files of an API server."""

    url: str
    directory: Path
    """Directory of kubeconfigs, certificates and logs."""
    ca_file: Path | None = None
    service_account_key: Path | None = None
    """File with the key that signs service account tokens."""
    authority_key: Path | None = None
    keeps_files: bool = False
    """Whether the directory is kept when the server stops, e.g. after a failure."""
    kubeconfigs: Mapping[str, Path] = field(default_factory=dict)
    """By user name."""

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.kubeconfigs[ADMIN.name]

    def api(self, user: TokenUser | None = ADMIN) -> Api:
        """Return a client for a user; anonymous if None."""
        token = user.token if user else None
        return Api(self.url, token=token, ca_file=self.ca_file)

    def compact(self) -> None:
        """Compact the history: older resource versions and continue tokens expire."""
        raise NotImplementedError

    def keep_files(self, error: BaseException | None = None) -> None:
        """Keep the directory, and say where it is."""
        self.keeps_files = True
        text = f"logs are kept in {self.directory}"
        if error is None:
            sys.stderr.write(f"\n{text}\n")
        else:
            error.add_note(text)

    def write_kubeconfigs(self) -> None:
        """Write a kubeconfig for each user."""
        written = {}
        for user in USERS:
            path = self.directory / f"{user.name.replace(':', '-')}.kubeconfig"
            path.write_text(kubeconfig_text(self.url, self.ca_file, user))
            written[user.name] = path
        self.kubeconfigs = written


def kubeconfig_text(url: str, ca_file: Path | None, user: TokenUser) -> str:
    """Return the kubeconfig of a user."""
    cluster: dict[str, str] = {"server": url}
    if ca_file:
        cluster["certificate-authority"] = str(ca_file)
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user.name, "user": {"token": user.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user.name}}],
            "current-context": "test",
        },
        sort_keys=False,
    )
