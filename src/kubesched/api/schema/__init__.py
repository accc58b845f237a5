"""Schemas of the built-in kinds: field names, types and merge rules."""
