"""From manifest files and workloads to the objects of a cluster."""
