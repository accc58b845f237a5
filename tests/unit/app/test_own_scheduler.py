"""What `kubesched.Scheduler` refuses before it asks a cluster anything."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched import Scheduler
from kubesched.client.auth import ClusterAccess, FixedCredential
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


def made(**given: Any) -> Scheduler:
    clock = VirtualClock()
    return Scheduler(client=a_client(clock), clock=clock, log=NullLog(), **given)


def test_without_a_configuration_its_plugins_are_enabled() -> None:
    scheduler = made(plugins=[Packing])
    plugin = scheduler.live.profiles["default-scheduler"].plugins["Packing"]
    assert plugin.args == PackingArgs()
    assert isinstance(scheduler.clock, VirtualClock)


def test_with_a_configuration_that_says_which(tmp_path: Path) -> None:
    assert (
        "Packing"
        not in made(plugins=[Packing], config=HEAD).live.profiles["default-scheduler"].plugins
    )
    file = tmp_path / "config.yaml"
    file.write_bytes(msgspec.yaml.encode({**HEAD, "profiles": [{"schedulerName": "mine"}]}))
    assert list(made(config=file).live.profiles) == ["mine"]
    assert list(made(config=str(file)).live.profiles) == ["mine"]
    fields = {"profiles": [{"schedulerName": "mine"}]}
    assert list(made(config=fields).live.profiles) == ["mine"]
    with pytest.raises(ConfigError, match="v1beta9"):
        made(config={**fields, "apiVersion": "kubescheduler.config.k8s.io/v1beta9"})


def profile(**args: Any) -> dict[str, Any]:
    enabled = {"multiPoint": {"enabled": [{"name": "Packing"}]}}
    return {"plugins": enabled, "pluginConfig": [{"name": "Packing", "args": args}]}


@pytest.mark.parametrize(
    ("given", "text"),
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
def test_a_wrong_configuration_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        made(**given)
    assert text in str(refused.value)


def test_extenders_are_those_of_the_configuration_ignorable_ones_last() -> None:
    extenders = [
        {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": True},
        {"urlPrefix": "http://127.0.0.1:2", "filterVerb": "filter"},
    ]
    live = made(config={**HEAD, "extenders": extenders}).live
    names = [one.name for one in live.generation.extenders]
    assert names == ["http://127.0.0.1:2", "http://127.0.0.1:1"]
    assert live.scheduler.cycle.extenders is live.generation.extenders


def test_one_that_was_ended_before_does_not_run() -> None:
    scheduler = made()
    scheduler.end()
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_what_stops_it_from_starting_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = made()

    def broken() -> None:
        raise RuntimeError("no tea")

    monkeypatch.setattr(scheduler.live, "start_watching", broken)
    with pytest.raises(RuntimeError, match="no tea"):
        scheduler.run()
