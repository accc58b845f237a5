"""Configuration files, loaded by kube-scheduler and by kubesched.

Owns the comparison of the configuration format's "Comparing". Never makes the texts: fuzz_config
does.
Upstream: cmd/kube-scheduler/app/options/configfile.go (the stages)
"""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Obj = dict[str, Any]

# Required shares of files that load, and of errors with upstream's path and text.
RATE_REPORTED_MIN = 0.99
RATE_PATHS_MIN = 0.95
RATE_EXACT_MIN = 0.70
PATH = re.compile(r"[A-Za-z]+(?:\[\d+\])?(?:\.[A-Za-z]+(?:\[\d+\])?)+")
INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class FileVerdict:
    """One configuration file with both results."""

    case: Obj
    expected: Obj
    effective: Any
    error: str | None
    crash: str | None = None

    @property
    def loads(self) -> bool:
        """Whether kube-scheduler loads the file."""
        return bool(self.expected["stage"] == "ok")

    @property
    def effective_same(self) -> bool:
        """Whether a valid file gives the same effective configuration."""
        return same_value(self.effective, self.expected["effective"])

    @property
    def reported(self) -> bool:
        """Whether an invalid file was rejected with a message."""
        return self.crash is None and bool(self.error)

    @property
    def names_paths(self) -> bool:
        """Whether the message has every path of upstream's."""
        return all(names(self.error or "", path) for path in expected_paths(self.expected))

    @property
    def exact(self) -> bool:
        """Whether the message is upstream's."""
        texts = self.expected.get("acceptable") or [self.expected["error"]]
        return (self.error or "").strip() in [text.strip() for text in texts]


def judge_files(cases: Sequence[Obj], answers: Sequence[Obj]) -> list[FileVerdict]:
    """Compare our result of each text with the oracle's."""
    return [_verdict(case, answer["expected"]) for case, answer in zip(cases, answers, strict=True)]


def _verdict(case: Obj, expected: Obj) -> FileVerdict:
    try:
        effective, error = our_result(case["text"])
    except Exception as crash:  # noqa: BLE001 - a crash is a finding, and is reported as one
        return FileVerdict(case, expected, None, None, f"{type(crash).__name__}: {crash}")
    return FileVerdict(case, expected, effective, error)


def our_result(text: str) -> tuple[Any, str | None]:
    """Return the effective configuration, or the error's text."""
    # Imported on demand: comparing decisions does not need it.
    load = importlib.import_module("kubesched.config.load").load_config
    check = importlib.import_module("kubesched.config.validate").check_config
    build = importlib.import_module("kubesched.profile.build").build
    to_yaml = importlib.import_module("kubesched.config.encode").to_yaml
    config_error = importlib.import_module("kubesched.config.errors").ConfigError
    try:
        configuration = load(text)
        check(configuration)
        written = to_yaml(build(configuration).config)
    except config_error as error:
        return None, str(error)
    return yaml.safe_load(written), None


def same_value(ours: Any, theirs: Any) -> bool:
    """Return whether two documents are equal: 50 and 50.0 are, 50 and "50" or True are not."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(
            same_value(ours[key], theirs[key]) for key in theirs
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same_value, ours, theirs))
    if isinstance(theirs, bool) or isinstance(ours, bool):
        return ours is theirs
    return bool(ours == theirs)


def expected_paths(expected: Obj) -> list[str]:
    """Return the paths that a message must have."""
    if "fields" in expected:
        return list(expected["fields"])
    return sorted(set(PATH.findall(expected["error"] or "")))


def names(text: str, path: str) -> bool:
    """Return whether a message has the path; indexes may be filled in."""
    return path in text or INDEX.sub("", path) in INDEX.sub("", text)


def rates(verdicts: Sequence[FileVerdict]) -> dict[str, tuple[int, int]]:
    """Return for each check the number of files that pass, and of files."""
    good = [v for v in verdicts if v.loads]
    faulty = [v for v in verdicts if not v.loads]
    return {
        "effective": (sum(v.effective_same for v in good), len(good)),
        "reported": (sum(v.reported for v in faulty), len(faulty)),
        "paths": (sum(v.names_paths for v in faulty), len(faulty)),
        "exact": (sum(v.exact for v in faulty), len(faulty)),
    }


def acceptable(counts: dict[str, tuple[int, int]]) -> bool:
    """Return whether the shares are reached; the effective configuration must be equal."""
    least = {
        "effective": 1.0,
        "reported": RATE_REPORTED_MIN,
        "paths": RATE_PATHS_MIN,
        "exact": RATE_EXACT_MIN,
    }
    return all(passed >= least[name] * total for name, (passed, total) in counts.items())
