"""Kinds that users define themselves."""
