"""The verdict cache of a profile: kept verdicts by pod signature, within a memory budget.

Owns how long kept verdicts are held. Never decides.
"""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakKeyDictionary

from kubesched.attempt.kept.layout import ProfileLayout
from kubesched.attempt.kept.verdicts import ChangedPositions, KeptVerdicts
from kubesched.attempt.select_host import TOTAL_MAX
from kubesched.framework.runtime.profile import Profile
from kubesched.kit.memory import budget
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView

BYTES_MAX = 128 * 1024 * 1024
ENTRIES_MIN = 4
# Measured with the default plugins, per row: verdict ids, rejections, totals and keys; the feasible
# rows that uncached filters left; the counts of incremental plugins by row, host and group.
BYTES_PER_ROW = 13
BYTES_PER_ROW_NARROWED = 22
BYTES_PER_ROW_INCREMENTAL = 24
BYTES_PER_ENTRY = 8_000
SEEN_ONCE_MAX = 4096


class VerdictCache:
    """The kept verdicts of one profile, for one cluster at a time; drops the least recently used.

    Many signatures occur once. When there is no more room, the verdicts of a new signature are on
    probation: the next new signature replaces them, so that its columns reuse memory that is still
    in the processor's cache. A signature that occurs again is kept.
    """

    def __init__(self, layout: ProfileLayout) -> None:
        self.layout = layout
        self.is_usable = layout.is_supported and layout.total_max < TOTAL_MAX
        """Whether verdicts of the profile can be kept at all."""
        self._entries: dict[Hashable, KeptVerdicts] = {}
        self._latest: KeptVerdicts | None = None
        self._seen_once: dict[Hashable, None] = {}
        """Signatures whose verdicts were on probation, the oldest first."""
        self._probation: Hashable = None
        """The signature on probation."""
        self._cluster: object = None
        self._byte_count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def lookup(
        self, view: ClusterView, pod: PodInfo
    ) -> tuple[KeptVerdicts, ChangedPositions, bool] | None:
        """Return current verdicts, the positions that changed, and whether they are new.

        Return None if a plugin rejects the pod as a whole, names nodes or fails; the ordinary path
        then runs all plugins, and reports what they say.
        """
        if self._cluster is not view.identity:
            self._clear(view.identity)
        keys, changed = self.layout.keys, None
        key, fields = keys.of(pod), keys.fields
        if fields and keys.is_unique:
            return None
        kept = self._entries.get(key)
        is_known = kept is not None or key in self._seen_once
        try:
            if kept is not None:
                changed = kept.refresh(view)
            if kept is not None and changed is not None and keys.fields is fields:
                if kept is not self._latest or self._probation is not None:
                    self._keep(key, kept)
                return kept, changed, False
            self._drop(key)
            kept = KeptVerdicts.build(self.layout, view, keys.recording_view(pod))
        except Exception:  # noqa: BLE001 - whatever a plugin's rule raises, the ordinary path reports
            self._drop(key)
            return None
        if keys.fields is not fields:
            return None  # A plugin read a field of the pod that the key lacked.
        if kept is None:
            return None
        self._add(key, kept, is_known=is_known)
        return kept, (), True

    def _add(self, key: Hashable, kept: KeptVerdicts, *, is_known: bool) -> None:
        if self._probation is not None:
            self._drop(self._probation)
        # Below this a signature is kept from its first pod on. More would be fresh memory, which
        # makes building slower, at any number of rows.
        has_room = self._byte_count + _bytes_of(kept) <= BYTES_MAX // 3
        if is_known or has_room or len(self._entries) < ENTRIES_MIN:
            self._keep(key, kept)
            return
        self._put_last(key, kept)
        self._probation = key
        self._seen_once[key] = None
        if len(self._seen_once) > SEEN_ONCE_MAX:
            del self._seen_once[next(iter(self._seen_once))]

    def _keep(self, key: Hashable, kept: KeptVerdicts) -> None:
        """Keep verdicts as the most recently used."""
        self._put_last(key, kept)
        self._seen_once.pop(key, None)
        if self._probation == key:
            self._probation = None
        bytes_max = budget(BYTES_MAX, len(kept.rows))
        while self._byte_count > bytes_max and len(self._entries) > ENTRIES_MIN:
            self._drop(next(iter(self._entries)) if self._probation is None else self._probation)

    def _put_last(self, key: Hashable, kept: KeptVerdicts) -> None:
        self._entries.pop(key, None)
        self._entries[key] = self._latest = kept
        size = _bytes_of(kept)
        self._byte_count += size - kept.byte_count
        kept.byte_count = size

    def _drop(self, key: Hashable) -> None:
        if self._probation == key:
            self._probation = None
        dropped = self._entries.pop(key, None)
        if dropped is not None:
            self._byte_count -= dropped.byte_count
            dropped.byte_count = 0
            dropped.release()
            if dropped is self._latest:
                self._latest = None

    def _clear(self, cluster: object) -> None:
        """Drop the verdicts of another cluster."""
        self._cluster = cluster
        for key in list(self._entries):
            self._drop(key)
        self._seen_once.clear()
        self.layout.shared.clear()


_caches: WeakKeyDictionary[Profile, VerdictCache] = WeakKeyDictionary()


def cache_of(profile: Profile) -> VerdictCache | None:
    """Return the cache of a profile, None if its verdicts are not kept."""
    if not profile.keeps_verdicts:
        return None
    cache = _caches.get(profile)
    if cache is None:
        cache = _caches[profile] = VerdictCache(ProfileLayout(profile))
    return cache if cache.is_usable else None


def _bytes_of(kept: KeptVerdicts) -> int:
    """Return roughly the memory that kept verdicts take."""
    per_row = BYTES_PER_ROW
    if kept.feasible is not None and kept.feasible.narrowed is not None:
        per_row += BYTES_PER_ROW_NARROWED
    if kept.uncached is not None:
        per_row += BYTES_PER_ROW_INCREMENTAL
    return BYTES_PER_ENTRY + per_row * len(kept.rows)
