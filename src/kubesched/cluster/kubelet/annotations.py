"""Annotations on pods and nodes that control the simulated kubelets.

Owns their names and the parsing of their values.

On pods:
    kubesched.dev/start-after: 5s      time that its containers take to start
    kubesched.dev/run-for: 2s          time that its containers run
    kubesched.dev/exit-code: "1"       exit code; "1,1,0": of the first, second and later runs
    kubesched.dev/stop-after: 3s       time that its containers take to stop
    kubesched.dev/ready: "false"       containers run, but are not ready
`run-for.NAME` and `exit-code.NAME` apply to one container, init containers included.

On nodes:
    kubesched.dev/heartbeat: "off"     the kubelet is dead: no heartbeats, pods are left alone
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubesched.golang.time import parse_duration

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
    """An invalid value; the text names the annotation and the expected format."""


def annotations_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return document["metadata"].get("annotations") or {}


def is_switched_off(document: Mapping[str, Any], annotation: str) -> bool:
    """Return whether an annotation is off, false, no or 0."""
    return annotations_of(document).get(annotation, "").strip().lower() in _OFF


def duration_s(document: Mapping[str, Any], annotation: str) -> float | None:
    """Parse a duration such as 2s, 500ms or 1m30s; None if the annotation is absent."""
    text = annotations_of(document).get(annotation)
    if text is None:
        return None
    try:
        nanoseconds = parse_duration(text.strip())
    except ValueError:
        raise AnnotationError(
            f"{annotation}: {text!r} is not a duration such as 2s or 500ms"
        ) from None
    if nanoseconds < 0:
        raise AnnotationError(f"{annotation}: {text!r} is a negative duration")
    return nanoseconds / 1e9


def exit_codes(document: Mapping[str, Any], annotation: str) -> tuple[int, ...]:
    """Return the exit codes of the first and later runs; the last one repeats."""
    text = annotations_of(document).get(annotation)
    if text is None:
        return ()
    codes = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) <= _EXIT_CODE_MAX for part in codes):
        raise AnnotationError(
            f"{annotation}: {text!r} is not an exit code such as 1, nor a list such as 1,1,0"
        )
    return tuple(int(part) for part in codes)
