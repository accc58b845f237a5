"""Admission: filling in and refusing because of other objects."""

from __future__ import annotations

from kubesched.apiserver.admission.chain import AdmissionOptions, admission_chain

__all__ = ["AdmissionOptions", "admission_chain"]
