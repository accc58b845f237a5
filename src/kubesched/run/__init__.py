"""A scheduler on a live cluster: options, wiring, reload, RBAC and the doctor."""
