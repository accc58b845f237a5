"""The report of `make wheels`, over an index that is a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from zipfile import ZipFile

import pytest

from scripts.wheels import main

EVERYWHERE = "py3-none-any"
INTEL = "cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64"
ARM = "cp311-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64"


class Index:
    """A folder that pip takes packages from, and a file of pins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "pins.txt"
        self.hashes: dict[str, list[str]] = {}

    def wheel(self, name: str, tags: str = EVERYWHERE, *, needs: tuple[str, ...] = ()) -> None:
        """Add a wheel of version 1.0."""
        path = self.folder / f"{name}-1.0-{tags}.whl"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        with ZipFile(path, "w") as archive:
            archive.writestr(f"{name}-1.0.dist-info/METADATA", "\n".join(lines) + "\n")
            archive.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
            archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self.hashes.setdefault(name, []).append(digest)

    def pin(self, *names: str, marker: str = "") -> None:
        """Pin packages, as `make pins` writes them."""
        with self.file.open("a") as file:
            for name in names:
                hashes = self.hashes.get(name, ["0" * 64])
                lines = " \\\n".join(f"    --hash=sha256:{sha256}" for sha256 in hashes)
                file.write(f"{name}==1.0{f' ; {marker}' if marker else ''} \\\n{lines}\n")
                file.write("    # via us\n")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return Index(tmp_path)


def look(index: Index, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
    status = main(["--requirements", str(index.file), "--python", "3.13", *more])
    return status, capsys.readouterr().out.splitlines()


def test_pins_with_a_wheel_for_every_machine(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    for tags in (INTEL, ARM):
        index.wheel("fast", tags, needs=("plain>=1.0; python_version >= '3.8'",))
    index.wheel("plain")
    index.pin("fast", "plain")
    assert look(index, capsys) == (
        0,
        [
            "x86_64   Python 3.13  pins.txt       2 wheels  ok",
            "aarch64  Python 3.13  pins.txt       2 wheels  ok",
        ],
    )


def test_a_package_without_a_wheel_for_a_machine(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("fast", INTEL)
    index.pin("fast")
    status, lines = look(index, capsys)
    assert status == 1
    assert lines[0].endswith(" 1 wheels  ok")
    assert lines[1:] == [
        "aarch64  Python 3.13  pins.txt       0 wheels  FAILED",
        "    no wheel of fast==1.0",
    ]


def test_a_wheel_for_another_python_does_not_count(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("fast", "cp312-cp312-manylinux_2_28_x86_64")
    index.pin("fast")
    status, lines = look(index, capsys, "--machine", "x86_64")
    assert (status, lines[1:]) == (1, ["    no wheel of fast==1.0"])


def test_a_wheel_that_needs_a_newer_libc_does_not_count(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("fast", "cp313-cp313-manylinux_2_34_x86_64")
    index.pin("fast")
    status, lines = look(index, capsys, "--machine", "x86_64")
    assert (status, lines[1:]) == (1, ["    no wheel of fast==1.0"])


def test_requirements_for_one_python_version_have_to_be_pinned(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("plain", needs=("backport; python_version < '3.14'", "other[x]; extra == 'more'"))
    index.pin("plain")
    status, lines = look(index, capsys, "--machine", "x86_64", "--python", "3.14")
    assert status == 1
    (problem,) = [line.strip() for line in lines if line.startswith(" ")]
    needed = 'backport; python_version < "3.14"'
    assert problem == f"plain-1.0-py3-none-any.whl needs {needed}, which is not pinned"
    assert lines[-1] == "x86_64   Python 3.14  pins.txt       1 wheels  ok"


def test_a_pin_that_another_package_rejects(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("plain", needs=("other>=2",))
    index.wheel("other")
    index.pin("plain", "other")
    _, lines = look(index, capsys, "--machine", "x86_64")
    assert lines[1:] == ["    plain-1.0-py3-none-any.whl needs other>=2, and other==1.0 is pinned"]


def test_a_pin_for_other_pythons_is_left_out(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("plain")
    index.pin("plain")
    index.pin("absent", marker='python_version < "3.12"')
    status, lines = look(index, capsys, "--machine", "x86_64")
    assert (status, lines) == (0, ["x86_64   Python 3.13  pins.txt       1 wheels  ok"])


def test_a_wheel_that_is_not_the_one_that_was_pinned(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.wheel("plain")
    index.hashes["plain"] = ["1" * 64]
    index.pin("plain")
    status, lines = look(index, capsys, "--machine", "x86_64")
    assert status == 1
    assert any("sha256" in line for line in lines[1:])


def test_a_file_without_pins_is_a_failure(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.file.write_text("plain>=1\n")
    status, lines = look(index, capsys, "--machine", "x86_64")
    assert (status, lines[1:]) == (1, ["    nothing is pinned"])
