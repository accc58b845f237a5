"""Differential fuzzing: seeded cases, decided by kube-scheduler's code and by kubesched.

Owns the generators, the comparison, the shrinking and the reports. Never decides anything: the
oracle and `kubesched.cli.decide` do.
Upstream: none; the cases cover the fields that pkg/scheduler/framework/plugins reads.
"""
