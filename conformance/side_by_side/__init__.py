"""Two schedulers on two real control planes, given the same objects, held against each other.

Owns the comparison of live behaviour: placements, conditions, nominations, victims, volumes and
events. Expected values come from kube-scheduler, never from kubesched's engine.
"""
