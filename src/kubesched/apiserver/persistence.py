"""Keeping what is stored beyond the process.

Owns the file: one table of objects and one line with the newest version. Changes of one turn of
the event loop are one transaction, which is over before anyone is told of them.
Upstream: none; etcd does this there.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubesched.apiserver.watch_cache import Entry

_FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    storage TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (storage, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class DataFileError(Exception):
    """A file that cannot be used; the text says why."""


class SqliteJournal:
    """A Journal in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # A process that is killed loses nothing that was committed, since the system has it;
            # only a machine that stops could, and for that every commit would have to wait for
            # the disk.
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.executescript(_SCHEMA)
            self._check_format()
        except sqlite3.Error as error:
            raise DataFileError(f"{path} cannot be used as a data file: {error}") from error
        self._is_in_transaction = False
        self._version = self.version()
        self._settled: asyncio.Future[None] | None = None

    def _check_format(self) -> None:
        known = str(_FORMAT)
        self._file.execute("INSERT OR IGNORE INTO state VALUES ('format', ?)", (known,))
        found = self.state("format")
        if found != known:
            raise DataFileError(f"{self.path} has format {found}; this version reads {known}")

    def state(self, name: str) -> str:
        """Return a noted value, empty if there is none."""
        row = self._file.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def set_state(self, name: str, value: str) -> None:
        """Note a value."""
        self._file.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def version(self) -> int:
        """Return the version of the last change."""
        return int(self.state("version") or 0)

    def objects(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield storage, key, version and data of everything kept."""
        rows = self._file.execute("SELECT storage, key, version, data FROM objects")
        for storage, key, version, data in rows:
            yield storage, key, version, bytes(data)

    def put(self, storage: str, entry: Entry) -> None:
        """Keep an object."""
        self._begin()
        self._file.execute(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
            (storage, entry.key, entry.version, entry.data),
        )
        self._version = entry.version

    def drop(self, storage: str, key: str, version: int) -> None:
        """Forget an object."""
        self._begin()
        self._file.execute("DELETE FROM objects WHERE storage = ? AND key = ?", (storage, key))
        self._version = version

    def _begin(self) -> None:
        if self._is_in_transaction:
            return
        self._file.execute("BEGIN")
        self._is_in_transaction = True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # Not serving yet: who loads or prepares commits by itself.
        self._settled = loop.create_future()
        loop.call_soon(self.commit)

    def commit(self) -> None:
        """Write what has changed to the file."""
        if not self._is_in_transaction:
            return
        settled, self._settled = self._settled, None
        self._is_in_transaction = False
        try:
            self.set_state("version", str(self._version))
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            if settled is not None and not settled.done():
                settled.set_exception(error)
                return
            raise
        if settled is not None and not settled.done():
            settled.set_result(None)

    async def wait_settled(self) -> None:
        """Wait until every change so far is in the file."""
        if self._settled is not None:
            await asyncio.shield(self._settled)

    def close(self) -> None:
        """Write what is left and close the file."""
        self.commit()
        self._file.close()
