"""Histories of the scheduling queue, played on kube-scheduler's own queue and on ours."""
