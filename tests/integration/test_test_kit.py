"""The public test kit: programs become ready, and end with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup, StartError
from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.testing import ADMIN, PLAIN, MissingProgramError, Programs, embedded_server


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_ports_differ_from_call_to_call() -> None:
    assert len({*free_ports(5), *free_ports(5)}) == 10


def test_programs_end_with_their_group(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as group:
        pid = group.start("sleeper", ["sleep", "60"]).pid
        assert is_running(pid)
    assert not is_running(pid)


def test_an_early_exit_shows_the_end_of_the_log(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as group:
        group.start("short", ["sh", "-c", "echo what went wrong; exit 3"])
        with pytest.raises(StartError, match=r"(?s)short ended with status 3.*what went wrong"):
            group.wait_until(lambda: False, "it", timeout_s=10)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_programs_end_when_the_test_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, time\n"
        "from kubesched.cluster.launch.processes import ProcessGroup\n"
        f"group = ProcessGroup(pathlib.Path({str(tmp_path)!r}))\n"
        "print(group.start('sleeper', ['sleep', '60']).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as test:
        assert test.stdout is not None
        pid = int(test.stdout.readline())
        assert is_running(pid)
        os.kill(test.pid, signal.SIGKILL)
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.02)
    raise AssertionError("it outlived its test")


def test_a_missing_program_is_reported_with_its_build_command(tmp_path: Path) -> None:
    with (
        pytest.raises(MissingProgramError, match=r"etcd is not built.*make control-plane"),
        real_cluster(programs=Programs(tmp_path)),
    ):
        pass


def test_the_embedded_server_has_the_users_of_a_real_cluster() -> None:
    with embedded_server() as server:
        with server.api(ADMIN) as admin:
            admin.get("/api/v1/nodes").must(200)
        with server.api(PLAIN) as plain:
            plain.get("/api/v1/nodes").must(403)
        assert server.kubeconfig.is_file()
        directory = server.directory
    assert not directory.exists()


@pytest.mark.programs
@pytest.mark.parametrize("form", ["bare", "whole"])
def test_a_real_cluster_leaves_nothing_behind(form: str) -> None:
    with real_cluster("whole" if form == "whole" else "bare") as cluster:
        pids = cluster.pids
        assert all(map(is_running, pids.values()))
        directory = cluster.directory
    assert not any(map(is_running, pids.values()))
    assert not directory.exists()


@pytest.mark.programs
def test_logs_are_kept_after_a_failure(tmp_path: Path) -> None:
    def fail() -> None:
        with real_cluster("bare"):
            raise ValueError("something")

    with pytest.raises(ValueError, match="something") as failure:
        fail()
    (note,) = failure.value.__notes__
    kept = Path(note.removeprefix("logs are kept in "))
    assert (kept / "kube-apiserver.log").stat().st_size > 0
    kept.rename(tmp_path / "kept")
