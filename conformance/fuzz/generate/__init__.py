"""Random clusters, configurations and pods, one seeded generator per case.

Owns the shape of generated cases. Never reads a clock or global state: case `SEED:INDEX` is the
same in every process.
Upstream: pkg/scheduler/framework/plugins (the fields that plugins read).
"""
