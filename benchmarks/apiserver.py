"""Benchmark of the embedded API server: throughput and memory.

Required with 5,000 nodes and 20,000 pods: a list of all pods in 2 s, 1,000 pod creations per second
for 20 s with three watchers that see each of them, in less than 1 GB. Server, creators and watchers
are separate processes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.results import put_between, today  # noqa: E402

EPILOG = """examples:
  apiserver.py                    HTTP and HTTPS, paced and unpaced
  apiserver.py --short            a small cluster for some seconds: check that everything works
  apiserver.py --check            fail if a target is missed
  apiserver.py --profile FILE     write the server's profile in cProfile's format
  apiserver.py --data FILE        persist all objects in a file
"""
LIST_S_MAX, RATE, MEMORY_MB_MAX = 2.0, 1000, 1000
WATCHERS, CREATORS = 3, 16
RESULTS = ROOT / "benchmarks" / "APISERVER.md"
START_S_MAX = 60
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """The figures of one server."""

    name: str
    load: dict[str, Any] = field(default_factory=dict)
    load_cpu_s: float = 0.0
    lists: dict[str, Any] = field(default_factory=dict)
    paced: dict[str, Any] = field(default_factory=dict)
    unpaced: dict[str, Any] = field(default_factory=dict)
    loaded_mb: float = 0.0
    peak_mb: float = 0.0
    end_s: float = 0.0


@dataclass
class Server:
    """A running `kubesched apiserver`."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path

    def cpu_s(self) -> float:
        """Return the processor time it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mb(self, name: str) -> float:
        """Return its resident memory: VmRSS for the current value, VmHWM for the peak."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0.0


@contextmanager
def running(options: argparse.Namespace, *, tls: bool) -> Iterator[Server]:
    """Run the server's command."""
    with tempfile.TemporaryDirectory(prefix="kubesched-benchmark-") as directory:
        kubeconfig = Path(directory, "kubeconfig")
        command = [sys.executable, "-m", "kubesched.cli.main", "apiserver", "--port", "0"]
        if options.profile:
            command[1:2] = ["-m", "cProfile", "-o", str(options.profile), "-m"]
        command += ["--tls" if tls else "--no-tls", "--write-kubeconfig", str(kubeconfig)]
        if options.data:
            command += ["--data", str(options.data)]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        try:
            for _ in range(START_S_MAX * 20):
                if kubeconfig.exists() and kubeconfig.stat().st_size:
                    break
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
                sleep(0.05)
            yield Server(process, kubeconfig)
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(START_S_MAX)


def client(server: Server, work: str, **settings: object) -> subprocess.Popen[str]:
    """Start a client."""
    script = ROOT / "benchmarks" / "apiserver_clients.py"
    command = [sys.executable, str(script), work, "--kubeconfig", str(server.kubeconfig)]
    for name, value in settings.items():
        command += [f"--{name}", str(value)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the measurements of a client."""
    text = process.communicate(timeout=900)[0]
    if process.returncode:
        raise SystemExit("a client failed")
    measurements: dict[str, Any] = msgspec.json.decode(text.splitlines()[-1])
    return measurements


def burst(server: Server, prefix: str, count: int, rate: float) -> dict[str, Any]:
    """Create pods with three watches; return their measurements."""
    watching = client(server, "watch", prefix=prefix, count=count, connections=WATCHERS)
    assert watching.stdout is not None
    if watching.stdout.readline().strip() != "watching":
        raise SystemExit("the watches did not open")
    cpu = server.cpu_s()
    creating = client(server, "create", prefix=prefix, count=count, rate=rate, connections=CREATORS)
    measurements = outcome(creating)
    measurements["watched"] = outcome(watching)
    measurements["server cpu"] = server.cpu_s() - cpu
    return measurements


def measure(options: argparse.Namespace, *, tls: bool) -> Figures:
    """Measure one server from its start to its end."""
    figures = Figures("HTTPS" if tls else "HTTP")
    nodes, pods, seconds = (250, 1000, 2) if options.short else (5_000, 20_000, 20)
    with running(options, tls=tls) as server:
        say(f"{figures.name}: loading {nodes} nodes and {pods} pods")
        cpu, start = server.cpu_s(), perf_counter()
        outcome(client(server, "create", resource="nodes", prefix="node", count=nodes))
        outcome(client(server, "create", prefix="loaded", count=pods))
        figures.load = {"objects": nodes + pods, "seconds": perf_counter() - start}
        figures.load_cpu_s = server.cpu_s() - cpu
        figures.loaded_mb = server.memory_mb("VmRSS")
        figures.lists = outcome(client(server, "list", connections=3))
        say(f"{figures.name}: creating {options.rate} pods per second for {seconds} s")
        figures.paced = burst(server, "paced", options.rate * seconds, options.rate)
        say(f"{figures.name}: creating pods at full speed")
        figures.unpaced = burst(server, "unpaced", options.rate * seconds // 2, 0)
        figures.peak_mb = server.memory_mb("VmHWM")
        start = perf_counter()
        server.process.terminate()
        server.process.wait(START_S_MAX)
        figures.end_s = perf_counter() - start
    return figures


def problems(figures: Figures, options: argparse.Namespace) -> list[str]:
    """Return the failed requirements."""
    failures = []
    for name, run in (("paced", figures.paced), ("unpaced", figures.unpaced)):
        if run["failures"]:
            failures.append(f"{figures.name}, {name}: failed requests: {run['failures']}")
        if not all(run["watched"]["complete"]):
            failures.append(f"{figures.name}, {name}: watchers saw {run['watched']['seen']}")
    if not options.check:
        return failures
    slowest = max(figures.lists["seconds"])
    if slowest > LIST_S_MAX:
        failures.append(f"{figures.name}: a list took {slowest:.2f} s")
    rate = figures.paced["count"] / figures.paced["seconds"]
    if rate < options.rate * 0.99:
        failures.append(f"{figures.name}: {rate:.0f} pods per second")
    if figures.peak_mb > MEMORY_MB_MAX:
        failures.append(f"{figures.name}: {figures.peak_mb:.0f} MB")
    return failures


def table(all_figures: Sequence[Figures]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| | " + " | ".join(figures.name for figures in all_figures) + " |",
        "|---|" + "---:|" * len(all_figures),
    ]

    def row(name: str, cells: Sequence[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    def ms(seconds: float) -> str:
        return f"{seconds * 1000:.0f} ms"

    row("list of all pods, slowest of 3", [ms(max(one.lists["seconds"])) for one in all_figures])
    row("its size", [f"{one.lists['megabytes']:.0f} MB" for one in all_figures])
    for name in ("paced", "unpaced"):
        runs = [getattr(one, name) for one in all_figures]
        row(f"{name}: created a second", [f"{run['count'] / run['seconds']:.0f}" for run in runs])
        row(
            f"{name}: latency p50 / p99 / max",
            [f"{ms(run['p50'])} / {ms(run['p99'])} / {ms(run['max'])}" for run in runs],
        )
        row(
            f"{name}: created a second of the server's CPU",
            [f"{run['count'] / run['server cpu']:.0f}" for run in runs],
        )
        row(
            f"{name}: CPU seconds of creator / watchers",
            [f"{run['cpu']:.1f} / {run['watched']['cpu']:.1f}" for run in runs],
        )
        row(
            f"{name}: watchers that saw everything once",
            [f"{sum(run['watched']['complete'])} of {WATCHERS}" for run in runs],
        )
    row(
        "resident, loaded / peak",
        [f"{one.loaded_mb:.0f} / {one.peak_mb:.0f} MB" for one in all_figures],
    )
    row("from SIGTERM to the end", [ms(one.end_s) for one in all_figures])
    return "\n".join(lines)


def write(text: str) -> None:
    """Write the figures to APISERVER.md."""
    put_between(RESULTS, "figures", [f"{today()}. {machine.description()}.", "", text])


def say(text: str) -> None:
    """Report progress."""
    sys.stderr.write(f"{text}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a requirement fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--short", action="store_true", help="use a small cluster for a few seconds"
    )
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    parser.add_argument("--write", action="store_true", help="write the figures to APISERVER.md")
    parser.add_argument("--rate", type=int, default=RATE, help="creations per second")
    parser.add_argument("--scheme", choices=["http", "https", "both"], default="both")
    parser.add_argument("--profile", type=Path, help="write the server's profile to this file")
    parser.add_argument("--data", type=Path, help="persist the server's objects in this file")
    options = parser.parse_args(argv)
    schemes = {"http": [False], "https": [True], "both": [False, True]}[options.scheme]
    all_figures = [measure(options, tls=tls) for tls in schemes]
    text = table(all_figures)
    sys.stdout.write(f"{text}\n{machine.description()}\n")
    if options.write:
        write(text)
    failures = [text for figures in all_figures for text in problems(figures, options)]
    for text in failures:
        say(f"FAILED: {text}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
