"""Checks that every pinned package has a wheel for every supported machine and Python.

Owns the list of machines and Pythons, the download, and the report: a line for each target, and
exit code 1 with every package that lacks a wheel or has an unpinned requirement. Installs nothing,
and runs no code of a package.

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
# Debian 10, RHEL 8 and later have at least glibc 2.28, and accept wheels for older ones.
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
        """Return the platforms of accepted wheels, the newest first."""
        names = [*(f"manylinux_2_{minor}" for minor in GLIBC_MINORS), *OLD_PLATFORMS]
        return [f"{name}_{self.machine}" for name in names]

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """Return the tags of accepted wheels."""
        version = tuple(map(int, self.python.split(".")))
        interpreter = f"cp{self.python.replace('.', '')}"
        own = cpython_tags(version, platforms=self.platforms)
        return frozenset((*own, *compatible_tags(version, interpreter, self.platforms)))

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the variables of markers."""
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

    def applies(self, requirement: Requirement) -> bool:
        """Return whether a requirement applies to this target."""
        return requirement.marker is None or requirement.marker.evaluate(self.environment)


@dataclass(frozen=True)
class Pin:
    """One version of a package, and the hashes of its files."""

    requirement: Requirement
    text: str
    """The requirement without its marker, which pip would evaluate for the Python it runs in."""
    hashes: frozenset[str]

    @property
    def lines(self) -> str:
        """Return the pin in the format of a requirements file."""
        hashes = " \\\n".join(f"    --hash=sha256:{one}" for one in sorted(self.hashes))
        return f"{self.text} \\\n{hashes}\n"


def pins_of(text: str, target: Target) -> dict[str, Pin]:
    """Return the pins of a requirements file that apply to a target, by name."""
    pins: dict[str, Pin] = {}
    for match in PIN.finditer(text):
        marker = f"; {match['marker']}" if match["marker"] else ""
        requirement = Requirement(match["pin"] + marker)
        if target.applies(requirement):
            hashes = frozenset(HASH.findall(match["hashes"]))
            pins[canonicalize_name(requirement.name)] = Pin(requirement, match["pin"], hashes)
    return pins


def download(pins: Iterable[Pin], target: Target, folder: Path) -> list[str]:
    """Download wheels with pip, which checks their hashes; return the problems."""
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
    """Return the pinned wheels in a folder that a target accepts, by name."""
    wheels = {}
    for path in sorted(folder.glob("*.whl")):
        name, _, _, tags = parse_wheel_filename(path.name)
        pin = pins.get(name)
        if pin and not tags.isdisjoint(target.tags) and digest_of(path) in pin.hashes:
            wheels[str(name)] = path
    return wheels


@cache
def digest_of(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unmet(wheel: Path, pins: Mapping[str, Pin], target: Target) -> Iterator[str]:
    """Yield the requirements of a wheel on a target that the pins do not satisfy."""
    for needed in filter(target.applies, requirements_of(wheel)):
        pin = pins.get(canonicalize_name(needed.name))
        if pin is None:
            yield f"{wheel.name} needs {needed}, which is not pinned"
        elif not needed.specifier.contains(pin.text.partition("==")[2], prereleases=True):
            yield f"{wheel.name} needs {needed}, and {pin.text} is pinned"


def requirements_of(wheel: Path) -> list[Requirement]:
    """Return the requirements in a wheel's metadata."""
    with ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(name).decode(), headersonly=True)
    return [Requirement(text) for text in fields.get_all("Requires-Dist") or ()]


def check(file: Path, target: Target, folder: Path) -> tuple[int, list[str]]:
    """Return the number of packages with a wheel for a target, and the problems."""
    pins = pins_of(file.read_text(encoding="utf-8"), target)
    if not pins:
        return 0, ["nothing is pinned"]
    # Many wheels fit several targets, and may already be downloaded.
    present = wheels_of(pins, target, folder)
    absent = [pin for name, pin in pins.items() if name not in present]
    problems = download(absent, target, folder) if absent else []
    wheels = wheels_of(pins, target, folder)
    if not problems:
        problems += [f"no wheel of {name}" for name in pins if name not in wheels]
    for wheel in wheels.values():
        problems += unmet(wheel, pins, target)
    return len(wheels), problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Check every target; return the exit code."""
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
                count, problems = check(file, target, Path(folder))
                failed |= bool(problems)
                where = f"{target.machine:8} Python {target.python:5} {file.name:12}"
                print(f"{where} {count:3} wheels  {'FAILED' if problems else 'ok'}", flush=True)
                for problem in problems:
                    print(f"    {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
