"""Records the output of kube-scheduler v1.36.4 for many command lines, for the unit tests.

Owns the command lines: every flag with valid and invalid values, forms of flags, rules between
flags, precedence of file and flags, every feature gate at every version, and random mixtures. Runs
the real program with each of them and with a flag that makes it exit.

    PYTHONPATH=src .venv/bin/python conformance/record_command_lines.py
"""

from __future__ import annotations

import ast
import gzip
import json
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubesched.cluster.launch.ports import free_ports
from kubesched.config.feature_gates import known_gates
from kubesched.run.options.scheduler_flags import scheduler_flags
from kubesched.testing import Programs

TESTS = Path(__file__).resolve().parents[1] / "tests/unit"
OURS = {"context", "plugin", "plugin-budget", "shadow", "shadow-report"}
# Makes a valid command line exit: the configuration is written, nothing is connected.
ENDING = ["--master=http://127.0.0.1:1", "--secure-port=0", "--write-config-to={dir}/out.yaml"]

GOOD: dict[str, list[str]] = {
    "string": ["x", "", "a b", "a=b"],
    "bool": ["true", "false", "1", "0", "T", "F", "True", "FALSE"],
    "int": ["0", "1", "-1", "0x10", "0b11", "017", "0o17", "1_000", "+5", "70000"],
    "int32": ["0", "1", "-1", "0x10", "2147483647"],
    "float32": [
        "0",
        "1.5",
        "1e3",
        "-1",
        ".5",
        "5.",
        "16777217",
        "0.1",
        "1e-7",
        "+2",
        "3e38",
        "1_0",
        "1_0.2_5e1_0",
        "0x1p-2",
        "0X_1.8P+1",
    ],
    "duration": ["0", "0s", "1s", "1h2m3s", "-5s", "1.5h", "100ms", "1us", "+3s", "2µs"],
    "ip": ["", "127.0.0.1", "::", "::1", " 10.0.0.1 ", "::ffff:1.2.3.4", "2001:db8::1"],
    "stringSlice": ["", "a", "a,b", '"a,b",c', "x-remote-user", " ", "a,,b", '"a""b"'],
    "int32Slice": ["23", "23,29", "0x17", "-1"],
    "stringToString": ["a=b", "m,l=v", '"m,l=v1,v2"', '"m,l=v1,v2","n,l=w"', "a=b=c"],
    "namedCertKey": ["a.crt,a.key", "a.crt,a.key:x.y", " a , b : c , d "],
    "Level": ["0", "3", "2147483647", "007"],
    "pattern=N,...": ["", "a=1", "a=1,b=2", "a=1,", "*=9"],
    "quantity": ["0", "512", "1Ki", "2M", "-", "."],
    "colonSeparatedMultimapStringString": ["", ",", "kube:"],
    "version": [],
    "stringArray": [],
}
BAD: dict[str, list[str]] = {
    "string": [],
    "bool": ["x", "", "yes", "2", "tRUE", " true"],
    "int": [
        "",
        "x",
        "1.5",
        "08",
        "0x",
        "1__0",
        "9223372036854775808",
        "-9223372036854775809",
        " 1",
    ],
    "int32": ["", "x", "2147483648", "-2147483649", "1e3"],
    "float32": ["", "x", "1,5", "1e39", "0x", "--1", " 1", "1e", "1_", "1._5", "0x1", "0x_p1"],
    "duration": ["", "x", "5", "1x", "1s1", ".s", "1h2", "9223372036854775808ns", " 1s", "1d"],
    "ip": ["x", "1.2.3", "1.2.3.4.5", "01.2.3.4", "::1%eth0", "10.0.0.0/8", "256.0.0.1"],
    "stringSlice": ['"a', 'a"b', 'a,"b"c', '"', 'ab,"c\nd"e', "\n"],
    "int32Slice": ["", "x", "1,", "1,x", "2147483648"],
    "stringToString": ["", "x", "a=b,c", 'a=b,"c=d', "a=b,=,c"],
    "namedCertKey": ["", "a", "a,b,c", "a,b:", "a:b"],
    "Level": ["", "x", "-1", "2147483648", "0x3", "1_0", "+1"],
    "pattern=N,...": ["a", "a=", "=1", "a=x", "a=1=2", "a=-1", "a=2147483648"],
    "quantity": ["", "x", "1X", " 1", "1 ", "1e", "1.2.3"],
    "colonSeparatedMultimapStringString": [],
    "version": ["x", "", "v", "v1", "v1.36", "v1.36.3", "v1.36.4_", "v01.36.4", "v1.36.4-01", "V1"],
    "stringArray": [],
}


def case(
    *arguments: str, ends: bool = False, files: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a command line, with the flag that makes it exit where needed."""
    line = list(arguments) if ends else [*ENDING, *arguments]
    return {"arguments": line, "files": files or {}}


def flag_values() -> Iterator[dict[str, Any]]:
    """Every flag with every good and bad value of its type."""
    for flag in scheduler_flags():
        if flag.name in OURS or flag.name in ("help", "config", "write-config-to"):
            continue
        kind = flag.type.name
        needs_port = flag.name.startswith("tls-") and flag.name not in (
            "tls-cert-file",
            "tls-private-key-file",
            "tls-sni-cert-key",
        )
        port = ["--secure-port={port}", "--bind-address=127.0.0.1"] if needs_port else []
        for value in GOOD[kind]:
            # A missing certificate is noticed only after the configuration was read.
            if flag.name in ("tls-cert-file", "tls-private-key-file", "cert-dir"):
                yield case(f"--{flag.name}={value}")
            elif flag.name not in ("master", "kubeconfig", "secure-port"):
                yield case(*port, f"--{flag.name}={value}")
        for value in BAD[kind]:
            yield case(f"--{flag.name}={value}", ends=True)


FORMS: list[list[str]] = [
    ["--bogus"],
    ["--bogus=1"],
    ["--bogus", "1"],
    ["--leader_elect_bogus"],
    ["--leader-elects"],
    ["--port=1"],
    ["--address=0.0.0.0"],
    ["--policy-config-file=x"],
    ["--scheduler-name=x"],
    ["--algorithm-provider=x"],
    ["--lock-object-name=x"],
    ["--log-dir=x"],
    ["--logtostderr"],
    ["--stderrthreshold=1"],
    ["--alsologtostderr=true"],
    ["--add-dir-header"],
    ["--config"],
    ["--v"],
    ["-v"],
    ["-z"],
    ["-zv"],
    ["-vz"],
    ["-v=x"],
    ["-v="],
    ["-vx"],
    ["-v", "x"],
    ["-v", "-1"],
    ["-zh"],
    ["-é"],
    ['-"'],
    ["-'"],
    ["-\\"],
    ["-1"],
    ["-"],
    ["", "-"],
    ["---"],
    ["---x"],
    ["--="],
    ["--=x"],
    ["x"],
    ["x", "y", ""],
    ["--", "x"],
    ["--", "--bogus"],
    ["--leader-elect", "false"],
    ["--leader-elect", "false", "--bogus"],
    ["a\tb", 'c"d', "é", "\x7f"],
    ["--help=x"],
    ["--help=false", "x"],
    ["-h=x"],
    ["-hx"],
    ["--help", "--bogus"],
    ["--version", "--bogus"],
    ["--version", "x"],
    ["--version=true", "x"],
    ["--version", "--feature-gates=Bogus=true"],
    ["--version", "--logging-format=xml"],
    ["--version", "--secure-port=-1"],
    ["--version=raw", "--emulated-version=1.20"],
    ["--version=v1.36.4+mine", "x"],
    ["--version=1"],
    ["--version=t"],
    ["--version", "raw"],
    ["-v3", "--version"],
    ["-v", "3", "--version"],
    ["-v=3", "--version=true"],
]

ENDED: list[list[str]] = [
    ["-v=3"],
    ["-v", "3"],
    ["-v3"],
    ["--v=3"],
    ["--v", "3"],
    [""],
    ["", ""],
    ["--", ""],
    ["--"],
    ["--leader_elect=false"],
    ["--leader_elect-lease_duration=30s"],
    ["--kube_api_qps", "12.5"],
    ["--leader-elect"],
    ["--leader-elect=false"],
    ["--leader-elect=false", "--leader-elect"],
    ["--profiling=false"],
    ["--profiling=false", "--contention-profiling=true"],
    ["--contention-profiling=false"],
    ["--kubeconfig={dir}/kubeconfig"],
    ["--kubeconfig={dir}/kubeconfig", "--kube-api-burst=7", "--kube-api-qps=3.3"],
    ["--kube-api-content-type=application/json"],
    ["--kube-api-content-type="],
    ["--kube-api-burst=-5"],
    ["--kube-api-burst=0", "--kube-api-qps=0"],
    ["--pod-max-in-unschedulable-pods-duration=10m"],
    ["--leader-elect-lease-duration=5s"],
    ["--leader-elect-renew-deadline=20s"],
    ["--leader-elect-retry-period=0s"],
    ["--leader-elect-resource-lock=endpoints"],
    ["--leader-elect-resource-lock=configmaps"],
    ["--leader-elect-resource-lock=endpointsleases"],
    ["--leader-elect-resource-lock=configmapsleases"],
    ["--leader-elect-resource-lock=x"],
    ["--leader-elect-resource-lock="],
    ["--leader-elect-resource-lock=x", "--leader-elect=false"],
    ["--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=there"],
    ["--leader-elect-resource-name="],
    ["--secure-port=-1"],
    ["--secure-port=65536"],
    ["--secure-port={port}", "--bind-address=127.0.0.1"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-cipher-suites=X"],
    ["--secure-port={port}", "--bind-address=127.0.0.1",
     "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,X"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-curve-preferences=0"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-curve-preferences=65536"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-curve-preferences=22"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-curve-preferences=29,29"],
    ["--secure-port={port}", "--bind-address=127.0.0.1",
     "--tls-curve-preferences=23,24,25,29,4587,4588,4589"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-min-version=VersionTLS13"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-min-version=VersionTLS14"],
    ["--secure-port={port}", "--bind-address=127.0.0.1", "--tls-min-version=1.2",
     "--tls-cipher-suites=X"],
    ["--tls-min-version=VersionTLS14"],
    ["--requestheader-username-headers="],
    ["--requestheader-username-headers=", "--requestheader-username-headers=a"],
    ["--requestheader-username-headers= ,a"],
    ["--requestheader-group-headers=a,"],
    ["--requestheader-extra-headers-prefix=a, "],
    ["--requestheader-allowed-names= "],
    ["--requestheader-uid-headers=x"],
    ["--requestheader-uid-headers=x-remote-uid"],
    ["--requestheader-uid-headers=X-REMOTE-UID, "],
    ["--requestheader-uid-headers=x", "--feature-gates=RemoteRequestHeaderUID=false"],
    ["--feature-gates=RemoteRequestHeaderUID=false"],
    ["--show-hidden-metrics-for-version=1.35"],
    ["--show-hidden-metrics-for-version=1.34"],
    ["--show-hidden-metrics-for-version=1.36"],
    ["--show-hidden-metrics-for-version=1.35.0"],
    ["--disabled-metrics=a,b"],
    ["--disabled-metrics=a,b c"],
    ["--disabled-metrics=a", "--disabled-metrics=<b>"],
    ["--disabled-metrics=0a"],
    ["--allow-metric-labels=m,l=v"],
    ["--allow-metric-labels=ml=v"],
    ["--allow-metric-labels=\"m,l=v1,v2\",\"n,l=w\""],
    ["--allow-metric-labels=m,l=v", "--allow-metric-labels=n,0=w"],
    ["--allow-metric-labels-manifest={dir}/nowhere.yaml"],
    ["--allow-metric-labels-manifest={dir}"],
    ["--allow-metric-labels-manifest={dir}/labels.yaml"],
    ["--allow-metric-labels-manifest={dir}/odd-labels.yaml"],
    ["--allow-metric-labels-manifest={dir}/labels.yaml", "--allow-metric-labels=m,l=v"],
    ["--allow-metric-labels-manifest={dir}/labels.yaml", "--allow-metric-labels=m,l=v",
     "--disabled-metrics=x", "--show-hidden-metrics-for-version=1.35"],
    ["--secure-port=-7", "--requestheader-username-headers= ", "--requestheader-uid-headers=u",
     "--show-hidden-metrics-for-version=1", "--disabled-metrics=/", "--allow-metric-labels=x=y"],
    ["--secure-port=-7", "--emulated-version=1.30"],
    ["--logging-format=json"],
    ["--logging-format=xml"],
    ["--logging-format="],
    ["--logging-format=json", "--vmodule=a=1"],
    ["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],
    ["--logging-format=xml", "--vmodule=a=1", "--log-flush-frequency=-1s"],
    ["--log-flush-frequency=0"],
    ["--log-text-split-stream"],
    ["--log-json-split-stream", "--log-text-info-buffer-size=1Ki", "--log-json-info-buffer-size=1"],
    ["--log-text-split-stream=false", "--log-text-info-buffer-size=0"],
    ["--logging-format=xml", "--secure-port=-1"],
    ["--logging-format=xml", "--feature-gates=X=true"],
    ["--emulated-version=1.35"],
    ["--emulated-version=1.34"],
    ["--emulated-version=1.33"],
    ["--emulated-version=kube=1.35"],
    ["--emulated-version= kube = 1.35 "],
    ["--emulated-version=1.35.0"],
    ["--emulated-version=v1.35"],
    ["--emulated-version=1.35-alpha.1"],
    ["--emulated-version=1.36"],
    ["--emulated-version=1.37"],
    ["--emulated-version=1.32"],
    ["--emulated-version=1.0"],
    ["--emulated-version=2.35"],
    ["--emulated-version=0.35"],
    ["--emulated-version=1"],
    ["--emulated-version=x"],
    ["--emulated-version="],
    ["--emulated-version=kube="],
    ["--emulated-version=1.35.1"],
    ["--emulated-version=01.35"],
    ["--emulated-version=1.035"],
    ["--emulated-version=foo=1.35"],
    ["--emulated-version=1.35,1.34"],
    ["--emulated-version=1.35", "--emulated-version=kube=1.35.0"],
    ["--emulated-version=1.99999999999999999999"],
    ["--min-compatibility-version=1.33"],
    ["--min-compatibility-version=1.36"],
    ["--min-compatibility-version=1.37"],
    ["--min-compatibility-version=1.32"],
    ["--min-compatibility-version=1.35", "--emulated-version=1.34"],
    ["--min-compatibility-version=1.34", "--emulated-version=1.34"],
    ["--min-compatibility-version=1.34.2"],
    ["--min-compatibility-version=bar=1.34"],
    ["--min-compatibility-version=x"],
    ["--feature-gates=Bogus=true"],
    ["--feature-gates=Bogus"],
    ["--feature-gates=kube:Bogus"],
    ["--feature-gates=SchedulerAsyncPreemption=x"],
    ["--feature-gates=SchedulerAsyncPreemption="],
    ["--feature-gates= SchedulerAsyncPreemption = false "],
    ["--feature-gates=SchedulerAsyncPreemption=false"],
    ["--feature-gates=kube:SchedulerAsyncPreemption=false"],
    ["--feature-gates=SchedulerAsyncPreemption=false",
     "--feature-gates=SchedulerPopFromBackoffQ=false"],
    ["--feature-gates=SchedulerAsyncPreemption=false,kube:SchedulerPopFromBackoffQ=false"],
    ["--feature-gates=wardle:X=true"],
    ["--feature-gates=:SchedulerAsyncPreemption=false"],
    ["--feature-gates=a:b:c=true"],
    ["--feature-gates==true"],
    ["--feature-gates=SchedulerAsyncPreemption=t,SchedulerAsyncPreemption=f"],
    ["--feature-gates=SchedulerQueueingHints=false"],
    ["--feature-gates=SchedulerQueueingHints=true"],
    ["--feature-gates=NodeDeclaredFeatures=false"],
    ["--feature-gates=DRASchedulerFilterTimeout=false"],
    ["--feature-gates=DRADeviceBindingConditions=false"],
    ["--feature-gates=DRAResourceClaimDeviceStatus=false"],
    ["--feature-gates=DRAResourceClaimDeviceStatus=false",
     "--feature-gates=DRADeviceBindingConditions=false",
     "--feature-gates=DRAResourceClaimGranularStatusAuthorization=false"],
    ["--feature-gates=GangScheduling=true"],
    ["--feature-gates=WorkloadAwarePreemption=true"],
    ["--feature-gates=OpportunisticBatching=false,NominatedNodeNameForExpectation=0"],
    ["--master="],
    ["--master=", "--kubeconfig={dir}/kubeconfig"],
    ["--write-config-to={dir}/no/out.yaml"],
    ["--write-config-to={dir}"],
]  # fmt: skip

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FILES = {
    "kubeconfig": "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
    "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
    "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    "users: [{name: a, user: {}}]\n",
    "labels.yaml": '"metric1,label1": "a,b"\n"metric2,label2": ""\n',
    "odd-labels.yaml": '"metric1": "a,b"\n',
    "empty.yaml": "",
    "plain.yaml": V1,
    "election.yaml": V1 + "leaderElection: {leaderElect: false, leaseDuration: 30s, "
    "renewDeadline: 20s, retryPeriod: 3s, resourceName: file, resourceNamespace: files}\n",
    "client.yaml": V1 + "clientConnection: {qps: 7.5, burst: 9, contentType: application/json}\n"
    "enableProfiling: false\n",
    "bad.yaml": V1 + "parallelism: 0\npodInitialBackoffSeconds: 0\n",
    "unknown.yaml": V1 + "bogus: 1\n",
    "old.yaml": V1.replace("/v1", "/v1beta3"),
    "list.yaml": "- 1\n",
    "two.yaml": V1 + "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
    "plugins.yaml": V1 + "profiles:\n- plugins:\n    multiPoint:\n"
    "      enabled: [{name: NodeDeclaredFeatures}, {name: NodeName, weight: 7}]\n"
    "      disabled: [{name: ImageLocality}]\n",
    "absent.yaml": V1
    + "profiles:\n- plugins:\n    multiPoint:\n      enabled: [{name: Nowhere}]\n",
    "devices.yaml": V1 + "profiles:\n- pluginConfig:\n  - name: DynamicResources\n"
    "    args: {filterTimeout: 3s, bindingTimeout: 30s}\n",
    "locks.yaml": V1 + "leaderElection: {resourceLock: endpoints}\n",
}
WITH_FILES: list[list[str]] = [
    ["--config={dir}/nowhere.yaml"],
    ["--config={dir}"],
    ["--config={dir}/plain.yaml/x"],
    *([f"--config={{dir}}/{name}"] for name in FILES if name.endswith(".yaml")),
    ["--config={dir}/plain.yaml", "--leader-elect=false"],
    ["--config={dir}/election.yaml", "--leader-elect"],
    ["--config={dir}/election.yaml", "--leader-elect-lease-duration=40s"],
    ["--config={dir}/election.yaml", "--leader-elect-lease-duration=10s"],
    ["--config={dir}/election.yaml", "--leader-elect", "--leader-elect-lease-duration=10s"],
    ["--config={dir}/election.yaml", "--leader-elect", "--leader-elect-renew-deadline=0s"],
    ["--config={dir}/election.yaml", "--leader-elect", "--leader-elect-retry-period=-1s"],
    ["--config={dir}/election.yaml", "--leader-elect-resource-name=flag"],
    ["--config={dir}/election.yaml", "--leader-elect-resource-name=", "--leader-elect"],
    ["--config={dir}/election.yaml", "--leader-elect-resource-namespace=flag"],
    ["--config={dir}/election.yaml", "--leader-elect", "--leader-elect-resource-lock=configmaps"],
    ["--config={dir}/locks.yaml", "--leader-elect-resource-lock=leases"],
    ["--config={dir}/client.yaml", "--kube-api-qps=1", "--kube-api-burst=2", "--profiling=true"],
    ["--config={dir}/client.yaml", "--kubeconfig=/nowhere"],
    ["--config={dir}/client.yaml", "--kube-api-content-type=x", "--contention-profiling"],
    ["--config={dir}/client.yaml", "--pod-max-in-unschedulable-pods-duration=1m"],
    ["--config={dir}/bad.yaml", "--secure-port=-1"],
    ["--config={dir}/nowhere.yaml", "--requestheader-allowed-names= "],
    ["--config={dir}/plugins.yaml", "--emulated-version=1.35"],
    ["--config={dir}/plain.yaml", "--emulated-version=1.33"],
    ["--config={dir}/devices.yaml", "--emulated-version=1.34"],
    ["--config={dir}/devices.yaml", "--emulated-version=1.33"],
    ["--config={dir}/devices.yaml", "--feature-gates=DRASchedulerFilterTimeout=false"],
    ["--config={dir}/devices.yaml", "--feature-gates=DRADeviceBindingConditions=false"],
    ["--config={dir}/devices.yaml", "--feature-gates=DRADeviceBindingConditions=false",
     "--feature-gates=DRASchedulerFilterTimeout=false"],
    ["--config", "{dir}/plain.yaml", "--config", "{dir}/election.yaml"],
    ["--config={dir}/plain.yaml", "--config="],
]  # fmt: skip


def mixtures(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Random command lines: some flags with valid values, at most one with an invalid one."""
    rng = random.Random(seed)
    skipped = {"help", "config", "write-config-to", "master", "kubeconfig", "cert-dir", "version"}
    flags = [
        flag
        for flag in scheduler_flags()
        if flag.name not in OURS | skipped and not flag.name.startswith("tls-")
    ]
    for _ in range(count):
        arguments = []
        for flag in rng.sample(flags, rng.randint(1, 5)):
            values = GOOD[flag.type.name]
            if rng.random() < 0.08 and BAD[flag.type.name]:
                values = BAD[flag.type.name]
            arguments += _written(rng, flag.name, rng.choice(values), alone=bool(flag.type.alone))
        if rng.random() < 0.3:
            arguments.append("--config={dir}/" + rng.choice([n for n in FILES if ".yaml" in n]))
        yield case(*arguments, "--secure-port=0")


def _written(rng: random.Random, name: str, value: str, *, alone: bool) -> list[str]:
    if rng.random() < 0.3:
        name = name.replace("-", "_", rng.randint(1, 3))
    if not alone and rng.random() < 0.4:
        return [f"--{name}", value]
    return [f"--{name}={value}"]


def gates() -> Iterator[dict[str, Any]]:
    """Every gate on and off at every version."""
    for version in ("1.33", "1.34", "1.35", "1.36"):
        for name in known_gates():
            for value in ("true", "false"):
                yield case(
                    "--version",
                    f"--emulated-version={version}",
                    f"--feature-gates={name}={value}",
                    ends=True,
                )


def main() -> None:
    """Record all command lines and feature gates."""
    program = Programs.built().path("kube-scheduler")
    cases = [
        *flag_values(),
        *(case(*arguments, ends=True) for arguments in FORMS),
        *(case(*arguments) for arguments in ENDED),
        *(case(*arguments) for arguments in WITH_FILES),
        *mixtures(400, seed=6),
    ]
    with ThreadPoolExecutor(2) as pool:
        recorded = list(pool.map(lambda one: record(str(program), one), cases))
        of_gates = list(pool.map(lambda one: record(str(program), one), gates()))
    _write("run/data/command_lines.json.gz", {"files": FILES, "cases": recorded})
    gate_errors = [
        {
            "version": one["arguments"][1].removeprefix("--emulated-version="),
            "gate": one["arguments"][2].removeprefix("--feature-gates="),
            "error": one["error"],
        }
        for one in of_gates
    ]
    _write("config/data/gates.json.gz", {"listed": _listed(str(program)), "told": gate_errors})
    kinds = [one["kind"] for one in recorded]
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))}, len(gate_errors))


def _write(name: str, content: object) -> None:
    data = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    (TESTS / name).write_bytes(gzip.compress(data, mtime=0))


def _listed(program: str) -> list[str]:
    """Return the feature gates in the help."""
    ran = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"kube:(\w+=true\|false \(.*\))", ran.stdout)


def record(program: str, one: dict[str, Any]) -> dict[str, Any]:
    """Run a command line; return it with its output."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in FILES.items():
            Path(directory, name).write_text(text)
        (port,) = free_ports(1)
        arguments = [
            a.replace("{dir}", directory).replace("{port}", str(port)) for a in one["arguments"]
        ]
        ran = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=directory,
            check=False,
        )
        outcome: dict[str, Any] = {"arguments": one["arguments"], "status": ran.returncode}
        outcome["kind"], outcome["error"] = _error_of(ran.stderr)
        outcome["error"] = outcome["error"].replace(directory, "{dir}")
        outcome["warnings"] = re.findall(r"(--requestheader-\S+ is set without .*)", ran.stderr)
        if outcome["kind"] == "":
            outcome["kind"] = "version" if ran.stdout.startswith(("Kub", "version.")) else "help"
        written = Path(directory, "out.yaml")
        if ran.returncode == 0 and written.exists():
            outcome["kind"] = "written"
            outcome["config"] = written.read_text().replace(directory, "{dir}")
        return outcome


def _error_of(stderr: str) -> tuple[str, str]:
    """Return the kind of the program's exit, and its message."""
    failed = re.search(r'"command failed" err=(".*")$', stderr, re.MULTILINE)
    if failed is not None:
        return "command", ast.literal_eval(failed[1])
    block = re.search(r'"command failed" err=<\n(.*?)\n >', stderr, re.DOTALL)
    if block is not None:
        return "command", re.sub(r"^\t", "", block[1], flags=re.MULTILINE)
    failed = re.search(r'"command failed","err":(".*?[^\\]")', stderr)
    if failed is not None:
        return "command", json.loads(failed[1])
    usage = re.search(r"^Error: (.*)\Z", stderr.rstrip("\n"), re.MULTILINE | re.DOTALL)
    if usage is not None:
        return "usage", usage[1]
    plain = [
        line for line in stderr.splitlines() if not re.match(r'[IWEF]\d{4} |\{"ts"|\t| >', line)
    ]
    return ("logging", "\n".join(plain)) if plain else ("", "")


if __name__ == "__main__":
    main()
