"""What a reflector has told of, so that it tells everything once.

Owns uid and version of every object of one kind, by key, in about 250 bytes each, and the
comparison with a list. Never holds an object.
Upstream: staging/src/k8s.io/client-go/tools/cache/store.go, the_real_fifo.go Replace
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum


class News(Enum):
    """What an object that was shown is, beside what was known."""

    SAME = 0
    NEW = 1
    CHANGED = 2
    REPLACED = 3
    """Another object has its name."""
    OLDER = 4
    """A later version was told before."""


class KnownObjects:
    """Who is known by which key, and in which version.

    A *pass* is one look at everything there is: what it did not confirm is gone when it ends.
    """

    __slots__ = ("_confirmed", "_entries")

    def __init__(self) -> None:
        # One text of uid and version: a tuple of both takes twice the memory.
        self._entries: dict[str, str] = {}
        self._confirmed: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self._entries) + len(self._confirmed or ())

    @property
    def is_in_pass(self) -> bool:
        """Return whether a look at everything is under way."""
        return self._confirmed is not None

    def begin_pass(self) -> None:
        """Begin a look at everything, instead of one that is under way."""
        self.abandon_pass()
        self._confirmed = {}

    def abandon_pass(self) -> None:
        """Give up a look at everything: what was not confirmed stays known."""
        if self._confirmed is not None:
            self._entries.update(self._confirmed)
            self._confirmed = None

    def end_pass(self) -> Iterator[tuple[str, str]]:
        """End a look at everything; yield key and uid of what it did not confirm, forgetting it."""
        assert self._confirmed is not None
        gone, self._entries, self._confirmed = self._entries, self._confirmed, None
        for key, entry in gone.items():
            yield key, _uid_in(entry)

    def put(self, key: str, uid: str, version: str) -> tuple[News, str]:
        """Take note of an object; return what is new about it, and the uid of its predecessor.

        What is older than what is known is not taken note of, but in a pass: a list is right even
        if the server has been set back to an older state.
        """
        entry = f"{uid} {version}"
        confirmed = self._confirmed
        if confirmed is not None:
            old = self._entries.pop(key, None) or confirmed.get(key)
            confirmed[key] = entry
            return _compared(old, entry, uid)
        entries = self._entries
        old = entries.get(key)
        news = _compared(old, entry, uid)
        if old is not None and news[0] is not News.SAME and is_older(version, _version_in(old)):
            return News.OLDER, ""
        entries[key] = entry
        return news

    def uid_of(self, key: str) -> str | None:
        """Return the uid under which a key is known."""
        entry = self._entries.get(key)
        if entry is None and self._confirmed is not None:
            entry = self._confirmed.get(key)
        return None if entry is None else _uid_in(entry)

    def remove(self, key: str) -> None:
        """Forget an object."""
        self._entries.pop(key, None)
        if self._confirmed is not None:
            self._confirmed.pop(key, None)


def is_older(version: str, than: str) -> bool:
    """Return whether a resourceVersion is the lower of two numbers."""
    # Parity: apimachinery/pkg/util/resourceversion CompareResourceVersion, v1.36: by length first.
    return version.isdecimal() and than.isdecimal() and (len(version), version) < (len(than), than)


def _compared(old: str | None, entry: str, uid: str) -> tuple[News, str]:
    if old is None:
        return News.NEW, ""
    if old == entry:
        return News.SAME, ""
    old_uid = _uid_in(old)
    return (News.CHANGED, "") if old_uid == uid else (News.REPLACED, old_uid)


def _uid_in(entry: str) -> str:
    return entry.rpartition(" ")[0]


def _version_in(entry: str) -> str:
    return entry.rpartition(" ")[2]
