"""`kubesched.Scheduler`: configurations that it accepts and rejects without a cluster."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched import Scheduler
from kubesched.client.auth.credentials import ClusterAccess, FixedCredential
from kubesched.client.rest import Client
from kubesched.config.errors import ConfigError
from kubesched.kit.log import NullLog
from kubesched.testing.virtual_clock import VirtualClock

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class PackingArgs(msgspec.Struct, frozen=True):
    size: int = 1


class Packing:
    def __init__(self, args: PackingArgs) -> None:
        self.args = args

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


def a_client(clock: VirtualClock) -> Client:
    return Client(
        ClusterAccess("https://cluster.test", FixedCredential()),
        user_agent="test",
        clock=clock,
        log=NullLog(),
    )


def a_scheduler(**arguments: Any) -> Scheduler:
    clock = VirtualClock()
    return Scheduler(client=a_client(clock), clock=clock, log=NullLog(), **arguments)


def test_plugins_are_enabled_without_a_configuration() -> None:
    scheduler = a_scheduler(plugins=[Packing])
    plugin = scheduler.live.profiles["default-scheduler"].plugins["Packing"]
    assert plugin.args == PackingArgs()
    assert isinstance(scheduler.clock, VirtualClock)


def test_a_configuration_selects_the_plugins(tmp_path: Path) -> None:
    assert (
        "Packing"
        not in a_scheduler(plugins=[Packing], config=HEAD)
        .live.profiles["default-scheduler"]
        .plugins
    )
    file = tmp_path / "config.yaml"
    file.write_bytes(msgspec.yaml.encode({**HEAD, "profiles": [{"schedulerName": "mine"}]}))
    assert list(a_scheduler(config=file).live.profiles) == ["mine"]
    assert list(a_scheduler(config=str(file)).live.profiles) == ["mine"]
    fields = {"profiles": [{"schedulerName": "mine"}]}
    assert list(a_scheduler(config=fields).live.profiles) == ["mine"]
    with pytest.raises(ConfigError, match="v1beta9"):
        a_scheduler(config={**fields, "apiVersion": "kubescheduler.config.k8s.io/v1beta9"})


def profile(**args: Any) -> dict[str, Any]:
    enabled = {"multiPoint": {"enabled": [{"name": "Packing"}]}}
    return {"plugins": enabled, "pluginConfig": [{"name": "Packing", "args": args}]}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"config": {"kind": "Pod"}}, 'no kind "Pod"'),
        ({"config": {**HEAD, "parallelism": -1}}, "parallelism"),
        ({"config": {**HEAD, "profiles": [profile()]}}, 'Plugin "Packing" does not exist'),
        (
            {"plugins": [Packing], "config": {**HEAD, "profiles": [profile(sise=1)]}},
            "did you mean 'size'?",
        ),
    ],
)
def test_an_invalid_configuration_is_rejected(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        a_scheduler(**arguments)
    assert text in str(rejected.value)


def test_extenders_follow_the_configuration_ignorable_ones_last() -> None:
    extenders = [
        {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": True},
        {"urlPrefix": "http://127.0.0.1:2", "filterVerb": "filter"},
    ]
    live = a_scheduler(config={**HEAD, "extenders": extenders}).live
    names = [extender.name for extender in live.profile_set.extenders]
    assert names == ["http://127.0.0.1:2", "http://127.0.0.1:1"]
    assert live.scheduler.cycle.extenders is live.profile_set.extenders


def test_run_returns_at_once_after_end() -> None:
    scheduler = a_scheduler()
    scheduler.end()
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_run_raises_the_error_of_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = a_scheduler()

    def broken() -> None:
        raise RuntimeError("no tea")

    monkeypatch.setattr(scheduler.live, "start_watching", broken)
    with pytest.raises(RuntimeError, match="no tea"):
        scheduler.run()
