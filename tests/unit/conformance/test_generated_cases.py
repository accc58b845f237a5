"""Generated cases: reproducible, of every family, in the decision format's shape."""

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz.generate.cases import case
from conformance.fuzz.generate.vocabulary import FAMILIES

ROOT = Path(__file__).resolve().parents[3]
KINDS = {
    "Node",
    "Pod",
    "Namespace",
    "PriorityClass",
    "PodDisruptionBudget",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
}
COUNT = 360


@cache
def cases() -> list[dict[str, Any]]:
    """Return all cases, generated once and on demand."""
    return [case(11, index) for index in range(COUNT)]


def digest(documents: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(documents).encode()).hexdigest()


def test_same_seed_and_index_give_the_same_case() -> None:
    assert case(11, 5) == cases()[5]


def test_other_seed_gives_another_case() -> None:
    assert case(12, 5)["pod"] != cases()[5]["pod"]


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_cases_do_not_depend_on_string_hashes(hash_seed: str) -> None:
    code = (
        "import hashlib, json; from conformance.fuzz.generate.cases import case; "
        "print(hashlib.sha256(json.dumps([case(11, i) for i in range(48)]).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    assert run.stdout.strip() == digest(cases()[:48])


def test_families_take_turns() -> None:
    assert (
        tuple(generated_case["family"] for generated_case in cases()[: len(FAMILIES)]) == FAMILIES
    )
    assert len(FAMILIES) == 12


def test_ids_are_unique_and_name_seed_and_index() -> None:
    assert len({generated_case["id"] for generated_case in cases()}) == COUNT
    assert cases()[14]["id"] == "fuzz-nodeaffinity-11:14"


def test_every_kind_occurs() -> None:
    assert {obj["kind"] for generated_case in cases() for obj in generated_case["objects"]} == KINDS


def test_objects_are_named_once() -> None:
    for generated_case in cases():
        keys = [
            (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
            for obj in generated_case["objects"]
        ]
        assert len(set(keys)) == len(keys), generated_case["id"]


def test_cases_have_the_shape_of_the_format() -> None:
    for generated_case in cases():
        assert set(generated_case) == {"id", "family", "config", "objects", "pod"}
        assert (
            generated_case["config"] is None
            or generated_case["config"]["kind"] == "KubeSchedulerConfiguration"
        )
        assert generated_case["pod"]["kind"] == "Pod"
        assert generated_case["pod"]["spec"]["containers"]
        for obj in generated_case["objects"]:
            assert obj["apiVersion"]
            assert obj["metadata"]["name"]
            assert obj["metadata"]["uid"]


def test_clusters_have_at_most_thirty_nodes() -> None:
    counts = [
        sum(obj["kind"] == "Node" for obj in generated_case["objects"])
        for generated_case in cases()
    ]
    assert max(counts) <= 30
    assert min(counts) >= 1
    assert any(count > 14 for count in counts)


def test_the_pod_names_a_profile_that_exists() -> None:
    for generated_case in cases():
        profiles = ["default-scheduler"]
        if generated_case["config"] is not None:
            profiles = [
                profile["schedulerName"] for profile in generated_case["config"]["profiles"]
            ]
        assert generated_case["pod"]["spec"]["schedulerName"] in profiles, generated_case["id"]


def test_an_image_name_has_one_size() -> None:
    for generated_case in cases():
        sizes: dict[str, int] = {}
        for node in generated_case["objects"]:
            for image in node.get("status", {}).get("images", []):
                for name in image["names"]:
                    assert sizes.setdefault(name, image["sizeBytes"]) == image["sizeBytes"], name
