"""Sees that every pinned package is there as a wheel, wherever kubesched is to be installed.

Owns the list of machines and Pythons, the download, and what it tells: a line for each of them, and
exit code 1 with every package that lacks a wheel or needs something that is not pinned. Nothing is
installed, and nothing of a package runs.

    python scripts/wheels.py [--requirements FILE] [--machine x86_64] [--python 3.13]
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from functools import cache, cached_property
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ("x86_64", "aarch64")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# glibc 2.28 is what Debian 10, RHEL 8 and all after them have; a wheel for an older one will do.
GLIBC_MINORS = range(28, 4, -1)
OLD_PLATFORMS = ("manylinux2014", "manylinux2010", "manylinux1", "linux")
PIN = re.compile(
    r"^(?P<pin>[A-Za-z0-9][\w.-]*==[^\s;\\]+)"
    r"(?: *; *(?P<marker>[^\\\n]+?))? *\\\n"
    r"(?P<hashes>(?:    --hash=\S+(?: \\)?\n)+)",
    re.MULTILINE,
)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
LACKING = re.compile(r"No matching distribution found for (\S+)")


@dataclass(frozen=True)
class Target:
    """A machine and a Python."""

    machine: str
    python: str

    @cached_property
    def platforms(self) -> list[str]:
        """Return the platforms whose wheels it takes, the newest first."""
        names = [*(f"manylinux_2_{minor}" for minor in GLIBC_MINORS), *OLD_PLATFORMS]
        return [f"{name}_{self.machine}" for name in names]

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """Return the tags of wheels that it takes."""
        version = tuple(map(int, self.python.split(".")))
        interpreter = f"cp{self.python.replace('.', '')}"
        own = cpython_tags(version, platforms=self.platforms)
        return frozenset((*own, *compatible_tags(version, interpreter, self.platforms)))

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return what markers look at."""
        return {
            "extra": "",
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }

    def wants(self, requirement: Requirement) -> bool:
        """Return whether a requirement counts here."""
        return requirement.marker is None or requirement.marker.evaluate(self.environment)


@dataclass(frozen=True)
class Pin:
    """One version of a package, and the hashes of its files."""

    requirement: Requirement
    text: str
    """The requirement without its marker: pip would ask the Python it runs in about that."""
    hashes: frozenset[str]

    @property
    def lines(self) -> str:
        """Return it as it stands in a requirements file."""
        hashes = " \\\n".join(f"    --hash=sha256:{one}" for one in sorted(self.hashes))
        return f"{self.text} \\\n{hashes}\n"


def pins_of(text: str, target: Target) -> dict[str, Pin]:
    """Return the pins of a requirements file that count on a target, by name."""
    pins: dict[str, Pin] = {}
    for found in PIN.finditer(text):
        marker = f"; {found['marker']}" if found["marker"] else ""
        requirement = Requirement(found["pin"] + marker)
        if target.wants(requirement):
            hashes = frozenset(HASH.findall(found["hashes"]))
            pins[canonicalize_name(requirement.name)] = Pin(requirement, found["pin"], hashes)
    return pins


def download(pins: Iterable[Pin], target: Target, folder: Path) -> list[str]:
    """Have pip fetch wheels, hashes checked; return what it could not fetch."""
    file = folder / "requirements.txt"
    file.write_text("".join(pin.lines for pin in pins), encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--require-hashes", f"--dest={folder}"),
        *("--implementation=cp", f"--python-version={target.python}"),
        *(f"--platform={name}" for name in target.platforms),
        *("--requirement", str(file)),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return []
    lacking = [f"no wheel of {one}" for one in LACKING.findall(ran.stderr)]
    return lacking or [f"pip: {line}" for line in ran.stderr.strip().splitlines()[-3:]]


def wheels_of(pins: Mapping[str, Pin], target: Target, folder: Path) -> dict[str, Path]:
    """Return the wheels in a folder that are pinned and that a target takes, by name."""
    found = {}
    for path in sorted(folder.glob("*.whl")):
        name, _, _, tags = parse_wheel_filename(path.name)
        pin = pins.get(name)
        if pin and not tags.isdisjoint(target.tags) and digest_of(path) in pin.hashes:
            found[str(name)] = path
    return found


@cache
def digest_of(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unmet(wheel: Path, pins: Mapping[str, Pin], target: Target) -> Iterator[str]:
    """Yield what a wheel needs on a target and the pins do not give."""
    for needed in filter(target.wants, requirements_of(wheel)):
        pin = pins.get(canonicalize_name(needed.name))
        if pin is None:
            yield f"{wheel.name} needs {needed}, which is not pinned"
        elif not needed.specifier.contains(pin.text.partition("==")[2], prereleases=True):
            yield f"{wheel.name} needs {needed}, and {pin.text} is pinned"


def requirements_of(wheel: Path) -> list[Requirement]:
    """Return what the metadata of a wheel ask for."""
    with ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(name).decode(), headersonly=True)
    return [Requirement(text) for text in fields.get_all("Requires-Dist") or ()]


def look(file: Path, target: Target, folder: Path) -> tuple[int, list[str]]:
    """Return how many packages have a wheel for a target, and what is wrong."""
    pins = pins_of(file.read_text(encoding="utf-8"), target)
    if not pins:
        return 0, ["nothing is pinned"]
    # Many wheels are for several targets, and were fetched for another.
    there = wheels_of(pins, target, folder)
    absent = [pin for name, pin in pins.items() if name not in there]
    problems = download(absent, target, folder) if absent else []
    wheels = wheels_of(pins, target, folder)
    if not problems:
        problems += [f"no wheel of {name}" for name in pins if name not in wheels]
    for wheel in wheels.values():
        problems += unmet(wheel, pins, target)
    return len(wheels), problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at every target; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requirements", action="append", type=Path, metavar="FILE")
    parser.add_argument("--machine", action="append", choices=MACHINES)
    parser.add_argument("--python", action="append", choices=PYTHONS)
    options = parser.parse_args(arguments)
    files = options.requirements or sorted((ROOT / "requirements").glob("*.txt"))
    machines, pythons = options.machine or MACHINES, options.python or PYTHONS
    targets = [Target(machine, python) for machine in machines for python in pythons]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for target in targets:
            for file in files:
                count, problems = look(file, target, Path(folder))
                failed |= bool(problems)
                where = f"{target.machine:8} Python {target.python:5} {file.name:12}"
                print(f"{where} {count:3} wheels  {'FAILED' if problems else 'ok'}", flush=True)
                for problem in problems:
                    print(f"    {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
