"""Persists objects in a SQLite file.

All changes of one event loop iteration are one transaction, committed before clients see them.
The file holds keys and tokens, so only its owner may read it.
Upstream: none; etcd does this there.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kubesched.cluster.apiserver.storage.watch_cache import Entry

_log = logging.getLogger(__name__)

_FORMAT: Final = 1
# SQLite's application_id of our files: "kbsc".
_APPLICATION: Final = 0x6B627363
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    storage TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (storage, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class DataFileError(Exception):
    """An unusable data file; the message says why."""


class PersistenceError(Exception):
    """Changes that could not be written to the file."""


class SqliteJournal:
    """A Journal in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._explained():
            path.touch(mode=0o600)
            self._file = sqlite3.connect(path, isolation_level=None, timeout=1.0)
            self._check_owner()
            # A killed process loses no committed change. A machine that crashes may lose some;
            # to prevent that, every commit would have to wait for the disk.
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute(f"PRAGMA application_id={_APPLICATION}")
            self._file.executescript(_SCHEMA)
            self._check_format()
            self._version = self.version()
        self._settled: asyncio.Future[None] | None = None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise SQLite and OS errors as DataFileError with the path."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            why = "another process uses it" if "locked" in str(error) else str(error)
            raise DataFileError(f"{self.path} cannot be used as a data file: {why}") from error

    def _check_owner(self) -> None:
        """Reject the database of another program."""
        mark = self._file.execute("PRAGMA application_id").fetchone()[0]
        tables = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and mark != _APPLICATION:
            raise DataFileError(f"{self.path} is a database of another program")

    def _check_format(self) -> None:
        known = str(_FORMAT)
        self._file.execute("INSERT OR IGNORE INTO state VALUES ('format', ?)", (known,))
        found = self.state("format")
        if found != known:
            raise DataFileError(f"{self.path} has format {found}; this version reads {known}")

    def state(self, name: str) -> str:
        """Return a stored setting; empty if it is missing."""
        row = self._file.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def set_state(self, name: str, value: str) -> None:
        """Store a setting."""
        self._file.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def version(self) -> int:
        """Return the version of the last change."""
        return int(self.state("version") or 0)

    def objects(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield storage, key, version and data of each stored object."""
        with self._explained():
            rows = self._file.execute("SELECT storage, key, version, data FROM objects")
            for storage, key, version, data in rows:
                yield storage, key, version, bytes(data)

    def put(self, storage: str, entry: Entry) -> None:
        """Store an object."""
        self._begin()
        self._file.execute(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
            (storage, entry.key, entry.version, entry.data),
        )
        self._version = entry.version

    def drop(self, storage: str, key: str, version: int) -> None:
        """Remove an object."""
        self._begin()
        self._file.execute("DELETE FROM objects WHERE storage = ? AND key = ?", (storage, key))
        self._version = version

    def _begin(self) -> None:
        if not self._file.in_transaction:
            self._file.execute("BEGIN")
        if self._settled is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # No loop runs yet: loading and bootstrap commit explicitly.
        self._settled = loop.create_future()
        loop.call_soon(self._commit_by_itself)

    def commit(self) -> None:
        """Commit the pending changes."""
        if not self._file.in_transaction:
            return
        self.set_state("version", str(self._version))
        self._file.execute("COMMIT")
        settled, self._settled = self._settled, None
        if settled is not None and not settled.done():
            settled.set_result(None)

    def _commit_by_itself(self) -> None:
        """Commit in a callback of the loop; log a failure."""
        try:
            self.commit()
        except sqlite3.Error as error:
            settled, self._settled = self._settled, None
            _log.error("%s cannot be written: %s", self.path, error)
            if settled is not None and not settled.done():
                settled.set_exception(PersistenceError(str(error)))
                settled.exception()  # There may be no waiter.

    async def wait_settled(self) -> None:
        """Wait until all changes so far are committed; PersistenceError if that fails."""
        if self._settled is not None:
            await asyncio.shield(self._settled)

    def close(self) -> None:
        """Commit pending changes and close the file."""
        try:
            self.commit()
        finally:
            self._file.close()
