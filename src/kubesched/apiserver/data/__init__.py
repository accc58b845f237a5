"""Generated data: the schemas, discovery and OpenAPI of Kubernetes v1.36.4."""
