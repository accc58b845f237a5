"""The data file: acknowledged writes are durable."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from kubesched.cluster.apiserver.assembly import load
from kubesched.cluster.apiserver.storage.persistence import (
    DataFileError,
    PersistenceError,
    SqliteJournal,
)
from tests.unit.cluster.apiserver.http.worlds import THINGS, World


def reopened(path: Path) -> World:
    journal = SqliteJournal(path)
    world = World(journal, version=journal.version())
    load(world.context, journal.objects())
    return world


def copy_files(directory: Path) -> None:
    """Copy open files: the state that another process finds after a SIGKILL."""
    for file in list(directory.glob("data*")):
        (directory / file.name.replace("data", "copy")).write_bytes(file.read_bytes())


def names(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in world("GET", THINGS)["items"]]


def test_objects_and_versions_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data"
    journal = SqliteJournal(path)
    world = World(journal)
    for name in "abc":
        world.make(name, metadata={"labels": {"l": name}})
    world("DELETE", f"{THINGS}/b")
    changed = world.patch(f"{THINGS}/c", {"spec": {"x": 1}})
    journal.close()
    again = reopened(path)
    assert names(again) == ["a", "c"]
    assert again("GET", f"{THINGS}/c") == changed
    assert again("GET", f"{THINGS}?labelSelector=l=c")["items"][0]["spec"] == {"x": 1}
    assert again.context.store.version == world.context.store.version == 6
    assert again.make("d")["metadata"]["resourceVersion"] == "7"


def test_a_deletion_moves_the_version_too(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    world = World(journal)
    world.make("a")
    world("DELETE", f"{THINGS}/a")
    journal.close()
    assert SqliteJournal(tmp_path / "data").version() == 3


def test_a_write_is_in_the_file_before_it_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "data"

    async def write() -> int:
        journal = SqliteJournal(path)
        world = World(journal)
        world.make("a")
        world.make("b")
        await journal.wait_settled()
        copy_files(tmp_path)
        return world.context.store.version

    version = asyncio.run(write())
    again = reopened(tmp_path / "copy")
    assert names(again) == ["a", "b"]
    assert again.context.store.version == version


def test_changes_of_one_turn_are_one_transaction(tmp_path: Path) -> None:
    async def write() -> tuple[int, int]:
        journal = SqliteJournal(tmp_path / "data")
        world = World(journal)
        commits = 0

        def count(statement: str) -> None:
            nonlocal commits
            commits += statement == "COMMIT"

        journal._file.set_trace_callback(count)
        for name in "abc":
            world.make(name)
        before = commits
        await journal.wait_settled()
        return before, commits

    assert asyncio.run(write()) == (0, 1)


def test_a_waiting_writer_gets_the_write_error(tmp_path: Path) -> None:
    async def write() -> None:
        journal = SqliteJournal(tmp_path / "data")
        World(journal).make("a")
        journal._file.execute("PRAGMA query_only=ON")
        with pytest.raises(PersistenceError):
            await journal.wait_settled()
        journal._file.execute("PRAGMA query_only=OFF")
        journal.close()

    asyncio.run(write())
    # The failed write was repeated together with the next successful one.
    assert names(reopened(tmp_path / "data")) == ["a"]


def test_a_history_does_not_survive(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    world = World(journal)
    world.make("a")
    journal.close()
    again = reopened(tmp_path / "data")
    assert again.context.bucket(next(iter(again.context.registry))).history.floor == 2


def test_a_file_of_another_format(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    journal.set_state("format", "99")
    journal.close()
    with pytest.raises(DataFileError, match="has format 99"):
        SqliteJournal(tmp_path / "data")


def test_a_file_that_is_no_data_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("these are not the bytes of a database, by far" * 100)
    with pytest.raises(DataFileError, match="cannot be used as a data file"):
        SqliteJournal(tmp_path / "data")


def test_a_database_of_another_program(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "data")
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    with pytest.raises(DataFileError, match="is a database of another program"):
        SqliteJournal(tmp_path / "data")
    other = sqlite3.connect(tmp_path / "data")
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    other.close()


def test_a_file_that_is_in_use(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    with pytest.raises(DataFileError, match="another process uses it"):
        SqliteJournal(tmp_path / "data")
    journal.close()


def test_a_file_without_write_permission(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot be used as a data file"):
        SqliteJournal(tmp_path / "nowhere" / "data")
    with pytest.raises(DataFileError, match="cannot be used as a data file"):
        SqliteJournal(tmp_path)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    journal = SqliteJournal(path)
    world = World(journal)
    for number in range(200):
        world.make(f"name-{number}", spec={"text": "x" * 500})
    journal.close()
    data = bytearray(path.read_bytes())
    data[8192 : len(data) - 4096] = b"\xff" * (len(data) - 12288)
    path.write_bytes(bytes(data))
    with pytest.raises(DataFileError, match="cannot be used as a data file"):
        reopened(path)


def test_a_damaged_object(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    World(journal).make("a")
    journal.commit()
    journal._file.execute("UPDATE objects SET data = ?", (b'{"kind":',))
    journal.close()
    with pytest.raises(DataFileError, match="/a in the data file is damaged: "):
        reopened(tmp_path / "data")


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    World(journal).make("a")
    journal.commit()
    modes = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.glob("data*")}
    journal.close()
    assert set(modes.values()) == {0}


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data")
    world = World(journal)
    world.make("a")
    journal.commit()
    journal._file.execute("PRAGMA query_only=ON")
    with pytest.raises(sqlite3.OperationalError):
        world.make("b")
    assert names(world) == ["a"]
    journal._file.execute("ROLLBACK")
    journal._file.execute("PRAGMA query_only=OFF")
    made = world.make("c")
    assert names(world) == ["a", "c"]
    journal.close()
    assert made["metadata"]["resourceVersion"] == "3"
    assert names(reopened(tmp_path / "data")) == ["a", "c"]
