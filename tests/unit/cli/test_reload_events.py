"""Events about a reload regard the scheduler's lease, or its pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.cli.run import reload as run_reload
from kubesched.client.resources import LEASES, PODS
from kubesched.run.options.parse import parse_options

IN_A_POD = "KUBERNETES_SERVICE_HOST"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a pod of the namespace `edge`."""
    file = tmp_path / "namespace"
    file.write_text("edge\n")
    monkeypatch.setattr(run_reload, "_NAMESPACE_FILE", file)
    monkeypatch.setenv(IN_A_POD, "10.0.0.1")


def _named(*flags: str) -> tuple[str, str, str]:
    about, resource = run_reload._own_object(parse_options(flags), "kubesched-7f9c")
    assert resource == (PODS if about.kind == "Pod" else LEASES)
    return about.kind, about.namespace, about.name


@pytest.mark.usefixtures("account")
def test_in_a_pod_without_leader_election_it_is_the_pod() -> None:
    assert _named("--leader-elect=false") == ("Pod", "edge", "kubesched-7f9c")


@pytest.mark.usefixtures("account")
def test_with_leader_election_it_is_the_lease() -> None:
    flags = ("--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=edge")
    assert _named(*flags) == ("Lease", "edge", "mine")


def test_outside_of_a_cluster_it_is_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(IN_A_POD, raising=False)
    assert _named("--leader-elect=false") == ("Lease", "kube-system", "kube-scheduler")
