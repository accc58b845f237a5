"""Caching validated specs must not hide errors in the rest of a pod."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.kinds.pod_spec import KnownSpecs, spec_key


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}], **spec}}


def test_equal_specs_have_equal_keys() -> None:
    assert spec_key(pod(nodeName="n")) == spec_key(pod(nodeName="n")) != b""


def test_true_is_not_equal_to_one() -> None:
    assert spec_key(pod(hostNetwork=True)) != spec_key(pod(hostNetwork=1))


def test_specs_that_depend_on_other_fields_have_no_key() -> None:
    annotated = pod()
    annotated["metadata"]["annotations"] = {"a": "b"}
    volume = {"name": "v", "ephemeral": {}}
    others = [annotated, pod(volumes=[volume]), pod(resourceClaims=[{"name": "r"}])]
    assert [spec_key(other) for other in others] == [b"", b"", b""]


def test_a_pod_without_a_key_is_never_known() -> None:
    known = KnownSpecs()
    known.add(b"")
    assert not known.has(b"")


def test_the_cache_is_bounded() -> None:
    known = KnownSpecs()
    for number in range(1500):
        known.add(b"%d" % number)
    assert not known.has(b"1")
    assert known.has(b"1499")
    known.add(b"x" * 20_000)
    assert not known.has(b"x" * 20_000)
