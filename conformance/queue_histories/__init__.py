"""Histories of the scheduling queue, run on kube-scheduler's own queue and on ours."""
