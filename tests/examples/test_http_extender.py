"""examples/http-extender: its README, its deployment, and placements."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.schedulers import scheduler_command
from kubesched.cluster.playground.in_process import playground
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.testing import Programs, a_pod
from tests.examples.folders import FORMS, ROOT, Document, Example, Form
from tests.examples.following import Reader, Step, prints, sections
from tests.examples.test_manifests import MOUNTED, as_service_account, manifests
from tests.unit.cli.running import kubesched

EXAMPLE = Example("http-extender", ("http_extender.py:HttpExtender",))
SECTIONS = sections(EXAMPLE.readme)
_END_S = 30.0


@dataclass
class ReaderOfMany(Reader):
    """A reader who also starts long-running programs, each in a terminal."""

    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def follow(self, steps: Sequence[Step]) -> None:
        """Run the steps in order."""
        scheduler = self.directory / "bin" / "kube-scheduler"
        scheduler.symlink_to(Programs.built().path("kube-scheduler"))
        for step in steps:
            if re.match(r"kubesched extender (?!.*--print-config)|kube-scheduler ", step.line):
                self._start(step)
            elif step.line.startswith("curl "):
                until(partial(self._prints, step), step.line)
            else:
                super().follow([step])

    def _prints(self, step: Step) -> bool:
        return prints(self._completed(step.line).stdout, step.expected)

    def _start(self, step: Step) -> None:
        output = self.directory / f"program-{len(self._started)}.out"
        assert self.playground is not None
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        kubeconfig = str(self.playground.kubeconfig)
        with output.open("wb") as written:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {step.line}"],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PATH": path,
                    "HOME": str(self.directory),
                    "KUBECONFIG": kubeconfig,
                },
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
        self._started.append(process)
        until(lambda: prints(output.read_text(), step.expected), f"{step.line}: {step.expected}")

    def __exit__(self, *raised: object) -> None:
        for process in self._started:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_S)
            finally:
                process.kill()
                process.wait()
        super().__exit__(*raised)


@pytest.mark.programs
@pytest.mark.timeout(240)
@pytest.mark.parametrize("plane", ["embedded", "real"])
@pytest.mark.parametrize("title", ["Call it from a stock kube-scheduler", "On a cluster"])
def test_the_readme(title: str, plane: str, tmp_path: Path) -> None:
    with ReaderOfMany(tmp_path, [f"--control-plane={plane}"]) as reader:
        if title == "On a cluster":
            reader.start_playground()
        reader.follow(SECTIONS[title])
        if title == "On a cluster":
            return
        log = (tmp_path / "program-0.out").read_text()
        (best,) = re.findall(r'verb="prioritize" pod="default/extended" nodes=3 best="(\S+)"', log)
        node = reader._completed("kubectl get pod extended -o jsonpath={.spec.nodeName}").stdout
        assert node == best
        assert "default/plain" not in log


def test_the_printed_configuration(tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(SECTIONS["Configuration and RBAC"])


def test_every_section_is_followed() -> None:
    assert list(SECTIONS) == [
        "Call it from a stock kube-scheduler",
        "Configuration and RBAC",
        "On a cluster",
    ]


def printed(*flags: str) -> list[Any]:
    run = kubesched(
        "extender", "--plugin", *EXAMPLE.plugin_options, "--bind", "--print-config", *flags
    )
    return list(yaml.safe_load_all(run.out))


def test_the_configuration_is_the_printed_one_but_for_the_weight() -> None:
    (entry,) = EXAMPLE.config()["extenders"]
    ((expected,),) = (one["extenders"] for one in printed() if "extenders" in one)
    assert entry == {**expected, "weight": 100}


def test_deployed_files_equal_the_example() -> None:
    found = manifests(EXAMPLE)
    (config_map,) = found["ConfigMap"]
    plugin = (EXAMPLE.folder / "http_extender.py").read_text()
    assert config_map["data"] == {"http_extender.py": plugin}
    (deployment,) = found["Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--plugin={MOUNTED}/{EXAMPLE.plugins[0]}" in container["args"]
    for document in printed("--service-account=kube-system/http-extender")[1:]:
        (own,) = found[document["kind"]]
        named = yaml.safe_dump(document).replace("kubesched-extender", "http-extender")
        assert own == yaml.safe_load(named)


@pytest.mark.parametrize("form", FORMS[1:2])
@pytest.mark.parametrize("program", ["kube-scheduler", "kube-scheduler-1.29"])
@pytest.mark.timeout(120)
def test_the_deployed_extender_has_the_rights_it_needs(
    program: str, form: Form, tmp_path: Path
) -> None:
    """Its command runs here as the service account of the manifest; a kube-scheduler calls it."""
    found = manifests(EXAMPLE)
    with (
        playground(nodes=3, server=form.server) as cluster,
        ProcessGroup(tmp_path) as group,
    ):
        for documents in found.values():
            cluster.create(*documents)
        kubeconfig = as_service_account(cluster, found["ServiceAccount"][0], tmp_path)
        (port,) = free_ports(1)
        group.start("extender", mounted_command(found, port, kubeconfig, tmp_path))
        config = EXAMPLE.config()
        config["clientConnection"]["kubeconfig"] = str(cluster.kubeconfig)
        config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}"
        path = tmp_path / "scheduler.yaml"
        path.write_text(yaml.safe_dump(config))
        scheduler = Programs.built().path(program)
        group.start("scheduler", [scheduler, f"--config={path}", "--secure-port=0"])
        cluster.create(a_pod("extended", scheduler="extended-scheduler"), a_pod("plain"))
        node = cluster.until_bound("extended")
        cluster.until_bound("plain")
        log = tmp_path / "extender.log"
        until(lambda: 'verb="bind" pod="default/extended"' in log.read_text(), "it is reported")
        text = log.read_text()
        assert f'verb="prioritize" pod="default/extended" nodes=3 best="{node}"' in text
        assert f'verb="bind" pod="default/extended" node="{node}"' in text
        assert "default/plain" not in text
        assert "forbidden" not in text.lower(), text
        assert group.terminate("extender") == 0


def mounted_command(
    found: dict[str, list[Document]], port: int, kubeconfig: Path, directory: Path
) -> list[str]:
    """Return the container's command, with its mounts in a local directory."""
    mount = directory / "mounted"
    mount.mkdir()
    for name, text in found["ConfigMap"][0]["data"].items():
        (mount / name).write_text(text)
    (container,) = found["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["kubesched", "extender"]
    arguments = [
        argument.replace(MOUNTED, str(mount)).replace("0.0.0.0:8888", f"127.0.0.1:{port}")
        for argument in container["args"]
    ]
    program = scheduler_command("kubesched")[0]
    return [program, "extender", *arguments, f"--kubeconfig={kubeconfig}"]
