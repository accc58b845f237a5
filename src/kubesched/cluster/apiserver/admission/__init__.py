"""Admission plugins: mutate and validate objects in the context of other objects."""

from __future__ import annotations

from kubesched.cluster.apiserver.admission.chain import AdmissionOptions, admission_chain

__all__ = ["AdmissionOptions", "admission_chain"]
