"""Small tools with no Kubernetes in them."""
