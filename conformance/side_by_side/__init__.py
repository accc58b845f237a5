"""Compares two schedulers on two real control planes with the same objects.

Owns the comparison of live behaviour: placements, conditions, nominations, victims, volumes and
events. Expected values come from kube-scheduler, never from kubesched's engine.
"""
