"""Whether a pod's requests fit a node, and how well."""
