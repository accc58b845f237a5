"""`kubesched apiserver --data`: acknowledged writes survive a kill at any moment.

Always on the embedded server, regardless of `--server`.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from kubesched.kit.rng import RandomStream
from kubesched.testing import Api
from tests.integration.test_server_process import CONFIG_MAPS, config_map, running

WRITERS = 4
KILLS = 3


@dataclass
class Writer:
    """A client that creates, changes and deletes its objects until the server is killed."""

    number: int
    api: Api
    state: dict[str, int | None] = field(default_factory=dict)
    """The last acknowledged version of each object; None after a deletion."""
    open_name: str = ""
    """The object whose response did not arrive."""
    newest: int = 0
    acknowledged: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run(self) -> None:
        """Write until the connection breaks."""
        rng = RandomStream(self.number, "writer")
        try:
            while True:
                self._write(f"w{self.number}-{rng.below(30)}", rng)
        except (OSError, HTTPException):
            self.api.close()

    def _write(self, name: str, rng: RandomStream) -> None:
        path, self.open_name = f"{CONFIG_MAPS}/{name}", name
        if self.state.get(name) is None:
            answer = self.api.post(CONFIG_MAPS, config_map(name))
            if answer.code == 409:  # Created before the kill, without a response.
                answer = self.api.put(path, config_map(name, "again"))
        elif rng.below(10) < 3:
            answer = self.api.delete(path)
        else:
            answer = self.api.put(path, config_map(name, str(rng.below(1000))))
        document = answer.must(200, 201).json
        version = document.get("metadata", {}).get("resourceVersion")
        self.state[name] = int(version) if document["kind"] == "ConfigMap" else None
        self.newest = max(self.newest, self.state[name] or 0)
        self.open_name = ""
        self.acknowledged.release()


def test_no_acknowledged_write_is_lost(tmp_path: Path) -> None:
    rng = RandomStream(7, "kills")
    writers = [Writer(number, Api("http://nowhere")) for number in range(WRITERS)]
    newest, authorities = 0, set()
    for _ in range(KILLS):
        with running(tmp_path, "--data", str(tmp_path / "data.db")) as (process, api):
            authorities.add((tmp_path / "ca.crt").read_bytes())
            newest = max(newest, check(api, writers, newest))
            threads = []
            for writer in writers:
                writer.api = Api(api.url, token=api.token, ca_file=tmp_path / "ca.crt")
                threads.append(threading.Thread(target=writer.run, daemon=True))
                threads[-1].start()
            for _ in range(50 + rng.below(100)):  # At any moment: other clients keep writing.
                assert writers[0].acknowledged.acquire(timeout=20)
            process.send_signal(signal.SIGKILL)
            for thread in threads:
                thread.join(20)
    with running(tmp_path, "--data", str(tmp_path / "data.db")) as (_, api):
        check(api, writers, newest)
    assert sum(len(writer.state) for writer in writers) > 10
    assert len(authorities) == 1
    assert "Traceback" not in (tmp_path / "log").read_text()


def check(api: Api, writers: list[Writer], newest: int) -> int:
    """Check that all acknowledged writes exist; return the current version."""
    with api:
        listed = api.get(CONFIG_MAPS).must(200).json
    kept = {
        one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in listed["items"]
    }
    for writer in writers:
        for name, version in writer.state.items():
            if name != writer.open_name:
                assert kept.get(name) == version, name
    version = int(listed["metadata"]["resourceVersion"])
    assert version >= max([newest, *(writer.newest for writer in writers)])
    for writer in writers:  # Resolve the unacknowledged writes.
        if writer.open_name:
            writer.state[writer.open_name] = kept.get(writer.open_name)
    return version


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data.db"), "--authorization", "rbac")
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    with running(tmp_path, *data) as (process, api), api:
        administrator = api.token
        api.post(accounts, {"metadata": {"name": "a"}}).must(201)
        created = (
            api.post(f"{accounts}/a/token", {"spec": {"expirationSeconds": 3600}}).must(201).json
        )
        process.kill()
        process.wait()
    with running(tmp_path, *data) as (_, api):
        assert api.token == administrator
        api.token = created["status"]["token"]
        with api:
            review = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).must(201)
    assert review.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:a"


def test_shutdown_within_a_second_with_clients_that_do_not_read(tmp_path: Path) -> None:
    with running(tmp_path, "--no-tls") as (process, api), api:
        for number in range(6):
            body = config_map(f"c{number}", "x" * 900_000)
            api.post(CONFIG_MAPS, body).must(201)
        address = urlsplit(api.url)
        clients = [socket.create_connection((address.hostname, address.port), 10) for _ in range(9)]
        for client in clients[:3]:  # Watches with more events than the sockets can buffer.
            client.sendall(f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert client.recv(1)
        for client in clients[3:6]:  # Bodies that remain incomplete.
            head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
            client.sendall(head.encode() + json.dumps({"a": 1}).encode())
        api.get("/readyz").must(200)
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        took_s = time.perf_counter() - start
        for client in clients:
            with closing(client):
                pass
    assert took_s < 1
    assert "Traceback" not in (tmp_path / "log").read_text()
