"""CustomResourceDefinitions and their instances."""
