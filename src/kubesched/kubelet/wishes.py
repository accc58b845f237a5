"""What people may ask of the kubelets of one pod or node, by annotations.

Owns the names and the reading of values. Never decides what follows from them.

On pods:
    kubesched.dev/start-after: 5s      how long its containers take to start
    kubesched.dev/run-for: 2s          how long its containers run before they end
    kubesched.dev/exit-code: "1"       how they end; "1,1,0": at the first, second, third run
    kubesched.dev/stop-after: 3s       how long they take to end when told to
    kubesched.dev/ready: "false"       they run, and are not ready
`run-for.NAME` and `exit-code.NAME` are about one container, init containers included.

On nodes:
    kubesched.dev/heartbeat: "off"     its kubelet is dead: no heartbeats, its pods are left alone
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubesched.config.gotext import parse_duration

PREFIX: Final = "kubesched.dev/"
START_AFTER: Final = f"{PREFIX}start-after"
RUN_FOR: Final = f"{PREFIX}run-for"
EXIT_CODE: Final = f"{PREFIX}exit-code"
STOP_AFTER: Final = f"{PREFIX}stop-after"
READY: Final = f"{PREFIX}ready"
HEARTBEAT: Final = f"{PREFIX}heartbeat"
_OFF: Final = ("off", "false", "no", "0")
_EXIT_CODE_MAX: Final = 255


class AnnotationError(ValueError):
    """A value that cannot be read; the text says which annotation, and what it may be."""


def annotations_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return document["metadata"].get("annotations") or {}


def is_switched_off(document: Mapping[str, Any], annotation: str) -> bool:
    """Return whether an annotation says off, false, no or 0."""
    return annotations_of(document).get(annotation, "").strip().lower() in _OFF


def duration_s(document: Mapping[str, Any], annotation: str) -> float | None:
    """Return a duration such as 2s, 500ms or 1m30s; None if it is not asked for."""
    text = annotations_of(document).get(annotation)
    if text is None:
        return None
    try:
        nanoseconds = parse_duration(text.strip())
    except ValueError:
        raise AnnotationError(
            f"{annotation}: {text!r} is no duration such as 2s or 500ms"
        ) from None
    if nanoseconds < 0:
        raise AnnotationError(f"{annotation}: {text!r} is a negative duration")
    return nanoseconds / 1e9


def exit_codes(document: Mapping[str, Any], annotation: str) -> tuple[int, ...]:
    """Return the exit codes of the first run and those after; the last one stays."""
    text = annotations_of(document).get(annotation)
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) <= _EXIT_CODE_MAX for part in parts):
        raise AnnotationError(
            f"{annotation}: {text!r} is no exit code such as 1, nor a list of them"
        )
    return tuple(int(part) for part in parts)
