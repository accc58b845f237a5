"""`kubesched apiserver` as a process: shutdown, and durable writes.

Always on the embedded server, regardless of `--server`.
"""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.testing import Api

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@contextmanager
def running(directory: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Api]]:
    """Run the command and yield it with a driver for its administrator."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    start = "from kubesched.cli.main import main; main()"
    command = [sys.executable, "-c", start, "apiserver", "--port", str(free_ports(1)[0])]
    command += ["--write-kubeconfig", str(kubeconfig), *options]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process, wait_ready(process, directory)
    finally:
        process.kill()
        process.wait()


def wait_ready(process: subprocess.Popen[bytes], directory: Path) -> Api:
    for _ in range(400):
        log = (directory / "log").read_text()
        assert process.poll() is None, log
        kubeconfig = directory / "kubeconfig"
        if kubeconfig.exists() and kubeconfig.stat().st_size:
            return driver(yaml.safe_load(kubeconfig.read_text()), directory)
        time.sleep(0.05)
    raise AssertionError(f"it did not come up: {log}")


def driver(kubeconfig: dict[str, Any], directory: Path) -> Api:
    cluster = kubeconfig["clusters"][0]["cluster"]
    ca_file = None
    if "certificate-authority-data" in cluster:
        ca_file = directory / "ca.crt"
        ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    token = kubeconfig["users"][0]["user"].get("token")
    return Api(cluster["server"], token=token, ca_file=ca_file)


def config_map(name: str, value: str = "v") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"k": value},
    }


@pytest.mark.parametrize(
    "signal_number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"]
)
def test_shutdown_within_a_second_with_open_watches(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    with running(tmp_path) as (process, api), api:
        watches = [api.watch(path) for path in (PODS, CONFIG_MAPS, "/api/v1/nodes") * 5]
        start = time.perf_counter()
        process.send_signal(signal_number)
        assert process.wait(5) == 0
        took_s = time.perf_counter() - start
        for watch in watches:
            watch.close()
    assert took_s < 1
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "cluster.db"))
    acknowledged: list[tuple[str, str, int]] = []
    with running(tmp_path, *data) as (process, api):
        writer = threading.Thread(target=write_until_dead, args=(api, acknowledged), daemon=True)
        writer.start()
        # At a moment independent of the writes.
        while len(acknowledged) < 120:
            time.sleep(0.01)
        process.kill()
        process.wait()
        writer.join(10)
    with running(tmp_path, *data) as (_, api), api:
        listed = api.get(CONFIG_MAPS).must(200).json
        kept = {
            one["metadata"]["name"]: (one["data"]["k"], int(one["metadata"]["resourceVersion"]))
            for one in listed["items"]
        }
        newest = {name: (value, version) for name, value, version in acknowledged}
        # The active write may have been stored without being acknowledged.
        different = [name for name, state in newest.items() if kept.get(name) != state]
        assert len(different) <= 1
        for name in different:
            assert kept[name][1] > newest[name][1]
        version = int(listed["metadata"]["resourceVersion"])
        assert version >= max(version for _, _, version in acknowledged)
        created = api.post(CONFIG_MAPS, config_map("after")).must(201).json
        assert int(created["metadata"]["resourceVersion"]) > version


def write_until_dead(api: Api, acknowledged: list[tuple[str, str, int]]) -> None:
    """Create and change objects until the server is killed; record the acknowledged writes."""
    number = 0
    try:
        while True:
            name, value = f"c{number % 40}", str(number)
            path = f"{CONFIG_MAPS}/{name}"
            body = config_map(name, value)
            answer = api.post(CONFIG_MAPS, body) if number < 40 else api.put(path, body)
            version = int(answer.must().json["metadata"]["resourceVersion"])
            acknowledged.append((name, value, version))
            number += 1
    except OSError:
        api.close()


def test_deletions_and_uids_survive_a_restart(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "cluster.db"))
    with running(tmp_path, *data) as (process, api), api:
        created = api.post(CONFIG_MAPS, config_map("a")).must(201).json
        api.post(CONFIG_MAPS, config_map("b")).must(201)
        api.delete(f"{CONFIG_MAPS}/b").must(200)
        process.kill()
        process.wait()
    with running(tmp_path, *data) as (_, api), api:
        assert api.get(f"{CONFIG_MAPS}/a").must(200).json == created
        api.get(f"{CONFIG_MAPS}/b").must(404)
        # The history before the restart is gone.
        version = created["metadata"]["resourceVersion"]
        with api.watch(CONFIG_MAPS, query={"resourceVersion": version}) as watch:
            event = watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_custom_kinds_survive_a_restart(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "cluster.db"))
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "x": 1}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    things = "/apis/example.com/v1/things"
    with running(tmp_path, *data) as (process, api), api:
        api.post(definitions, definition).must(201)
        for _ in range(200):
            if api.get(things).code == 200:
                break
            time.sleep(0.02)
        api.post(things, thing).must(201)
        process.kill()
        process.wait()
    with running(tmp_path, *data) as (_, api), api:
        assert api.get(f"{things}/a").must(200).json["x"] == 1


def test_loopback_needs_no_token_and_other_addresses_do(tmp_path: Path) -> None:
    with running(tmp_path, "--bind-address", "0.0.0.0") as (_, api), api:
        api.get("/api/v1/namespaces").must(200)
        api.close()
        api.token = None
        api.get("/api/v1/namespaces").must(401)
    with running(tmp_path) as (_, api), api:
        api.token = None
        api.get("/api/v1/namespaces").must(200)


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with running(tmp_path) as (_, api):
        port = api.url.rpartition(":")[2]
        start = "from kubesched.cli.main import main; main()"
        command = [sys.executable, "-c", start, "apiserver", "--port", port]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in second.stderr
    assert "Traceback" not in second.stderr


def test_the_kubeconfig_is_for_its_owner_only(tmp_path: Path) -> None:
    with running(tmp_path):
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0


def test_an_invalid_data_file_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "other"
    data.write_text(json.dumps({"not": "a database"}) * 100)
    start = "from kubesched.cli.main import main; main()"
    command = [sys.executable, "-c", start, "apiserver", "--port", "0", "--data", str(data)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert str(data) in result.stderr
