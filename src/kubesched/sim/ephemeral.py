"""Ephemeral volumes: the claims that are made for a pod.

Owns the step from a pod of files to what the rule of their controller asks for. The rule itself is
`controllers.pod_claims`', which a running cluster follows. Never binds a claim.
Upstream: pkg/controller/volume/ephemeral/controller.go handleVolume
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kubesched.app.admission import Admission
from kubesched.controllers.pod_claims import ephemeral_claim
from kubesched.objects.decode import decode_as
from kubesched.objects.pod import Pod
from kubesched.objects.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus


def ephemeral_claims(pod: Pod, admission: Admission) -> list[PersistentVolumeClaim]:
    """Return the claims that are made for the ephemeral volumes of a pod, filled in."""
    meta = pod.metadata
    # What a user wrote by hand may lack a uid, and is then known by its name.
    known_as = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid or pod.key}
    owner = {"apiVersion": pod.api_version, "kind": pod.kind, "metadata": known_as}
    made = []
    for volume in pod.spec.volumes:
        if volume.ephemeral is None:
            continue
        document = ephemeral_claim(owner, msgspec.to_builtins(volume))
        claim = admission.admit(decode_as(PersistentVolumeClaim, document))
        assert isinstance(claim, PersistentVolumeClaim)
        uid = f"persistentvolumeclaim/{claim.key}#{known_as['uid']}"
        status = PersistentVolumeClaimStatus()
        made.append(replace(claim, metadata=replace(claim.metadata, uid=uid), status=status))
    return made
