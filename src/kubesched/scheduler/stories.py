"""What became of pods: the last decision on each, kept in bounded memory.

Owns what is remembered, for how many pods and for how long: up to 20,000 pods that have no node
yet, the least recently tried making way, and the last 2,000 that were bound, for an hour. A
decision is taken down in numbers while its columns stand; texts are made when somebody asks. Never
decides, and never asks the API server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kubesched.columns.pod_columns import BoundPod
from kubesched.engine.digest import Digest, NotPlacedDigest, Refused
from kubesched.engine.explanation import Attempt
from kubesched.kit.clock import Clock
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo

PENDING_MAX: Final = 20_000
BOUND_MAX: Final = 2_000
BOUND_S_MAX: Final = 3600.0
TOP: Final = 5
"""How many of the best nodes are kept of a decision."""
EXAMPLES: Final = 3
"""How many nodes of each group are kept by name."""
_NOBODY: Final = Refused(0, ())


class Said(NamedTuple):
    """An event that was recorded."""

    kind: str
    reason: str
    note: str
    at_s: float


class Note:
    """What is remembered of one pod."""

    __slots__ = ("attempts", "bound_s", "decided_s", "digest", "said", "uid", "victims")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.attempts = 0
        self.digest: Digest | None = None
        """The last decision."""
        self.decided_s = 0.0
        self.victims: tuple[str, ...] = ()
        """The uids of the pods that are to make room by that decision."""
        self.said: Said | None = None
        """The last event about the pod."""
        self.bound_s: float | None = None

    def __repr__(self) -> str:
        return f"<Note {self.uid} attempts={self.attempts} bound={self.bound_s is not None}>"


class Stories:
    """Notes by `namespace/name`."""

    def __init__(
        self, clock: Clock, *, pending_max: int = PENDING_MAX, bound_max: int = BOUND_MAX
    ) -> None:
        self._clock = clock
        self._pending_max = pending_max
        self._bound_max = bound_max
        # Both by when something was noted last, the longest ago first.
        self._pending: dict[str, Note] = {}
        self._bound: dict[str, Note] = {}
        self._last_refused = _NOBODY
        self._unchecked: list[str] = []
        """The names of those that `forget` is still to look at."""

    def __repr__(self) -> str:
        return f"<Stories of {len(self._pending)} pending and {len(self._bound)} bound pods>"

    def __len__(self) -> int:
        return len(self._pending) + len(self._bound)

    def get(self, key: str) -> Note | None:
        """Return what is remembered of the pod that last had a name."""
        return self._pending.get(key) or self._bound.get(key)

    # -- taking down ------------------------------------------------------------------------------

    def decided(self, queued: QueuedPodInfo, one: Attempt) -> None:
        """Take down a decision; its columns must still stand."""
        digest = one.digest(top=TOP, examples=EXAMPLES)
        if isinstance(digest, NotPlacedDigest):
            digest = self._compact(digest)
        note = self._note(queued.key, one.pod.uid)
        note.attempts = queued.attempts
        note.digest = digest
        note.decided_s = self._clock.now_s()
        victims = None if one.plan is None else one.plan.victims
        note.victims = () if victims is None else tuple(victim.uid for victim in victims.pods)
        note.bound_s = None

    def said(self, regarding: PodInfo | BoundPod, kind: str, reason: str, note: str) -> None:
        """Take down an event about a pod that is remembered, or that has just failed."""
        key, now_s = regarding.key, self._clock.now_s()
        if reason == "Scheduled":
            self._bind(key, regarding.uid, now_s)
            return
        known = self.get(key)
        if known is None or known.uid != regarding.uid:
            if reason != "FailedScheduling":
                return
            known = self._note(key, regarding.uid)
        # The text is most often the one that the decision has already.
        known.said = Said(kind, reason, sys.intern(note), now_s)

    def _note(self, key: str, uid: str) -> Note:
        """Return the note of a pod that has no node, as the one that was last in use."""
        note = self._pending.pop(key, None) or self._bound.pop(key, None)
        if note is None or note.uid != uid:
            note = Note(uid)
        self._pending[key] = note
        if len(self._pending) > self._pending_max:
            del self._pending[next(iter(self._pending))]
        return note

    def _bind(self, key: str, uid: str, now_s: float) -> None:
        note = self._pending.pop(key, None) or self._bound.pop(key, None)
        if note is None or note.uid != uid:
            note = Note(uid)
        note.bound_s, note.said = now_s, None
        self._bound[key] = note
        if len(self._bound) > self._bound_max:
            del self._bound[next(iter(self._bound))]

    def _compact(self, digest: NotPlacedDigest) -> NotPlacedDigest:
        """Return a digest that shares with others what is the same for many pods."""
        refused = digest.refused
        if refused == self._last_refused:
            refused = self._last_refused
        else:
            self._last_refused = refused
        return digest._replace(refused=refused, message=sys.intern(digest.message))

    # -- forgetting -------------------------------------------------------------------------------

    def forget(self, is_there: Callable[[str, str], bool], count: int) -> int:
        """Look at some pods and forget those that are gone, or were bound long ago.

        The next call looks at the next pods, until all were looked at.

        Args:
            is_there: whether a pod exists, by `namespace/name` and uid.
            count: at how many pods to look.

        Returns:
            How many were forgotten.
        """
        if not self._unchecked:
            self._unchecked = [*self._pending, *self._bound]
        before, long_ago_s = len(self), self._clock.now_s() - BOUND_S_MAX
        keys, self._unchecked = self._unchecked[-count:], self._unchecked[:-count]
        for key in keys:
            note = self.get(key)
            if note is None:
                continue
            is_lately = note.bound_s is None or note.bound_s > long_ago_s
            if not is_lately or not is_there(key, note.uid):
                self._pending.pop(key, None)
                self._bound.pop(key, None)
        return before - len(self)


class NotedRecorder:
    """Records events through another recorder, and has them taken down."""

    __slots__ = ("_record", "_said")

    def __init__(self, recorder: Any, stories: Stories) -> None:
        self._record = recorder.event
        self._said = stories.said

    def event(
        self,
        regarding: Any,
        *,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: Any | None = None,
    ) -> None:
        """Record an event; arguments as of the recorder behind."""
        self._record(regarding, kind=kind, reason=reason, action=action, note=note, related=related)
        if isinstance(regarding, PodInfo | BoundPod):
            self._said(regarding, kind, reason, note)
