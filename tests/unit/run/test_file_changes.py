"""Changes of watched files: different, stable content, also behind symbolic links."""

from __future__ import annotations

import os
from pathlib import Path

from kubesched.run.file_changes import WatchedFiles


def watching(*paths: Path) -> WatchedFiles:
    files = WatchedFiles()
    files.watch(paths)
    return files


def settled(files: WatchedFiles, **options: bool) -> list[Path]:
    """Poll twice: a changed file may still be written at the first poll."""
    assert files.poll(**options) == []
    return files.poll(**options)


def test_a_change_is_reported_once_when_the_file_is_stable(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("a = 1")
    files = watching(path)
    assert settled(files) == []
    path.write_text("a =")
    assert files.poll() == []
    path.write_text("a = 23")
    assert settled(files) == [path]
    assert settled(files) == []


def test_the_same_content_is_no_change_unless_touching_counts(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("a = 1")
    files = watching(path)
    os.utime(path, ns=(5, 5))
    assert settled(files) == []
    os.utime(path, ns=(6, 6))
    assert settled(files, counts_touched=True) == [path]


def a_mounted_config_map(directory: Path) -> Path:
    """Lay out files as a kubelet does: behind one link that is swapped."""
    for version in ("one", "two"):
        (directory / f"..{version}").mkdir()
        (directory / f"..{version}" / "scheduler.yaml").write_text(f"say: {version}")
        (directory / f"..{version}" / "same.yaml").write_text("say: same")
    (directory / "..data").symlink_to("..one")
    for name in ("scheduler.yaml", "same.yaml"):
        (directory / name).symlink_to(f"..data/{name}")
    return directory / "scheduler.yaml"


def test_the_swap_of_a_mounted_config_map_is_a_change(tmp_path: Path) -> None:
    path = a_mounted_config_map(tmp_path)
    files = watching(path, tmp_path / "same.yaml")
    (tmp_path / "..tmp").symlink_to("..two")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert settled(files) == [path]
    assert path.read_text() == "say: two"


def test_a_file_that_goes_and_comes_back_is_a_change_each_time(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("a = 1")
    files = watching(path)
    path.unlink()
    assert settled(files) == [path]
    files.watch([path])
    path.write_text("a = 1")
    assert settled(files) == [path]


def test_watching_other_files_keeps_pending_changes(tmp_path: Path) -> None:
    stays, comes = tmp_path / "stays.py", tmp_path / "comes.py"
    stays.write_text("a = 1")
    comes.write_text("b = 1")
    files = watching(stays)
    stays.write_text("a = 22")
    files.watch([stays, comes])
    assert settled(files) == [stays]
