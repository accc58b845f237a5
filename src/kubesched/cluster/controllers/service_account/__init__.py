"""The default ServiceAccount of every namespace."""
