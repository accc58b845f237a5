"""What counts as a change of a file: other content, seen twice, wherever a path leads to."""

from __future__ import annotations

import os
from pathlib import Path

from kubesched.app.changed_files import ChangedFiles


def following(*paths: Path) -> ChangedFiles:
    files = ChangedFiles()
    files.follow(paths)
    return files


def settled(files: ChangedFiles, **how: bool) -> list[Path]:
    """Look twice: what is found first may still be written."""
    assert files.look(**how) == []
    return files.look(**how)


def test_a_change_is_told_once_and_only_when_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("a = 1")
    files = following(path)
    assert settled(files) == []
    path.write_text("a =")
    assert files.look() == []
    path.write_text("a = 23")
    assert settled(files) == [path]
    assert settled(files) == []


def test_the_same_content_is_no_change_unless_touching_counts(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("a = 1")
    files = following(path)
    os.utime(path, ns=(5, 5))
    assert settled(files) == []
    os.utime(path, ns=(6, 6))
    assert settled(files, counts_touched=True) == [path]


def a_mounted_config_map(directory: Path) -> Path:
    """Lay files out as a kubelet does: every file behind one link that is swapped as a whole."""
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
    files = following(path, tmp_path / "same.yaml")
    (tmp_path / "..tmp").symlink_to("..two")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert settled(files) == [path]
    assert path.read_text() == "say: two"


def test_a_file_that_goes_and_comes_back_is_a_change_each_time(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("a = 1")
    files = following(path)
    path.unlink()
    assert settled(files) == [path]
    files.follow([path])
    path.write_text("a = 1")
    assert settled(files) == [path]


def test_following_others_forgets_no_change_of_those_that_stay(tmp_path: Path) -> None:
    stays, comes = tmp_path / "stays.py", tmp_path / "comes.py"
    stays.write_text("a = 1")
    comes.write_text("b = 1")
    files = following(stays)
    stays.write_text("a = 22")
    files.follow([stays, comes])
    assert settled(files) == [stays]
